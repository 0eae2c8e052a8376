"""Tells what happened to spending: first it is committed, then told as events and to webhooks.

Stands alone: budgets and unusual days are told in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from longshore.dispatcher.cost.budgets import BudgetNotice, CostBudget
from longshore.dispatcher.cost.money import in_dollars
from longshore.dispatcher.domain.deliveries import Delivery, Notification
from longshore.dispatcher.domain.messages import Change, SaveDelivery
from longshore.dispatcher.notifications.delivery import deliveries_of, notification_of_budget
from longshore.dispatcher.service.events import Broker
from longshore.dispatcher.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One thing to be told: an event of a kind about a subject, and a notification."""

    kind: str
    subject: str
    data: dict[str, object]
    notification: Notification


class Sender(Protocol):
    """Who brings notifications to webhooks."""

    @property
    def webhooks(self) -> tuple[str, ...]:
        """Return the names of those that are told."""
        ...

    async def add(self, deliveries: Iterable[Delivery]) -> None:
        """Send these too, which are kept already."""
        ...


class Teller:
    """Tells each thing once, if whoever asks commits with it that it was told."""

    def __init__(
        self,
        store: Store,
        broker: Broker,
        sender: Sender | None,
        now: Callable[[], float],
    ) -> None:
        """`sender` is None where there are no webhooks."""
        self._store, self._broker, self._sender, self._now = store, broker, sender, now

    async def tell(self, changes: Sequence[Change], told: Sequence[Told]) -> None:
        """Commit changes together with what is on its way, then tell it.

        Raises `StoreBusy` and `StoreClosed`: then nothing was told, and it is to be tried again.
        """
        now = self._now()
        webhooks = () if self._sender is None else self._sender.webhooks
        sent = [each for one in told for each in deliveries_of(one.notification, webhooks, now)]
        saved = [SaveDelivery(delivery=each) for each in sent]
        if changes or saved:
            await asyncio.wrap_future(self._store.write([*changes, *saved]))
        for one in told:
            self._broker.publish(one.kind, one.subject, one.data)
        if self._sender is not None:
            await self._sender.add(sent)


def told_of_budget(budget: CostBudget, notice: BudgetNotice, now: float) -> Told:
    """Return what is to be told of a budget; `now` is in seconds since the epoch."""
    data: dict[str, object] = {
        "budget": notice.budget,
        "scope": budget.scope.value,
        "whose": budget.whose,
        "what": notice.kind.value,
        "period": notice.period,
        "percent": notice.percent or None,
        "limit": in_dollars(notice.limit_grains),
        "spent": in_dollars(notice.spent_grains),
        "committed": in_dollars(notice.committed_grains),
        "message": notice.sentence,
    }
    return Told(
        kind="budget",
        subject=notice.budget,
        data=data,
        notification=notification_of_budget(notice, now),
    )
