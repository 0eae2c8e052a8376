"""What a job would come to if submitted now: done on a trial, of which nothing remains; pure.

A plan is what a submission would do. The engine is copied (`dispatcher.engine.fork`), the copy is
told of the job as the engine would be, and makes the very pass that would follow; then it is read
off the copy who has a place where, what is created, who makes way, and why the rest waits. Nothing
here knows how any of that is decided, so it holds for all types of jobs.

Where others wait too, a pass without the job may create something as well: it is made on a second
copy, and only what differs is the job's.

It is done in parts, between which the engine goes on (`service.dry_run_limiter`): once there
is a copy, the time that it stands for does not move. So the engine is never held up for longer than
a copy or a pass takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import islice
from typing import assert_never

from longshore.dispatcher.domain.containers import (
    AttemptOutcome,
    Container,
    ContainerState,
    StopCause,
    WaitReason,
)
from longshore.dispatcher.domain.jobs import Job
from longshore.dispatcher.domain.may_begin import why_job_not_begin
from longshore.dispatcher.domain.messages import (
    Change,
    JobRevised,
    JobSubmitted,
    SaveAttempt,
    SaveContainer,
    Submitted,
    Woken,
)
from longshore.dispatcher.engine.fork import AFTER_ALL, EngineFork
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.scheduler.elastic.wait_reasons import BOOTING
from longshore.dispatcher.scheduler.placement import wait_reasons
from longshore.dispatcher.scheduler.system import model as steps
from longshore.dispatcher.scheduler.system.apply import stop_reason_of
from longshore.dispatcher.scheduler.system.dry_run_counts import Counts, counts, price_change
from longshore.dispatcher.service.dry_run_model import JobPlan, PlannedCreate, PlannedStep
from longshore.dispatcher.service.job_factory import container_in, run_of
from longshore.dispatcher.state.attempt_end import in_words

JOB_ID = "j-new"
"""What a job is called that is only planned."""

_STEPS_MOST = 1000
_REASONS_MOST = 100
_PASSES_MOST = 10
_AT_ONCE = 500
"""Of so many containers something is done before others have the loop."""

Planning = Generator[None, None, JobPlan]
"""A plan that is made in parts, one each time that it is asked for the next."""


def planning(
    fork: Callable[[], EngineFork],
    job: Job,
    now: float,
    *,
    ended: Mapping[str, bool] | None = None,
    revises: bool = False,
) -> Planning:
    """Make a plan of what a job would come to at this moment; nothing is changed.

    `job` is one that there is not, and with `revises` the next revision of one that there is. Of a
    periodic or parameterised job one run is planned. `ended` says of the nodes outside of the job
    that it waits for, and that have ended, whether they succeeded.
    """
    run = job if revises or not job.is_template else _run_of(job, now)
    trial = fork()
    view = trial.view
    yield
    others = None
    if view.queue_length or view.elastic_containers:
        others = trial.fork()
        yield
    known = frozenset(view.pool.launches)
    done = _Done(trial=trial, job=run)
    yield from done.carry_out(ended or {}, now, revises=revises)
    created = Counter(_created(view, known))
    if others is not None:
        others.plan(now)
        created.subtract(_created(others.view, known))
    yield
    parts = _per_instance(done) if run.type.is_per_instance else _placed(done)
    found = yield from parts
    found = _with_creates(found, created, view)
    return found if run is job else replace(found, of_run=True)


def _run_of(job: Job, now: float) -> Job:
    return run_of(job, job_id=JOB_ID, sequence=AFTER_ALL, now=now, env={})


def _created(view: EngineView, known: frozenset[str]) -> Iterator[str]:
    """Yield the type of each instance that a trial creates."""
    launches = view.pool.launches
    return (launches[token].launch.type_name for token in launches if token not in known)


def _with_creates(found: JobPlan, created: Counter[str], view: EngineView) -> JobPlan:
    prices = {name: view.pool.types[name].price_usd_per_hour for name in created}
    change = sum((prices[name] * number for name, number in created.items()), Decimal(0))
    return replace(
        found,
        creates=tuple(
            PlannedCreate(type_name=name, number=number, price_usd_per_hour=prices[name])
            for name, number in sorted(created.items())
            if number
        ),
        least_usd_per_hour=found.least_usd_per_hour + change,
        most_usd_per_hour=found.most_usd_per_hour + change,
    )


class _Done:
    """What was done on a trial: its job's `containers`, and the changes that were decided.

    `decided` is what each pass decided for per-instance jobs.
    """

    def __init__(self, *, trial: EngineFork, job: Job) -> None:
        self.trial = trial
        self.view = trial.view
        self.job = job
        self.containers: list[Container] = []
        self.changes: list[Change] = []
        self.decided = trial.follow_system_plans()

    def carry_out(
        self, ended: Mapping[str, bool], now: float, *, revises: bool
    ) -> Generator[None, None, None]:
        """Tell the trial of the job, and let it do all that it would at this moment."""
        if revises:
            self.changes += self.trial.handle(JobRevised(job=self.job), now)
        else:
            yield from self._submit(ended, now)
        yield
        for _ in range(_PASSES_MOST):
            if not self.trial.is_due(now):
                break
            self.changes += self.trial.handle(Woken(), now)
            yield

    def _submit(self, ended: Mapping[str, bool], now: float) -> Generator[None, None, None]:
        """Submit the job; of many containers some after the others, which comes to the same."""
        made = _containers(self.job)
        some = tuple(islice(made, _AT_ONCE))
        event = JobSubmitted(job=self.job, containers=some, ended=ended)
        self.changes += self.trial.handle(event, now)
        self.containers += some
        while some := tuple(islice(made, _AT_ONCE)):
            yield
            self.changes += self.trial.handle(Submitted(containers=some, ended=ended), now)
            self.containers += some

    def evicted(self) -> dict[str, list[str]]:
        """Return who makes way for the job, or for a container of it, by their instance."""
        own = {container.id for container in self.containers}
        found: dict[str, dict[str, None]] = {}
        for change in self.changes:
            if not isinstance(change, SaveAttempt):
                continue
            attempt = change.attempt
            whom = attempt.stop_reason
            for_it = whom.cause is StopCause.FOR_CONTAINER and whom.of in own
            for_job = whom.cause is StopCause.FOR_JOB and whom.of == self.job.id
            if attempt.intended_outcome is AttemptOutcome.PREEMPTED and (for_it or for_job):
                found.setdefault(attempt.instance_id, {})[attempt.id] = None
        return {instance_id: sorted(ids) for instance_id, ids in sorted(found.items())}

    def over(self) -> dict[str, WaitReason]:
        """Return why containers of the job would end at once, by their ids."""
        saved = (each.container for each in self.changes if isinstance(each, SaveContainer))
        return {
            each.id: WaitReason(code=each.reason.code, message=each.reason.message)
            for each in saved
            if each.job_id == self.job.id and each.state.final and each.reason is not None
        }


def _containers(job: Job) -> Iterator[Container]:
    """Make the containers that a job would be submitted with, in their order."""
    sequence = AFTER_ALL
    for task in job.tasks:
        for index in range(task.size):
            parts = [task.name] if task.name else []
            parts += [str(index)] if task.is_array else []
            sequence += 1
            yield container_in(
                job, task, index, container_id="-".join(["c-new", *parts]), sequence=sequence
            )


# ---- batch and elastic ---------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class _Group:
    """Containers of a task that fare alike: how many, and what is said of them."""

    action: str
    detail: str
    number: int = 0


class _Tally:
    """Counts what becomes of containers, and groups those that fare alike."""

    def __init__(self) -> None:
        self.placed = 0
        self.blocked = 0
        self.later = 0
        self.reasons: list[WaitReason] = []
        self._groups: dict[tuple[str, str, str], _Group] = {}

    def place(self, container: Container, where: str, instance_id: str, detail: str) -> None:
        self.placed += 1
        self._add((where, instance_id, container.task), "place", detail)

    def wait(self, container: Container, reason: WaitReason | None, *, is_later: bool) -> None:
        self.later += is_later
        self.blocked += not is_later
        if reason is not None:
            self.reasons.append(reason)
            kind = "later" if is_later else "waits"
            action = "wait" if is_later else "blocked"
            # The sentence is told once, among the reasons.
            self._add(
                (f"{kind} {reason.code}", "", container.task), action, reason.code.replace("_", " ")
            )

    def _add(self, key: tuple[str, str, str], action: str, detail: str) -> None:
        group = self._groups.setdefault(key, _Group(action=action, detail=detail))
        group.number += 1

    def steps(self) -> list[PlannedStep]:
        return [
            PlannedStep(
                instance_id=instance_id,
                action=group.action,
                detail=f"{_so_many(group.number, task)}: {group.detail}",
            )
            for (_, instance_id, task), group in self._groups.items()
        ]


def _so_many(number: int, task: str) -> str:
    what = "1 container" if number == 1 else f"{number} containers"
    return f"{what} of {task}" if task else what


def _placed(done: _Done) -> Planning:
    """Return what became of a batch or elastic job's containers."""
    tally, over = _Tally(), done.over()
    for number, container in enumerate(done.containers):
        if number % _AT_ONCE == 0:
            yield
        if container.id in over:
            tally.wait(container, over[container.id], is_later=False)
        else:
            _note_fate(tally, done.view, done.view.containers[container.id])
    evicted = done.evicted()
    found = tally.steps() + [
        PlannedStep(instance_id=id_, action="preempt", detail=_make_way(ids))
        for id_, ids in evicted.items()
    ]
    return JobPlan(
        counts=Counts(
            place=tally.placed,
            blocked=tally.blocked,
            later=tally.later,
            preempt=sum(map(len, evicted.values())),
        ),
        creates=(),
        least_usd_per_hour=Decimal(0),
        most_usd_per_hour=Decimal(0),
        waiting=_each_once(tally.reasons),
        steps=tuple(found[:_STEPS_MOST]),
        steps_left_out=max(0, len(found) - _STEPS_MOST),
    )


