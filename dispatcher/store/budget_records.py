"""What is kept of budgets in the store, and of the notifications that are on their way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection, delete, select

from longshore.dispatcher.domain.budgets import BudgetMemory
from longshore.dispatcher.domain.deliveries import Delivery, Notification
from longshore.dispatcher.domain.messages import ForgetDelivery, SaveBudget, SaveUnusualDay
from longshore.dispatcher.store import budget_tables as tables
from longshore.dispatcher.store import sqlite

_MEMORY = msgspec.json.Decoder(BudgetMemory)
_SAVE_BUDGET = sqlite.upsert(tables.budgets, keep=())
_SAVE_DAY = sqlite.insert_new(tables.unusual_days)
_SAVE_DELIVERY = sqlite.upsert(tables.notifications, keep=())


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRecords:
    """All that is kept of budgets, from one moment."""

    #: By the name of the budget, also of those that the configuration has no more.
    memories: Mapping[str, BudgetMemory]
    #: The unusual days that were told: projects with days as "2026-11-28"; and with "" as the
    #: project the last day that was looked at.
    unusual_days: frozenset[tuple[str, str]]


def save_budget(connection: Connection, change: SaveBudget) -> None:
    """Replace what is remembered of a budget."""
    memory = msgspec.json.encode(change.memory).decode()
    connection.execute(_SAVE_BUDGET, {"name": change.name, "memory": memory})


def save_unusual_day(connection: Connection, change: SaveUnusualDay) -> None:
    """Remember that a day was told; twice is no error. Of those looked at the last one is kept."""
    days = tables.unusual_days.c
    if not change.project:
        earlier = (days.project == "", days.day < change.day)
        connection.execute(delete(tables.unusual_days).where(*earlier))
    connection.execute(_SAVE_DAY, {"project": change.project, "day": change.day})


def save_delivery(connection: Connection, delivery: Delivery) -> None:
    """Keep a delivery in place of the one with its key."""
    values = {
        "webhook": delivery.webhook,
        "id": delivery.notification.id,
        "body": delivery.notification.body.decode(),
        "queued_at": delivery.queued_at,
        "tries": delivery.tries,
        "next_try_at": delivery.next_try_at,
    }
    connection.execute(_SAVE_DELIVERY, values)


def forget_delivery(connection: Connection, change: ForgetDelivery) -> None:
    """Keep a delivery no more, if it is kept."""
    kept = tables.notifications.c
    mine = (kept.webhook == change.webhook, kept.id == change.notification_id)
    connection.execute(delete(tables.notifications).where(*mine))


# ---- reading -------------------------------------------------------------------------------------


def fetch_budgets(connection: Connection) -> BudgetRecords:
    """Return all that is kept of budgets."""
    memories = connection.execute(select(tables.budgets))
    days = connection.execute(select(tables.unusual_days))
    return BudgetRecords(
        memories={row.name: _MEMORY.decode(row.memory) for row in memories},
        unusual_days=frozenset((row.project, row.day) for row in days),
    )


def fetch_deliveries(connection: Connection) -> Sequence[Delivery]:
    """Return the deliveries that are kept, the first queued first."""
    kept = tables.notifications
    rows = connection.execute(select(kept).order_by(kept.c.queued_at, kept.c.webhook, kept.c.id))
    return [
        Delivery(
            notification=Notification(id=row.id, body=row.body.encode()),
            webhook=row.webhook,
            queued_at=row.queued_at,
            tries=row.tries,
            next_try_at=row.next_try_at,
        )
        for row in rows
    ]
