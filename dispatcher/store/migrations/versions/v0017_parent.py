"""Which container submitted another from inside."""

from __future__ import annotations

import sqlalchemy as sa

from longshore.dispatcher.store import migration_steps

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column and its index; none of the containers that are known was submitted so."""
    column = sa.Column("parent", sa.Text, nullable=False, server_default="")
    migration_steps.add_column("containers", column)
    migration_steps.commit()
    columns = ["parent", "ended", "sequence"]
    migration_steps.make_index("containers_by_parent", "containers", columns)
