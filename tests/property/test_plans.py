"""A plan is what a submission does: the same places, creates and reasons, and nothing remains."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from longshore.dispatcher.domain.containers import (
    EVERYBODY_ELSE,
    Container,
    ContainerState,
    Placement,
    SchedulerSettings,
)
from longshore.dispatcher.domain.jobs import ElasticMode, Job, JobType
from longshore.dispatcher.domain.messages import Woken
from longshore.dispatcher.input.quantities import Price
from longshore.dispatcher.service.dry_run_model import JobPlan
from longshore.pool.messages import (
    CreateInstance,
    DestroyInstance,
    PoolCommand,
    SessionLost,
    SignalAttempt,
    StartAttempt,
)
from longshore.pool.model import PoolSettings
from tests.job_samples import ended_nodes, make_job, make_task
from tests.rigs.dry_run import plan_job
from tests.rigs.elastic_jobs import elastic, elastic_job, essential
from tests.rigs.per_instance_jobs import DaemonRig, daemon
from tests.samples import make_container, make_type
from tests.state_digest import digest_of

LATE = 5_000
"""The number of the job that is planned, and submitted: it comes after all others."""

Action = tuple[Any, ...]
Asked = tuple[Job, tuple[Container, ...]]


# ---- what there is, and what is asked for --------------------------------------------------------


class StoryRig(DaemonRig):
    """A rig whose instances may be gone before their processes hear of it."""

    def terminated(self, worker_id: str, attempt_id: str) -> None:
        if worker_id in self.on_instance:
            super().terminated(worker_id, attempt_id)


@dataclass(slots=True, kw_only=True)
class Story:
    """What happened before somebody asks: the same each time that it is told."""

    settings: SchedulerSettings
    actions: list[Action]

    def told(self) -> StoryRig:
        rig = StoryRig(
            *(make_type(n) for n in (1, 2, 4)),
            pool=PoolSettings(idle_timeout_s=600, max_concurrent_creates=3),
            settings=self.settings,
        )
        for number, action in enumerate(self.actions, 1):
            do(rig, number, action)
        return rig


def do(rig: DaemonRig, number: int, action: Action) -> None:  # noqa: C901, PLR0912 - a table
    match action:
        case ("submit", cpus, priority):
            rig.submit(make_container(number, cpus=cpus, priority=priority))
        case ("job", size, most):
            task = make_task("a", size=size, max_running=most)
            rig.submit_job(*make_job(number, task, make_task("b", after=(f"j-{number}/a",))))
        case ("elastic", needed, more, mode):
            rig.submit_job(
                *elastic_job(number, essential(needed, "e"), elastic(more, "w"), mode=mode)
            )
        case ("daemon", type_, cpus, priority):
            rig.submit_daemon(daemon(number, type_=type_, cpus=cpus, priority=priority))
        case ("boot", type_name):
            rig.boot(type_name)
        case ("quiet", kind):
            rig.silent ^= {kind}
        case ("exit", which):
            found = [
                attempt.id
                for attempt in rig.attempts.values()
                if attempt.outcome is None
                and attempt.id in rig.on_instance.get(attempt.instance_id, {})
            ]
            if found:
                rig.exit(sorted(found)[which % len(found)])
        case ("drop", which):
            workers = sorted(rig.engine.pool.workers)
            if workers:
                worker_id = workers[which % len(workers)]
                rig.send(SessionLost(worker_id=worker_id, last_contact=rig.now, reason="?"))
        case ("hold", which):
            unfinished = sorted(j for j, job in rig.jobs.items() if not job.state.final)
            if unfinished:
                rig.hold_job(unfinished[which % len(unfinished)], held=True)
        case ("pass", seconds):
            rig.advance(seconds)
        case _:
            raise AssertionError(action)


PRIORITIES = st.sampled_from([0, 100, 500, 1000])
KINDS = st.sampled_from([JobType.SYSTEM, JobType.SYSBATCH])
MODES = st.sampled_from(list(ElasticMode))
ACTIONS = st.one_of(
    st.tuples(st.just("submit"), st.sampled_from([0.5, 1, 2, 3, 4]), PRIORITIES),
    st.tuples(st.just("job"), st.integers(1, 4), st.sampled_from([None, 1, 2])),
    st.tuples(st.just("elastic"), st.integers(1, 3), st.integers(1, 3), MODES),
    st.tuples(st.just("daemon"), KINDS, st.sampled_from([100, 700]), PRIORITIES),
    st.tuples(st.just("boot"), st.sampled_from(["t1", "t2", "t4"])),
    st.tuples(st.just("quiet"), st.sampled_from([CreateInstance, StartAttempt])),
    st.tuples(st.just("exit"), st.integers(0, 9)),
    st.tuples(st.just("drop"), st.integers(0, 9)),
    st.tuples(st.just("hold"), st.integers(0, 9)),
    st.tuples(st.just("pass"), st.sampled_from([0.5, 5, 30, 100])),
)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    scheduler = SchedulerSettings(
        max_instances=draw(st.integers(1, 5)),
        max_price_factor=draw(st.sampled_from([1.5, 1000])),
        placement=draw(st.sampled_from(list(Placement))),
        max_containers=draw(st.sampled_from([None, None, 4])),
        max_hourly_spend_usd=draw(st.sampled_from([None, None, Price("0.6")])),
        max_hourly_spend_usd_per_user=draw(
            st.sampled_from([{}, {}, {EVERYBODY_ELSE: Price("0.3")}])
        ),
        preempt_from_priority=draw(st.sampled_from([None, 600])),
    )
    return Story(settings=scheduler, actions=draw(st.lists(ACTIONS, max_size=12)))


@st.composite
def jobs(draw: st.DrawFn) -> Asked:
    """Return a job of any kind, with the containers that it is submitted with."""
    kind, priority = draw(st.sampled_from(list(JobType))), draw(PRIORITIES)
    cpus = draw(st.sampled_from([0.5, 1, 2, 4]))
    if kind.is_per_instance:
        job = daemon(LATE, type_=kind, cpus=int(1000 * cpus), priority=priority)
        return job, ()
    if kind is JobType.ELASTIC:
        parts = [essential(draw(st.integers(1, 3)), "e", cpus=cpus)]
        parts += [elastic(draw(st.integers(1, 3)), "w")] if draw(st.booleans()) else []
        return elastic_job(LATE, *parts, mode=draw(MODES), priority=priority)
    most = draw(st.sampled_from([None, 1, 2]))
    parts = [make_task("a", size=draw(st.integers(1, 6)), max_running=most, cpus=cpus)]
    if draw(st.booleans()):
        parts.append(make_task("b", after=(f"j-{LATE}/a",)))
    if draw(st.booleans()):
        parts.append(make_task("c", cpus=1, after=("j-1",)))
    return make_job(LATE, *parts, priority=priority)


# ---- what comes of it ----------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Came:
    """What came of a submission: where how many started, how many have room, why others wait."""

    starts: Counter[str]
    places: int
    creates: Counter[str]
    reasons: set[str]
    sent: list[PoolCommand]


def submitted(rig: DaemonRig, asked: Asked) -> Came:
    """Submit a job to an engine whose commands nobody answers, and see what it decides."""
    job, containers = asked
    rig.silent |= {CreateInstance, StartAttempt, SignalAttempt, DestroyInstance}
    rig.sent.clear()
    rig.submit_job(replace(job, created_at=rig.now), containers)
    engine = rig.engine
    own = [each for each in rig.containers.values() if each.job_id == job.id]
    starts = Counter(rig.started_on()[c.id] for c in own if c.id in rig.started_on())
    places, reasons = sum(starts.values()), set()
    for each in own:
        found = engine.table.containers.get(each.id)
        if found is None:
            assert each.reason is not None
            reasons.add(each.reason.message)
        elif not found.has_open_attempt:
            has_place = found.state is ContainerState.LOCKED or engine.workloads.place_of(found)
            places += bool(has_place)
            why = engine.why_waiting(each.id)
            if not has_place and why is not None:
                reasons.add(why.message)
    return Came(
        starts=starts,
        places=places,
        creates=Counter(rig.created_types()),
        reasons=set(map(without_names, reasons)),
        sent=list(rig.sent),
    )


def creates_of_others(rig: DaemonRig) -> Counter[str]:
    """Return what a pass creates at this moment though nothing is submitted."""
    rig.silent |= {CreateInstance, StartAttempt, SignalAttempt, DestroyInstance}
    rig.sent.clear()
    rig.engine._dirty = True  # as after any event
    rig.give(Woken())
    return Counter(rig.created_types())


def without_names(message: str) -> str:
    return re.sub(r"\b[cj]-[\w-]+", "NAME", message)


def started_by(plan: JobPlan) -> Counter[str]:
    """Return how many a plan says that start at once, by instance."""
    found: Counter[str] = Counter()
    for step in plan.steps:
        number = re.fullmatch(r"(\d+) containers?.*: started at once", step.detail)
        if number is not None:
            found[step.instance_id] += int(number[1])
        elif step.action == "place" and step.detail == "a new attempt is started":
            found[step.instance_id] += 1
    return found


def told_by(plan: JobPlan) -> set[str]:
    return {without_names(each.message) for each in plan.waiting}


def planned(rig: DaemonRig, asked: Asked) -> JobPlan:
    ended = ended_nodes(rig.jobs, rig.containers.values())
    job = replace(asked[0], created_at=rig.now)
    return plan_job(rig.fork, job, rig.now, ended=ended)


@given(story=stories(), asked=jobs())
@settings(max_examples=60)
def test_a_plan_is_what_a_submission_does(story: Story, asked: Asked) -> None:
    rig = story.told()
    plan = planned(rig, asked)
    came = submitted(rig, asked)
    others = creates_of_others(story.told())
    wanted = {name: came.creates[name] - others[name] for name in came.creates | others}
    assert {each.type_name: each.number for each in plan.creates} == {
        name: number for name, number in wanted.items() if number
    }
    if asked[0].type.is_per_instance:
        assert plan.counts.place - plan.counts.later == came.places
        assert came.reasons <= told_by(plan)
        if asked[0].priority:
            assert started_by(plan) == came.starts
    else:
        assert started_by(plan) == came.starts
        assert plan.counts.place == came.places
        assert told_by(plan) == came.reasons


@given(story=stories(), asked=st.lists(jobs(), min_size=1, max_size=3), later=st.lists(ACTIONS))
@settings(max_examples=40)
def test_of_a_plan_nothing_remains(story: Story, asked: list[Asked], later: list[Action]) -> None:
    rig, same = story.told(), story.told()
    before = digest_of(rig.engine)
    names = (repr(rig._numbers), repr(rig._container_numbers))
    for each in asked:
        planned(rig, each)
        assert digest_of(rig.engine) == before
        assert (repr(rig._numbers), repr(rig._container_numbers)) == names
    rig.engine.check()
    told: list[Callable[[DaemonRig], None]] = [
        lambda of, n=n, action=action: do(of, 100 + n, action)  # type: ignore[misc]  # as it is now
        for n, action in enumerate(later)
    ]
    for tell in told:
        tell(rig)
        tell(same)
    assert rig.sent == same.sent
    assert digest_of(rig.engine) == digest_of(same.engine)
