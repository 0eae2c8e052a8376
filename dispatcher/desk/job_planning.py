"""What a job would come to if submitted now: planned as a pass would, and thrown away; pure."""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import assert_never

from dispatcher.engine import Engine
from dispatcher.jobs.model import Job, JobTask, JobType
from dispatcher.jobs.plan import JobPlan, PlannedCreate, PlannedStep
from dispatcher.ledger.endings import in_words
from dispatcher.model import Container, WaitReason
from dispatcher.per_instance.deeds import ending_for
from dispatcher.planner import per_instance
from dispatcher.planner import per_instance_model as steps
from dispatcher.planner.batch import plan
from dispatcher.planner.limits import Plan, View
from dispatcher.planner.per_instance_counts import Counts, counts, price_change
from dispatcher.queueing.queue import RequestClass

MOST_THOUGHT_OF = 10_000
"""Of so many containers of a job a plan looks at most."""

_MOST_STEPS = 1000
_PLENTY = 10**6
_AFTER_ALL = 2**61
"""A place in the queue behind all that wait."""

_AFTER = WaitReason(code="after", message="it waits for others of its job, or elsewhere, to end")


def plan_job(engine: Engine, job: Job, now: float) -> JobPlan:
    """Return what a job would come to at this moment; nothing is changed.

    `job` is one that there is not, or the next revision of one that there is. A periodic or
    parameterised job is planned as one run of it.
    """
    match job.type:
        case JobType.SYSTEM | JobType.SYSBATCH:
            return _per_instance(engine, job, now)
        case JobType.BATCH | JobType.ELASTIC:
            return _batch(engine, job, now)
        case _:
            assert_never(job.type)


# ---- system and sysbatch -------------------------------------------------------------------------


def _per_instance(engine: Engine, job: Job, now: float) -> JobPlan:
    placer = engine.per_instance
    snapshot = placer.snapshot(sorted(engine.pool.workers), now, instead=job)
    whole = per_instance.plan(snapshot, placer.preempt())
    own = replace(
        whole,
        steps=tuple(step for step in whole.steps if step.job_id == job.id),
        reports=tuple(report for report in whole.reports if report.job_id == job.id),
    )
    money = price_change(own, lambda attempt_id: _cheapest(engine, attempt_id))
    reasons = [step.reason for step in own.steps if isinstance(step, steps.Wait | steps.Block)]
    reasons += [report.reason for report in own.reports if report.reason is not None]
    return JobPlan(
        counts=counts(own).get(job.id, Counts()),
        creates=(),
        least_usd_per_hour=money.least_usd_per_hour,
        most_usd_per_hour=money.most_usd_per_hour,
        waiting=_each_once(reasons),
        steps=tuple(_told(step) for step in own.steps[:_MOST_STEPS]),
        steps_left_out=max(0, len(own.steps) - _MOST_STEPS),
    )


def _cheapest(engine: Engine, attempt_id: str) -> Decimal | None:
    """Return what the cheapest instance costs for an attempt of batch work, None for others."""
    found = engine.ledger.of_attempt(attempt_id)
    if found is None or found[0].pinned_to:
        return None
    types = engine.eligible_types(found[0])
    return types[0].price_usd_per_hour if types else None


def _told(step: steps.Step) -> PlannedStep:
    action, detail = _words(step)
    return PlannedStep(instance_id=step.instance_id, action=action, detail=detail)


def _words(step: steps.Step) -> tuple[str, str]:  # noqa: PLR0911 - a table
    match step:
        case steps.Place():
            after = f", after {step.previous_id}" if step.previous_id else ""
            return "place", f"a new attempt is started{after}"
        case steps.Update():
            return "update", f"{step.attempt_id} is stopped and placed anew: {_names(step.fields)}"
        case steps.UpdateInPlace():
            return "in place", f"{step.attempt_id} runs on: {_names(step.fields)}"
        case steps.Stop():
            return "stop", f"{step.attempt_id} is stopped: {in_words(ending_for(step))}"
        case steps.Evict():
            return "preempt", f"{', '.join(step.victims)} must make way for it"
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


