"""Properties of the pass over elastic jobs, on generated pools, jobs and histories."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from longshore.dispatcher.domain.containers import ElasticSettings, QueuePolicy
from longshore.dispatcher.domain.jobs import ElasticMode, TaskRole
from longshore.dispatcher.scheduler.elastic.cpu_shares import (
    CpuShare,
    changes,
    cpu_limits,
    unreserved_millis,
)
from longshore.dispatcher.scheduler.elastic.model import (
    Component,
    ElasticJob,
    ElasticNode,
    ElasticPlan,
    ElasticView,
    MemberState,
)
from longshore.dispatcher.scheduler.elastic.schedule import plan_elastic
from longshore.dispatcher.scheduler.placement.fleet import SlotKind
from longshore.drivers.interface import InstanceType, Resources
from tests.rigs.elastic import RULES, applied, changes_something, counts, make_job, nodes_of
from tests.samples import GIB, make_type

MOST_PASSES = 12

needs = st.builds(
    Resources,
    cpu_millis=st.sampled_from((0, 500, 1000, 2000, 3000)),
    memory_bytes=st.sampled_from((GIB // 2, GIB, 2 * GIB)),
    gpus=st.sampled_from((0, 0, 0, 1)),
)


@st.composite
def components(draw: st.DrawFn) -> tuple[Component, ...]:
    roles = [TaskRole.ESSENTIAL, *draw(st.lists(st.sampled_from(TaskRole), max_size=3))]
    return tuple(
        Component(
            name=f"c{number}", role=role, resources=draw(needs), count=draw(st.integers(1, 4))
        )
        for number, role in enumerate(roles)
    )


@st.composite
def elastic_jobs(draw: st.DrawFn) -> list[ElasticJob]:
    return [
        make_job(
            number,
            *draw(components()),
            mode=draw(st.sampled_from(ElasticMode)),
            submitted_at=draw(st.sampled_from((0.0, 5.0, 9.0))),
            runtime_s=draw(st.sampled_from((None, 1.0, 10.0, 100.0))),
            scale_up=draw(st.booleans()),
            not_before=draw(st.sampled_from((0.0, 0.0, 50.0))),
        )
        for number in range(draw(st.integers(1, 6)))
    ]


@st.composite
def pools(draw: st.DrawFn) -> list[tuple[str, InstanceType]]:
    cpus = draw(st.lists(st.integers(1, 8), min_size=1, max_size=4))
    types = [make_type(each) for each in cpus]
    return [
        (f"i-{number}", replace(type_, resources=replace(type_.resources, gpus=number % 2)))
        for number, type_ in enumerate(types)
    ]


@st.composite
def policies(draw: st.DrawFn) -> ElasticSettings:
    return ElasticSettings(policy=draw(st.sampled_from(QueuePolicy)), backfill=draw(st.booleans()))


def view_of(
    pool: Sequence[tuple[str, InstanceType]],
    jobs: Sequence[ElasticJob],
    policy: ElasticSettings,
    coming: Sequence[InstanceType] = (),
) -> ElasticView:
    booting = [
        ElasticNode(id=f"n-{number}", type=type_, free=type_.allocatable, kind=SlotKind.COMING)
        for number, type_ in enumerate(coming)
    ]
    types = {(type_.name, type_.resources.gpus): type_ for _, type_ in pool}
    return ElasticView(
        jobs=tuple(jobs),
        nodes=(*nodes_of(pool, jobs), *booting),
        types=tuple(types.values()),
        rules=RULES,
        settings=policy,
        max_price_factor=1000,
    )


def carried_out(view: ElasticView, plan: ElasticPlan, now: float) -> list[ElasticJob]:
    return [applied(job, plan, now) for job in view.jobs]


@st.composite
def views(draw: st.DrawFn) -> ElasticView:
    """Return a pool on which some jobs were placed before others came, and some members ended."""
    pool, policy, jobs = draw(pools()), draw(policies()), draw(elastic_jobs())
    early = jobs[: draw(st.integers(0, len(jobs)))]
    view = view_of(pool, early, policy)
    early = carried_out(view, plan_elastic(view, 9.0), 9.0)
    for number, job in enumerate(early):
        elastic = {
            component.name for component in job.components if component.role is TaskRole.ELASTIC
        }
        over = (MemberState.FINISHED, MemberState.GONE)
        ending = draw(st.sampled_from((MemberState.WAITING, *over)))
        members = tuple(
            replace(each, state=ending, instance_id="")
            if each.component in elastic and draw(st.integers(0, 3)) == 0
            else each
            for each in job.members
        )
        early[number] = replace(job, members=members)
    coming = draw(st.lists(st.integers(1, 8).map(make_type), max_size=2))
    return view_of(pool, [*early, *jobs[len(early) :]], policy, coming)


@given(views())
@settings(max_examples=100, deadline=None)
def test_a_pass_changes_nothing_of_what_came_in(view: ElasticView) -> None:
    before = copy.deepcopy(view)
    plan_elastic(view, 10.0)
    assert view == before


@given(views())
@settings(max_examples=100, deadline=None)
def test_the_same_view_gives_the_same_plan_in_whatever_order_its_parts_come(
    view: ElasticView,
) -> None:
    turned = replace(view, jobs=view.jobs[::-1], nodes=view.nodes[::-1], types=view.types[::-1])
    assert plan_elastic(turned, 10.0) == plan_elastic(view, 10.0)


@given(views())
@settings(max_examples=100, deadline=None)
def test_no_instance_is_overfull_and_nobody_is_placed_twice(view: ElasticView) -> None:
    plan = plan_elastic(view, 10.0)
    ready = {room.id for room in view.nodes if room.kind is SlotKind.READY}
    assert {place.instance_id for place in plan.starts} <= ready
    held = {
        (job.id, member.component, member.index): member
        for job in view.jobs
        for member in job.members
        if member.state is not MemberState.WAITING
    }
    new = [(place.job_id, place.component, place.index) for place in plan.starts]
    assert len(set(new)) == len(new)
    assert not set(new) & set(held)
    types = [(room.id, room.type) for room in view.nodes]
    for room in nodes_of(types, carried_out(view, plan, 10.0)):
        assert Resources().fits_in(room.free), room


@given(views())
@settings(max_examples=100, deadline=None)
def test_essential_ones_are_all_or_none_and_only_flexible_jobs_give_elastic_ones_back(
    view: ElasticView,
) -> None:
    plan = plan_elastic(view, 10.0)
    jobs = {job.id: job for job in view.jobs}
    for job in carried_out(view, plan, 10.0):
        for component, member in job.all_members():
            needed = component.role is TaskRole.ESSENTIAL or (
                job.mode is ElasticMode.RIGID and job.id in plan.begun
            )
            if job.is_running and needed:
                assert member.state is not MemberState.WAITING
            if not job.is_running:
                assert not member.state.has_place
    for stop in plan.stops:
        job = jobs[stop.place.job_id]
        role = next(c.role for c in job.components if c.name == stop.place.component)
        assert (job.mode, role) == (ElasticMode.FLEXIBLE, TaskRole.ELASTIC)
        here = {p.job_id for p in plan.starts if p.instance_id == stop.place.instance_id}
        assert stop.by in here
    if plan.stops:
        assert plan.begun, "nobody gives back but for essential ones of a job that begins"


@given(views())
@settings(max_examples=100, deadline=None)
def test_a_plan_that_says_so_changes_something_and_repeated_passes_come_to_rest(
    view: ElasticView,
) -> None:
    """Who began never stops again, and what was given back for somebody is not taken again."""
    begun: list[str] = []
    for _ in range(MOST_PASSES):
        plan = plan_elastic(view, 10.0)
        jobs = carried_out(view, plan, 10.0)
        unclaimed = [replace(job, claims=()) for job in jobs]
        same = unclaimed == [replace(job, claims=()) for job in view.jobs]
        assert changes_something(plan) is not same
        if same:
            return
        begun += plan.begun
        assert len(set(begun)) == len(begun)
        made = [(r.id, r.type) for r in view.nodes if r.kind is SlotKind.READY]
        coming = tuple(room for room in view.nodes if room.kind is not SlotKind.READY)
        view = replace(view, jobs=tuple(jobs), nodes=(*nodes_of(made, jobs), *coming))
    raise AssertionError(f"passes still change something: {plan_elastic(view, 10.0)}")


@given(views())
@settings(max_examples=100, deadline=None)
def test_everybody_who_lacks_something_is_told_why_and_nobody_else(view: ElasticView) -> None:
    plan = plan_elastic(view, 10.0)
    told = [job_id for job_id, _ in plan.waiting]
    lacking = {
        job.id
        for job in carried_out(view, plan, 10.0)
        if not job.is_running or any(m.state is MemberState.WAITING for _, m in job.all_members())
    }
    assert len(set(told)) == len(told)
    assert set(told) == lacking
    assert all(why.code and why.message for _, why in plan.waiting)


@given(views())
@settings(max_examples=100, deadline=None)
def test_a_job_that_waits_leaves_no_trace_in_what_is_done(view: ElasticView) -> None:
    plan = plan_elastic(view, 10.0)
    waits = {job.id for job in view.jobs if not job.is_running and job.id not in plan.begun}
    last = plan.waiting[-1][0] if plan.waiting else ""
    if last in waits:
        others = replace(view, jobs=tuple(job for job in view.jobs if job.id != last))
        without = plan_elastic(others, 10.0)
        assert (without.begun, without.stops) == (plan.begun, plan.stops)
        assert (without.starts) == plan.starts


@given(views())
@settings(max_examples=100, deadline=None)
def test_what_is_claimed_fits_and_is_never_wanted_as_well(view: ElasticView) -> None:
    plan = plan_elastic(view, 10.0)
    jobs = carried_out(view, plan, 10.0)
    for job in jobs:
        lacking = [
            component.name
            for component, member in job.all_members()
            if member.state is MemberState.WAITING
        ]
        named = [place.component for place in plan.claims if place.job_id == job.id]
        for each in plan.demand:
            if each.job_id == job.id:
                named += [each.component] * each.count
        assert all(named.count(name) <= lacking.count(name) for name in named)
        wants = [each for each in plan.demand if each.job_id == job.id]
        if not job.scale_up and job.mode is not ElasticMode.RIGID:
            assert all(each.role is TaskRole.ESSENTIAL for each in wants)
    assert counts(jobs).keys() >= set(plan.begun)


on_shared_cpu = st.lists(
    st.builds(Resources, cpu_millis=st.integers(1, 5000), gpus=st.sampled_from((0, 0, 1))),
    max_size=8,
).map(lambda all_: [CpuShare(attempt_id=f"a-{n}", given=each) for n, each in enumerate(all_)])


@given(on_shared_cpu, on_shared_cpu, st.integers(0, 64_000))
def test_all_spare_cpus_are_given_out_and_never_more_than_there_is(
    before: list[CpuShare], after: list[CpuShare], cpu_millis: int
) -> None:
    allocatable = Resources(cpu_millis=cpu_millis)
    limits = []
    for there in (before, after):
        reserved = sum(each.given.cpu_millis for each in there)
        spare = unreserved_millis(allocatable, [each.given for each in there])
        assert spare == max(0, cpu_millis - reserved)
        found = cpu_limits(spare, there)
        takes = any(not each.given.gpus for each in there)
        assert sum(found.values()) == reserved + (spare if takes else 0)
        extras = {
            found[each.attempt_id] - each.given.cpu_millis for each in there if not each.given.gpus
        }
        assert not extras or max(extras) - min(extras) <= 1
        limits.append(found)
    known, wanted = limits
    state = {key: limit for key, limit in known.items() if key in wanted}
    most = max(sum(state.values()), sum(wanted.values()))
    for change in changes(known, wanted):
        assert state.get(change.attempt_id) != change.cpu_millis
        state[change.attempt_id] = change.cpu_millis
        assert sum(state.values()) <= most
    assert state == wanted
