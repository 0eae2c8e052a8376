"""Runs in which little goes wrong but what jobs that never queue seldom meet elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from longshore.dispatcher.domain.containers import ElasticSettings, Placement, SchedulerSettings
from longshore.drivers.simulated.parameters import SimulatedFaults, SimulatedParameters
from tests.sim.faults import Demand, DispatcherFaults, HostFaults
from tests.sim.timeline import Dice

if TYPE_CHECKING:
    from tests.sim.options import SimOptions

QUIET = 0.06
"""The share of such runs."""

CROWDED = 0.05
"""The share of runs, among the others, in which many of them want the same few instances."""

FREQUENT = 0.03
"""The share of runs, among those left, in each of which one thing is frequent that is seldom."""

FORBIDDEN = 0.05
"""The share of runs, among those left, in which the account may have none of some types."""

SUPERVISED = 0.04
"""The share of runs, among those left, in which supervisors meet a quota of the cloud's."""

QUEUED = 0.02
"""The share of runs, among those left, in which batch work waits for quotas of some types."""

SIZED = 0.02
"""The share of runs, among those left, in which work of many sizes shares few instances."""


def in_quiet(options: SimOptions, demand: Demand, scheduler: SchedulerSettings) -> SimOptions:
    """Return a run in which users ask that; now and then, one in which little else happens."""
    dice = Dice(options.seed, "few faults")
    if dice.falls(QUIET):
        calm = _calm(options)
        return with_residents(calm) if dice.falls(0.5) else with_members(calm)
    crowd = Dice(options.seed, "crowded instances")
    if crowd.falls(CROWDED):
        calm = _calm(options)
        return with_many_residents(calm) if crowd.falls(0.5) else with_many_members(calm)
    often = Dice(options.seed, "frequent things")
    # Runs in which most have a time limit are few: they stay as they are.
    if often.falls(FREQUENT) and demand.limited < 0.5:
        kinds = (with_shared_cpu, with_givers, with_shoppers)
        return kinds[often.whole(0, len(kinds) - 1)](_calm(options))
    at_quotas = _at_quotas(options.seed) if demand.limited < 0.5 else None
    if at_quotas is not None:
        return at_quotas(_calm(options))
    if Dice(options.seed, "many sizes").falls(SIZED) and demand.limited < 0.5:
        return with_sizes(_calm(options))
    return replace(options, demand=demand, scheduler=scheduler)


def _at_quotas(seed: int) -> Callable[[SimOptions], SimOptions] | None:
    """Return how to make a run of quotas, where it is to be one, else None."""
    if Dice(seed, "quotas of groups").falls(QUEUED):
        return with_queues
    if Dice(seed, "none allowed").falls(FORBIDDEN):
        return with_forbidden
    return with_supervisors if Dice(seed, "many supervisors").falls(SUPERVISED) else None


def _calm(options: SimOptions) -> SimOptions:
    return replace(
        options,
        safety_s=600.0,
        hosts=HostFaults(),
        dispatcher=DispatcherFaults(),
        cloud=SimulatedParameters(seed=options.cloud.seed, boot_time_s=5.0),
        pool=msgspec.structs.replace(options.pool, idle_timeout_s=60.0),
        limits_change_every_s=0.0,
        hanging_calls=0.0,
        left_over=0,
        old_flickers_every_s=0.0,
    )


def with_residents(calm: SimOptions) -> SimOptions:
    """Return a run with jobs on every instance, on a few that are full and often held."""
    demand = Demand(
        containers=60,
        longest_run_s=60.0,
        behaviors_every_s=15.0,
        per_instance=9,
        once=0.2,
        restless=0.5,
        per_instance_requests_every_s=5.0,
    )
    scheduler = SchedulerSettings(max_instances=3, preempt_system=True, preempt_sysbatch=True)
    return replace(calm, demand=demand, scheduler=scheduler)


