"""What a driver tells of prices, as one value that nothing in a plug-in can spoil.

Stands alone: it is called on a thread for driver calls, and knows neither ledger nor engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from longshore.drivers.errors import CloudError
from longshore.drivers.interface import InstanceSet, InstanceType, Prices, ZonePrice, ZonePrices


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceQuestion:
    """What is to be told: the prices of types now, and of zones since a time.

    `since` is in seconds since the epoch; without `zones` only the former.
    """

    types: tuple[InstanceType, ...]
    zones: tuple[str, ...]
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PricesTold:
    """What an hour costs in USD: now, by type, and in zones, as far as it is told."""

    usd_per_hour: Mapping[str, Decimal]
    in_zones: tuple[ZonePrice, ...]


def prices_told(driver: InstanceSet, question: PriceQuestion) -> PricesTold:
    """Ask a driver for prices; blocks. What is no price, or was not asked for, is left out.

    Raises `CloudError`, and whatever a plug-in raises.
    """
    if not isinstance(driver, Prices):
        raise CloudError("the driver tells no prices: say cost.prices: configured")
    names = {each.name for each in question.types}
    told = driver.prices(question.types)
    in_zones: Sequence[ZonePrice] = ()
    if question.zones and isinstance(driver, ZonePrices):
        in_zones = driver.zone_prices(question.types, question.zones, question.since)
    return PricesTold(
        usd_per_hour={n: p for n, p in sorted(told.items()) if n in names and _is_price(p)},
        in_zones=tuple(
            each
            for each in in_zones
            if each.type_name in names
            and each.zone in question.zones
            and _is_price(each.usd_per_hour)
        ),
    )


def _is_price(price: Decimal) -> bool:
    return price.is_finite() and price > 0
