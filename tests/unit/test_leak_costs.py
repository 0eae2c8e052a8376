"""What leaks and instances are told to cost: what the ledger has, at the prices that it has."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from longshore.dispatcher.cost.money import in_dollars, nusd_of
from longshore.dispatcher.cost.prices import PriceBook, PricesInForce
from longshore.dispatcher.cost.spent import cost_since
from longshore.dispatcher.domain.ledger import MS_PER_HOUR, PriceRow, PriceSource, UnitPrice, ms_of
from longshore.dispatcher.domain.messages import AddPrices, InstanceKillRequested
from longshore.dispatcher.metrics.exposition import Metrics
from longshore.dispatcher.service.instances import InstanceService
from longshore.dispatcher.store.errors import StoreBusy
from longshore.dispatcher.store.ledger_reader import LedgerReader
from longshore.dispatcher.store.store import Store
from longshore.drivers.billing import Billed
from longshore.pool.leaks import Leak
from longshore.pool.messages import DestroyInstance
from tests.rigs.engine import Rig
from tests.rigs.services import runtime_over, services_with, store_in
from tests.samples import make_container, make_type

BOUGHT = Decimal("0.123")


def leaking() -> Rig:
    """Return a rig whose i-001 was to end an hour ago, and is listed on."""
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.exit("c-1-1")
    rig.silent.add(DestroyInstance)
    rig.send(InstanceKillRequested(worker_id="i-001", reason="old"))
    rig.advance(3600)
    return rig


def row(price: str, at: float, source: PriceSource = PriceSource.DRIVER) -> PriceRow:
    told = UnitPrice(nusd_per_hour=nusd_of(Decimal(price)), source=source)
    return PriceRow(type_name="t1", zone="", valid_from_ms=ms_of(at), price=told)


def instances(rig: Rig, store: Store, tmp_path: Path, *rows: PriceRow) -> InstanceService:
    """Return the service, by prices that are in the store as they are in memory."""
    store.write([AddPrices(rows=rows)]).result(30)
    latest = PriceBook(rows[-1:])
    services = services_with(
        runtime_over(rig, store),
        rig,
        store,
        tmp_path,
        prices=lambda: PricesInForce(book=latest, at_ms=ms_of(rig.now)),
    )
    return services.instances


def told(rig: Rig, store: Store, tmp_path: Path, *rows: PriceRow) -> tuple[Leak, Decimal]:
    """Return the one leak that is told, and the price of its instance where it is shown."""

    async def asked() -> tuple[Leak, Decimal]:
        found = instances(rig, store, tmp_path, *rows)
        (leak,) = (await found.leaks(cursor="", limit=9)).leaks
        return leak, (await found.instance(leak.instance_id)).price_usd_per_hour

    return asyncio.run(asked())


def test_a_leak_costs_what_each_of_its_times_did_and_has_the_price_of_now(tmp_path: Path) -> None:
    rig = leaking()
    began_at, half = rig.now - 3600, rig.now - 1800
    with store_in(tmp_path) as store:
        rows = row("0.4", began_at - 60), row("0.2", half)
        leak, shown = told(rig, store, tmp_path, *rows)
    assert (leak.since, leak.cost_usd) == (began_at, Decimal("0.3")), "half an hour at each price"
    assert (leak.price_usd_per_hour, shown) == (Decimal("0.2"), Decimal("0.2"))


def test_leaks_are_told_also_where_the_store_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object) -> list[PriceRow]:
        raise StoreBusy("the disk is slow")

    monkeypatch.setattr(LedgerReader, "prices_between", busy)
    rig = leaking()
    with store_in(tmp_path) as store:
        leak, _ = told(rig, store, tmp_path, row("0.4", 0), row("0.2", 1))
    assert (leak.price_usd_per_hour, leak.cost_usd) == (Decimal("0.2"), Decimal("0.2"))


def test_metrics_have_the_price_of_the_zone_now() -> None:
    rig = leaking()
    rig.cloud["i-001"] = replace(rig.cloud["i-001"], billed=Billed(zone="a"))
    rig.advance(70)
    in_zone = replace(row("0.5", 0, PriceSource.HISTORY), zone="a")
    prices = PricesInForce(book=PriceBook([row("0.2", 0), in_zone]), at_ms=ms_of(rig.now))
    metrics = Metrics(rig.view, heard_at=lambda _id: 0.0, prices=lambda: prices)
    told = metrics.exposition(rig.now).decode()
    assert "longshore_leaked_price_usd_per_hour 0.5" in told
    (line,) = (each for each in told.splitlines() if each.startswith("longshore_instances_price"))
    assert line.endswith(" 0.5")


def test_who_had_a_place_does_not_matter_to_what_an_instance_costs() -> None:
    rig = Rig(make_type(4))
    rig.submit(make_container(1))
    start = rig.now
    rig.advance(1800)
    bill = rig.bills["i-001"]
    for since in (start, start + 600, rig.now):
        total = cost_since(bill, PriceBook(()), since_ms=ms_of(since), now_ms=ms_of(rig.now))
        assert total.quantity_ms == ms_of(rig.now - since)
        assert in_dollars(total.grains) == in_dollars(total.quantity_ms * nusd_of(4 * BOUGHT))
    later = ms_of(rig.now) + 5 * MS_PER_HOUR
    assert cost_since(bill, PriceBook(()), since_ms=later, now_ms=ms_of(rig.now)).grains == 0
