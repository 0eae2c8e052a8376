"""How many instances boot and never run anything, where mixed priorities share a few instances.

Containers come at random within 20 minutes, each of some priority and of the size of one type, and
run for up to a minute: what one has needed is of use to few others. Nothing goes wrong. The seed
fixes all of it, so that two versions of the code can be compared, container by container.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from longshore.dispatcher.domain.containers import Container, SchedulerSettings
from longshore.dispatcher.domain.messages import Confirm
from longshore.drivers.simulated.parameters import SimulatedParameters
from longshore.pool.messages import PoolCommand, StartAttempt
from longshore.pool.model import PoolSettings
from tests.samples import make_container, make_type
from tests.sim.faults import Demand, DispatcherFaults, HostFaults
from tests.sim.options import SimOptions
from tests.sim.process import DispatcherProcess
from tests.sim.timeline import Dice
from tests.sim.world import World

SIZES = (1, 2, 4, 8, 16)
CONTAINERS = 120
MOST_INSTANCES = 4
COMING_S = 1200.0
LONGEST_RUN_S = 60.0
BOOT_S, LONGEST_BOOT_S = 30.0, 40.0
MOST_UNUSED = 0.05
"""What share of the instances may boot and never run anything, as a median over seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one seed came to; times are virtual seconds, `started_at` by the container's id.

    `booted` are all instances, of which `unused` never ran anything; `starts` are those of all
    containers.
    """

    seed: int
    booted: int
    unused: int
    starts: int
    took_s: float
    started_at: Mapping[str, float] = field(repr=False)
    priorities: Mapping[str, int] = field(repr=False)

    @property
    def share(self) -> float:
        """Return which share of the instances never ran anything."""
        return self.unused / self.booted


def measure(seed: int) -> Usage:
    """Run one seed to its end; raises `Violation` where a promise of the simulation is broken."""
    world = _Watched(options_with_sizes(seed))
    took_s = world.run().virtual_s
    return Usage(
        seed=seed,
        booted=len(world.hosts),
        unused=len(world.hosts.keys() - world.used),
        starts=world.starts,
        took_s=took_s,
        started_at=world.started_at,
        priorities={each.id: each.priority for each in world.store.containers.values()},
    )


def later_s(before: Mapping[str, float], now: Usage, least_priority: int) -> float:
    """Return by how much the containers of a priority and above start later than they did before.

    The first of them is compared with the first, whichever that was, the second with the second,
    and so on; the greatest delay is returned.
    """
    ids = [each for each, priority in now.priorities.items() if priority >= least_priority]
    old, new = (sorted(times[each] for each in ids) for times in (before, now.started_at))
    return max((late - early for early, late in zip(old, new, strict=True)), default=0.0)


def options_with_sizes(seed: int) -> SimOptions:
    """Return the run of a seed."""
    return SimOptions(
        seed=seed,
        # Users submit in the first nine tenths.
        safety_s=COMING_S / 0.9,
        demand=Demand(
            containers=CONTAINERS, longest_list=1, longest_run_s=LONGEST_RUN_S, failing=0.0
        ),
        hosts=HostFaults(),
        dispatcher=DispatcherFaults(),
        cloud=SimulatedParameters(
            seed=seed,
            boot_time_s=BOOT_S,
            boot_jitter_s=LONGEST_BOOT_S - BOOT_S,
            create_delay_s=2.0,
            destroy_delay_s=5.0,
        ),
        pool=PoolSettings(),
        scheduler=SchedulerSettings(max_instances=MOST_INSTANCES),
        restarts_in_calm=False,
    )


def _any_size(number: int, dice: Dice) -> Container:
    cpus = SIZES[dice.whole(0, len(SIZES) - 1)]
    return make_container(number, cpus=cpus, priority=dice.whole(1, 1000))


class _Watched(World):
    """A world that notes what starts where, and when."""

    def __init__(self, options: SimOptions) -> None:
        super().__init__(options, types=tuple(map(make_type, SIZES)), make=_any_size)
        self.used: set[str] = set()
        self.starts = 0
        self.started_at: dict[str, float] = {}

    def begun(self, process: DispatcherProcess, command: PoolCommand | Confirm) -> None:
        super().begun(process, command)
        if isinstance(command, StartAttempt):
            self.used.add(command.worker_id)
            self.starts += 1
            self.started_at.setdefault(command.order.container_id, self.timeline.now)
