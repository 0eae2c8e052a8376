"""What an hour cost when: configured prices that never move the past, and what clouds tell."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Final

from longshore.dispatcher.cost.prices import PriceBook, changed_rows
from longshore.dispatcher.cost.rollups import lines_between
from longshore.dispatcher.domain.ledger import (
    CLUSTER,
    MS_PER_HOUR,
    BookedHour,
    InstanceBill,
    PriceRow,
    PriceSource,
    UnitPrice,
)
from longshore.dispatcher.domain.messages import AddPrices, SaveBill, SaveBookedHour
from longshore.dispatcher.explain.health import without_price
from longshore.dispatcher.service.prices import PriceKeeper
from longshore.dispatcher.store.store import Store
from longshore.drivers.billing import AS_USED, Billed
from longshore.drivers.interface import InstanceType
from tests.rigs.engine import Rig
from tests.rigs.services import store_in
from tests.samples import make_container, make_type

_CENT: Final = 10_000_000
_HOUR_S: Final = 3600.0
_DAY_S: Final = 24 * _HOUR_S


def _bill(**changes: object) -> InstanceBill:
    bill = InstanceBill(
        instance_id="i-1",
        type_name="small",
        provider_type="s1",
        preemptible=False,
        nusd_per_hour=4 * _CENT,
        payer=CLUSTER,
        created_ms=0,
        rule=AS_USED,
        running_ms=0,
        billed=Billed(zone="a"),
    )
    return replace(bill, **changes)  # type: ignore[arg-type]  # fields by name


def _row(cents: int, at_h: float, source: PriceSource, zone: str = "") -> PriceRow:
    price = UnitPrice(nusd_per_hour=cents * _CENT, source=source)
    at_ms = int(at_h * MS_PER_HOUR)
    return PriceRow(type_name="small", zone=zone, valid_from_ms=at_ms, price=price)


def _told(rows: Iterable[PriceRow], at_h: float) -> tuple[int, PriceSource]:
    at_ms = int(at_h * MS_PER_HOUR)
    ((_, _, price),) = PriceBook(rows).spans(_bill(), at_ms, at_ms + 1)
    return price.nusd_per_hour // _CENT, price.source


def _typed(cents: int, name: str = "small") -> InstanceType:
    return replace(make_type(2, name=name), price_usd_per_hour=Decimal(cents) / 100)


def _cost(store: Store, hour: int) -> int:
    """Return what an hour cost, in grains."""
    lines = lines_between(
        store.ledger.facts(hour, hour + 1),
        from_hour=hour,
        until_hour=hour + 1,
        now_ms=100 * MS_PER_HOUR,
    )
    return sum(line.grains for line in lines)


def _begin(store: Store, at: float, *types: InstanceType) -> None:
    asyncio.run(PriceKeeper(store=store, types=types, now=lambda: at).begin())


def test_a_price_of_0_ends_what_its_source_tells() -> None:
    rows = [
        _row(5, 1, PriceSource.CONFIG),
        _row(3, 2, PriceSource.DRIVER),
        _row(2, 3, PriceSource.HISTORY, "a"),
        _row(0, 4, PriceSource.HISTORY, "a"),
        _row(0, 5, PriceSource.DRIVER),
        _row(0, 6, PriceSource.CONFIG),
    ]
    seen = [_told(rows, hour) for hour in range(7)]
    assert seen == [
        (4, PriceSource.CONFIG),  # as it was bought
        (5, PriceSource.CONFIG),
        (3, PriceSource.DRIVER),
        (2, PriceSource.HISTORY),
        (3, PriceSource.DRIVER),
        (5, PriceSource.CONFIG),
        (0, PriceSource.NONE),
    ]


def test_only_what_differs_is_added() -> None:
    known = [_row(5, 1, PriceSource.CONFIG), _row(3, 2, PriceSource.DRIVER)]
    same = _row(5, 9, PriceSource.CONFIG)
    assert changed_rows(known, [same]) == []
    other = _row(6, 9, PriceSource.CONFIG)
    assert changed_rows(known, [other]) == [other]
    assert changed_rows([other], [_row(7, 9, PriceSource.CONFIG)]) == []
    ended = _row(0, 9, PriceSource.DRIVER)
    assert changed_rows(known, [same], ends=[PriceSource.DRIVER]) == [ended]
    assert changed_rows([*known, ended], [same], ends=[PriceSource.DRIVER]) == []


def test_a_configured_price_that_changes_leaves_the_past_as_it_was(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        _begin(store, _HOUR_S, _typed(5))
        store.write([SaveBill(bill=_bill())]).result()
        before = _cost(store, 1)
        _begin(store, _DAY_S, _typed(5))
        _begin(store, 2 * _DAY_S, _typed(7))
        _begin(store, 3 * _DAY_S, _typed(0))
        assert (before, _cost(store, 1)) == (5 * _CENT * MS_PER_HOUR, before)
        assert [_cost(store, hour) // MS_PER_HOUR // _CENT for hour in (25, 49, 73)] == [5, 7, 0]
        # Of what was before an hour only what holds in it is read.
        (held,) = store.ledger.facts(49, 50).prices
    assert (held.valid_from_ms, held.price.nusd_per_hour) == (48 * MS_PER_HOUR, 7 * _CENT)


def test_a_price_that_comes_late_has_its_booked_hours_reckoned_anew(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        for hour in range(4):
            booked = BookedHour(hour=hour, totals=(), marks=0)
            store.write([SaveBookedHour(booked=booked)]).result()
        row = _row(2, 1.5, PriceSource.HISTORY, "a")
        store.write([AddPrices(rows=(row,))]).result()
        store.write([AddPrices(rows=(replace(row, price=_row(9, 0, row.price.source).price),))])
        store.write([]).result()
        assert sorted(store.ledger.due(before_hour=4, at_most=9).hours) == [1, 2, 3]
        assert store.ledger.prices(2 * MS_PER_HOUR) == [row]


def test_types_without_a_price_are_told_once_they_have_instances() -> None:
    rig = Rig(_typed(0, "free"), _typed(5, "paid"))
    assert without_price(rig.view.pool) == []
    rig.submit(make_container(1))
    rig.settle()
    (told,) = without_price(rig.view.pool)
    assert told.startswith("instances of free have no price")
