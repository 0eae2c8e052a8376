"""Runs in which little goes wrong but what jobs with placers of their own meet seldom elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from dispatcher.model import SchedulerSettings
from drivers.simulated.parameters import SimulatedFaults, SimulatedParameters
from tests.sim.faults import Demand, DispatcherFaults, HostFaults
from tests.sim.timeline import Dice

if TYPE_CHECKING:
    from tests.sim.options import SimOptions

QUIET = 0.06
"""The share of such runs."""


def in_quiet(options: SimOptions, demand: Demand, scheduler: SchedulerSettings) -> SimOptions:
    """Return a run in which users ask that; now and then, one in which little else happens."""
    dice = Dice(options.seed, "few faults")
    if not dice.falls(QUIET):
        return replace(options, demand=demand, scheduler=scheduler)
    calm = replace(
        options,
        safety_s=600.0,
        hosts=HostFaults(),
        dispatcher=DispatcherFaults(),
        cloud=SimulatedParameters(seed=options.cloud.seed, boot_time_s=5.0),
        pool=msgspec.structs.replace(options.pool, idle_timeout_s=60.0),
        limits_change_every_s=0.0,
        hanging_calls=0.0,
        left_over=0,
    )
    return with_residents(calm) if dice.falls(0.5) else with_members(calm)


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
