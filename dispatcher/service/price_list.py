"""What an hour of each type costs by the ledger now, who says so, and since when.

Stands alone: each question about cost has a service of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from longshore.dispatcher.cost.prices import PriceBook
from longshore.dispatcher.domain.ledger import PriceRow, ms_of
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.service.contracts import Unavailable
from longshore.dispatcher.store.errors import StoreBusy
from longshore.dispatcher.store.store import Store
from longshore.drivers.interface import InstanceType


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPrice:
    """The price of a configured type, everywhere or in a zone."""

    type_: InstanceType
    row: PriceRow
    #: When its live price was told last, in seconds since the epoch; None where none is.
    told_at: float | None


class PriceListService:
    """Tells prices; used on the loop's thread."""

    def __init__(
        self,
        *,
        view: EngineView,
        store: Store,
        now: Callable[[], float],
        told_at: Callable[[], Mapping[str, float]],
    ) -> None:
        """`told_at` is when live prices were told last, by type."""
        self._view, self._store, self.now = view, store, now
        self._told_at = told_at

    async def prices(self) -> list[ListedPrice]:
        """Return the prices that hold now, by type and zone; raises `Unavailable`."""
        now_ms, types, told_at = ms_of(self.now()), self._view.types(), self._told_at()
        try:
            rows = await asyncio.to_thread(self._store.ledger.prices, now_ms)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error
        return [
            ListedPrice(type_=types[row.type_name], row=row, told_at=told_at.get(row.type_name))
            for row in PriceBook(rows).in_force(now_ms)
            if row.type_name in types
        ]
