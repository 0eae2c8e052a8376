"""What happens to instances when the dispatcher dies for good: their leases end them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.sim.faults import HostFaults
from tests.sim.options import SimOptions, options_of, without
from tests.sim.truth import TAG
from tests.sim.world import World
from tests.sizes import sized

LEFT_BEHIND = (25, 31)
SEEDS = (*LEFT_BEHIND, *(seed for seed in range(40) if seed not in LEFT_BEHIND))[: sized(12, 40)]
"""Those first in which daemons are left behind."""
LONGEST_FREEZE_S = 1000.0


def options_left_alone(seed: int) -> SimOptions:
    """Return a run in which leases are in force; a reboot or a dead host ends one.

    What never ends keeps its instance for good, as it must, but for daemons, which belong to it.
    """
    options = replace(options_of(seed), powers_off=True, foreign=0)
    return without(options, ["immortal", "reboots_every_s", "strays_every_s", "deaths_every_s"])


@pytest.mark.parametrize("seed", SEEDS)
def test_no_instance_outlives_a_dispatcher_that_is_gone(seed: int) -> None:
    options = options_left_alone(seed)
    world = World(options)
    world.begin(options.safety_s)
    world.timeline.run(options.safety_s, lambda: False)
    world.abandon()
    for host in world.hosts.values():
        host.faults = HostFaults()
    lease_s = options.pool.orphan_timeout_s
    patience_s = 3 * lease_s + options.demand.longest_run_s + LONGEST_FREEZE_S
    world.timeline.run(options.safety_s + patience_s, lambda: False)
    left = [
        machine.id
        for machine in world.cloud.machines.values()
        if not machine.ended
        and machine.booted
        and not (machine.tags.get(TAG) == "hold" or world.hosts[machine.id].lease.suspended)
    ]
    assert left == []
    still = {
        attempt_id
        for attempt_id, host in world.truth.live.items()
        if not (host.lease.suspended and host.processes[attempt_id].order.resident)
    }
    assert still == set(), "what ran was let run to its end, but for daemons on what is held"


def test_daemons_are_left_behind_in_some_of_these_runs() -> None:
    """Else the runs above would not show that what never ends keeps no instance."""
    assert any(map(leaves_daemons, SEEDS))


def leaves_daemons(seed: int) -> bool:
    """Return whether daemons run in the end."""
    options = options_left_alone(seed)
    world = World(options)
    world.begin(options.safety_s)
    world.timeline.run(options.safety_s, lambda: False)
    live = world.truth.live.items()
    return any(host.processes[attempt_id].order.resident for attempt_id, host in live)


def test_a_held_instance_is_left_alone() -> None:
    held = 0
    for seed in SEEDS:
        options = options_left_alone(seed)
        world = World(options)
        world.begin(options.safety_s)
        world.timeline.run(options.safety_s, lambda: False)
        world.abandon()
        suspended = {host.machine.id for host in world.hosts.values() if host.lease.suspended}
        world.truth.powered_off.clear()
        world.timeline.run(options.safety_s + 3 * options.pool.orphan_timeout_s, lambda: False)
        assert not suspended & world.truth.powered_off
        held += len(suspended)
    assert held > 0, "no seed left a held instance behind"
