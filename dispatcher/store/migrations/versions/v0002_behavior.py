"""What an admin asked of an instance, until its tags show it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; nothing was asked of the instances that are known."""
    op.add_column("instances", sa.Column("behavior", sa.Text, nullable=False, server_default=""))
