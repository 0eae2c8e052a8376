"""Keeps in the ledger what instances cost: rows of prices that are only ever added.

What the configuration says is written at each start, where it is not what it said before: such a
row holds from then on, and what was reckoned by an earlier one stays what it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

from longshore.dispatcher.cost.money import nusd_of
from longshore.dispatcher.cost.prices import changed_rows
from longshore.dispatcher.domain.ledger import PriceRow, PriceSource, UnitPrice, ms_of
from longshore.dispatcher.domain.messages import AddPrices
from longshore.dispatcher.store.store import Store
from longshore.drivers.interface import InstanceType

_LIVE = frozenset({PriceSource.HISTORY, PriceSource.DRIVER})


class PriceKeeper:
    """Writes prices down; used on the loop's thread."""

    def __init__(
        self, *, store: Store, types: Sequence[InstanceType], now: Callable[[], float]
    ) -> None:
        """`types` are as configured; `now` tells seconds since the epoch."""
        self._store, self._types, self._now = store, types, now

    async def begin(self) -> None:
        """Write down what the configuration says now; what clouds said before counts no more.

        Raises `StoreBusy` and `StoreClosed`: without prices nothing is to be bought.
        """
        now_ms = ms_of(self._now())
        told = [
            PriceRow(type_name=each.name, zone="", valid_from_ms=now_ms, price=_configured(each))
            for each in self._types
        ]
        await self._add(told, ends=_LIVE)

    async def _add(self, told: Sequence[PriceRow], *, ends: Collection[PriceSource]) -> None:
        now_ms = ms_of(self._now())
        known = await asyncio.to_thread(self._store.ledger.prices, now_ms)
        rows = changed_rows(known, told, ends=ends)
        if rows:
            await asyncio.wrap_future(self._store.write([AddPrices(rows=tuple(rows))]))


def _configured(type_: InstanceType) -> UnitPrice:
    nusd_per_hour = nusd_of(type_.price_usd_per_hour)
    return UnitPrice(nusd_per_hour=nusd_per_hour, source=PriceSource.CONFIG)
