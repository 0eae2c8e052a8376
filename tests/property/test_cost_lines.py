"""The lines of an instance are all of its billed time, once, whatever happened there."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from longshore.dispatcher.cost.money import GRAINS_PER_USD, as_usd, exact_usd, in_dollars, split
from longshore.dispatcher.cost.prices import PriceBook
from longshore.dispatcher.cost.spans import billed_span
from longshore.dispatcher.cost.tiling import lines_of
from longshore.dispatcher.domain.ledger import (
    MS_PER_HOUR,
    OF_INSTANCE,
    Account,
    BilledState,
    CostLine,
    CostOutcome,
    InstanceBill,
    Interval,
    PriceRow,
    PriceSource,
    UnitPrice,
)
from longshore.drivers.billing import Billed, BillingEnd, BillingRule, BillingStart, EndedBy

_ENDS_MS = 5 * MS_PER_HOUR
_TIMES = st.integers(0, _ENDS_MS)
_STATES = st.sampled_from(
    sorted(set(BilledState) - {BilledState.WORK, BilledState.MINIMUM}, key=str)
)
_SHARES = st.builds(Fraction, st.integers(1, 9), st.just(9)) | st.just(Fraction(1, 256))


@st.composite
def _rules(draw: st.DrawFn) -> BillingRule:
    return BillingRule(
        starts=draw(st.sampled_from(BillingStart)),
        ends=draw(st.sampled_from(BillingEnd)),
        unit_s=draw(st.sampled_from((1, 60, 3600))),
        minimum_s=draw(st.sampled_from((0, 60, 600))),
        free_if_reclaimed_within_s=draw(st.sampled_from((0, 3600))),
    )


@st.composite
def _bills(draw: st.DrawFn) -> InstanceBill:
    times = sorted(draw(st.lists(_TIMES, min_size=4, max_size=4)))
    gone = draw(st.booleans())
    told = draw(st.booleans())
    return InstanceBill(
        instance_id="i-1",
        type_name="small",
        provider_type="s1",
        preemptible=draw(st.booleans()),
        nusd_per_hour=draw(st.sampled_from((0, 41_600_000, 333_333_333))),
        payer=Account(project="p", user="u"),
        created_ms=times[0],
        rule=draw(_rules()),
        running_ms=times[1],
        used_ms=draw(st.none() | st.just(times[1])),
        unwanted_ms=draw(st.none() | st.just(times[2])),
        seen_ms=times[2],
        gone_ms=times[3] if gone else None,
        billed=Billed(
            billed_from=times[0] / 1000 if told else None,
            billed_until=times[3] / 1000 if told and gone else None,
            ended_by=draw(st.none() | st.sampled_from(EndedBy)),
            zone=draw(st.sampled_from(("", "a"))),
        ),
    )


@st.composite
def _intervals(draw: st.DrawFn) -> list[Interval]:
    cuts = sorted(draw(st.sets(_TIMES, min_size=1, max_size=6)))
    ends: list[int | None] = [*cuts[1:], None]
    found = [
        Interval(instance_id="i-1", holder=OF_INSTANCE, from_ms=a, until_ms=b, state=draw(_STATES))
        for a, b in zip(cuts, ends, strict=True)
    ]
    for number in range(draw(st.integers(0, 6))):
        first, last = sorted((draw(_TIMES), draw(_TIMES)))
        found.append(
            Interval(
                instance_id="i-1",
                holder=f"c-{number}-1",
                from_ms=first,
                until_ms=draw(st.none() | st.just(last)),
                state=BilledState.WORK,
                share=draw(_SHARES),
                account=Account(project="q", user="v", container_id=f"c-{number}"),
                cause=draw(st.sampled_from(("", "daemon"))),
                outcome=draw(st.sampled_from(CostOutcome)),
            )
        )
    return draw(st.permutations(found))


@st.composite
def _books(draw: st.DrawFn) -> PriceBook:
    rows = st.builds(
        PriceRow,
        type_name=st.just("small"),
        zone=st.sampled_from(("", "a", "b")),
        valid_from_ms=_TIMES,
        price=st.builds(
            UnitPrice,
            nusd_per_hour=st.integers(1, 10**9),
            source=st.sampled_from((PriceSource.HISTORY, PriceSource.CONFIG)),
        ),
    )
    return PriceBook(draw(st.lists(rows, max_size=4)))


def _all(bill: InstanceBill, seen: list[Interval], book: PriceBook, until: int) -> list[CostLine]:
    return lines_of(bill, seen, book, from_ms=0, until_ms=until, now_ms=_ENDS_MS)


@given(_bills(), _intervals(), _books())
def test_lines_add_up_to_the_billed_time(
    bill: InstanceBill, seen: list[Interval], book: PriceBook
) -> None:
    span = billed_span(bill, now_ms=_ENDS_MS)
    lines = _all(bill, seen, book, 9 * MS_PER_HOUR)
    assert sum(line.quantity_ms for line in lines) == (0 if span is None else span.total_ms)
    assert all(line.quantity_ms > 0 for line in lines)
    assert len({_key(line) for line in lines}) == len(lines)


def _key(line: CostLine) -> tuple[object, ...]:
    return (
        line.hour,
        line.attempt_id,
        line.account,
        line.state,
        line.cause,
        line.column,
        line.outcome,
        line.price,
    )


@given(_bills(), _intervals(), _books())
def test_hours_are_booked_alone_as_together(
    bill: InstanceBill, seen: list[Interval], book: PriceBook
) -> None:
    whole = _all(bill, seen, book, 9 * MS_PER_HOUR)
    each = [
        line
        for hour in range(9)
        for line in lines_of(
            bill,
            [i for i in seen if i.holder == OF_INSTANCE or _touches(i, hour)],
            book,
            from_ms=hour * MS_PER_HOUR,
            until_ms=(hour + 1) * MS_PER_HOUR,
            now_ms=_ENDS_MS,
        )
    ]
    assert _summed(each) == _summed(whole)


def _touches(interval: Interval, hour: int) -> bool:
    until = _ENDS_MS if interval.until_ms is None else interval.until_ms
    return interval.from_ms < (hour + 1) * MS_PER_HOUR and until > hour * MS_PER_HOUR


def _summed(lines: list[CostLine]) -> list[tuple[str, int]]:
    return sorted((repr(_key(line)), line.quantity_ms) for line in lines)


@given(st.lists(st.integers(0, 10**18), max_size=20))
def test_amounts_as_decimals_add_up_to_their_sum(grains: list[int]) -> None:
    parts = as_usd(grains)
    assert sum(parts) == in_dollars(sum(grains))
    for part, exact in zip(parts, grains, strict=True):
        assert abs(Fraction(part) - exact_usd(exact)) < Fraction(1, 10**12)


@given(
    st.integers(0, MS_PER_HOUR),
    st.dictionaries(st.text("abc", min_size=1), st.fractions(0, 9), min_size=1).filter(
        lambda weights: any(weights.values())
    ),
)
def test_a_quantity_is_divided_by_largest_remainder(
    quantity: int, weights: dict[str, Fraction]
) -> None:
    parts = split(quantity, sorted(weights.items()))
    total = sum(weights.values())
    assert sum(parts.values()) == quantity
    for id_, weight in weights.items():
        assert abs(parts[id_] - quantity * weight / total) < 1


def test_thirds_of_a_dollar_are_a_dollar() -> None:
    assert in_dollars(GRAINS_PER_USD) == 1
    thirds = as_usd([GRAINS_PER_USD // 3] * 3)
    assert sum(thirds) == 1
    assert [str(third) for third in thirds] == ["0.333333333334", *["0.333333333333"] * 2]
