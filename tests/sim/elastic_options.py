"""In which runs there are elastic jobs, by dice of their own."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from longshore.dispatcher.domain.containers import ElasticSettings, QueuePolicy, SchedulerSettings
from tests.sim.faults import Demand
from tests.sim.timeline import Dice

WITH_ELASTIC_JOBS = 0.2
"""The share of runs in which users submit elastic jobs."""


def with_elastic_jobs(
    demand: Demand, scheduler: SchedulerSettings, seed: int
) -> tuple[Demand, SchedulerSettings]:
    """Return what users ask, in some runs with such jobs, and how these queue."""
    dice = Dice(seed, "elastic options")
    if not dice.falls(WITH_ELASTIC_JOBS):
        return demand, scheduler
    policies = list(QueuePolicy)
    steered_s = dice.between(10, 80)
    demand = replace(
        demand,
        elastic=dice.whole(2, 5),
        scaling=dice.between(0.2, 1) if dice.falls(0.5) else 0.0,
        faulty=dice.between(0, 0.3) if dice.falls(0.6) else 0.0,
        elastic_requests_every_s=steered_s if dice.falls(0.6) else 0.0,
    )
    settings = ElasticSettings(
        policy=policies[dice.whole(0, len(policies) - 1)], backfill=dice.falls(0.5)
    )
    most = max(scheduler.max_instances, dice.whole(2, 4))
    return demand, msgspec.structs.replace(scheduler, elastic=settings, max_instances=most)
