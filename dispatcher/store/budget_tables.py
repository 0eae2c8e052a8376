"""The tables of budgets, as SQLAlchemy Core sees them; the migrations make them.

Stands alone: `tables` are those that all of the store needs.

What was told is kept, so that nobody is told it twice; what is on its way, so that a restart goes
on with it.
"""

from __future__ import annotations

from sqlalchemy import Column, Double, Integer, PrimaryKeyConstraint, Table, Text

from longshore.dispatcher.store.tables import metadata

budgets = Table(
    "ledger_budgets",
    metadata,
    Column("name", Text, primary_key=True),
    Column("memory", Text, nullable=False),
)

unusual_days = Table(
    "ledger_unusual_days",
    metadata,
    Column("project", Text, nullable=False),
    Column("day", Text, nullable=False),
    PrimaryKeyConstraint("project", "day"),
)

notifications = Table(
    "notifications",
    metadata,
    Column("webhook", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("queued_at", Double, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("next_try_at", Double, nullable=False),
    PrimaryKeyConstraint("webhook", "id"),
)
