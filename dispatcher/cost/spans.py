"""From when until when an instance is billed, by its cloud's rule and word; pure.

What the cloud tells counts. Where it tells nothing, what we saw is read by the rule: what begins
and ends the billing happened between two things that we know of, and the likelier of the two is
booked, with the rest as uncertain (COST of the design: never "now"). The billed time of an instance
that has ended is rounded up to the cloud's unit, and to its minimum: what is uncertain is by how
much the longest and the shortest that it may be differ once they are rounded, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from longshore.dispatcher.domain.ledger import InstanceBill, ms_of
from longshore.drivers.billing import BillingEnd, BillingStart, EndedBy


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledSpan:
    """The billed time of an instance, in milliseconds since the epoch, half-open."""

    from_ms: int
    until_ms: int
    #: How much of what is booked at its beginning and its end may not be billed, or may be billed
    #: beside it.
    from_slack_ms: int
    until_slack_ms: int
    #: What is billed beside it, up to the cloud's next unit or its minimum; 0 while it goes on.
    minimum_ms: int
    #: Whether it goes on.
    is_open: bool

    @property
    def total_ms(self) -> int:
        """Return how long it is billed for."""
        return self.until_ms - self.from_ms + self.minimum_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class _Instant:
    """When something was, as it is booked, and between what it may have been."""

    booked_ms: int
    earliest_ms: int
    latest_ms: int

    @property
    def slack_ms(self) -> int:
        return self.latest_ms - self.earliest_ms


def billed_span(bill: InstanceBill, *, now_ms: int) -> BilledSpan | None:
    """Return for which time an instance is billed up to now, None where it costs nothing.

    That is the likeliest: a launch whose answer was lost has made nothing (see `doubted_span`).
    """
    if bill.is_launch:
        return None
    begins = _begins(bill)
    if begins is None:
        return None
    from_ms = begins.booked_ms
    ends = _ends(bill)
    if ends is None:
        return BilledSpan(
            from_ms=from_ms,
            until_ms=max(from_ms, now_ms),
            from_slack_ms=begins.slack_ms,
            until_slack_ms=0,
            minimum_ms=0,
            is_open=True,
        )
    until_ms = max(from_ms, ends.booked_ms)
    lasted_ms = until_ms - from_ms
    if _is_free(bill, lasted_ms):
        return None
    longest_ms = ends.latest_ms - begins.earliest_ms
    shortest_ms = ends.earliest_ms - begins.latest_ms
    most_ms, least_ms = _whole_ms(bill, longest_ms), _whole_ms(bill, shortest_ms)
    if_later_ms = max(least_ms, _whole_ms(bill, longest_ms - begins.slack_ms))
    return BilledSpan(
        from_ms=from_ms,
        until_ms=until_ms,
        from_slack_ms=most_ms - if_later_ms,
        until_slack_ms=if_later_ms - least_ms,
        minimum_ms=_whole_ms(bill, lasted_ms) - lasted_ms,
        is_open=False,
    )


def doubted_span(bill: InstanceBill, *, now_ms: int) -> tuple[int, int] | None:
    """Return for which time up to now something may be billed of which nobody knows whether it is.

    That is half-open, of a launch since its create call was sent; None for an instance.
    """
    return (bill.created_ms, max(bill.created_ms, now_ms)) if bill.is_launch else None


def _begins(bill: InstanceBill) -> _Instant | None:
    """Return when the billing begins; None where it has not."""
    told = bill.billed
    if told.billed_from is not None:
        return _told(told.billed_from, told.from_slack_s)
    match bill.rule.starts:
        case BillingStart.REQUESTED:
            return _exactly(bill.created_ms)
        case BillingStart.RUNNING:
            at_ms = bill.running_ms
            if at_ms is None:
                return None
            return _Instant(
                booked_ms=at_ms, earliest_ms=min(at_ms, bill.created_ms), latest_ms=at_ms
            )


def _exactly(at_ms: int) -> _Instant:
    return _Instant(booked_ms=at_ms, earliest_ms=at_ms, latest_ms=at_ms)


def _told(at: float, slack_s: float) -> _Instant:
    """Return what the cloud tells of a time: it may have been so much later."""
    at_ms = ms_of(at)
    return _Instant(booked_ms=at_ms, earliest_ms=at_ms, latest_ms=at_ms + ms_of(slack_s))


def _ends(bill: InstanceBill) -> _Instant | None:
    """Return when the billing ended; None where it has not, as far as is known."""
    told = bill.billed
    if told.billed_until is not None:
        return _told(told.billed_until, told.until_slack_s)
    if bill.gone_ms is None:
        return None
    seen_ms = bill.gone_ms if bill.seen_ms is None else min(bill.seen_ms, bill.gone_ms)
    match bill.rule.ends:
        case BillingEnd.SHUTTING_DOWN:
            until_ms = seen_ms if bill.unwanted_ms is None else min(bill.unwanted_ms, bill.gone_ms)
            earliest_ms = min(seen_ms, until_ms)
        case BillingEnd.TERMINATED:
            until_ms, earliest_ms = bill.gone_ms, seen_ms
        case unknown:
            assert_never(unknown)
    return _Instant(booked_ms=until_ms, earliest_ms=earliest_ms, latest_ms=bill.gone_ms)


def _is_free(bill: InstanceBill, billed_ms: int) -> bool:
    """Return whether the cloud took it back so early that it costs nothing."""
    reclaimed = bill.preemptible and bill.billed.ended_by is EndedBy.RECLAIMED
    return reclaimed and billed_ms < ms_of(bill.rule.free_if_reclaimed_within_s)


def _whole_ms(bill: InstanceBill, billed_ms: int) -> int:
    """Return billed time in whole units of the cloud's, and at least its minimum.

    What was not billed at all, since it ended before that began, has none.
    """
    if billed_ms <= 0:
        return 0
    unit_ms = max(1, ms_of(bill.rule.unit_s))
    return max(-(-billed_ms // unit_ms) * unit_ms, ms_of(bill.rule.minimum_s))
