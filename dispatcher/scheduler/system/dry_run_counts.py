"""What a plan for per-instance jobs comes to, in numbers and money, for `longshore plan`; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import assert_never

from longshore.dispatcher.scheduler.system.model import (
    Block,
    Evict,
    Ignore,
    MarkLost,
    PlaceOn,
    RemovalCause,
    Step,
    Stop,
    SystemPlan,
    Update,
    UpdateInPlace,
    Wait,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a job comes to on all instances together, once nothing is waited for any more."""

    #: This and `update` count also what waits for its round, its delay, or room that is coming.
    place: int = 0
    update: int = 0
    in_place: int = 0
    #: Without those of `migrate`.
    stop: int = 0
    #: Stops since an instance drains.
    migrate: int = 0
    ignore: int = 0
    lost: int = 0
    #: The attempts that are evicted.
    preempt: int = 0
    #: Counted in no other number.
    blocked: int = 0
    #: How many of `place` and `update` wait.
    later: int = 0


def counts(plan: SystemPlan) -> dict[str, Counts]:
    """Return the counts of each job that has a step or a report in a plan, sorted by its id."""
    by_job: dict[str, Counter[str]] = {report.job_id: Counter() for report in plan.reports}
    for step in plan.steps:
        by_job.setdefault(step.job_id, Counter()).update(_counted(step))
    return {job_id: Counts(**by_job[job_id]) for job_id in sorted(by_job)}


def _counted(step: Step) -> Mapping[str, int]:
    """Return by how much a step adds to which number."""
    number: dict[str, int]
    match step:
        case PlaceOn():
            number = {"place": 1}
        case Update():
            number = {"update": 1}
        case Wait():
            number = {"update" if step.attempt_id else "place": 1, "later": 1}
        case Evict():
            becomes = "update" if step.attempt_id else "place"
            number = {becomes: 1, "later": 1, "preempt": len(step.victims)}
        case Stop():
            number = {"migrate" if step.cause is RemovalCause.NODE_DRAINING else "stop": 1}
        case UpdateInPlace():
            number = {"in_place": 1}
        case Ignore():
            number = {"ignore": 1}
        case MarkLost():
            number = {"lost": 1}
        case Block():
            number = {"blocked": 1}
        case _:
            assert_never(step)
    return number


# ---- money ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceChange:
    """Between how many USD more (less than nothing: fewer) all instances cost an hour."""

    least_usd_per_hour: Decimal
    most_usd_per_hour: Decimal


def price_change(plan: SystemPlan, cheapest: Callable[[str], Decimal | None]) -> PriceChange:
    """Return what carrying out a plan changes in the price of all instances.

    Per-instance jobs create no instances, and keep none: their attempts count neither as running
    nor as busy. So whatever is placed, updated or stopped changes nothing, and the least is always
    nothing. But who is evicted goes back to the queue, and may need an instance of its own where
    no other has room. `cheapest` tells what the cheapest instance costs an hour that would do for
    an attempt, None for one that has none created for it (of a per-instance job, or ending): with
    one instance for each, that is the most. What batch work may cost more because instances have
    less room for it shows in its own plans, not here.
    """
    prices = (cheapest(attempt_id) for attempt_id in _victims(plan.steps))
    most = sum((price for price in prices if price is not None), Decimal(0))
    return PriceChange(least_usd_per_hour=Decimal(0), most_usd_per_hour=most)


def _victims(steps: Iterable[Step]) -> Iterable[str]:
    return (victim for step in steps if isinstance(step, Evict) for victim in step.victims)
