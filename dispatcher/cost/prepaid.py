"""Which instances have the prepaid places of their types, and how much of these nobody has; pure.

Of a type so many instances are paid for whether they run or not. At each instant these places are
those of the oldest instances of the type that are billed then, by when they were created and by id.
So an instance that comes while all places are taken has none, and gets one when an older one is
gone, or when more are paid for. Nothing of that is written down but how many places there were and
since when: who had which follows from what each instance is billed for, so that a late word of a
cloud moves the places with the lines. What is used and what is not add up to all that is paid for.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from longshore.dispatcher.cost.prices import PriceBook
from longshore.dispatcher.cost.spans import billed_span
from longshore.dispatcher.domain.ledger import (
    CLUSTER,
    MS_PER_HOUR,
    BilledState,
    Column,
    CostLine,
    CostOutcome,
    InstanceBill,
    PrepaidRow,
    PriceSource,
    UnitPrice,
)

UNUSED: Final = "unused"
"""The cause of what is prepaid and not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedSpan:
    """A span in which places of a type were nobody's; half-open, in milliseconds."""

    row: PrepaidRow
    from_ms: int
    until_ms: int
    #: How many, above 0.
    places: int


@dataclass(slots=True, kw_only=True)
class PrepaidPlaces:
    """Who had a place when, and what was left."""

    #: By instance: spans [from, until) in order, in milliseconds.
    held: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    unused: list[UnusedSpan] = field(default_factory=list)

    def hold(self, instance_id: str, from_ms: int, until_ms: int) -> None:
        """Note that an instance had a place; spans come in order of time."""
        spans = self.held.setdefault(instance_id, [])
        if spans and spans[-1][1] == from_ms:
            from_ms = spans.pop()[0]
        spans.append((from_ms, until_ms))


def prepaid_places(
    bills: Iterable[InstanceBill],
    rows: Iterable[PrepaidRow],
    *,
    from_ms: int,
    until_ms: int,
    now_ms: int,
) -> PrepaidPlaces:
    """Return who had the places in [from_ms, until_ms), as far as that is over.

    `bills` are all whose billed time touches it, `rows` those that hold in it.
    """
    found, by_type = PrepaidPlaces(), dict[str, list[PrepaidRow]]()
    for row in sorted(rows, key=lambda each: (each.type_name, each.valid_from_ms)):
        by_type.setdefault(row.type_name, []).append(row)
    spans: dict[str, list[tuple[int, int, tuple[int, str]]]] = {name: [] for name in by_type}
    for bill in bills if by_type else ():
        span = billed_span(bill, now_ms=now_ms)
        if span is not None and not bill.preemptible and bill.type_name in spans:
            start_ms, end_ms = max(from_ms, span.from_ms), min(until_ms, span.until_ms)
            if start_ms < end_ms:
                order = (bill.created_ms, bill.instance_id)
                spans[bill.type_name].append((start_ms, end_ms, order))
    for name, of_type in by_type.items():
        _divide(of_type, spans[name], from_ms, min(until_ms, now_ms), found)
    return found


def _divide(
    rows: Sequence[PrepaidRow],
    spans: Sequence[tuple[int, int, tuple[int, str]]],
    from_ms: int,
    until_ms: int,
    found: PrepaidPlaces,
) -> None:
    """Give the places of one type to the oldest that are there, instant by instant."""
    comes: dict[int, list[tuple[int, str]]] = {}
    goes: dict[int, list[tuple[int, str]]] = {}
    for start_ms, end_ms, order in spans:
        comes.setdefault(start_ms, []).append(order)
        goes.setdefault(end_ms, []).append(order)
    begins = [row.valid_from_ms for row in rows]
    times = {from_ms, until_ms, *begins, *comes, *goes}
    there: list[tuple[int, str]] = []
    for at_ms, next_ms in pairwise(sorted(t for t in times if from_ms <= t <= until_ms)):
        for order in goes.get(at_ms, ()):
            there.remove(order)
        for order in comes.get(at_ms, ()):
            insort(there, order)
        index = bisect_right(begins, at_ms) - 1
        row = rows[index] if index >= 0 else None
        holders = there[: row.number] if row is not None else []
        for _, instance_id in holders:
            found.hold(instance_id, at_ms, next_ms)
        if row is not None and len(holders) < row.number:
            left = row.number - len(holders)
            unused = UnusedSpan(row=row, from_ms=at_ms, until_ms=next_ms, places=left)
            found.unused.append(unused)


def unused_lines(places: PrepaidPlaces, prices: PriceBook) -> Iterator[CostLine]:
    """Yield what is unused as lines of no instance, by type, hour and price."""
    sums: dict[tuple[str, int, int, str], tuple[PrepaidRow, UnitPrice, int]] = {}
    for span in places.unused:
        for start_ms, end_ms, price in _pieces(span, prices):
            hour, type_name = start_ms // MS_PER_HOUR, span.row.type_name
            key = (type_name, hour, price.nusd_per_hour, price.source.value)
            known_ms = sums[key][2] if key in sums else 0
            sums[key] = (span.row, price, known_ms + (end_ms - start_ms) * span.places)
    for (_, hour, _, _), (row, price, quantity_ms) in sorted(sums.items(), key=lambda e: e[0]):
        yield CostLine(
            hour=hour,
            instance_id="",
            type_name=row.type_name,
            provider_type=row.provider_type,
            preemptible=False,
            zone="",
            state=BilledState.UNUSED,
            attempt_id="",
            account=CLUSTER,
            column=Column.SHARED,
            cause=UNUSED,
            outcome=CostOutcome.NEVER_USED,
            quantity_ms=quantity_ms,
            uncertain_ms=0,
            price=price,
        )


def _pieces(span: UnusedSpan, prices: PriceBook) -> Iterator[tuple[int, int, UnitPrice]]:
    """Yield a span in pieces that lie in one hour each, and have one price."""
    at_ms = span.from_ms
    while at_ms < span.until_ms:
        next_ms = min(span.until_ms, (at_ms // MS_PER_HOUR + 1) * MS_PER_HOUR)
        for start_ms, end_ms, price in prices.of_type(span.row.type_name, at_ms, next_ms):
            known = price.source is not PriceSource.NONE
            yield start_ms, end_ms, replace(price, source=PriceSource.PREPAID) if known else price
        at_ms = next_ms


def changed_places(
    known: Iterable[PrepaidRow], told: Iterable[PrepaidRow], *, at_ms: int
) -> list[PrepaidRow]:
    """Return the rows to add for what the configuration tells of each type, where it differs.

    `known` are the rows that hold. Of types that are told no more the places end at `at_ms`.
    """
    before: Mapping[str, PrepaidRow] = {row.type_name: row for row in known}
    now = {row.type_name: row for row in told}
    ended = {name: replace(row, valid_from_ms=at_ms, number=0) for name, row in before.items()}
    found: list[PrepaidRow] = []
    for name, row in sorted({**ended, **now}.items()):
        old = before.get(name)
        was = (0, row.provider_type) if old is None else (old.number, old.provider_type)
        if (row.number, row.provider_type) != was:
            found.append(row)
    return found