def _note_fate(tally: _Tally, view: EngineView, container: Container) -> None:
    """Note whether a container has a place on a trial, and where, or why not."""
    if container.has_open_attempt:
        tally.place(container, "starts", container.attempts[-1].instance_id, "started at once")
        return
    slot_id = _slot_of(view, container)
    worker = view.pool.workers.get(slot_id)
    launch = view.pool.launches.get(slot_id)
    if worker is not None:
        detail = f"room on a {worker.type.name}, not started yet"
        tally.place(container, "has room", slot_id, detail)
    elif launch is not None:
        detail = f"room on a {launch.launch.type_name} that is created"
        tally.place(container, f"created {slot_id}", "", detail)
    else:
        reason = view.wait_reason(container.id)
        tally.wait(container, reason, is_later=_is_later(view, container, reason))


def _is_later(view: EngineView, container: Container, reason: WaitReason | None) -> bool:
    """Return whether a container that has no place does not lack room, but waits for its time."""
    if _is_elastic(view, container):
        return reason is not None and reason.code == BOOTING
    return view.is_gated(container.id)


def _is_elastic(view: EngineView, container: Container) -> bool:
    type_ = view.job_type(container.job_id)
    return type_ is not None and type_.has_own_scheduler


def _slot_of(view: EngineView, container: Container) -> str:
    """Return where room is kept for a container that is not started, "" for nowhere."""
    if _is_elastic(view, container):
        return view.place_of(container)
    if container.state is not ContainerState.LOCKED:
        return ""
    slot = view.claimed_slot(container.id)
    return "" if slot is None else slot.id


