"""What an hour of an instance cost when; pure.

Prices are rows with the time from which they hold, and are only ever added: the past never moves.
Of two that hold at one time the one from the better source counts (`PriceSource`), and of one
source the later. Where there is none, an instance costs what the configuration said when it was
bought; where that said 0, nobody knows its price.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from longshore.dispatcher.domain.ledger import InstanceBill, Price, PriceRow, PriceSource

_RANK = {source: rank for rank, source in enumerate(PriceSource)}


class PriceBook:
    """The prices that are known."""

    def __init__(self, rows: Iterable[PriceRow]) -> None:
        self._rows: dict[tuple[str, str], list[PriceRow]] = {}
        for row in sorted(rows, key=lambda each: (each.valid_from_ms, _RANK[each.price.source])):
            self._rows.setdefault((row.type_name, row.zone), []).append(row)

    def spans(
        self, bill: InstanceBill, from_ms: int, until_ms: int
    ) -> list[tuple[int, int, Price]]:
        """Return what an instance costs in a span, in order, split where the price changes."""
        rows = self._rows.get((bill.type_name, ""), [])
        if bill.billed.zone:
            rows = [*rows, *self._rows.get((bill.type_name, bill.billed.zone), [])]
        cuts = sorted({r.valid_from_ms for r in rows if from_ms < r.valid_from_ms < until_ms})
        bounds = [from_ms, *cuts, until_ms]
        found: list[tuple[int, int, Price]] = []
        for start_ms, end_ms in pairwise(bounds):
            price = _in_force(rows, start_ms) or _as_bought(bill)
            same = bool(found) and found[-1][2] == price
            found.append((found.pop()[0] if same else start_ms, end_ms, price))
        return found


def _in_force(rows: list[PriceRow], at_ms: int) -> Price | None:
    """Return the price that holds at a time: of the best source, its latest."""
    held = [row for row in rows if row.valid_from_ms <= at_ms]
    if not held:
        return None
    best = min(_RANK[row.price.source] for row in held)
    of_best = [row for row in held if _RANK[row.price.source] == best]
    return max(of_best, key=lambda row: (row.valid_from_ms, row.zone)).price


def _as_bought(bill: InstanceBill) -> Price:
    source = PriceSource.CONFIG if bill.nusd_per_hour else PriceSource.NONE
    return Price(nusd_per_hour=bill.nusd_per_hour, source=source)
