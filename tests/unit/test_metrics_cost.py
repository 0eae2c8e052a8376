"""Metrics of money: rates by the rule of the ledger, the month, budgets; bounded, and honest."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.dispatcher.cost.money import in_dollars
from longshore.dispatcher.cost.prices import PriceBook
from longshore.dispatcher.cost.rates import InstanceRates, rates_of
from longshore.dispatcher.cost.tiling import lines_of
from longshore.dispatcher.domain.ledger import (
    MS_PER_HOUR,
    Account,
    BilledState,
    InstanceBill,
    Interval,
    PriceRow,
    PriceSource,
    UnitPrice,
)
from longshore.dispatcher.domain.messages import Change, SaveBill, SaveInterval
from longshore.dispatcher.metrics.ledger import MOST_PROJECTS, NOTHING_READ, RateMemory
from longshore.dispatcher.service.cost_gauges import CostGauges
from longshore.dispatcher.service.measuring import LoopDelay
from longshore.drivers.billing import AS_USED
from tests.exposition import ledger_of, samples, value
from tests.rigs.engine import Rig
from tests.samples import make_container, make_type
from tests.store_values import new_store

HOUR = 480_000
NOW_MS = HOUR * MS_PER_HOUR + 1_234_567
BILL = InstanceBill(
    instance_id="i-1",
    type_name="t1",
    provider_type="p1",
    preemptible=False,
    nusd_per_hour=90_000_000,
    payer=Account(project="buyer"),
    created_ms=NOW_MS - 600_000,
    rule=AS_USED,
    running_ms=NOW_MS - 600_000,
    ready_ms=NOW_MS - 500_000,
    used_ms=NOW_MS - 400_000,
)
ROOM = Interval(instance_id="i-1", holder="", from_ms=NOW_MS - 400_000, state=BilledState.ROOM)
RATE = "longshore_cost_rate_usd_per_hour"
STATE_RATE = "longshore_cost_state_rate_usd_per_hour"
MONTH = "longshore_cost_month_to_date_usd"


def place(holder: str, project: str, share: Fraction) -> Interval:
    return Interval(
        instance_id="i-1",
        holder=holder,
        from_ms=NOW_MS - 300_000,
        state=BilledState.WORK,
        share=share,
        account=Account(project=project),
    )


def usd(rates: InstanceRates | None) -> dict[tuple[str, str], Decimal]:
    assert rates is not None
    return {(project, state.value): in_dollars(grains) for project, state, grains in rates.parts}


# ---- the rule -----------------------------------------------------------------------------------


def test_an_hour_costs_what_the_ledger_would_book_for_it() -> None:
    third, half = Fraction(1, 3), Fraction(1, 2)
    places = (place("a-1", "vision", third), place("a-2", "audio", half))
    assert usd(rates_of(BILL, ROOM, places, PriceBook(()), now_ms=NOW_MS)) == {
        ("", "room"): Decimal("0.015"),
        ("audio", "work"): Decimal("0.045"),
        ("vision", "work"): Decimal("0.03"),
    }
    crowded = (place("a-1", "vision", Fraction(1)), place("a-2", "audio", half))
    assert usd(rates_of(BILL, ROOM, crowded, PriceBook(()), now_ms=NOW_MS)) == {
        ("audio", "work"): Decimal("0.03"),
        ("vision", "work"): Decimal("0.06"),
    }


@given(
    parts=st.lists(st.fractions(min_value=Fraction(1, 99), max_value=1), max_size=4),
    state=st.sampled_from((BilledState.BOOTING, BilledState.ROOM, BilledState.EMPTY)),
    is_used=st.booleans(),
)
def test_an_hour_in_which_nothing_changes_is_booked_as_its_rates_say(
    parts: list[Fraction], state: BilledState, *, is_used: bool
) -> None:
    bill = BILL if is_used else replace(BILL, used_ms=None)
    of_instance = replace(ROOM, state=state)
    places = [place(f"a-{n}", f"p{n}", share) for n, share in enumerate(parts)]
    rates = rates_of(bill, of_instance, places, PriceBook(()), now_ms=NOW_MS)
    hour = HOUR + 5
    from_ms, until_ms = hour * MS_PER_HOUR, (hour + 1) * MS_PER_HOUR
    lines = lines_of(
        bill,
        (of_instance, *places),
        PriceBook(()),
        from_ms=from_ms,
        until_ms=until_ms,
        now_ms=until_ms,
    )
    booked: dict[tuple[str, BilledState], int] = {}
    for line in lines:
        key = line.account.project, line.state
        booked[key] = booked.get(key, 0) + line.grains
    assert rates is not None
    told = {(project, part): grains for project, part, grains in rates.parts}
    # The ledger books whole milliseconds of an hour: of what has less, there is no line.
    for key in told.keys() | booked.keys():
        booked_grains = pytest.approx(booked.get(key, 0), abs=len(told) * bill.nusd_per_hour)
        assert told.get(key, 0) == booked_grains, key
    assert sum(told.values()) == pytest.approx(bill.nusd_per_hour * MS_PER_HOUR)


@pytest.mark.parametrize(
    "bill",
    [
        replace(BILL, running_ms=None, rule=replace(AS_USED, starts=type(AS_USED.starts).RUNNING)),
        replace(BILL, billed=replace(BILL.billed, billed_from=1.0, billed_until=2.0)),
    ],
    ids=["not billed yet", "billed no more"],
)
def test_what_is_not_billed_has_no_rate(bill: InstanceBill) -> None:
    assert rates_of(bill, ROOM, (), PriceBook(()), now_ms=NOW_MS) is None


def test_a_price_that_nobody_knows_is_told_as_such() -> None:
    rates = rates_of(replace(BILL, nusd_per_hour=0), ROOM, (), PriceBook(()), now_ms=NOW_MS)
    assert rates is not None
    assert not rates.has_price
    assert rates.parts == (("", BilledState.ROOM, 0),)


def test_a_new_price_and_a_new_place_are_seen_and_what_is_gone_is_forgotten() -> None:
    memory, now = RateMemory(), NOW_MS / 1000
    price = UnitPrice(nusd_per_hour=180_000_000, source=PriceSource.DRIVER)
    row = PriceRow(type_name="t1", zone="", valid_from_ms=NOW_MS - 5, price=price)
    place_of_vision = place("a-1", "vision", Fraction(1))
    assert usd(memory.rates([(BILL, ROOM, ())], (), now)[0]) == {("", "room"): Decimal("0.09")}
    assert usd(memory.rates([(BILL, ROOM, (place_of_vision,))], (), now)[0]) == {
        ("vision", "work"): Decimal("0.09")
    }
    assert usd(memory.rates([(BILL, ROOM, (place_of_vision,))], (row,), now)[0]) == {
        ("vision", "work"): Decimal("0.18")
    }
    assert memory.rates([], (row,), now) == []


# ---- what is exposed ----------------------------------------------------------------------------


def test_rates_follow_an_instance_from_its_boot_to_its_end() -> None:
    rig = Rig(make_type(4))
    assert value(rig, STATE_RATE, state="work") == 0
    rig.submit(make_container(1))
    rig.advance(30)
    assert value(rig, STATE_RATE, state="work") == pytest.approx(0.123)
    assert value(rig, STATE_RATE, state="room") == pytest.approx(0.123 * 3)
    assert value(rig, RATE, project="p", instance_type="t4") == pytest.approx(0.123)
    rig.exit("c-1-1")
    rig.advance(1)
    assert value(rig, RATE, project="(none)", instance_type="t4") == pytest.approx(0.123 * 4)
    assert (RATE, (("instance_type", "t4"), ("project", "p"))) not in samples(rig)
    rig.advance(600)
    assert not [key for key in samples(rig) if key[0] == RATE]
    assert value(rig, STATE_RATE, state="empty") == 0


def test_nothing_is_told_before_the_ledger_was_read() -> None:
    told = {name for name, _ in samples(Rig(make_type(1)), ledger=NOTHING_READ)}
    assert not [name for name in told if name.startswith(("longshore_cost", "longshore_budget"))]


def test_projects_without_end_have_series_with_an_end_and_the_same_sum() -> None:
    rig = Rig(make_type(1))
    month_usd = {f"p{number:03}": str(number) for number in range(1, 301)} | {"": "7"}
    found = samples(rig, ledger=ledger_of(rig, month_usd=month_usd))
    told = {dict(labels)["project"]: usd for (name, labels), usd in found.items() if name == MONTH}
    assert len(told) == MOST_PROJECTS + 2
    assert sum(told.values()) == pytest.approx(sum(range(301)) + 7)
    assert told["p300"] == 300
    assert told["(none)"] == 7
    assert told["(others)"] == sum(range(1, 301 - MOST_PROJECTS))


def test_budgets_and_what_is_unsure_are_told() -> None:
    rig = Rig(make_type(1))
    names = ("limit_usd", "spent_usd", "committed_usd", "stopped")
    told = [value(rig, f"longshore_budget_{name}", budget="vision-month") for name in names]
    assert told == [100, 80, 5, 1]
    assert value(rig, "longshore_cost_month_to_date_uncertain_usd") == 0.5
    assert value(rig, "longshore_cost_month_to_date_unpriced_seconds") == 1.5
    assert value(rig, "longshore_cost_age_seconds") == 7


# ---- where it is from ---------------------------------------------------------------------------


async def test_the_month_is_read_from_the_ledger_by_who_pays(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    gauges = CostGauges(store=store, now=lambda: NOW_MS / 1000, labels=())
    unpriced = replace(BILL, instance_id="i-2", nusd_per_hour=0)
    changes: list[Change] = [
        SaveBill(bill=BILL),
        SaveInterval(interval=ROOM),
        SaveInterval(interval=place("a-1", "vision", Fraction(1, 2))),
        SaveBill(bill=unpriced),
        SaveInterval(interval=replace(ROOM, instance_id="i-2")),
    ]
    await asyncio.wrap_future(store.write(changes, wait=True))
    await gauges.look()
    assert gauges.month is not None
    by_project = {name: in_dollars(grains) for name, grains in gauges.month.by_project}
    # Ten minutes at $0.09 an hour; five of them to a half for vision.
    assert by_project["vision"] == Decimal("0.00375")
    assert sum(by_project.values()) == Decimal("0.015")
    assert gauges.month.unpriced_ms == 600_000
    assert gauges.month.as_of == NOW_MS / 1000
    store.close()


async def test_a_loop_that_was_held_up_is_late() -> None:
    delay, loop = LoopDelay(), asyncio.get_running_loop()
    watching = asyncio.create_task(delay.watch(look_each_s=0.001))
    await asyncio.sleep(0)
    until = loop.time() + 0.06
    while loop.time() < until:
        pass
    await asyncio.sleep(0.005)
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    assert delay.late_s.sum >= 0.05