def with_members(calm: SimOptions) -> SimOptions:
    """Return a run with elastic jobs whose members fail, on instances that are taken back."""
    demand = Demand(containers=4, elastic=6, scaling=1.0, faulty=0.6)
    faults = SimulatedFaults(reclaims=0.9, reclaim_notice_s=10.0, longest_life_s=90.0)
    cloud = msgspec.structs.replace(calm.cloud, faults=faults)
    scheduler = SchedulerSettings(max_instances=6, max_lost_attempts=1)
    hosts = HostFaults(lost_limits=0.2)
    return replace(calm, demand=demand, scheduler=scheduler, cloud=cloud, hosts=hosts)


def with_many_residents(calm: SimOptions) -> SimOptions:
    """Return a run with more jobs on every instance than there is room for, and who ends slowly."""
    demand = Demand(
        containers=20,
        longest_run_s=60.0,
        priorities_every_s=4.0,
        behaviors_every_s=15.0,
        lenient=0.5,
        per_instance=10,
        once=0.4,
        restless=0.5,
        per_instance_requests_every_s=3.0,
    )
    scheduler = SchedulerSettings(max_instances=3, preempt_system=True, preempt_sysbatch=True)
    hosts = HostFaults(deaf=0.5, slow_deaths=0.8, drops_every_s=40.0, lost_supervisors=0.1)
    pool = msgspec.structs.replace(calm.pool, term_timeout_s=6.0)
    calm = replace(calm, safety_s=300.0, pool=pool)
    return replace(calm, demand=demand, scheduler=scheduler, hosts=hosts)


def with_many_members(calm: SimOptions) -> SimOptions:
    """Return a run with more elastic jobs than may run at once, whose members end slowly."""
    demand = Demand(
        containers=4,
        lenient=0.5,
        elastic=6,
        scaling=1.0,
        faulty=0.3,
        elastic_requests_every_s=8.0,
    )
    scheduler = SchedulerSettings(max_instances=6, max_containers=5, max_lost_attempts=1)
    hosts = HostFaults(deaf=0.3, slow_deaths=0.5, drops_every_s=60.0, lost_limits=0.3)
    return replace(calm, safety_s=400.0, demand=demand, scheduler=scheduler, hosts=hosts)


def with_shared_cpu(calm: SimOptions) -> SimOptions:
    """Return a run with two jobs on every instance that share a cpu, and end again and again."""
    demand = Demand(
        containers=40,
        longest_run_s=90.0,
        per_instance=2,
        once=0.1,
        sharing=1.0,
        restless=1.0,
        restless_run_s=8.0,
        failing=0.5,
        per_instance_requests_every_s=10.0,
    )
    scheduler = SchedulerSettings(max_instances=4, preempt_system=True, preempt_sysbatch=True)
    hosts = HostFaults(drops_every_s=40.0)
    return replace(calm, safety_s=300.0, demand=demand, scheduler=scheduler, hosts=hosts)


def with_givers(calm: SimOptions) -> SimOptions:
    """Return a run with many elastic jobs that give back, on a few instances."""
    demand = Demand(
        containers=0, elastic=14, scaling=0.4, faulty=0.1, elastic_requests_every_s=20.0
    )
    scheduler = SchedulerSettings(max_instances=4)
    hosts = HostFaults(deaf=0.3, slow_deaths=0.5, lost_limits=0.1)
    return replace(calm, safety_s=400.0, demand=demand, scheduler=scheduler, hosts=hosts)


def with_shoppers(calm: SimOptions) -> SimOptions:
    """Return a run in which instances of both markets are bought for several elastic jobs at once.

    These have come while nobody knew which instances there are, after a crash.
    """
    demand = Demand(
        containers=2,
        longest_run_s=30.0,
        elastic=10,
        lasting=0.5,
        elastic_requests_every_s=15.0,
        behaviors_every_s=12.0,
    )
    scheduler = SchedulerSettings(
        max_instances=8, max_price_factor=1000.0, elastic=ElasticSettings(backfill=True)
    )
    faults = SimulatedFaults(
        vanishing=0.8, longest_life_s=60.0, listing_lag_s=10.0, listing_errors=0.9
    )
    return replace(
        calm,
        safety_s=400.0,
        demand=demand,
        scheduler=scheduler,
        cloud=msgspec.structs.replace(
            calm.cloud, faults=faults, boot_time_s=10.0, create_delay_s=5.0
        ),
        pool=msgspec.structs.replace(
            calm.pool, max_concurrent_creates=8, max_cloud_ops_per_second=20.0
        ),
        hosts=HostFaults(deaf=0.3, slow_deaths=0.5),
        dispatcher=DispatcherFaults(crashes_every_s=20.0, longest_down_s=3.0),
    )


