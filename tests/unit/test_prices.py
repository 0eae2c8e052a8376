"""What an hour cost when: configured prices that never move the past, and what clouds tell."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Final

import pytest

from longshore.dispatcher.cost.prices import AS_TOLD, PriceBook, PriceTerms, changed_rows
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
from longshore.dispatcher.domain.messages import AddPrices, PricesChanged, SaveBill, SaveBookedHour
from longshore.dispatcher.explain.health import without_price
from longshore.dispatcher.service.prices import OLD_S, LiveMarket, PriceKeeper
from longshore.dispatcher.store.store import Store
from longshore.drivers.billing import AS_USED, Billed
from longshore.drivers.errors import CloudError
from longshore.drivers.interface import InstanceType, ZonePrice
from longshore.pool.remote.prices import PriceQuestion, PricesTold, prices_told
from tests.rigs.engine import Rig
from tests.rigs.services import store_in
from tests.samples import make_container, make_type
from tests.unit.test_effects_logs import Cloud

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
    price = PriceBook(rows).at(_bill(), at_ms)
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
    keeper = PriceKeeper(store=store, types=types, terms={}, is_live=False, now=lambda: at)
    asyncio.run(keeper.begin())


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


# ---- live prices ---------------------------------------------------------------------------------


class Market:
    """A driver's word on prices, by hand, and what the engine is told."""

    def __init__(self) -> None:
        self.answer: Future[PricesTold] = Future()
        self.asked: list[PriceQuestion] = []
        self.told: list[dict[str, str]] = []
        self.told_of_zones: list[dict[tuple[str, str], str]] = []

    def ask(self, question: PriceQuestion) -> Future[PricesTold]:
        self.asked.append(question)
        return self.answer

    def says(self, price: str, *zones: tuple[str, float, str]) -> Market:
        """Let it say what `small` costs now, and in zones since when."""
        in_zones = tuple(
            ZonePrice(type_name="small", zone=zone, valid_from=at, usd_per_hour=Decimal(text))
            for zone, at, text in zones
        )
        self.answer = Future()
        told = PricesTold(usd_per_hour={"small": Decimal(price)}, in_zones=in_zones)
        self.answer.set_result(told)
        return self

    def fails(self, error: Exception) -> Market:
        self.answer = Future()
        self.answer.set_exception(error)
        return self

    def live(self) -> LiveMarket:
        def tell(event: PricesChanged) -> None:
            self.told.append({n: str(p) for n, p in event.usd_per_hour.items()})
            self.told_of_zones.append({key: str(p) for key, p in event.in_zones.items()})

        return LiveMarket(ask=self.ask, zones=lambda: ("a",), tell=tell)


class Keeping:
    """A keeper of live prices over a store, by a clock that a test sets."""

    def __init__(
        self, store: Store, loop: asyncio.Runner, at: float = _HOUR_S, terms: PriceTerms = AS_TOLD
    ) -> None:
        self.store, self.time, self.market, self.loop = store, at, Market(), loop
        self.keeper = PriceKeeper(
            store=store,
            types=[_typed(5)],
            terms={"small": terms},
            is_live=True,
            now=lambda: self.time,
        )
        (self.type,) = loop.run(self.keeper.begin())

    def look(self, after_s: float = 600.0) -> None:
        self.time += after_s
        self.loop.run(self.keeper.look(self.market.live(), patience_s=0.01))

    def rows(self) -> list[tuple[str, str, float, int]]:
        return sorted(
            (row.price.source.value, row.zone, row.valid_from_ms / 1000, row.price.nusd_per_hour)
            for row in self.store.ledger.facts(0, 1000).prices
        )


def test_prices_of_zones_are_told_when_they_move_and_by_the_next_process_again(
    tmp_path: Path,
) -> None:
    with store_in(tmp_path) as store, asyncio.Runner() as loop:
        keeping = Keeping(store, loop)
        keeping.market.says("0.03", ("a", 100.0, "0.02"), ("a", 4000.0, "0.04"))
        keeping.look()
        keeping.market.says("0.03", ("a", 4700.0, "0.05"))
        keeping.look()
        keeping.look()
        was = [{("small", "a"): "0.040000000"}, {("small", "a"): "0.050000000"}]
        assert keeping.market.told_of_zones == was
        assert keeping.market.told == [{"small": "0.03"}, {}]
        again = Keeping(store, loop, at=keeping.time + 100)

        def stop() -> tuple[str, ...]:
            raise StopAsyncIteration("it asks now")

        with pytest.raises(StopAsyncIteration):
            loop.run(again.keeper.follow(replace(again.market.live(), zones=stop)))
        assert again.market.told_of_zones == was[1:]


def test_what_the_cloud_tells_is_written_down_and_told_when_it_differs(tmp_path: Path) -> None:
    with store_in(tmp_path) as store, asyncio.Runner() as loop:
        keeping = Keeping(store, loop)
        # What held when it was asked first holds from then on, and what changed, from its time on.
        keeping.market.says("0.03", ("a", 100.0, "0.02"), ("a", 4000.0, "0.04"))
        keeping.look()
        keeping.look()
        assert keeping.market.told == [{"small": "0.03"}]
        assert [question.since for question in keeping.market.asked] == [3600.0, 4200.0]
        assert keeping.rows() == [
            ("config", "", 3600.0, 50_000_000),
            ("driver", "", 4200.0, 30_000_000),
            ("history", "a", 3600.0, 20_000_000),
            ("history", "a", 4000.0, 40_000_000),
        ]


