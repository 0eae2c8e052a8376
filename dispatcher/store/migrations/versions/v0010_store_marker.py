"""Which store this is, and how far it has come, so that another one in its place is noticed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table; its one row is made when the store is opened."""
    op.create_table(
        "store_marker",
        sa.Column("store", sa.Text, primary_key=True),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("commits", sa.BigInteger, nullable=False),
        sa.Column("written_at", sa.Double, nullable=False),
    )
