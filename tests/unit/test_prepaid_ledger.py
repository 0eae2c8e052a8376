"""What is prepaid in the ledger: who has a place, what is left, and that the past never moves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from longshore.dispatcher.cost.prepaid import changed_places
from longshore.dispatcher.cost.report import Idle, sum_of
from longshore.dispatcher.cost.rollups import lines_between
from longshore.dispatcher.domain.ledger import (
    GROUP_FIELDS,
    MS_PER_HOUR,
    BilledState,
    Column,
    CostLine,
    InstanceBill,
    PrepaidRow,
    PriceRow,
    PriceSource,
    UnitPrice,
)
from longshore.dispatcher.domain.messages import AddPrices, SaveBill
from longshore.dispatcher.domain.principals import Door, Principal, Role
from longshore.dispatcher.domain.queries import LedgerFacts
from longshore.dispatcher.service.costs import CostQuestion
from longshore.dispatcher.service.prices import PriceKeeper
from longshore.dispatcher.store.store import Store
from longshore.drivers.billing import Billed
from longshore.drivers.interface import InstanceType
from tests.rigs.services import store_in
from tests.samples import ME, make_type
from tests.store_values import url_in
from tests.unit.test_ledger_store import T0, bill, booked, service

H = MS_PER_HOUR
SMALL = make_type(2, name="small", price="0.1", prepaid=2)


def row(number: int, at_h: float, name: str = "small") -> PrepaidRow:
    at_ms = T0 * H + round(at_h * H)
    return PrepaidRow(type_name=name, provider_type="s1", valid_from_ms=at_ms, number=number)


def price(nusd: int, at_h: float) -> PriceRow:
    known = UnitPrice(nusd_per_hour=nusd, source=PriceSource.CONFIG if nusd else PriceSource.NONE)
    at_ms = T0 * H + round(at_h * H)
    return PriceRow(type_name="small", zone="", valid_from_ms=at_ms, price=known)


def instance(number: int, from_h: float, until_h: float | None, **changes: object) -> InstanceBill:
    created_ms = T0 * H + round(from_h * H)
    gone_ms = None if until_h is None else T0 * H + round(until_h * H)
    times = {"created_ms": created_ms, "running_ms": created_ms, "gone_ms": gone_ms}
    return bill(instance_id=f"i-{number}", seen_ms=gone_ms, unwanted_ms=gone_ms, **times | changes)


def lines(
    bills: Sequence[InstanceBill], *rows: PrepaidRow, prices: Sequence[PriceRow] = ()
) -> list[CostLine]:
    known = prices or [price(10**8, 0)]
    facts = LedgerFacts(bills=bills, intervals=(), prices=known, prepaid=rows)
    return list(lines_between(facts, from_hour=T0, until_hour=T0 + 4, now_ms=(T0 + 4) * H))


def hours(found: Sequence[CostLine]) -> dict[tuple[str, str], float]:
    """Return how long each instance was on which price, "" for what was unused, in hours."""
    sums: dict[tuple[str, str], float] = {}
    for line in found:
        key = (line.instance_id, line.price.source.value)
        sums[key] = sums.get(key, 0) + line.quantity_ms / H
    return sums


def test_the_oldest_have_the_places_and_whoever_comes_later_gets_what_they_leave() -> None:
    found = lines([instance(1, 0, 2), instance(2, 1, None), instance(3, 1, None)], row(2, 0))
    assert hours(found) == {
        ("i-1", "prepaid"): 2,
        ("i-2", "prepaid"): 3,
        ("i-3", "config"): 1,
        ("i-3", "prepaid"): 2,
        ("", "prepaid"): 1,
    }


def test_more_and_fewer_places_count_from_when_they_hold() -> None:
    there = [instance(1, 0, None), instance(2, 0, None)]
    found = lines(there, row(1, 1), row(2, 2), row(0, 3))
    assert hours(found) == {
        ("i-1", "config"): 2,
        ("i-1", "prepaid"): 2,
        ("i-2", "config"): 3,
        ("i-2", "prepaid"): 1,
    }


def test_an_amount_is_the_price_of_its_time_in_a_place_and_beside_one() -> None:
    found = lines([instance(1, 0, 2)], row(1, 0), prices=[price(10**8, 0), price(3 * 10**8, 3)])
    assert sum(each.grains for each in found) == (2 + 1 + 3) * 10**8 * H
    unused = [each for each in found if not each.instance_id]
    assert [(e.hour - T0, e.quantity_ms, e.price.nusd_per_hour) for e in unused] == [
        (2, H, 10**8),
        (3, H, 3 * 10**8),
    ]
    assert {(e.state, e.column, e.cause, e.account.user, e.type_name) for e in unused} == {
        (BilledState.UNUSED, Column.SHARED, "unused", "", "small")
    }


def test_where_nobody_knows_the_price_neither_hides_it() -> None:
    found = lines([instance(1, 0, 2, nusd_per_hour=0)], row(2, 0), prices=[price(0, 0)])
    assert {each.price.source for each in found} == {PriceSource.NONE}
    assert sum(each.quantity_ms for each in found) == 2 * 4 * H


def test_what_is_preemptible_or_of_another_type_has_no_place() -> None:
    there = [instance(1, 0, None, preemptible=True), instance(2, 0, None, type_name="other")]
    found = hours(lines(there, row(1, 0)))
    assert found[("", "prepaid")] == 4
    assert ("i-1", "prepaid") not in found


def test_what_a_cloud_bills_at_least_is_no_time_of_a_place() -> None:
    least = replace(bill().rule, minimum_s=7200)
    found = lines([instance(1, 0, 1, rule=least)], row(1, 0))
    assert hours(found) == {("i-1", "prepaid"): 1, ("i-1", "config"): 1, ("", "prepaid"): 3}


def test_only_what_differs_is_added_and_a_type_that_goes_ends() -> None:
    known = [row(2, 0), row(1, 0, "gone"), row(0, 0, "over")]
    at_ms = (T0 + 5) * H
    told = [row(2, 5), row(3, 5, "new"), row(0, 5, "none")]
    ended = replace(row(0, 5, "gone"), valid_from_ms=at_ms)
    assert changed_places(known, told, at_ms=at_ms) == [ended, row(3, 5, "new")]
    assert changed_places([*told, ended], told, at_ms=at_ms) == []


# ---- in the store --------------------------------------------------------------------------------


def begin(store: Store, at_h: float, *types: InstanceType) -> None:
    """Start a server with these types."""
    keeper = PriceKeeper(
        store=store, types=types, terms={}, is_live=False, now=lambda: (T0 + at_h) * 3600.0
    )
    asyncio.run(keeper.begin())


def by_state(store: Store, hour: int) -> dict[tuple[str, str], int]:
    """Return the booked time of an hour by state and source of the price, in milliseconds."""
    (totals,) = store.ledger.sums([(T0 + hour, T0 + hour + 1)], GROUP_FIELDS).totals
    found: dict[tuple[str, str], int] = {}
    for group, total in totals.items():
        key = (group.state.value, group.price_source.value)
        found[key] = found.get(key, 0) + total.quantity_ms
    return found


def test_what_is_prepaid_is_booked_from_the_start_also_where_nothing_ever_ran(
    tmp_path: Path,
) -> None:
    with store_in(tmp_path) as store:
        begin(store, 0.5, SMALL)
        begin(store, 2.5, replace(SMALL, prepaid=1))
        booked(store, 4.1)
        assert [by_state(store, hour) for hour in range(4)] == [
            {("unused", "prepaid"): H},
            {("unused", "prepaid"): 2 * H},
            {("unused", "prepaid"): 3 * H // 2},
            {("unused", "prepaid"): H},
        ]
        begin(store, 4.2)
        booked(store, 6.1)
        assert by_state(store, 3) == {("unused", "prepaid"): H}, "the past never moves"
        assert by_state(store, 5) == {}


def test_a_report_tells_used_and_unused_apart_to_an_admin(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        begin(store, 0, SMALL)
        store.write([SaveBill(bill=instance(1, 1, 3))]).result(30)
        question = CostQuestion(
            steps=[(T0, T0 + 4)], by=("price_source", "state"), idle=Idle.SEPARATE, only={}
        )
        costs = service(store, 4)
        mine = Principal(user="ann", role=Role.USER, door=Door.TOKEN)
        [of_all, of_ann] = [
            asyncio.run(costs.report(question, caller)).rows for caller in (ME, mine)
        ]
    assert [(each.values, each.amounts.quantity_ms) for each in of_all] == [
        (("prepaid", "unused"), 6 * H),
        (("prepaid", "unwanted"), 2 * H),
    ]
    assert sum_of(of_all).total == 2 * 4 * H * 10**8
    assert not of_ann


def test_a_late_word_of_the_cloud_moves_the_places_in_hours_that_are_booked(
    tmp_path: Path,
) -> None:
    with store_in(tmp_path) as store:
        begin(store, 0, replace(SMALL, prepaid=1))
        older, younger = instance(1, 0, 3.5), instance(2, 0.5, None)
        store.write([SaveBill(bill=older), SaveBill(bill=younger)]).result(30)
        booked(store, 5.1)
        assert by_state(store, 2) == {("unwanted", "prepaid"): H, ("unwanted", "config"): H}
        told = Billed(billed_from=T0 * 3600.0, billed_until=(T0 + 1) * 3600.0)
        store.write([SaveBill(bill=replace(older, billed=told, final=True))]).result(30)
        booked(store, 5.1)
        assert by_state(store, 2) == {("unwanted", "prepaid"): H}


def test_a_row_of_places_that_comes_late_has_its_booked_hours_reckoned_anew(
    tmp_path: Path,
) -> None:
    with store_in(tmp_path) as store:
        store.write([SaveBill(bill=instance(1, 0, None))]).result(30)
        booked(store, 3.1)
        store.write([AddPrices(rows=(), prepaid=(row(1, 1),))]).result(30)
        booked(store, 3.1)
        assert [set(by_state(store, hour)) for hour in (0, 1, 2)] == [
            {("unwanted", "config")},
            {("unwanted", "prepaid")},
            {("unwanted", "prepaid")},
        ]


def test_used_and_unused_are_the_same_after_a_restart_of_the_store(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        begin(store, 0, SMALL)
        store.write([SaveBill(bill=instance(1, 0, None))]).result(30)
        before = store.ledger.facts(T0, T0 + 4)
    with closing(Store.open(url_in(tmp_path))) as store:
        begin(store, 2, SMALL)
        assert store.ledger.facts(T0, T0 + 4).prepaid == before.prepaid != ()
        booked(store, 4.1)
        assert by_state(store, 3) == {("unwanted", "prepaid"): H, ("unused", "prepaid"): H}


def test_used_and_unused_of_the_hour_that_goes_on_end_now(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        begin(store, 0, replace(SMALL, prepaid=1))
        found = list(
            lines_between(
                store.ledger.facts(T0, T0 + 1),
                from_hour=T0,
                until_hour=T0 + 1,
                now_ms=T0 * H + H // 4,
            )
        )
    assert [each.quantity_ms for each in found] == [H // 4]
