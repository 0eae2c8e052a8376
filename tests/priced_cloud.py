"""The simulated cloud with prices that a test sets while a server runs.

Name it in a configuration as `tests.priced_cloud:DRIVER`. Prices are asked for every half second in
place of every ten minutes, or a test would take as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import msgspec

from longshore.dispatcher.service import prices as asking
from longshore.drivers.errors import CloudError
from longshore.drivers.interface import InstanceType, ZonePrice
from longshore.drivers.registry import Capability, DriverContext, DriverInfo
from longshore.drivers.simulated.cloud import SimulatedCloud
from longshore.drivers.simulated.driver import DRIVER as SIMULATED
from longshore.drivers.simulated.driver import BillingInstanceSet
from longshore.drivers.simulated.parameters import SimulatedParameters

ASK_EACH_S = 0.5


class PricedParameters(SimulatedParameters, frozen=True, kw_only=True):
    """`market` is a file with what types cost, and in which zones since when; none: it fails."""

    market: str


class Market(msgspec.Struct, frozen=True, kw_only=True):
    """What types cost now in USD, and (type, zone, since when, price) of zones."""

    prices: dict[str, str]
    in_zones: list[tuple[str, str, float, str]] = []

    def write(self, path: Path) -> None:
        """Have it hold from now on."""
        staged = path.with_suffix(".part")
        staged.write_bytes(msgspec.json.encode(self))
        staged.rename(path)


class PricedInstanceSet(BillingInstanceSet):
    """Tells what the file says."""

    def __init__(self, cloud: SimulatedCloud, market: Path) -> None:
        super().__init__(cloud)
        self._market = market

    def prices(self, instance_types: Sequence[InstanceType]) -> Mapping[str, Decimal]:
        """Return what an hour of each type costs now in USD."""
        told = self._told().prices
        return {e.name: Decimal(told[e.name]) for e in instance_types if e.name in told}

    def zone_prices(
        self, instance_types: Sequence[InstanceType], zones: Sequence[str], since: float
    ) -> Sequence[ZonePrice]:
        """Return what held at a time in zones, and what has changed since."""
        names = {each.name for each in instance_types}
        asked = [e for e in self._told().in_zones if e[0] in names and e[1] in zones]
        told = sorted(asked, key=lambda each: each[2])
        held = {each[:2]: each for each in told if each[2] <= since}
        return [
            ZonePrice(type_name=name, zone=zone, valid_from=at, usd_per_hour=Decimal(price))
            for name, zone, at, price in (*held.values(), *(e for e in told if e[2] > since))
        ]

    def _told(self) -> Market:
        try:
            return msgspec.json.decode(self._market.read_bytes(), type=Market)
        except FileNotFoundError as error:
            raise CloudError("the market is closed") from error


def _make(parameters: PricedParameters, context: DriverContext) -> PricedInstanceSet:
    asking.ASK_EACH_S = ASK_EACH_S
    cloud = SimulatedCloud(parameters, state_dir=context.state_dir, clock=context.clock)
    return PricedInstanceSet(cloud, Path(parameters.market))


DRIVER = DriverInfo(
    name="priced",
    summary="the simulated cloud with prices that a test sets",
    parameters=PricedParameters,
    make=_make,
    capabilities=SIMULATED.capabilities | {Capability.PRICES},
)
