"""Prices that change while the engine runs: purchases, limits, ceilings and explain follow."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from longshore.dispatcher.domain.messages import PricesChanged
from longshore.dispatcher.explain.explanation import explain
from longshore.dispatcher.state.spend_limits import SpendSubject
from longshore.drivers.billing import Billed
from longshore.pool.messages import CreateInstance
from longshore.pool.model import PoolSettings
from tests.rigs.engine import Rig
from tests.samples import make_container, make_type
from tests.unit.test_spend import settings

CHEAP, DEAR = make_type(1, name="cheap", price="0.1"), make_type(1, name="dear", price="0.4")
QUIET = PoolSettings(idle_timeout_s=100_000)


def tell(rig: Rig, **usd_per_hour: str) -> None:
    prices = {name: Decimal(price) for name, price in usd_per_hour.items()}
    rig.send(PricesChanged(usd_per_hour=prices))
    rig.engine.check()


def test_the_next_instance_is_of_the_type_that_is_cheapest_now() -> None:
    rig = Rig(CHEAP, DEAR)
    rig.submit(make_container(1))
    tell(rig, cheap="0.9")
    rig.submit(make_container(2))
    assert rig.created_types() == ["cheap", "dear"]
    tell(rig, cheap="0.2", unknown="7")
    rig.submit(make_container(3))
    assert rig.created_types() == ["cheap", "dear", "cheap"]


def test_limits_count_instances_and_attempts_at_the_price_of_now() -> None:
    rig = Rig(CHEAP, settings=settings("0.25", {"*": "0.25"}), pool=QUIET)
    rig.submit(replace(make_container(1), project="alpha"))
    spend, alpha = rig.engine.scheduling.spend, SpendSubject("project", "alpha")
    assert spend is not None
    tell(rig, cheap="0.2")
    assert spend.total == Decimal("0.2")
    assert rig.engine.table.spend.by_subject == {alpha: Decimal("0.2")}
    rig.submit(replace(make_container(2), project="alpha"))
    reason = rig.engine.why_waiting("c-2")
    assert reason is not None
    assert "spends $0.20/h" in reason.message
    explained = explain(rig.view, rig.engine.table.containers["c-2"], rig.now)
    assert explained.waiting is not None
    assert [each.price_usd_per_hour for each in explained.waiting.types] == [Decimal("0.2")]
    tell(rig, cheap="0.1")
    assert sorted(rig.started_on()) == ["c-1", "c-2"]


def test_who_is_there_costs_what_is_told_of_its_zone() -> None:
    rig = Rig(CHEAP, settings=settings("9", {"*": "9"}), pool=QUIET)
    spend, alpha = rig.engine.scheduling.spend, SpendSubject("project", "alpha")
    assert spend is not None
    rig.send(PricesChanged(usd_per_hour={}, in_zones={("cheap", "a"): Decimal("0.3")}))
    rig.submit(replace(make_container(1), project="alpha"))
    assert spend.total == Decimal("0.1"), "nobody knows its zone"
    rig.cloud["i-001"] = replace(rig.cloud["i-001"], billed=Billed(zone="a"))
    rig.advance(60)
    rig.engine.check()
    assert (spend.total, rig.engine.table.spend.by_subject[alpha]) == (Decimal("0.3"),) * 2
    tell(rig, cheap="0.2")
    assert spend.total == Decimal("0.3"), "its own zone counts first"
    told = {("cheap", "a"): Decimal("0.4"), ("cheap", "b"): Decimal(7)}
    rig.send(PricesChanged(usd_per_hour={}, in_zones=told))
    assert (spend.total, rig.engine.table.spend.by_subject[alpha]) == (Decimal("0.4"),) * 2
    rig.send(PricesChanged(usd_per_hour={}, in_zones={("cheap", "a"): Decimal(0)}))
    assert (spend.total, rig.engine.table.spend.by_subject[alpha]) == (Decimal("0.2"),) * 2
    rig.engine.check()


def test_an_instance_on_its_way_costs_what_it_does_now() -> None:
    rig = Rig(CHEAP, settings=settings("0.5"))
    rig.silent.add(CreateInstance)
    rig.submit(make_container(1))
    tell(rig, cheap="0.3")
    spend = rig.engine.scheduling.spend
    assert spend is not None
    assert spend.total == Decimal("0.3")
    (slot,) = rig.engine.scheduling.fleet_sync.fleet.slots.values()
    assert slot.type.price_usd_per_hour == Decimal("0.3")


def test_what_is_bought_at_a_price_keeps_it_in_its_bill() -> None:
    rig = Rig(CHEAP)
    tell(rig, cheap="0.3")
    rig.submit(make_container(1))
    (bill,) = rig.bills.values()
    assert bill.nusd_per_hour == 300_000_000
    assert [each.price_usd_per_hour for each in rig.instances.values()] == [Decimal("0.3")]


def test_prices_are_asked_for_in_the_zones_in_which_there_are_instances() -> None:
    rig = Rig(make_type(1), pool=QUIET)
    assert rig.view.zones_in_use() == ()
    for number in range(1, 5):
        rig.submit(make_container(number))
    zones = dict(zip(sorted(rig.cloud), ("b", "", "a", "b"), strict=True))
    rig.cloud |= {
        id_: replace(rig.cloud[id_], billed=Billed(zone=zone)) for id_, zone in zones.items()
    }
    rig.advance(QUIET.sync_interval_s + 1)
    assert rig.view.zones_in_use() == ("a", "b"), "each once, sorted; nobody knows one of them"
    for id_ in [id_ for id_, zone in zones.items() if zone == "b"]:
        del rig.cloud[id_]
    rig.advance(10 * QUIET.gone_after_s)
    assert rig.view.zones_in_use() == ("a",)
    rig.crash()
    rig.advance(QUIET.sync_interval_s + 1)
    assert rig.view.zones_in_use() == ("a",), "a listing tells it anew"
