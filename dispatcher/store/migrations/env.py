"""What Alembic loads to run migrations: they run on the connection that `schema` hands over."""

from __future__ import annotations

from alembic import context

from longshore.dispatcher.store.migration_steps import end_revision
from longshore.dispatcher.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=False,
    # What a revision did is kept with its number.
    on_version_apply=lambda **_: end_revision(),
)
context.run_migrations()