def with_queues(calm: SimOptions) -> SimOptions:
    """Return a run in which batch work of changing priority waits for the quotas of two groups."""
    demand = Demand(
        containers=24,
        longest_run_s=40.0,
        priorities_every_s=4.0,
        behaviors_every_s=20.0,
        kills_every_s=60.0,
    )
    cloud = msgspec.structs.replace(
        calm.cloud,
        quota_groups={"p1": "small", "p2": "small", "p2s": "small", "p4": "big"},
        group_quotas={"small": 2, "small/spot": 1, "big": 1},
    )
    scheduler = SchedulerSettings(max_instances=8, max_price_factor=3.0)
    pool = msgspec.structs.replace(calm.pool, quota_hold_s=30.0)
    calm = replace(calm, safety_s=200.0, cloud=cloud, pool=pool)
    return replace(calm, demand=demand, scheduler=scheduler)


def with_forbidden(calm: SimOptions) -> SimOptions:
    """Return a run in which the account may have none of the large instances, for a time or long.

    Small ones are few, and who wants a large one is often first in line.
    """
    dice = Dice(calm.seed, "what is forbidden")
    demand = Demand(containers=40, longest_run_s=40.0, priorities_every_s=10.0)
    group = "big" if dice.falls(0.6) else "all"
    groups = dict.fromkeys(("p1", "p2", "p4"), group) if group == "all" else {"p4": group}
    cloud = msgspec.structs.replace(
        calm.cloud,
        quota=3 if dice.falls(0.4) else 0,
        quota_groups=groups,
        create_delay_s=3.0 if dice.falls(0.5) else 0.0,
    )
    return replace(
        calm,
        safety_s=400.0,
        demand=demand,
        cloud=cloud,
        pool=msgspec.structs.replace(calm.pool, quota_hold_s=20.0, idle_timeout_s=10.0),
        scheduler=SchedulerSettings(
            max_instances=dice.whole(1, 6), max_price_factor=1.5 if dice.falls(0.5) else 10.0
        ),
        forbidden=(group,),
        forbidden_from_s=dice.between(30, 90) if dice.falls(0.5) else 0.0,
        allowed_after_s=dice.between(100, 300) if dice.falls(0.5) else calm.safety_s,
    )


def with_supervisors(calm: SimOptions) -> SimOptions:
    """Return a run in which many are supervisors, at a quota that nobody was told of."""
    dice = Dice(calm.seed, "supervisors at a quota")
    placement = Placement.EXCLUSIVE if dice.falls(0.6) else Placement.PACKED
    return replace(
        calm,
        safety_s=300.0,
        demand=Demand(containers=40, longest_run_s=60.0, supervising=0.6),
        cloud=msgspec.structs.replace(calm.cloud, quota=dice.whole(2, 4), create_delay_s=1.0),
        pool=msgspec.structs.replace(calm.pool, quota_hold_s=20.0, idle_timeout_s=20.0),
        scheduler=SchedulerSettings(
            max_instances=8, placement=placement, supervisor_fraction=dice.between(0.1, 0.7)
        ),
    )


def with_sizes(calm: SimOptions) -> SimOptions:
    """Return a run in which short work of many sizes, each for one type, shares few instances."""
    demand = Demand(containers=45, longest_list=1, longest_run_s=30.0, failing=0.0)
    cloud = msgspec.structs.replace(calm.cloud, boot_time_s=15.0, destroy_delay_s=5.0)
    scheduler = SchedulerSettings(max_instances=4, max_price_factor=1.0)
    calm = replace(calm, safety_s=450.0, cloud=cloud)
    return replace(calm, demand=demand, scheduler=scheduler)
