"""That an admin ended an instance, and why, so that a new process goes on with it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; of the instances that are known, none was ended as far as anybody knows."""
    op.add_column("instances", sa.Column("killed", sa.Text))