def _names(fields: tuple[str, ...]) -> str:
    return f"{', '.join(fields)} changed" if fields else "nothing that matters changed"


# ---- batch ---------------------------------------------------------------------------------------


def _batch(engine: Engine, job: Job, now: float) -> JobPlan:
    """Plan a pass with the job and one without it; what differs is the job's."""
    ready = [task for task in job.tasks if not task.spec.after]
    later = sum(task.size for task in job.tasks if task.spec.after)
    on_trial = _on_trial(engine, job, ready)
    thought_of = sum(len(each) for each in on_trial)
    left_out = sum(task.size for task in ready) - thought_of
    without = plan(_view(engine, (), now))
    decided = plan(_view(engine, on_trial, now))
    keys = {each.key for each in on_trial}
    placed = sum(line.position for line in decided.lines if line.key in keys)
    creates, change = _difference(decided, without)
    reasons = [decided.waiting[key] for key in sorted(keys, key=repr) if key in decided.waiting]
    return JobPlan(
        counts=Counts(place=placed, blocked=thought_of - placed, later=later),
        creates=creates,
        least_usd_per_hour=change,
        most_usd_per_hour=change,
        waiting=_each_once([*reasons, *([_AFTER] if later else [])]),
        steps=(),
        steps_left_out=left_out,
    )


def _on_trial(engine: Engine, job: Job, tasks: Iterable[JobTask]) -> list[RequestClass]:
    """Return classes with the containers of some tasks, in order; of many the first only."""
    classes: dict[object, RequestClass] = {}
    versions = itertools.count(-1, -1)
    left = MOST_THOUGHT_OF
    for number, task in enumerate(tasks):
        size = min(left, task.size, task.max_running or task.size)
        left -= size
        for index in range(size):
            container = Container(
                id=f"c-trial-{number:06}-{index:06}",
                sequence=_AFTER_ALL + index,
                spec=task.spec,
                user=job.user,
                project=job.project,
                priority=job.priority,
                created_at=job.created_at,
            )
            key = replace(engine.ledger.queue.key_of(container), on_trial=True)
            if key not in classes:
                classes[key] = engine.ledger.queue.new_class(key, versions)
            classes[key].add(container)
    return list(classes.values())


def _view(engine: Engine, more: Iterable[RequestClass], now: float) -> View:
    """Return what a pass would decide from, with room to fill that is a copy.

    How much may be asked of the cloud at once does not matter here: a plan is for what comes of it.
    """
    view = engine.placing.view(now)
    classes = [*view.classes, *more]
    firsts = {id(each): first for each in classes if (first := each.at(0)) is not None}
    return replace(
        view,
        classes=sorted((c for c in classes if id(c) in firsts), key=lambda c: firsts[id(c)]),
        fleet=copy.deepcopy(view.fleet),
        limits=replace(view.limits, creates_left=_PLENTY, tokens_left=_PLENTY),
    )


def _difference(decided: Plan, without: Plan) -> tuple[tuple[PlannedCreate, ...], Decimal]:
    """Return what is created for the job, and what that costs an hour more."""
    prices = {s.type.name: s.type.price_usd_per_hour for s in [*decided.creates, *without.creates]}
    more = Counter(slot.type.name for slot in decided.creates)
    more.subtract(slot.type.name for slot in without.creates)
    change = sum((prices[name] * number for name, number in more.items()), Decimal(0))
    creates = tuple(
        PlannedCreate(type_name=name, number=number, price_usd_per_hour=prices[name])
        for name, number in sorted(more.items())
        if number
    )
    return creates, change


def _each_once(reasons: Iterable[WaitReason]) -> tuple[WaitReason, ...]:
    found: dict[tuple[str, str], WaitReason] = {}
    for reason in reasons:
        found.setdefault((reason.code, reason.message), reason)
    return tuple(found.values())
