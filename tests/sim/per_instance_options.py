"""In which runs there are system and sysbatch jobs, by dice of their own."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from longshore.dispatcher.domain.containers import SchedulerSettings
from tests.sim.faults import Demand
from tests.sim.timeline import Dice

WITH_PER_INSTANCE_JOBS = 0.25
"""The share of runs in which users submit jobs that run on every instance."""

REFUSED = 0.3
"""The share of these in which instances refuse some of the jobs, for a fault of the request."""


def with_per_instance_jobs(
    demand: Demand, scheduler: SchedulerSettings, seed: int
) -> tuple[Demand, SchedulerSettings]:
    """Return what users ask, in some runs with such jobs, and whom these may evict."""
    dice = Dice(seed, "per-instance options")
    if not dice.falls(WITH_PER_INSTANCE_JOBS):
        return demand, scheduler
    steered_s = dice.between(8, 60)
    amiss = Dice(seed, "refused jobs")
    demand = replace(
        demand,
        per_instance=dice.whole(1, 3),
        once=dice.between(0, 1),
        picky=dice.between(0, 0.6) if dice.falls(0.5) else 0.0,
        restless=dice.between(0, 0.8) if dice.falls(0.6) else 0.0,
        refused_jobs=amiss.between(0.4, 1) if amiss.falls(REFUSED) else 0.0,
        per_instance_requests_every_s=steered_s if dice.falls(0.8) else 0.0,
    )
    allowed = {"preempt_system": dice.falls(0.8), "preempt_sysbatch": dice.falls(0.5)}
    return demand, msgspec.structs.replace(scheduler, **allowed)