def test_the_price_in_force_is_that_of_the_ledger_for_the_zone_of_an_instance(
    tmp_path: Path,
) -> None:
    with store_in(tmp_path) as store, asyncio.Runner() as loop:
        keeping = Keeping(store, loop)

        def now_is(zone: str) -> tuple[int, PriceSource]:
            bill = _bill(billed=Billed(zone=zone))
            price = keeping.keeper.in_force().of(bill)
            return price.nusd_per_hour // _CENT, price.source

        assert now_is("a") == (5, PriceSource.CONFIG)
        keeping.market.says("0.03", ("a", 4000.0, "0.02"))
        keeping.look()
        assert (now_is("a"), now_is("b")) == ((2, PriceSource.HISTORY), (3, PriceSource.DRIVER))
        keeping.market.says("0.03")
        keeping.look()
        assert now_is("a") == (2, PriceSource.HISTORY), "what was told before goes on to count"
        keeping = Keeping(store, loop, at=_DAY_S)
        assert now_is("a") == (2, PriceSource.HISTORY), "also after a restart"


def test_an_old_price_keeps_its_value_and_is_told_once_it_is_an_hour_old(tmp_path: Path) -> None:
    with store_in(tmp_path) as store, asyncio.Runner() as loop:
        keeping = Keeping(store, loop)
        keeping.market.says("0.03")
        keeping.look()
        for why in (CloudError("no prices today"), ValueError("a bug")):
            keeping.market.fails(why)
            keeping.look()
        keeping.market.answer = Future()
        keeping.look()
        assert keeping.keeper.problem() == ""
        keeping.look(OLD_S)
        assert keeping.keeper.problem().startswith("prices are 2 h old: the driver does not answer")
        assert len(keeping.market.asked) == 4, "what was asked is not asked again"
        assert keeping.keeper.told_at == {"small": 4200.0}
        keeping.market.answer.set_result(PricesTold(usd_per_hour={}, in_zones=()))
        keeping.look()
        assert keeping.keeper.problem() == ""
        assert _cost(store, 3) == 0
        again = Keeping(store, loop, at=_DAY_S)
        assert again.type.price_usd_per_hour == Decimal("0.03"), "also after a restart"
        assert again.keeper.told_at == {"small": 4200.0}
        _begin(store, 2 * _DAY_S, _typed(5))
        held = PriceBook(store.ledger.prices(3 * 24 * MS_PER_HOUR)).spans(
            _bill(), 3 * 24 * MS_PER_HOUR, 73 * MS_PER_HOUR
        )
        assert [price.source for _, _, price in held] == [PriceSource.CONFIG], "not live any more"


def test_a_restart_asks_for_what_prices_were_meanwhile_a_day_at_most(tmp_path: Path) -> None:
    with store_in(tmp_path) as store, asyncio.Runner() as loop:
        keeping = Keeping(store, loop)
        keeping.market.says("0.03", ("a", 3700.0, "0.02"))
        keeping.look()
        for at, since in ((2 * _HOUR_S, 3700.0), (3 * _DAY_S, 2 * _DAY_S)):
            later = Keeping(store, loop, at=at)
            later.market.says("0.03")
            later.look(0.0)
            assert [question.since for question in later.market.asked] == [since]


class Telling(Cloud):
    """A cloud that says what it was not asked for, and prices that are none."""

    def prices(self, instance_types: Sequence[InstanceType]) -> Mapping[str, Decimal]:
        assert [each.name for each in instance_types] == ["small", "large"]
        return {"small": Decimal(2), "large": Decimal(0), "other": Decimal(1)}

    def zone_prices(
        self, instance_types: Sequence[InstanceType], zones: Sequence[str], since: float
    ) -> Sequence[ZonePrice]:
        assert (len(instance_types), since) == (2, 5.0)
        return [
            ZonePrice(type_name=name, zone=zone, valid_from=6.0, usd_per_hour=Decimal(price))
            for name, zone, price in (
                ("small", zones[0], "2"),
                ("small", "elsewhere", "2"),
                ("other", zones[0], "2"),
                ("large", zones[0], "-Infinity"),
            )
        ]


def test_of_a_drivers_answer_what_is_no_price_or_was_not_asked_for_is_left_out() -> None:
    types = (_typed(1), _typed(1, "large"))
    asked = PriceQuestion(types=types, zones=("a",), since=5.0)
    told = prices_told(Telling(), asked)
    assert told.usd_per_hour == {"small": Decimal(2)}
    assert [(each.type_name, each.zone) for each in told.in_zones] == [("small", "a")]
    assert prices_told(Telling(), replace(asked, zones=())).in_zones == ()
    with pytest.raises(CloudError, match=r"say cost\.prices: configured"):
        prices_told(Cloud(), asked)
