"""What an attempt really took, as its instance measured it."""

from __future__ import annotations

import sqlalchemy as sa

from longshore.dispatcher.store import migration_steps

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; of the attempts that there are nobody measured anything."""
    migration_steps.add_column("attempts", sa.Column("usage", sa.Text))
