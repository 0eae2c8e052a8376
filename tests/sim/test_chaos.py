"""The chaos scenario of the design's semantics (the last row of the scheduler's table), virtual.

200 containers of mixed sizes and priorities; creates and destroys fail one time in ten; t6 is never
to be had, t4 is dead at first; of every seven instances one dies, one cannot run ours and one
breaks; elsewhere one supervisor in ten crashes, and one exit in ten is known late, as with a lock
that is left behind. All times are the scenario's own, in milliseconds.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from longshore.dispatcher.domain.containers import Constraints, Container, SchedulerSettings
from longshore.drivers.errors import ErrorScope
from longshore.drivers.interface import InstanceType, Resources
from longshore.drivers.simulated.model import Fate
from longshore.drivers.simulated.parameters import SimulatedFaults, SimulatedParameters
from longshore.pool.model import PoolSettings
from tests.samples import GIB, make_container, make_type
from tests.sim.faults import Demand, DispatcherFaults, HostFaults
from tests.sim.options import SimOptions
from tests.sim.timeline import Dice
from tests.sim.world import World
from tests.sizes import sized

SEEDS = int(os.environ.get("LONGSHORE_CHAOS_SEEDS", sized(4, 20)))
"""`make sim` sets it to 1,000."""
CHUNK = 10
CONTAINERS = 200
DEAD_T4_S = 0.3
PROGRESS_S = 5.0
TYPES = tuple(make_type(cpus) for cpus in (1, 2, 3, 4, 6, 8, 16))


def options_of(seed: int) -> SimOptions:
    return SimOptions(
        seed=seed,
        safety_s=0.2,
        demand=Demand(containers=CONTAINERS, longest_list=1, longest_run_s=0.1, failing=0.0),
        hosts=HostFaults(lost_supervisors=0.1, late_exits=0.1),
        dispatcher=DispatcherFaults(),
        cloud=SimulatedParameters(
            boot_time_s=0.01,
            boot_jitter_s=0.05,
            destroy_delay_s=0.005,
            quota=10,
            faults=SimulatedFaults(create_errors=0.1, destroy_errors=0.1),
        ),
        pool=PoolSettings(
            idle_timeout_s=0.15,
            boot_timeout_s=0.15,
            probe_interval_s=0.015,
            shutdown_timeout_s=0.005,
            term_timeout_s=0.02,
            signal_interval_s=0.005,
            probe_timeout_s=0.15,
            gone_after_s=0.15,
            max_cloud_ops_per_second=1000.0,
            max_probes_per_second=1000.0,
        ),
        scheduler=SchedulerSettings(max_price_factor=1.5, max_lost_attempts=100),
        pace=0.01,
    )


def container(number: int, _dice: Dice) -> Container:
    index = number - 1
    made = make_container(number, priority=index % 20 + 1, constraints=Constraints())
    resources = Resources(cpu_millis=1000 * (index % 8 + 1), memory_bytes=GIB * (index % 3 + 1))
    return replace(made, spec=replace(made.spec, resources=resources))


def destiny(number: int, type_: InstanceType, now: float, fate: Fate) -> Fate:
    """One in seven dies later, one has no runner, one breaks; a t4 is dead in the beginning."""
    if type_.name == "t4" and now < DEAD_T4_S:
        return replace(fate, boots_after_s=None)
    if number % 7 == 1:
        return replace(fate, ends_after_s=0.5)
    if number % 7 == 2:
        return replace(fate, has_runner=False)
    if number % 7 == 3:
        return replace(fate, breaks=True, breaks_after_s=0.4)
    return fate


class Chaos(World):
    """The scenario's world; what the engine checks of itself would take a third of the time."""

    check_every = 20

    def __init__(self, seed: int) -> None:
        super().__init__(options_of(seed), types=TYPES, destiny=destiny, make=container)
        self.cloud.limits.shortages = {"p6": ErrorScope.TYPE}

    def _calm_down(self) -> None:
        """Chaos goes on to the end."""


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_chaos_ends_well(first: int) -> None:
    for seed in range(first, min(first + CHUNK, SEEDS)):
        world = Chaos(seed)
        world.run()
        assert world.truth.longest_still_s <= PROGRESS_S, (
            f"seed {seed}: {world.truth.longest_still_s}"
        )
        states = {c.state.value for c in world.store.containers.values()}
        assert states == {"succeeded"}, f"seed {seed}: {states}"
        assert len(world.store.containers) == world.users.submitted
