"""Why an instance is held, by whom, since when and until when."""

from __future__ import annotations

import sqlalchemy as sa

from longshore.dispatcher.store import migration_steps

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; of what is held by now, nobody has said why."""
    column = sa.Column("behavior_note", sa.Text, nullable=False, server_default="")
    migration_steps.add_column("instances", column)
