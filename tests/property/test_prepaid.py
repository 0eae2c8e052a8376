"""Of what is prepaid, used and unused time add up to all of it, whoever came and went."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longshore.dispatcher.cost.rollups import lines_between
from longshore.dispatcher.domain.ledger import (
    CLUSTER,
    MS_PER_HOUR,
    BilledState,
    CostLine,
    InstanceBill,
    PrepaidRow,
    PriceRow,
    PriceSource,
    UnitPrice,
)
from longshore.dispatcher.domain.queries import LedgerFacts
from longshore.drivers.billing import BillingRule, BillingStart

_ENDS_MS = 4 * MS_PER_HOUR
_TIMES = st.integers(0, _ENDS_MS)
_TYPES = ("a", "b")


@st.composite
def _bills(draw: st.DrawFn) -> list[InstanceBill]:
    found = []
    for number in range(draw(st.integers(0, 6))):
        created_ms, gone_ms = sorted(draw(st.tuples(_TIMES, _TIMES)))
        bill = InstanceBill(
            instance_id=f"i-{number}",
            type_name=draw(st.sampled_from(_TYPES)),
            provider_type="m",
            preemptible=False,
            nusd_per_hour=10**8,
            payer=CLUSTER,
            created_ms=created_ms,
            rule=BillingRule(
                starts=BillingStart.REQUESTED,
                minimum_s=draw(st.sampled_from((0, 600))),
            ),
            gone_ms=gone_ms if draw(st.booleans()) else None,
        )
        found.append(bill)
    return found


_PREPAID = st.builds(
    PrepaidRow,
    type_name=st.sampled_from(_TYPES),
    provider_type=st.just("m"),
    valid_from_ms=_TIMES,
    number=st.integers(0, 4),
)
_PRICES = st.builds(
    PriceRow,
    type_name=st.sampled_from(_TYPES),
    zone=st.just(""),
    valid_from_ms=_TIMES,
    price=st.builds(
        UnitPrice, nusd_per_hour=st.integers(1, 10**9), source=st.just(PriceSource.CONFIG)
    ),
)


@st.composite
def _facts(draw: st.DrawFn) -> LedgerFacts:
    rows = st.lists(_PREPAID, max_size=4, unique_by=lambda r: (r.type_name, r.valid_from_ms))
    first = [
        PriceRow(
            type_name=name,
            zone="",
            valid_from_ms=0,
            price=UnitPrice(nusd_per_hour=10**8, source=PriceSource.CONFIG),
        )
        for name in _TYPES
    ]
    return LedgerFacts(
        bills=draw(_bills()),
        intervals=(),
        prices=[*first, *draw(st.lists(_PRICES, max_size=2))],
        prepaid=draw(rows),
    )


def _lines(facts: LedgerFacts, from_hour: int, until_hour: int, now_ms: int) -> list[CostLine]:
    return list(lines_between(facts, from_hour=from_hour, until_hour=until_hour, now_ms=now_ms))


def _paid_ms(facts: LedgerFacts, now_ms: int) -> int:
    """Return how much time is paid for up to now, by going from row to row."""
    found = 0
    for name in _TYPES:
        rows = sorted(
            (row.valid_from_ms, row.number) for row in facts.prepaid if row.type_name == name
        )
        ends = [at_ms for at_ms, _ in rows[1:]] + [now_ms]
        for (at_ms, number), end_ms in zip(rows, ends, strict=False):
            found += number * max(0, min(end_ms, now_ms) - at_ms)
    return found


def _is_of_a_place(line: CostLine) -> bool:
    return line.price.source is PriceSource.PREPAID


@given(_facts(), _TIMES)
def test_used_and_unused_add_up_to_what_is_paid_for(facts: LedgerFacts, now_ms: int) -> None:
    lines = _lines(facts, 0, 5, now_ms)
    assert sum(each.quantity_ms for each in lines if _is_of_a_place(each)) == _paid_ms(
        facts, now_ms
    )
    unused = [each for each in lines if each.state is BilledState.UNUSED]
    assert all(_is_of_a_place(each) and each.quantity_ms > 0 for each in unused)
    assert len({(e.hour, e.type_name, e.price) for e in unused}) == len(unused)


@given(_facts())
def test_what_is_prepaid_changes_no_amount_of_an_instance(facts: LedgerFacts) -> None:
    without = LedgerFacts(bills=facts.bills, intervals=facts.intervals, prices=facts.prices)
    lines = [each for each in _lines(facts, 0, 5, _ENDS_MS) if each.instance_id]
    plain = _lines(without, 0, 5, _ENDS_MS)
    for bill in facts.bills:
        mine, same = (
            [(e.hour, e.quantity_ms, e.grains) for e in some if e.instance_id == bill.instance_id]
            for some in (lines, plain)
        )
        assert sum(e[1] for e in mine) == sum(e[1] for e in same)
        assert sum(e[2] for e in mine) == sum(e[2] for e in same)


@given(_facts())
def test_hours_alone_are_as_together(facts: LedgerFacts) -> None:
    whole = _lines(facts, 0, 5, _ENDS_MS)
    each = [line for hour in range(5) for line in _lines(facts, hour, hour + 1, _ENDS_MS)]
    assert _sums(each) == _sums(whole)


def _sums(lines: list[CostLine]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in lines:
        key = repr((each.hour, each.instance_id, each.type_name, each.state, each.price))
        found[key] = found.get(key, 0) + each.quantity_ms
    return found
