"""Budgets: what was told of them, unusual days, and the notifications that are on their way."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables; nothing was told before."""
    known = set(sa.inspect(op.get_bind()).get_table_names())
    if "ledger_budgets" not in known:
        op.create_table(
            "ledger_budgets",
            sa.Column("name", sa.Text, primary_key=True),
            sa.Column("memory", sa.Text, nullable=False),
        )
    if "ledger_unusual_days" not in known:
        op.create_table(
            "ledger_unusual_days",
            sa.Column("project", sa.Text, nullable=False),
            sa.Column("day", sa.Text, nullable=False),
            sa.PrimaryKeyConstraint("project", "day"),
        )
    if "notifications" not in known:
        op.create_table(
            "notifications",
            sa.Column("webhook", sa.Text, nullable=False),
            sa.Column("id", sa.Text, nullable=False),
            sa.Column("body", sa.Text, nullable=False),
            sa.Column("queued_at", sa.Double, nullable=False),
            sa.Column("tries", sa.Integer, nullable=False),
            sa.Column("next_try_at", sa.Double, nullable=False),
            sa.PrimaryKeyConstraint("webhook", "id"),
        )
