"""From what was seen of an instance to its lines: every billed millisecond, once; pure.

The billed span (`spans`) is cut at the hours of UTC and where the price changes. In each piece the
attempts that had a place share the instance. While their shares add up to S, an attempt of share s
pays for s / max(1, S) of each instant, and what the instance was besides gets max(0, 1 - S). So
that a piece costs the number of changes in it, and not that times the number of attempts, a second
clock runs along which stands at F = integral of dt / max(1, S): an attempt pays for s times what
that clock moved while it was there (virtual time, as in processor sharing). It moves in ticks of
2^-40 ms, since exact fractions would grow with each change.

The exact parts of a piece are fractions; they become whole milliseconds together, by largest
remainder, so that they add up to the piece, and the pieces to the span.

A launch whose create call was not answered has no billed span. Its lines have no time, and all of
it since the call as uncertain, until a listing shows its instance, or that there is none.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from longshore.dispatcher.cost.money import split, usd_grains
from longshore.dispatcher.cost.prices import PriceBook
from longshore.dispatcher.cost.spans import BilledSpan, billed_span, doubted_span
from longshore.dispatcher.domain.ledger import (
    CLUSTER,
    MS_PER_HOUR,
    OF_INSTANCE,
    Account,
    BilledState,
    Column,
    CostLine,
    CostOutcome,
    InstanceBill,
    Interval,
    UnitPrice,
)

UNANSWERED: Final = "unanswered"
"""The cause of what a launch may cost whose create call was not answered."""

_TICKS_PER_MS: Final = 2**40
_BOOT: Final = frozenset({BilledState.PENDING, BilledState.BOOTING})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Who pays for a part of a piece: what a line is beside its hour, quantity and price."""

    state: BilledState
    attempt_id: str
    account: Account
    column: Column
    cause: str
    outcome: CostOutcome


def lines_of(
    bill: InstanceBill,
    intervals: Iterable[Interval],
    prices: PriceBook,
    *,
    from_ms: int,
    until_ms: int,
    now_ms: int,
) -> list[CostLine]:
    """Return the lines of one instance in [from_ms, until_ms), in order of time.

    `intervals` are all of that instance's that touch the span, or more. What goes on is reckoned up
    to now. Where lines are to be those that are booked, `from_ms` and `until_ms` are whole hours.
    """
    doubted = doubted_span(bill, now_ms=now_ms)
    if doubted is not None:
        return _doubted(bill, prices, max(from_ms, doubted[0]), min(until_ms, doubted[1]))
    span = billed_span(bill, now_ms=now_ms)
    if span is None:
        return []
    seen = sorted(intervals, key=lambda each: (each.from_ms, each.holder))
    states = [each for each in seen if each.holder == OF_INSTANCE]
    attempts = [each for each in seen if each.holder != OF_INSTANCE]
    start_ms, end_ms = max(from_ms, span.from_ms), min(until_ms, span.until_ms)
    found: list[CostLine] = []
    for piece_from_ms, piece_until_ms, price in _pieces(bill, prices, start_ms, end_ms):
        there = [a for a in attempts if _overlaps(a, piece_from_ms, piece_until_ms)]
        parts = _parts(bill, states, there, piece_from_ms, piece_until_ms)
        hour = piece_from_ms // MS_PER_HOUR
        found += [_line(bill, hour, part, ms, price) for part, ms in parts if ms]
    if not span.is_open:
        found += _minimum(bill, span, states, prices, from_ms=from_ms, until_ms=until_ms)
    return _with_doubt(found, span, from_ms=from_ms, until_ms=until_ms)


def shares_now(
    bill: InstanceBill, state: Interval, attempts: Sequence[Interval]
) -> Iterator[tuple[Account, BilledState, Fraction]]:
    """Yield who pays for which share of an instance at an instant, and what that part of it is.

    `state` and `attempts` are the intervals that are open then. The shares add up to 1.
    """
    kept = sum((each.share for each in attempts), Fraction(0))
    for each in attempts:
        yield each.account, BilledState.WORK, each.share / max(Fraction(1), kept)
    if kept < 1:
        part = _of_instance(bill, state)
        yield part.account, part.state, 1 - kept


