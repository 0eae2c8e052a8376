"""What users ask of jobs in a run: it follows from dice of its own."""

from __future__ import annotations

from dataclasses import replace

from tests.sim.faults import Demand
from tests.sim.timeline import Dice

WITH_JOBS = 0.45
"""The share of runs in which users submit jobs."""


def with_jobs(demand: Demand, dice: Dice, *, clock_is_right: bool) -> Demand:
    """Return what users ask, in some runs with jobs; a wrong clock delays what has a time."""
    if not dice.falls(WITH_JOBS):
        return demand
    steered = dice.between(5, 60)
    return replace(
        demand,
        jobs=dice.whole(1, 6),
        longest_array=dice.whole(2, 8),
        narrow=dice.between(0, 1),
        depending=dice.between(0, 0.4),
        limited=dice.between(0, 0.6) if dice.falls(0.5) else 0.0,
        lenient=dice.between(0, 0.6) if dice.falls(0.5) else 0.0,
        postponed=dice.between(0, 0.3) if clock_is_right else 0.0,
        job_requests_every_s=steered if dice.falls(0.6) else 0.0,
        slow_look_ups=dice.between(0, 1) if dice.falls(0.6) else 0.0,
    )
