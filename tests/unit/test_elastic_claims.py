"""ElasticNode of elastic jobs on instances that are on their way, and that were made for them."""

from __future__ import annotations

from dataclasses import replace

from longshore.dispatcher.domain.containers import ElasticSettings, Profile
from longshore.dispatcher.scheduler.elastic.model import (
    ElasticJob,
    ElasticNode,
    ElasticPlan,
    ElasticView,
    MemberPlace,
)
from longshore.dispatcher.scheduler.elastic.schedule import plan_elastic
from longshore.dispatcher.scheduler.placement.fleet import SlotKind
from longshore.drivers.interface import Resources
from tests.rigs.elastic import RULES, elastic, essential, make_job, nodes_of, running, view_of
from tests.samples import make_type


def view_with(
    *jobs: ElasticJob,
    ready: tuple[int, ...] = (4,),
    coming: tuple[int, ...] = (),
    settings: ElasticSettings | None = None,
) -> ElasticView:
    """Return a view of ready instances i-1, ... and of some on their way, n-1, ..."""
    made = [(f"i-{number}", make_type(cpus)) for number, cpus in enumerate(ready, 1)]
    types = [make_type(cpus) for cpus in coming]
    booting = tuple(
        ElasticNode(id=f"n-{number}", type=type_, free=type_.allocatable, kind=SlotKind.COMING)
        for number, type_ in enumerate(types, 1)
    )
    return view_of(*jobs, nodes=nodes_of(made, jobs) + booting, settings=settings)


def booted(view: ElasticView, plan: ElasticPlan) -> ElasticView:
    """Return a view in which all instances are ready, and jobs keep what a plan kept for them."""
    nodes = tuple(replace(room, kind=SlotKind.READY) for room in view.nodes)
    jobs = tuple(
        replace(job, claims=tuple(p for p in plan.claims if p.job_id == job.id))
        for job in view.jobs
    )
    return replace(view, nodes=nodes, jobs=jobs)


def wanted(plan: ElasticPlan) -> list[tuple[str, str, int]]:
    return [(each.job_id, each.component, each.count) for each in plan.demand]


def test_nothing_starts_on_an_instance_that_is_not_ready() -> None:
    job = make_job(1, essential(2), elastic(3))
    plan = plan_elastic(view_with(job, ready=(), coming=(8,)), 0.0)
    assert (plan.begun, plan.starts) == ((), ())
    assert [(job_id, why.code) for job_id, why in plan.waiting] == [("j-1", "booting")]
    assert plan.waiting[0][1].message == "has its room on an instance that is on its way"


def test_what_is_on_its_way_is_counted_before_more_is_created() -> None:
    job = make_job(1, essential(8))
    assert wanted(plan_elastic(view_with(job, ready=(4,)), 0.0)) == [("j-1", "e", 4)]
    assert wanted(plan_elastic(view_with(job, ready=(4,), coming=(3,)), 0.0)) == [("j-1", "e", 1)]
    plan = plan_elastic(view_with(job, ready=(4,), coming=(3, 1)), 0.0)
    assert wanted(plan) == []
    assert sorted(place.instance_id for place in plan.claims) == ["n-1", "n-1", "n-1", "n-2"]


def test_an_instance_made_for_essential_ones_is_not_taken_by_elastic_ones_of_a_job_before() -> None:
    grown = running(make_job(1, essential(2), elastic(9)), e=2, w=2)
    view = view_with(grown, make_job(2, essential(3)), ready=(4,), coming=(4,))
    plan = plan_elastic(view, 0.0)
    assert [(place.job_id, place.instance_id) for place in plan.claims] == [("j-2", "n-1")] * 3
    then = plan_elastic(booted(view, plan), 9.0)
    assert (then.begun, then.claims) == (("j-2",), ())
    grown_by = [place.instance_id for place in then.starts if place.job_id == "j-1"]
    assert grown_by == ["n-1"], "what is beyond the claims is for everybody"
    unclaimed = plan_elastic(booted(view, ElasticPlan()), 9.0)
    assert unclaimed.begun == (), "without claims it would have been eaten up"


def test_what_is_kept_for_a_job_gives_way_to_essential_ones_of_a_job_before_it() -> None:
    head, kept_for = make_job(1, essential(3)), make_job(2, essential(3))
    claims = tuple(
        MemberPlace(job_id="j-2", component="e", index=index, instance_id="i-1")
        for index in range(3)
    )
    view = view_with(head, replace(kept_for, claims=claims), ready=(4,))
    plan = plan_elastic(view, 0.0)
    assert (plan.begun, wanted(plan)) == (("j-1",), [("j-2", "e", 2)])


def test_claims_last_while_their_job_waits_and_their_instance_is_there() -> None:
    head = make_job(1, essential(9))
    claims = tuple(
        MemberPlace(job_id="j-2", component="e", index=index, instance_id=on)
        for index, on in enumerate(("i-1", "gone"))
    )
    waits = make_job(2, essential(2), claims=claims)
    plan = plan_elastic(view_with(head, waits, ready=(4,)), 0.0)
    assert plan.claims == claims[:1]


def test_elastic_extras_are_not_created_twice_while_their_instance_is_on_its_way() -> None:
    job = running(make_job(1, essential(4), elastic(3), scale_up=True), e=4)
    assert wanted(plan_elastic(view_with(job), 0.0)) == [("j-1", "w", 3)]
    assert wanted(plan_elastic(view_with(job, coming=(4,)), 0.0)) == []


