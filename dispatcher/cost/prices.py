"""What an hour of an instance cost when; pure.

Prices are rows with the time from which they hold, and are only ever added: the past never moves.
Of two that hold at one time the one from the better source counts (`PriceSource`), and of one
source the later. A price of 0 is none: from then on that source tells nothing, and the next best
counts. Where there is none at all, an instance costs what the configuration said when it was
bought; where the configuration says 0, nobody knows its price.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from longshore.dispatcher.domain.ledger import InstanceBill, PriceRow, PriceSource, UnitPrice

_RANK = {source: rank for rank, source in enumerate(PriceSource)}
_NO_PRICE = Decimal(0)
_NOBODY_HOLDS: Final[Mapping[str, Sequence[tuple[int, int]]]] = MappingProxyType({})
_NOBODYS = UnitPrice(nusd_per_hour=0, source=PriceSource.NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTerms:
    """What an hour of an instance costs beside, and instead of, what is told of its type."""

    #: What a told price is multiplied by: a discount that is not in it.
    factor: Decimal = Decimal(1)
    #: What is billed with each instance beside it, in USD an hour: disks, an address.
    beside_usd_per_hour: Decimal = Decimal(0)

    def whole(self, usd_per_hour: Decimal) -> Decimal:
        """Return the price of an instance with all that is billed with it; 0 stays no price."""
        return usd_per_hour * self.factor + self.beside_usd_per_hour if usd_per_hour else _NO_PRICE


AS_TOLD = PriceTerms()


class PriceBook:
    """The prices that are known."""

    def __init__(
        self,
        rows: Iterable[PriceRow],
        held: Mapping[str, Sequence[tuple[int, int]]] = _NOBODY_HOLDS,
    ) -> None:
        """`held` is when instances had a prepaid place, by their ids, in milliseconds."""
        self._held = held
        self._rows: dict[tuple[str, str], list[PriceRow]] = {}
        for row in sorted(rows, key=lambda each: (each.valid_from_ms, _RANK[each.price.source])):
            self._rows.setdefault((row.type_name, row.zone), []).append(row)

    def spans(
        self, bill: InstanceBill, from_ms: int, until_ms: int
    ) -> list[tuple[int, int, UnitPrice]]:
        """Return what an instance costs in a span, in order, split where the price changes.

        While it has a prepaid place its price is what that place was paid with.
        """
        rows, held = self._of(bill), self._held.get(bill.instance_id, ())
        times = {row.valid_from_ms for row in rows}.union(*held)
        found: list[tuple[int, int, UnitPrice]] = []
        for start_ms, end_ms in pairwise(_bounds(times, from_ms, until_ms)):
            price = _in_force(rows, start_ms) or _as_bought(bill)
            is_held = any(since_ms <= start_ms < to_ms for since_ms, to_ms in held)
            if is_held and price.source is not PriceSource.NONE:
                price = replace(price, source=PriceSource.PREPAID)
            same = bool(found) and found[-1][2] == price
            found.append((found.pop()[0] if same else start_ms, end_ms, price))
        return found

    def at(self, bill: InstanceBill, at_ms: int) -> UnitPrice:
        """Return what an hour of an instance costs at a time, in milliseconds since the epoch.

        Whether it has a prepaid place or not.
        """
        return _in_force(self._of(bill), at_ms) or _as_bought(bill)

    def of_type(
        self, type_name: str, from_ms: int, until_ms: int
    ) -> Iterator[tuple[int, int, UnitPrice]]:
        """Yield what an instance of a type costs in a span, wherever it is, in order."""
        rows = self._rows.get((type_name, ""), [])
        times = {row.valid_from_ms for row in rows}
        for start_ms, end_ms in pairwise(_bounds(times, from_ms, until_ms)):
            yield start_ms, end_ms, _in_force(rows, start_ms) or _NOBODYS

    def in_force(self, at_ms: int) -> list[PriceRow]:
        """Return the row that counts at a time of each type and zone, sorted by these.

        Where nobody knows a price it is 0, and of no source.
        """
        found: list[PriceRow] = []
        for _, rows in sorted(self._rows.items()):
            begun = [row for row in rows if row.valid_from_ms <= at_ms]
            price = _in_force(begun, at_ms)
            if price is not None:
                same = [row for row in begun if row.price == price]
                found.append(same[-1] if same else replace(begun[-1], price=price))
        return found

    def _of(self, bill: InstanceBill) -> list[PriceRow]:
        """Return the rows that are about an instance."""
        rows = self._rows.get((bill.type_name, ""), [])
        zone = bill.billed.zone
        return [*rows, *self._rows.get((bill.type_name, zone), [])] if zone else rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PricesInForce:
    """The prices that hold at a time, in milliseconds since the epoch."""

    book: PriceBook
    at_ms: int
    #: When live prices were told last, in seconds since the epoch, by type.
    told_at: Mapping[str, float] = field(default_factory=dict)

    def of(self, bill: InstanceBill) -> UnitPrice:
        """Return what an hour of an instance costs at that time."""
        return self.book.at(bill, self.at_ms)


AS_BOUGHT = PricesInForce(book=PriceBook(()), at_ms=0)
"""At any time: nobody tells more than what instances cost when they were bought."""


def _bounds(times: Collection[int], from_ms: int, until_ms: int) -> list[int]:
    """Return a span's beginning and end with the times between them, in order."""
    return [from_ms, *sorted(each for each in times if from_ms < each < until_ms), until_ms]