# ---- system and sysbatch -------------------------------------------------------------------------


def _per_instance(done: _Done) -> Planning:
    """Return what was planned for a job that runs on each instance."""
    view, job_id = done.view, done.job.id
    if not done.decided:
        return _without_pass(done)
    # The first looks at all instances, for a job that is new to it.
    decided = done.decided[0]
    own = replace(
        decided,
        steps=tuple(step for step in decided.steps if step.job_id == job_id),
        reports=tuple(report for report in decided.reports if report.job_id == job_id),
    )
    job = view.job(job_id)
    why = None if job is None else why_job_not_begin(job, stops=view.budget_stops)
    if why is not None:
        own = _as_held(own, why)
    yield
    money = price_change(own, lambda attempt_id: _cheapest(view, attempt_id))
    return JobPlan(
        counts=counts(own).get(job_id, Counts()),
        creates=(),
        least_usd_per_hour=money.least_usd_per_hour,
        most_usd_per_hour=money.most_usd_per_hour,
        waiting=_each_once(_reasons(view, own, job_id)),
        steps=tuple(_told(step) for step in own.steps[:_STEPS_MOST]),
        steps_left_out=max(0, len(own.steps) - _STEPS_MOST),
    )


def _without_pass(done: _Done) -> JobPlan:
    """Return the plan of a job at which no pass has looked."""
    pool = done.view.pool
    why = (
        wait_reasons.PASS_FAILED
        if pool.listed_once
        else wait_reasons.not_listed(pool.listing_problem)
    )
    return JobPlan(
        counts=Counts(),
        creates=(),
        least_usd_per_hour=Decimal(0),
        most_usd_per_hour=Decimal(0),
        waiting=(why,),
        steps=(),
        steps_left_out=0,
    )


