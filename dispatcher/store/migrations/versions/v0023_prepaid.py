"""How many instances of each type are paid for whether they run or not, and since when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table; nothing was prepaid so far."""
    op.create_table(
        "ledger_prepaid",
        sa.Column("type_name", sa.Text, nullable=False),
        sa.Column("provider_type", sa.Text, nullable=False),
        sa.Column("valid_from_ms", sa.BigInteger, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("type_name", "valid_from_ms"),
    )
