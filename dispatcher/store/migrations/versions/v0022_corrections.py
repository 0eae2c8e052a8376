"""What is booked beside the lines of the ledger, since a bill says something else."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables; nothing was corrected so far, and no month closed."""
    op.create_table(
        "ledger_corrections",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("booked_hour", sa.Integer, nullable=False),
        sa.Column("about_hour", sa.Integer, nullable=False),
        sa.Column("counted_hour", sa.Integer, nullable=False),
        sa.Column("instance_id", sa.Text, nullable=False),
        sa.Column("group_id", sa.Integer, nullable=False),
        sa.Column("quantity_ms", sa.BigInteger, nullable=False),
        sa.Column("whole", sa.BigInteger, nullable=False),
        sa.Column("rest", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("made_by", sa.Text, nullable=False),
        sa.Column("made_at", sa.Float, nullable=False),
        sa.Column("file_name", sa.Text, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
    )
    for column in ("about", "counted"):
        name = f"ledger_corrections_by_{column}"
        op.create_index(name, "ledger_corrections", [f"{column}_hour"])
    op.create_table(
        "ledger_months",
        sa.Column("until_hour", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("month", sa.Text, nullable=False),
        sa.Column("closed_at", sa.Float, nullable=False),
        sa.Column("quantity_ms", sa.BigInteger, nullable=False),
        sa.Column("whole", sa.BigInteger, nullable=False),
        sa.Column("rest", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
    )
