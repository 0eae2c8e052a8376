"""Which hours change with a fact of the ledger, so that what is booked of them is reckoned anew.

What happens in an hour that is not booked yet changes nothing that is: an hour too many is no
error, one too few is. Pure.
"""

from __future__ import annotations

from longshore.dispatcher.cost.spans import billed_span
from longshore.dispatcher.domain.ledger import MS_PER_HOUR, OF_INSTANCE, InstanceBill, Interval


def hours_of(interval: Interval, *, late: bool) -> range:
    """Return which earlier hours change with an interval that is saved.

    An attempt's outcome is that of all of its hours. With `late` its last may be booked too. What
    an instance was is known while it goes on.
    """
    if interval.until_ms is None or interval.holder == OF_INSTANCE:
        return range(0)
    last_hour = interval.until_ms // MS_PER_HOUR
    return range(interval.from_ms // MS_PER_HOUR, last_hour + 1 if late else last_hour)


def hours_changed(before: InstanceBill | None, after: InstanceBill, *, booked_until: int) -> range:
    """Return which hours change where what an instance's bill is reckoned by has changed.

    `before` is None for one that is new. From the hour `booked_until` on nothing is booked: what
    goes on may be in all hours before that.
    """
    begins_ms, ends_ms = _extent(after)
    goes_on = after.gone_ms is None
    if before is not None:
        begins_before_ms, ends_before_ms = _extent(before)
        ends_ms = max(ends_ms, ends_before_ms)
        if _only_the_end_differs(before, after):
            begins_ms = min(_end(before, ends_ms), _end(after, ends_ms))
            goes_on = goes_on and before.gone_ms is not None
        else:
            begins_ms = min(begins_ms, begins_before_ms)
    until = ends_ms // MS_PER_HOUR + 1
    return range(begins_ms // MS_PER_HOUR, max(until, booked_until) if goes_on else until)


def _extent(bill: InstanceBill) -> tuple[int, int]:
    """Return the earliest and the latest time that is known of an instance."""
    told = (bill.billed.billed_from, bill.billed.billed_until)
    seen = (bill.running_ms, bill.ready_ms, bill.used_ms, bill.unwanted_ms, bill.gone_ms)
    times_ms = [bill.created_ms, *(each for each in seen if each is not None)]
    times_ms += [round(each * 1000) for each in told if each is not None]
    return min(times_ms), max(times_ms)


def _end(bill: InstanceBill, now_ms: int) -> int:
    span = billed_span(bill, now_ms=now_ms)
    return now_ms if span is None else max(span.from_ms, span.until_ms - 1)


def _only_the_end_differs(before: InstanceBill, after: InstanceBill) -> bool:
    """Return whether no more than the end of the billed time has changed."""
    return _but_for_the_end(before) == _but_for_the_end(after)


def _but_for_the_end(bill: InstanceBill) -> tuple[object, ...]:
    billed, used = bill.billed, bill.used_ms is not None
    return (
        bill.type_name,
        bill.nusd_per_hour,
        bill.payer,
        bill.created_ms,
        bill.running_ms,
        # Of one that was never used, its end says what all of its time was.
        used or (bill.ready_ms is not None, bill.gone_ms is not None),
        billed.billed_from,
        billed.from_slack_s,
        billed.zone,
        billed_span(bill, now_ms=bill.created_ms) is None,
    )