def soft_reservation(job: int, index: int, on: str) -> MemberPlace:
    return MemberPlace(job_id=f"j-{job}", component="w", index=index, instance_id=on)


def cpus(number: int) -> Resources:
    return Resources(cpu_millis=1000 * number)


def growing(*, needs: int, lacks: int) -> tuple[ElasticJob, ElasticJob]:
    """Return one that runs and lacks a large elastic member, and one that waits for 8 cpus each."""
    large = elastic(1, resources=cpus(lacks))
    first = running(make_job(1, essential(4), large, scale_up=True), e=4)
    return first, make_job(2, essential(needs, resources=cpus(8)), elastic(2), scale_up=True)


def test_room_on_which_somebody_counts_is_for_those_before_him_where_nobody_lacks_any_then() -> (
    None
):
    view = view_with(*growing(needs=1, lacks=2), ready=(4, 1), coming=(2, 1))
    view = replace(view, types=(*view.types, make_type(8)))
    soft_reservations = (soft_reservation(2, 0, "n-1"), soft_reservation(2, 1, "n-1"))
    plan = plan_elastic(replace(view, soft_reservations=soft_reservations), 0.0)
    assert wanted(plan) == [("j-2", "e", 1)]
    assert [(each.job_id, each.instance_id) for each in plan.soft_reservations] == [
        ("j-1", "n-1"),
        ("j-2", "i-2"),
        ("j-2", "n-2"),
    ]


def test_who_counts_on_room_takes_no_place_that_those_before_him_may_have() -> None:
    view = view_with(*growing(needs=3, lacks=4), ready=(4, 2))
    view = replace(view, types=(*view.types, make_type(8)), containers_left=2)
    soft_reservations = (soft_reservation(2, 0, "i-2"), soft_reservation(2, 1, "i-2"))
    assert wanted(plan_elastic(replace(view, soft_reservations=soft_reservations), 0.0)) == [
        ("j-1", "w", 1)
    ]


def test_for_a_job_that_limits_never_let_begin_nothing_is_kept_in_part() -> None:
    large, small = make_job(1, essential(3)), make_job(2, essential(1, "f"))
    view = view_with(large, small, ready=(), coming=(2,), settings=ElasticSettings(backfill=True))
    assert {place.job_id for place in plan_elastic(view, 0.0).claims} == {"j-1"}
    plan = plan_elastic(replace(view, infeasible=frozenset({"j-1"})), 0.0)
    assert {place.job_id for place in plan.claims} == {"j-2"}
    assert wanted(plan) == [("j-1", "e", 1)], "what it lacks is told all the same"


def test_nothing_is_created_to_let_a_job_grow_before_what_it_needs_is_counted() -> None:
    """Seed 6204: those behind had the instance, since nobody had asked yet what these need."""
    first = make_job(1, essential(2))
    second = make_job(2, essential(1), elastic(2), scale_up=True)
    view = view_with(first, second, ready=(), coming=(2,))
    assert wanted(plan_elastic(view, 0.0)) == [("j-2", "e", 1), ("j-2", "w", 2)]
    view = replace(view, infeasible=frozenset({"j-1"}))
    assert wanted(plan_elastic(view, 0.0)) == []


def test_nothing_is_created_to_let_a_job_grow_that_cannot_begin() -> None:
    job = make_job(1, essential(4), elastic(2), scale_up=True)
    view = replace(view_with(job, ready=(), coming=(1,)), containers_most=4)
    assert wanted(plan_elastic(view, 0.0)) == [("j-1", "e", 3), ("j-1", "w", 2)]
    assert wanted(plan_elastic(replace(view, containers_left=3), 0.0)) == []
    plan = plan_elastic(replace(view, infeasible=frozenset({"j-1"})), 0.0)
    assert wanted(plan) == [("j-1", "e", 3)]


def test_a_job_that_limits_kept_from_beginning_has_all_kept_for_it_that_is_on_its_way() -> None:
    view = view_with(make_job(1, essential(2)), ready=(), coming=(2,))
    plan = plan_elastic(replace(view, infeasible=frozenset({"j-1"})), 0.0)
    assert [(place.component, place.index) for place in plan.claims] == [("e", 0), ("e", 1)]
    assert plan.demand == ()


def test_who_shares_a_cpu_finds_one_before_those_who_leave_none() -> None:
    spread = replace(RULES, profile=Profile.DISTRIBUTE_LOAD)
    half = essential(2, "half", resources=Resources(cpu_millis=500))
    job = make_job(1, half, essential(1, "none", resources=Resources()))
    plan = plan_elastic(replace(view_with(job, ready=(1, 1)), rules=spread), 0.0)
    assert plan.begun == ("j-1",)


def test_what_was_enough_while_it_was_on_its_way_is_so_once_it_is_there() -> None:
    spread = replace(RULES, profile=Profile.DISTRIBUTE_LOAD)
    sizes = [(1, 3), (1, 2), (1, 3), (2, 2)]
    parts = [
        essential(count, f"e{number}", resources=Resources(cpu_millis=cpus * 1000))
        for number, (count, cpus) in enumerate(sizes)
    ]
    view = replace(view_with(make_job(1, *parts), ready=(), coming=(6, 6)), rules=spread)
    plan = plan_elastic(view, 0.0)
    assert wanted(plan) == []
    assert plan_elastic(booted(view, plan), 0.0).begun == ("j-1",)
