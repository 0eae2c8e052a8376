"""Unusual days over a real store: found once the day is booked, told once, also over a restart."""

from __future__ import annotations

from pathlib import Path

from longshore.dispatcher.cost.money import GRAINS_PER_USD
from longshore.dispatcher.domain.ledger import (
    BilledState,
    BookedHour,
    Column,
    CostGroup,
    CostOutcome,
    PriceSource,
    Total,
)
from longshore.dispatcher.domain.messages import SaveBookedHour
from longshore.dispatcher.service.budgets import BudgetSettings
from longshore.dispatcher.service.unusual_days import DAYS_MOST, days_to_look_at
from longshore.dispatcher.store.store import Store
from tests.rigs.engine import Rig
from tests.rigs.services import services_over
from tests.samples import make_type
from tests.store_values import url_in

DAYS = 60
SETTINGS = BudgetSettings(unusual_day_grains=50 * GRAINS_PER_USD)
GROUP = CostGroup(
    project="vision",
    user="ann",
    job_name="train",
    labels=(),
    type_name="t1",
    preemptible=False,
    zone="",
    state=BilledState.WORK,
    column=Column.DIRECT,
    cause="",
    outcome=CostOutcome.USEFUL,
    price_source=PriceSource.CONFIG,
)


def booked(day: int, usd: int, *, hour: int = 12) -> SaveBookedHour:
    total = Total(quantity_ms=1, grains=usd * GRAINS_PER_USD)
    found = BookedHour(hour=24 * day + hour, totals=((GROUP, total),), marks=0)
    return SaveBookedHour(booked=found)


async def look_at_the_last(tmp_path: Path, *, hour: int = 23) -> list[dict[str, object]]:
    """Return what a process tells that starts a while after the last day is over."""
    store = Store.open(url_in(tmp_path))
    store.write([booked(day, 3) for day in range(10, DAYS)]).result()
    store.write([booked(DAYS, 400), booked(DAYS, 0, hour=hour)]).result()
    rig = Rig(make_type(1))
    rig.now = 86_400.0 * (DAYS + 1) + 600.0
    async with services_over(rig, store, tmp_path, budgets=SETTINGS) as services:
        await services.budgets.look()
        await services.budgets.look()
        count = services.events.last_number
        events = services.events.follow(0)
        told = [dict((await anext(events)).data) for _ in range(count)]
        await events.aclose()  # type: ignore[attr-defined]  # it is a generator
    store.close()
    return told


async def test_an_unusual_day_is_told_once_also_over_a_restart(tmp_path: Path) -> None:
    (told,) = await look_at_the_last(tmp_path)
    assert (told["project"], told["day"], told["spent"]) == ("vision", "1970-03-02", 400)
    assert await look_at_the_last(tmp_path) == []


async def test_a_day_that_is_not_booked_to_its_end_is_not_looked_at(tmp_path: Path) -> None:
    assert await look_at_the_last(tmp_path, hour=22) == []


async def test_who_wants_to_hear_of_no_day_hears_of_none(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    store.write([booked(day, 3) for day in range(10, DAYS)]).result()
    store.write([booked(DAYS, 400), booked(DAYS, 0, hour=23)]).result()
    rig = Rig(make_type(1))
    rig.now = 86_400.0 * (DAYS + 1) + 600.0
    async with services_over(rig, store, tmp_path, budgets=BudgetSettings()) as services:
        await services.budgets.look()
        assert services.events.last_number == 0
    store.close()


async def told_from(
    store: Store, tmp_path: Path, day: int, *booking: SaveBookedHour
) -> list[tuple[object, object]]:
    """Return the days with what they cost of which a process tells that runs after a day."""
    rig = Rig(make_type(1))
    rig.now = 86_400.0 * (day + 1) + 600.0
    async with services_over(rig, store, tmp_path, budgets=SETTINGS) as services:
        await services.budgets.look()
        if booking:
            store.write(booking).result()
        await services.budgets.look()
        count = services.events.last_number
        events = services.events.follow(0)
        told = [dict((await anext(events)).data) for _ in range(count)]
        await events.aclose()  # type: ignore[attr-defined]  # it is a generator
    return [(each["day"], each["spent"]) for each in told]


async def test_after_an_outage_each_day_is_looked_at_once(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    store.write([booked(day, 3) for day in range(10, DAYS)]).result()
    store.write([booked(DAYS - 1, 0, hour=23)]).result()
    assert await told_from(store, tmp_path, DAYS - 1) == []
    # For three days no server ran. The last of them is booked later than the others.
    store.write([booked(DAYS, 400), booked(DAYS + 1, 500), booked(DAYS + 1, 0, hour=23)]).result()
    third = [booked(DAYS + 2, 600), booked(DAYS + 2, 0, hour=23)]
    told = await told_from(store, tmp_path, DAYS + 2, *third)
    assert told == [("1970-03-02", 400), ("1970-03-03", 500), ("1970-03-04", 600)]
    assert await told_from(store, tmp_path, DAYS + 2) == []
    store.close()


def test_days_are_looked_at_in_order_and_so_many_at_most() -> None:
    now = 86_400.0 * 100 + 7
    assert [day.name for day in days_to_look_at("", now)] == ["1970-04-10"]
    assert [day.name for day in days_to_look_at("1970-04-08", now)] == ["1970-04-09", "1970-04-10"]
    assert not days_to_look_at("1970-04-10", now)
    assert not days_to_look_at("1970-04-20", now), "the clock was set back"
    found = days_to_look_at("1970-01-01", now)
    assert (len(found), found[-1].name) == (DAYS_MOST, "1970-04-10")
