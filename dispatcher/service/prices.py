"""Keeps in the ledger what instances cost: rows of prices that are only ever added.

What the configuration says is written at each start, where it is not what it said before: such a
row holds from then on, and what was reckoned by an earlier one stays what it was.

With `cost.prices: live` the driver is asked every `ASK_EACH_S`: what types cost now, and how the
prices of the zones in which there are instances have moved since the last answer. What differs is
written down, and then the engine is told, so that it buys and limits by what the ledger has. While
the driver does not answer, the latest prices go on to count, also across a restart. A price of a
zone holds from the cloud's own time, but from no earlier one than the answer before: what was
reckoned with what was known then stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from decimal import Decimal

import structlog

from longshore.dispatcher.cost.money import nusd_of, usd_per_hour
from longshore.dispatcher.cost.prepaid import changed_places
from longshore.dispatcher.cost.prices import (
    PriceBook,
    PricesInForce,
    PriceTerms,
    changed_rows,
)
from longshore.dispatcher.domain.ledger import (
    PrepaidRow,
    PriceRow,
    PriceSource,
    UnitPrice,
    ms_of,
)
from longshore.dispatcher.domain.messages import AddPrices, PricesChanged
from longshore.dispatcher.store.errors import StoreBusy, StoreClosed
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import CloudError
from longshore.drivers.interface import InstanceType, ZonePrice
from longshore.pool.remote.prices import PriceQuestion, PricesTold

ASK_EACH_S = 600.0
OLD_S = 3600.0
"""From this age on that no price comes is told as a problem."""
CATCH_UP_S = 86_400.0
"""How far back a start asks for what prices in zones were meanwhile."""

_LIVE = frozenset({PriceSource.HISTORY, PriceSource.DRIVER})

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveMarket:
    """Whom live prices are asked of and told to."""

    #: Asks the driver; the outcome has no deadline, and raises what a driver raises.
    ask: Callable[[PriceQuestion], Future[PricesTold]]
    #: The zones in which there are instances, sorted.
    zones: Callable[[], tuple[str, ...]]
    #: Tells the engine.
    tell: Callable[[PricesChanged], None]


class PriceKeeper:
    """Writes prices down, and tells the engine of them; used on the loop's thread."""

    def __init__(
        self,
        *,
        store: Store,
        types: Sequence[InstanceType],
        terms: Mapping[str, PriceTerms],
        is_live: bool,
        now: Callable[[], float],
    ) -> None:
        """`types` are as configured, `terms` what a price of each becomes, by its name.

        `now` tells seconds since the epoch.
        """
        self._store, self._terms, self._now = store, terms, now
        self._is_live = is_live
        self._types = {each.name: each for each in types}
        self._asked: asyncio.Future[PricesTold] | None = None
        self._since = self._began_at = now()
        self._failure = ""
        self._book = PriceBook(())
        #: What an hour costs in zones, by type and zone, as it was told last.
        self._in_zones: dict[tuple[str, str], Decimal] = {}
        #: When the price of a type was told last, in seconds since the epoch, by its name.
        self.told_at: dict[str, float] = {}

    async def begin(self) -> tuple[InstanceType, ...]:
        """Write down what the configuration says now; return the types with what they cost now.

        Without live prices, what clouds said before counts no more. Raises `StoreBusy` and
        `StoreClosed`: without prices nothing is to be bought.
        """
        now_ms = ms_of(self._now())
        told = [_row(each, each.price_usd_per_hour, now_ms) for each in self._types.values()]
        prepaid = [_prepaid_row(each, now_ms) for each in self._types.values()]
        known = await self._add(told, ends=() if self._is_live else _LIVE, prepaid=prepaid)
        if self._is_live:
            self._take_up(known)
        return tuple(self._types.values())

    def _take_up(self, known: Sequence[PriceRow]) -> None:
        """Go on with the latest prices that the driver has told an earlier process."""
        heard = [r.valid_from_ms / 1000 for r in known if r.price.source is PriceSource.HISTORY]
        self._since = max([*heard, self._now() - CATCH_UP_S]) if heard else self._now()
        for row in known:
            if row.price.source is PriceSource.HISTORY:
                self._in_zones[row.type_name, row.zone] = usd_per_hour(row.price.nusd_per_hour)
            is_live = row.price.source is PriceSource.DRIVER and bool(row.price.nusd_per_hour)
            if is_live and row.type_name in self._types:
                self._reprice(row.type_name, usd_per_hour(row.price.nusd_per_hour))
                self.told_at[row.type_name] = row.valid_from_ms / 1000

    async def follow(self, market: LiveMarket) -> None:
        """Ask for prices until cancelled; what fails is tried again.

        What an earlier process was told of zones counts meanwhile.
        """
        if self._in_zones:
            market.tell(PricesChanged(usd_per_hour={}, in_zones=dict(self._in_zones)))
        while True:
            await self.look(market)
            await asyncio.sleep(ASK_EACH_S)

    async def look(self, market: LiveMarket, *, patience_s: float = ASK_EACH_S) -> None:
        """Ask once and take in what is told; a question that is not answered yet stays asked."""
        asked_at = self._now()
        if self._asked is None:
            types = tuple(self._types.values())
            question = PriceQuestion(types=types, zones=market.zones(), since=self._since)
            self._asked = asyncio.wrap_future(market.ask(question))
        answered, _ = await asyncio.wait({self._asked}, timeout=patience_s)
        if not answered:
            self._fail("the driver does not answer")
            return
        asked, self._asked = self._asked, None
        try:
            told = asked.result()
        except CloudError as error:
            self._fail(str(error))
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything; it is told
            self._fail(f"{type(error).__name__}: {error}")
        else:
            await self._take_in(told, asked_at, market.tell)

    async def _take_in(
        self, told: PricesTold, asked_at: float, tell: Callable[[PricesChanged], None]
    ) -> None:
        now_ms = ms_of(self._now())
        whole = {n: self._terms[n].whole(price) for n, price in told.usd_per_hour.items()}
        rows = [
            replace(_row(self._types[name], price, now_ms), price=_at(price, PriceSource.DRIVER))
            for name, price in whole.items()
        ]
        history = self._history(told.in_zones, now_ms)
        rows += history
        try:
            await self._add(rows)
        except (StoreBusy, StoreClosed) as error:
            self._fail(str(error))
            return
        self._since, self._failure = asked_at, ""
        for name in whole:
            self.told_at[name] = asked_at
        changed = {n: p for n, p in whole.items() if self._types[n].price_usd_per_hour != p}
        for name, price in changed.items():
            self._reprice(name, price)
        latest = {
            (row.type_name, row.zone): usd_per_hour(row.price.nusd_per_hour)
            for row in sorted(history, key=lambda row: row.valid_from_ms)
        }
        moved = {key: price for key, price in latest.items() if self._in_zones.get(key) != price}
        self._in_zones |= moved
        if changed or moved:
            tell(PricesChanged(usd_per_hour=changed, in_zones=moved))

    def _history(self, in_zones: Sequence[ZonePrice], now_ms: int) -> list[PriceRow]:
        """Return what prices in zones were since the last answer; of what held then, the latest."""
        since_ms = ms_of(self._since)
        found: dict[tuple[str, str, int], PriceRow] = {}
        for each in sorted(in_zones, key=lambda told: told.valid_from):
            at_ms = min(now_ms, max(since_ms, ms_of(each.valid_from)))
            price = self._terms[each.type_name].whole(each.usd_per_hour)
            found[each.type_name, each.zone, at_ms] = PriceRow(
                type_name=each.type_name,
                zone=each.zone,
                valid_from_ms=at_ms,
                price=_at(price, PriceSource.HISTORY),
            )
        return list(found.values())

    def in_force(self) -> PricesInForce:
        """Return the prices of now, which the ledger reckons with; its book lacks earlier ones."""
        now_ms = ms_of(self._now())
        return PricesInForce(book=self._book, at_ms=now_ms, told_at=dict(self.told_at))

    def problem(self) -> str:
        """Return that live prices are old and why, "" while they are not."""
        newest = max(self.told_at.values(), default=self._began_at)
        age_s = self._now() - newest
        if not self._is_live or not self._failure or age_s < OLD_S:
            return ""
        return (
            f"prices are {age_s / 3600:.0f} h old: {self._failure}; they go on to count, so see to"
            " it, or say cost.prices: configured"
        )

    def _fail(self, why: str) -> None:
        if why != self._failure:
            log.warning("prices cannot be had; the latest ones count", error=why)
        self._failure = why

    def _reprice(self, name: str, price_usd_per_hour: Decimal) -> None:
        self._types[name] = replace(self._types[name], price_usd_per_hour=price_usd_per_hour)

    async def _add(
        self,
        told: Sequence[PriceRow],
        *,
        ends: Collection[PriceSource] = (),
        prepaid: Sequence[PrepaidRow] | None = None,
    ) -> list[PriceRow]:
        """Add what differs from what is known, and return the latter, as far as it is prices.

        `prepaid` is what is prepaid of each type from now on, None where that is as it was.
        """
        now_ms, added = ms_of(self._now()), list[PrepaidRow]()
        known = await asyncio.to_thread(self._store.ledger.prices, now_ms)
        rows = changed_rows(known, told, ends=ends)
        if prepaid is not None:
            before = await asyncio.to_thread(self._store.ledger.prepaid, now_ms)
            added = changed_places(before, prepaid, at_ms=now_ms)
        if rows or added:
            change = AddPrices(rows=tuple(rows), prepaid=tuple(added))
            await asyncio.wrap_future(self._store.write([change]))
        self._book = PriceBook([*known, *rows])
        return known


def _row(type_: InstanceType, price_usd_per_hour: Decimal, at_ms: int) -> PriceRow:
    price = _at(price_usd_per_hour, PriceSource.CONFIG)
    return PriceRow(type_name=type_.name, zone="", valid_from_ms=at_ms, price=price)


def _prepaid_row(type_: InstanceType, at_ms: int) -> PrepaidRow:
    return PrepaidRow(
        type_name=type_.name,
        provider_type=type_.provider_type,
        valid_from_ms=at_ms,
        number=type_.prepaid,
    )


def _at(price_usd_per_hour: Decimal, source: PriceSource) -> UnitPrice:
    return UnitPrice(nusd_per_hour=nusd_of(price_usd_per_hour), source=source)
