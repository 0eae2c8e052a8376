"""What an hour of each type costs by the ledger now, who says so, and since when.

Stands alone: each question about cost has a service of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from longshore.dispatcher.cost.prices import PricesInForce
from longshore.dispatcher.domain.ledger import PriceRow
from longshore.dispatcher.engine.view import EngineView
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
        now: Callable[[], float],
        prices: Callable[[], PricesInForce],
    ) -> None:
        """`prices` tells those of now."""
        self._view, self.now, self._prices = view, now, prices

    def prices(self) -> list[ListedPrice]:
        """Return the prices that hold now, by type and zone."""
        types, prices = self._view.types(), self._prices()
        return [
            ListedPrice(
                type_=types[row.type_name],
                row=row,
                told_at=prices.told_at.get(row.type_name),
            )
            for row in prices.book.in_force(prices.at_ms)
            if row.type_name in types
        ]
