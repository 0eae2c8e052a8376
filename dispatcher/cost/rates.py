"""What an hour of an instance costs now, and who pays for it; pure.

Theory of operation. A rate is what the ledger would book for an hour if nothing changed: the shares
of an instant (`tiling.shares_now`), at the price of that instant. So the mean of a rate over a
time, times that time, is what the ledger books for it; a test compares the two. An amount of money
for an hour is a rate an hour, so that both are in grains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from longshore.dispatcher.cost.prices import PriceBook
from longshore.dispatcher.cost.spans import billed_span
from longshore.dispatcher.cost.tiling import shares_now
from longshore.dispatcher.domain.ledger import (
    MS_PER_HOUR,
    BilledState,
    InstanceBill,
    Interval,
    PriceRow,
    PriceSource,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRates:
    """What one instance costs an hour now."""

    #: Our name of its type.
    type_name: str
    #: By who pays ("" for nobody in particular) and what that part of it is, in grains.
    parts: tuple[tuple[str, BilledState, int], ...]
    #: Whether anybody knows its price; where nobody does, it costs 0 here.
    has_price: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthToDate:
    """What this month of UTC has cost up to a moment, and the prices that hold then."""

    #: In seconds since the epoch.
    as_of: float
    #: All that is booked to each project, "" for what is nobody's, in grains.
    by_project: tuple[tuple[str, int], ...]
    #: How much of that is uncertain, in grains.
    uncertain_grains: int
    #: How much instance time of this month has no price, and so no cost.
    unpriced_ms: int
    #: Sorted.
    prices: tuple[PriceRow, ...]


def rates_of(
    bill: InstanceBill,
    state: Interval,
    attempts: Sequence[Interval],
    prices: PriceBook,
    *,
    now_ms: int,
) -> InstanceRates | None:
    """Return what an instance costs an hour now, None where it is not billed.

    `state` and `attempts` are its open intervals: what it is, and who has a place there.
    """
    span = billed_span(bill, now_ms=now_ms)
    if span is None or not span.is_open:
        return None
    price = prices.spans(bill, now_ms, now_ms + 1)[0][2]
    grains_per_hour = price.nusd_per_hour * MS_PER_HOUR
    parts: dict[tuple[str, BilledState], Fraction] = {}
    for account, part_state, share in shares_now(bill, state, attempts):
        key = account.project, part_state
        parts[key] = parts.get(key, Fraction(0)) + share
    return InstanceRates(
        type_name=bill.type_name,
        parts=tuple(
            (project, part_state, int(share * grains_per_hour))
            for (project, part_state), share in parts.items()
        ),
        has_price=price.source is not PriceSource.NONE,
    )