def _pieces(
    bill: InstanceBill, prices: PriceBook, start_ms: int, end_ms: int
) -> Iterator[tuple[int, int, UnitPrice]]:
    """Yield a span in pieces that lie in one hour each, and have one price."""
    at_ms = start_ms
    while at_ms < end_ms:
        next_ms = min(end_ms, (at_ms // MS_PER_HOUR + 1) * MS_PER_HOUR)
        yield from prices.spans(bill, at_ms, next_ms)
        at_ms = next_ms


def _doubted(bill: InstanceBill, prices: PriceBook, start_ms: int, end_ms: int) -> list[CostLine]:
    """Return the lines of a launch: no time, since likely there is nothing, and all uncertain."""
    part = _Part(
        state=BilledState.PENDING,
        attempt_id="",
        account=bill.payer,
        column=Column.CAUSED,
        cause=UNANSWERED,
        outcome=CostOutcome.OPEN,
    )
    return [
        replace(
            _line(bill, from_ms // MS_PER_HOUR, part, 0, price), uncertain_ms=until_ms - from_ms
        )
        for from_ms, until_ms, price in _pieces(bill, prices, start_ms, end_ms)
    ]


def _overlaps(interval: Interval, from_ms: int, until_ms: int) -> bool:
    """Return whether an interval has any time in a piece."""
    ends_ms = until_ms if interval.until_ms is None else interval.until_ms
    return max(from_ms, interval.from_ms) < min(until_ms, ends_ms)


def _parts(
    bill: InstanceBill,
    states: Sequence[Interval],
    attempts: Sequence[Interval],
    from_ms: int,
    until_ms: int,
) -> list[tuple[_Part, int]]:
    """Return who pays for how much of a piece, in whole milliseconds that add up to it."""
    exact = _exact_parts(bill, states, attempts, from_ms, until_ms)
    ids = {part: _id_of(part) for part in exact}
    weights = sorted((ids[part], amount) for part, amount in exact.items())
    whole = split(until_ms - from_ms, weights)
    return sorted(((p, whole[ids[p]]) for p in exact), key=lambda each: ids[each[0]])


def _id_of(part: _Part) -> str:
    account = part.account
    names = (account.project, account.user, account.job_name, account.container_id)
    return "\0".join((part.attempt_id, part.state.value, part.cause, part.outcome.value, *names))


def _exact_parts(
    bill: InstanceBill,
    states: Sequence[Interval],
    attempts: Sequence[Interval],
    from_ms: int,
    until_ms: int,
) -> dict[_Part, Fraction]:
    """Return who pays for how much of a piece, exactly."""
    joins: dict[int, list[Interval]] = {}
    leaves: dict[int, list[Interval]] = {}
    for each in attempts:
        joins.setdefault(max(from_ms, each.from_ms), []).append(each)
        ends_ms = until_ms if each.until_ms is None else min(until_ms, each.until_ms)
        leaves.setdefault(ends_ms, []).append(each)
    changes = {each.from_ms for each in states if from_ms < each.from_ms < until_ms}
    times = sorted({from_ms, until_ms, *joins, *leaves, *changes})
    found: dict[_Part, Fraction] = {}
    shares, ticks = Fraction(0), 0
    joined_at: dict[tuple[str, int], int] = {}
    for at_ms, next_ms in zip(times, [*times[1:], until_ms], strict=True):
        for each in leaves.get(at_ms, ()):
            moved = Fraction(ticks - joined_at[each.holder, each.from_ms], _TICKS_PER_MS)
            part = _of_attempt(each)
            found[part] = found.get(part, Fraction(0)) + each.share * moved
            shares -= each.share
        for each in joins.get(at_ms, ()):
            joined_at[each.holder, each.from_ms] = ticks
            shares += each.share
        ticks += int((next_ms - at_ms) * _TICKS_PER_MS / max(Fraction(1), shares))
        if shares < 1 and at_ms < next_ms:
            part = _of_instance(bill, _state_at(states, at_ms))
            left = (1 - shares) * (next_ms - at_ms)
            found[part] = found.get(part, Fraction(0)) + left
    return found


def _state_at(states: Sequence[Interval], at_ms: int) -> Interval | None:
    """Return what an instance was at a time; before anybody looked, what it was first."""
    if not states:
        return None
    index = bisect_right(states, at_ms, key=lambda each: each.from_ms) - 1
    return states[max(0, index)]


def _of_attempt(attempt: Interval) -> _Part:
    return _Part(
        state=BilledState.WORK,
        attempt_id=attempt.holder,
        account=attempt.account,
        column=Column.SHARED if attempt.cause else Column.DIRECT,
        cause=attempt.cause or "work",
        outcome=attempt.outcome,
    )


def _of_instance(bill: InstanceBill, interval: Interval | None) -> _Part:
    """Return who pays for what an instance was beside the work of attempts."""
    state = BilledState.UNWANTED if interval is None else interval.state
    outcome = _outcome(bill)
    of_payer = state in _BOOT or outcome in (CostOutcome.NEVER_USED, CostOutcome.FAILED_BOOT)
    account = CLUSTER if interval is None else interval.account
    return _Part(
        state=state,
        attempt_id="",
        account=bill.payer if of_payer else account,
        column=Column.CAUSED if of_payer else Column.SHARED,
        cause=_cause(state, outcome),
        outcome=outcome,
    )


def _outcome(bill: InstanceBill) -> CostOutcome:
    """Return what came of an instance beside the work of attempts."""
    if bill.used_ms is not None:
        return CostOutcome.USEFUL
    if bill.gone_ms is None:
        return CostOutcome.OPEN
    return CostOutcome.FAILED_BOOT if bill.ready_ms is None else CostOutcome.NEVER_USED


def _cause(state: BilledState, outcome: CostOutcome) -> str:
    """Return why an instance's time is charged, in a word of the fixed set."""
    if outcome in (CostOutcome.FAILED_BOOT, CostOutcome.NEVER_USED):
        return str(outcome.value)
    return "boot" if state in _BOOT else str(state.value)


def _minimum(
    bill: InstanceBill,
    span: BilledSpan,
    states: Sequence[Interval],
    prices: PriceBook,
    *,
    from_ms: int,
    until_ms: int,
) -> list[CostLine]:
    """Return the line of what is billed after the end: it is booked in the last hour."""
    last_ms = max(span.from_ms, span.until_ms - 1)
    if not from_ms <= last_ms < until_ms:
        return []
    price = prices.at(bill, last_ms)  # no time in which it could have had a prepaid place
    flat_grains = _flat_grains(bill, span, prices, price)
    if not span.minimum_ms and not flat_grains:
        return []
    part = replace(_of_instance(bill, _state_at(states, last_ms)), state=BilledState.MINIMUM)
    if part.column is Column.SHARED:
        part = replace(part, account=CLUSTER, cause=BilledState.MINIMUM.value)
    line = _line(bill, last_ms // MS_PER_HOUR, part, span.minimum_ms, price)
    return [replace(line, flat_grains=flat_grains)]


def _flat_grains(bill: InstanceBill, span: BilledSpan, prices: PriceBook, last: UnitPrice) -> int:
    """Return what is missing to what an instance costs at least, once it has ended."""
    least = usd_grains(bill.rule.minimum_amount_usd)
    if span.is_open or not least or not span.total_ms:
        return 0
    pieces = _pieces(bill, prices, span.from_ms, span.until_ms)
    grains = sum((until_ms - from_ms) * price.nusd_per_hour for from_ms, until_ms, price in pieces)
    return max(0, least - grains - span.minimum_ms * last.nusd_per_hour)


def _line(
    bill: InstanceBill, hour: int, part: _Part, quantity_ms: int, price: UnitPrice
) -> CostLine:
    return CostLine(
        hour=hour,
        instance_id=bill.instance_id,
        type_name=bill.type_name,
        provider_type=bill.provider_type,
        preemptible=bill.preemptible,
        zone=bill.billed.zone,
        state=part.state,
        attempt_id=part.attempt_id,
        account=part.account,
        column=part.column,
        cause=part.cause,
        outcome=part.outcome,
        quantity_ms=quantity_ms,
        uncertain_ms=0,
        price=price,
    )


def _with_doubt(
    lines: list[CostLine], span: BilledSpan, *, from_ms: int, until_ms: int
) -> list[CostLine]:
    """Return lines with what is uncertain of the span's beginning and end on the first and last."""
    found = list(lines)
    if found and span.from_slack_ms and from_ms <= span.from_ms < until_ms:
        found[0] = replace(found[0], uncertain_ms=span.from_slack_ms)
    if found and span.until_slack_ms and from_ms < span.until_ms <= until_ms:
        uncertain_ms = found[-1].uncertain_ms + span.until_slack_ms
        found[-1] = replace(found[-1], uncertain_ms=uncertain_ms)
    return found
