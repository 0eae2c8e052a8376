"""Room that a pass over elastic jobs no longer keeps for a job serves the others in the same pass.

In each of these a large job waits for which room is kept, and a pass finds that it is not to be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest

from longshore.dispatcher.domain.containers import ElasticSettings, Placement, SchedulerSettings
from longshore.dispatcher.input.quantities import Price
from longshore.dispatcher.scheduler.elastic.model import ElasticJob, ElasticView, MemberPlace
from longshore.dispatcher.scheduler.elastic.schedule import plan_elastic
from longshore.dispatcher.scheduler.placement.spend import PassBudget
from longshore.dispatcher.state.spend_limits import SpendLimits, SpendSubject
from longshore.drivers.interface import Resources
from tests.rigs.elastic import elastic, essential, make_job, running, view_of
from tests.samples import GIB, make_type

NINE = Resources(cpu_millis=9000, memory_bytes=9 * GIB)
TYPES = make_type(5), make_type(9)
BACKFILL = ElasticSettings(backfill=True)


def kept_for(job: ElasticJob, count: int) -> ElasticJob:
    """Return a job for which room of its first few members is kept on i-1."""
    places = (
        MemberPlace(job_id=job.id, component="e", index=index, instance_id="i-1")
        for index in range(count)
    )
    return replace(job, claims=tuple(places))


def never() -> ElasticView:
    """Return a view in which no type does for the job any more."""
    huge = essential(1, "huge", resources=Resources(cpu_millis=99_000))
    return view_of(grown(), kept_for(make_job(2, essential(2), huge), 2), asks(), cpus=(5,))


def behind_one_infeasible() -> ElasticView:
    """Return a view in which the job is behind another, for which nothing can be had."""
    infeasible = make_job(2, essential(1, resources=NINE), not_before=50.0)
    late = kept_for(make_job(3, essential(2), not_before=60.0), 2)
    view = view_of(grown(), infeasible, late, asks(), cpus=(5,), types=TYPES)
    return replace(view, infeasible=frozenset({"j-2"}))


def too_few_places() -> ElasticView:
    """Return a view in which there are places for all of the job, and too few once one began."""
    large = kept_for(make_job(2, essential(2), essential(1, "large", resources=NINE)), 2)
    view = view_of(grown(), large, asks(), cpus=(5,), types=TYPES, settings=BACKFILL)
    return replace(view, containers_left=3)


def grown() -> ElasticJob:
    """Return a flexible job that runs, and would give a member back."""
    return running(make_job(1, essential(1), elastic(1)), e=1, w=1)


def asks() -> ElasticJob:
    """Return a job that waits, for which there is room without what is kept for another."""
    return make_job(9, essential(2))


CASES = [never, behind_one_infeasible, too_few_places]


@pytest.mark.parametrize("case", CASES)
def test_nobody_makes_way_for_who_has_room_where_it_is_kept_for_nobody_any_more(
    case: Callable[[], ElasticView],
) -> None:
    plan = plan_elastic(case(), 0.0)
    assert plan.begun == ("j-9",)
    assert plan.stops == ()
    assert plan.claims == ()


@pytest.mark.parametrize("case", CASES)
def test_of_a_pass_that_lets_go_of_any_nothing_is_left(case: Callable[[], ElasticView]) -> None:
    view = case()
    jobs = tuple(replace(job, claims=()) for job in view.jobs)
    assert plan_elastic(view, 0.0) == plan_elastic(replace(view, jobs=jobs), 0.0)


def test_what_was_paid_before_room_was_let_go_is_paid_once() -> None:
    bob = SpendSubject("user", "bob")
    configured = SchedulerSettings(max_hourly_spend_usd_per_user={"bob": Price("0.25")})
    budget = PassBudget(
        limits=SpendLimits(configured),
        placement=Placement.PACKED,
        cluster=Decimal(0),
        by_subject={},
    )
    view = replace(too_few_places(), budget=budget, accounts={"j-9": (bob,)})
    assert plan_elastic(view, 0.0).begun == ("j-9",)
    assert budget.spent(bob) == 2 * Decimal("0.123")
