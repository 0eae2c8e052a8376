"""What metrics have of money, read from the ledger again and again.

A scrape may not wait for the store: what this month has cost, and the prices that hold, are read in
a thread every `LOOK_EACH_S`, and scrapes get what was read last, with its age. What an hour costs
now is reckoned from the engine's memory at each scrape, with these prices (`cost.rates`).

Stands alone: what the API answers of cost is asked for once, and is about any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

import structlog

from longshore.dispatcher.cost.rates import MonthToDate
from longshore.dispatcher.cost.utc_calendar import month_of
from longshore.dispatcher.domain.ledger import PriceSource, ms_of
from longshore.dispatcher.service.costs import totals_until
from longshore.dispatcher.store.errors import StoreBusy, StoreClosed
from longshore.dispatcher.store.store import Store

LOOK_EACH_S = 15.0
"""How often the ledger is read: as often as most scrape."""

_NEEDED = frozenset({"project"})
_log = structlog.get_logger(__name__)


class CostGauges:
    """Keeps what was read last; used on the loop's thread."""

    def __init__(self, *, store: Store, now: Callable[[], float], labels: Collection[str]) -> None:
        """`labels` are the keys of labels that the ledger keeps apart, `now` is the clock."""
        self._store, self.now, self._labels = store, now, frozenset(labels)
        #: None before the first look.
        self.month: MonthToDate | None = None

    async def look_for_ever(self) -> None:
        """Look again and again, until cancelled; what fails is tried again."""
        while True:
            try:
                await self.look()
            except (StoreBusy, StoreClosed) as error:
                _log.warning("metrics of cost cannot be read now", error=str(error))
            await asyncio.sleep(LOOK_EACH_S)

    async def look(self) -> None:
        """Read the ledger once; raises `StoreBusy` and `StoreClosed`, and keeps what it has."""
        self.month = await asyncio.to_thread(self._read, self.now())

    def _read(self, now: float) -> MonthToDate:
        hours = month_of(int(now // 3600))
        steps = [(hours.start, hours.stop)]
        (totals,), _ = totals_until(self._store, steps, now, labels=self._labels, needed=_NEEDED)
        by_project: dict[str, int] = {}
        uncertain_grains = unpriced_ms = 0
        for group, total in totals.items():
            by_project[group.project] = by_project.get(group.project, 0) + total.grains
            uncertain_grains += total.uncertain_grains
            if group.price_source is PriceSource.NONE:
                unpriced_ms += total.quantity_ms
        return MonthToDate(
            as_of=now,
            by_project=tuple(sorted(by_project.items())),
            uncertain_grains=uncertain_grains,
            unpriced_ms=unpriced_ms,
            prices=tuple(sorted(self._store.ledger.prices(ms_of(now)), key=repr)),
        )
