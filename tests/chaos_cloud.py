"""A simulated cloud on its worst day; name it in a configuration as `tests.chaos_cloud:DRIVER`.

Of every seven instances one ends before long, one cannot run the runner, and one says of itself
before long that it is broken. Those of the type t4 never boot that are created soon after the
cloud.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import msgspec

from longshore.drivers.interface import InstanceType
from longshore.drivers.registry import DriverContext, DriverInfo
from longshore.drivers.simulated.cloud import SimulatedCloud
from longshore.drivers.simulated.driver import BillingInstanceSet
from longshore.drivers.simulated.model import Fate
from longshore.drivers.simulated.parameters import SimulatedParameters

DEAD_AT_FIRST = "t4"


class ChaosParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`cloud` is how it behaves otherwise; the rest are durations in seconds.

    What ends does so within `life_s`, what breaks within `sound_s`; t4 is dead for `dead_s`.
    """

    cloud: SimulatedParameters
    life_s: float
    sound_s: float
    dead_s: float


def _make(parameters: ChaosParameters, context: DriverContext) -> BillingInstanceSet:
    began = context.clock()

    def destiny(number: int, type_: InstanceType, now: float, fate: Fate) -> Fate:
        dice = random.Random(f"{parameters.cloud.seed}:chaos:{number}")
        if type_.name == DEAD_AT_FIRST and now < began + parameters.dead_s:
            fate = replace(fate, boots_after_s=None)
        match number % 7:  # what becomes of it, but for most, to whom nothing happens
            case 0:
                return replace(fate, ends_after_s=dice.random() * parameters.life_s)
            case 1:
                return replace(fate, has_runner=False)
            case 2:
                after_s = dice.random() * parameters.sound_s
                return replace(fate, breaks=True, breaks_after_s=after_s)
            case _:
                return fate

    cloud = SimulatedCloud(
        parameters.cloud,
        state_dir=Path(context.state_dir),
        clock=context.clock,
        destiny=destiny,
    )
    return BillingInstanceSet(cloud)


DRIVER = DriverInfo(
    name="chaos",
    summary="the simulated cloud on its worst day, for tests",
    parameters=ChaosParameters,
    make=_make,
)