def _in_force(rows: list[PriceRow], at_ms: int) -> UnitPrice | None:
    """Return the price that holds at a time: of the best source that tells one, its latest."""
    latest: dict[tuple[PriceSource, str], PriceRow] = {}
    for row in rows:
        if row.valid_from_ms <= at_ms:
            key = row.price.source, row.zone
            latest[key] = max(latest.get(key, row), row, key=lambda each: each.valid_from_ms)
    held = [row for row in latest.values() if row.price.nusd_per_hour]
    if not held:
        return _NOBODYS if (PriceSource.CONFIG, "") in latest else None
    best = min(_RANK[row.price.source] for row in held)
    of_best = [row for row in held if _RANK[row.price.source] == best]
    return max(of_best, key=lambda row: (row.valid_from_ms, row.zone)).price


def _as_bought(bill: InstanceBill) -> UnitPrice:
    source = PriceSource.CONFIG if bill.nusd_per_hour else PriceSource.NONE
    return UnitPrice(nusd_per_hour=bill.nusd_per_hour, source=source)


def changed_rows(
    known: Iterable[PriceRow], told: Iterable[PriceRow], *, ends: Collection[PriceSource] = ()
) -> list[PriceRow]:
    """Return the rows to add for what sources tell, where it is not what they told last.

    `known` is the latest row of each source, type and zone. Those of sources in `ends` which are
    told no more end (a price of 0) when the first of `told` begins. Sorted.
    """
    before = {_key(row): row for row in known}
    found: list[PriceRow] = []
    rows = sorted(told, key=lambda row: (row.valid_from_ms, row.type_name, row.zone))
    for row in rows:
        old = before.get(_key(row))
        if old is None or (
            old.valid_from_ms < row.valid_from_ms
            and old.price.nusd_per_hour != row.price.nusd_per_hour
        ):
            found.append(row)
            before[_key(row)] = row
    kept = {_key(row) for row in rows}
    for key, old in sorted(before.items(), key=lambda pair: str(pair[0])):
        if rows and old.price.source in ends and key not in kept and old.price.nusd_per_hour:
            over = UnitPrice(nusd_per_hour=0, source=old.price.source)
            found.append(replace(old, valid_from_ms=rows[0].valid_from_ms, price=over))
    return found


def _key(row: PriceRow) -> tuple[PriceSource, str, str]:
    return row.price.source, row.type_name, row.zone