def _reasons(view: EngineView, own: steps.SystemPlan, job_id: str) -> Iterator[WaitReason]:
    """Yield why containers of a per-instance job wait, or are not what they are to be."""
    for container_id in view.containers_of(job_id):
        why = view.wait_reason(container_id)
        if why is not None:
            yield why
    for step in own.steps:
        if isinstance(step, steps.Wait | steps.Block) and step.attempt_id:
            yield step.reason
    for report in own.reports:
        if report.reason is not None:
            yield report.reason


def _as_held(own: steps.SystemPlan, why: WaitReason) -> steps.SystemPlan:
    """Return what a plan comes to for a job that may not begin, and why not.

    It starts nothing, and evicts nobody.
    """
    return replace(own, steps=tuple(_unless_held(step, why) for step in own.steps))


def _unless_held(step: steps.Step, why: WaitReason) -> steps.Step:
    if not isinstance(step, steps.PlaceOn | steps.Evict | steps.Update):
        return step
    return steps.Block(
        job_id=step.job_id,
        instance_id=step.instance_id,
        short_of=(),
        reason=why,
        attempt_id="" if isinstance(step, steps.PlaceOn) else step.attempt_id,
    )


def _cheapest(view: EngineView, attempt_id: str) -> Decimal | None:
    """Return what the cheapest instance costs for an attempt of batch work, None for others."""
    found = view.of_attempt(attempt_id)
    if found is None or found[0].pinned_to:
        return None
    types = view.eligible_types(found[0])
    return types[0].price_usd_per_hour if types else None


def _told(step: steps.Step) -> PlannedStep:
    action, detail = _words(step)
    return PlannedStep(instance_id=step.instance_id, action=action, detail=detail)


def _words(step: steps.Step) -> tuple[str, str]:  # noqa: PLR0911 - a table
    match step:
        case steps.PlaceOn():
            after = f", after {step.previous_id}" if step.previous_id else ""
            return "place", f"a new attempt is started{after}"
        case steps.Update():
            return "update", f"{step.attempt_id} is stopped and placed anew: {_names(step.fields)}"
        case steps.UpdateInPlace():
            return "in place", f"{step.attempt_id} runs on: {_names(step.fields)}"
        case steps.Stop():
            return "stop", f"{step.attempt_id} is stopped: {in_words(stop_reason_of(step))}"
        case steps.Evict():
            return "preempt", _make_way(step.victims)
        case steps.Wait():
            return "wait", step.reason.message
        case steps.Block():
            return "blocked", step.reason.message
        case steps.Ignore():
            return "ignore", f"{step.attempt_id} is left alone: {step.cause.value}"
        case steps.MarkLost():
            return "lost", f"{step.attempt_id} is lost: its instance is gone"
        case _:
            assert_never(step)


def _make_way(attempt_ids: Iterable[str]) -> str:
    return f"{', '.join(attempt_ids)} must make way for it"


def _names(fields: tuple[str, ...]) -> str:
    return f"{', '.join(fields)} changed" if fields else "nothing that matters changed"


def _each_once(told: Iterable[WaitReason]) -> tuple[WaitReason, ...]:
    """Return reasons in their order, those of equal words once; of very many the first."""
    found: dict[tuple[str, str], WaitReason] = {}
    for reason in told:
        found.setdefault((reason.code, reason.message), reason)
    return tuple(islice(found.values(), _REASONS_MOST))
