"""From what the dispatcher knows of jobs to the JSON of the API."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, assert_never

import msgspec
from msgspec.structs import replace

from longshore.dispatcher.api.render.containers import dependency_answer
from longshore.dispatcher.api.render.values import reason_answer, rfc3339, usd, wait_answer
from longshore.dispatcher.api.schemas.containers import ReasonAnswer, WaitAnswer
from longshore.dispatcher.api.schemas.jobs import (
    CostEstimateAnswer,
    CountsAnswer,
    JobAnswer,
    JobCostsAnswer,
    JobTaskAnswer,
    ParameterizedAnswer,
    PartCostAnswer,
    PeriodicAnswer,
    PlanAnswer,
    PlannedChanges,
    PlannedCreateAnswer,
    PlannedStepAnswer,
    PriceChangeAnswer,
    UpdateAnswer,
)
from longshore.dispatcher.cost.estimate import AtMost, CostEstimate, FromRuns, Unknown, basis
from longshore.dispatcher.domain.containers import Reason, WaitReason
from longshore.dispatcher.domain.jobs import Job, JobTask, JobType, Schedule, Tally
from longshore.dispatcher.domain.queries import PartCost
from longshore.dispatcher.domain.schedules import ScheduleError, next_after
from longshore.dispatcher.service.dry_run_model import JobPlan
from longshore.dispatcher.service.spent import JobSpent


def job_answer(
    job: Job,
    *,
    with_tasks: bool,
    now: float | None = None,
    waits: WaitReason | msgspec.UnsetType | None = msgspec.UNSET,
    trouble: Reason | msgspec.UnsetType | None = msgspec.UNSET,
) -> JobAnswer:
    """Return a job as it is answered; one may have thousands of tasks, so lists are without.

    `now`, in seconds since the epoch, is None where its next launch is not told; `waits`, why it is
    on no instance, and `trouble`, what is wrong with it, are unset where that is not.
    """
    return JobAnswer(
        id=job.id,
        name=job.name,
        type=job.type.value,
        user=job.user,
        project=job.project,
        priority=job.priority,
        labels=dict(job.labels),
        state=job.state.value,
        held=job.held,
        cancel_requested=job.cancel_requested,
        exit_code=job.exit_code,
        reason=reason_answer(job.reason),
        created_at=rfc3339(job.created_at),
        started_at=rfc3339(job.started_at),
        finished_at=rfc3339(job.finished_at),
        counts=_counts(job.tallies),
        parent=job.parent,
        **_terms(job),
        next_launch=msgspec.UNSET if now is None else _next_launch(job, now),
        waiting_for=_waiting(job, waits),
        trouble=_trouble(job, trouble),
        tasks=_tasks(job) if with_tasks else msgspec.UNSET,
    )


def job_costs_answer(spent: JobSpent) -> JobCostsAnswer:
    """Return what a job cost as it is answered."""
    total_usd = sum((each.cost_usd for each in spent.costs.tasks), Decimal(0))
    return JobCostsAnswer(
        total_usd=usd(total_usd),
        lost_work_usd=None if spent.lost_work_usd is None else usd(spent.lost_work_usd),
        tasks=tuple(map(_part_cost, spent.costs.tasks)),
        elements=tuple(map(_part_cost, spent.costs.elements)),
    )


def _part_cost(part: PartCost) -> PartCostAnswer:
    return PartCostAnswer(task=part.task, array_index=part.array_index, cost_usd=usd(part.cost_usd))


def job_bytes(job: Job) -> int:
    """Return about how long a job's answer is without its tasks."""
    schedule, parameters = job.terms.schedule, job.terms.parameters
    pairs = (*job.labels, *(parameters.optional if parameters else ()))
    words = (*(schedule.cron if schedule else ()), *(parameters.required if parameters else ()))
    total = 1000 + len(job.name) + sum(len(key) + len(value) for key, value in pairs)
    return total + sum(map(len, words))


def _terms(job: Job) -> dict[str, Any]:
    """Return what a job of its type says beside its tasks."""
    known: dict[str, Any] = {"revision": None}
    match job.type:
        case JobType.BATCH:
            known |= _runs(job)
        case JobType.SYSTEM:
            known |= _per_instance(job)
        case JobType.SYSBATCH:
            known |= _per_instance(job) | _runs(job)
        case JobType.ELASTIC:
            known |= _elastic(job)
        case _:
            assert_never(job.type)
    return known


def _per_instance(job: Job) -> dict[str, Any]:
    terms = job.terms.per_instance
    if terms is None:
        return {}
    return {
        "revision": terms.revision,
        "update": UpdateAnswer(
            max_parallel=terms.update.max_parallel, stagger_s=terms.update.stagger_s
        ),
        "late_joiners": terms.late_joiners,
        "on_paused": terms.on_paused,
        "ignore_system": terms.ignore_system,
    }


def _elastic(job: Job) -> dict[str, Any]:
    terms = job.terms.elastic
    if terms is None:
        return {}
    return {
        "mode": terms.mode.value,
        "size": terms.size,
        "runtime_s": terms.runtime_s,
        "scale_up": terms.scale_up,
    }


def _runs(job: Job) -> dict[str, Any]:
    schedule, parameters = job.terms.schedule, job.terms.parameters
    return {
        "periodic": schedule
        and PeriodicAnswer(
            cron=schedule.cron, time_zone=schedule.time_zone, overlap=schedule.overlap.value
        ),
        "parameterized": parameters
        and ParameterizedAnswer(required=parameters.required, optional=dict(parameters.optional)),
        "launched_for": rfc3339(job.launched_for),
    }


def _waiting(
    job: Job, waits: WaitReason | msgspec.UnsetType | None
) -> WaitAnswer | msgspec.UnsetType | None:
    if isinstance(waits, msgspec.UnsetType):
        return msgspec.UNSET
    if not job.type.is_per_instance and job.terms.schedule is None:
        return msgspec.UNSET
    return wait_answer(waits)


def _trouble(
    job: Job, trouble: Reason | msgspec.UnsetType | None
) -> ReasonAnswer | msgspec.UnsetType | None:
    if isinstance(trouble, msgspec.UnsetType) or not job.type.is_per_instance:
        return msgspec.UNSET
    return reason_answer(trouble)


def _next_launch(job: Job, now: float) -> str | msgspec.UnsetType | None:
    schedule = job.terms.schedule
    if schedule is None:
        return msgspec.UNSET
    if job.held or job.cancel_requested or job.state.final:
        return None
    return first_launch(schedule, max(now, job.launched_for or now))


def first_launch(schedule: Schedule | None, now: float | None) -> str | None:
    """Return when a schedule launches next after `now`, None for never, and where nobody knows."""
    if schedule is None or now is None:
        return None
    try:
        return rfc3339(next_after(schedule, now))
    except ScheduleError:
        return None


def _tasks(job: Job) -> tuple[JobTaskAnswer, ...]:
    own = f"{job.id}/"
    pairs = zip(job.tasks, job.tallies, strict=True)
    elastic = job.type is JobType.ELASTIC
    return tuple(_task(task, tally, own, is_component=elastic) for task, tally in pairs)


def _task(task: JobTask, tally: Tally, own: str, *, is_component: bool) -> JobTaskAnswer:
    return JobTaskAnswer(
        name=task.name,
        size=task.size,
        array=task.is_array,
        max_running=task.max_running,
        after=tuple(dependency_answer(each, own) for each in task.spec.after),
        counts=_counts((tally,)),
        role=task.role.value if is_component else msgspec.UNSET,
        startup_order=task.startup_order if is_component else msgspec.UNSET,
    )


def _counts(tallies: Sequence[Tally]) -> CountsAnswer:
    # Not by adding tallies up: a job may have thousands, and a page a thousand jobs.
    return CountsAnswer(
        queued=sum(each.queued for each in tallies),
        locked=sum(each.locked for each in tallies),
        running=sum(each.running for each in tallies),
        succeeded=sum(each.succeeded for each in tallies),
        failed=sum(each.failed for each in tallies),
        cancelled=sum(each.cancelled for each in tallies),
        total=sum(each.total for each in tallies),
    )


# ---- what a job would come to, as it is answered -------------------------------------------------


def plan_answer(
    plan: JobPlan, schedule: Schedule | None, now: float | None, cost: CostEstimate
) -> PlanAnswer:
    """Return a plan as it is answered; `schedule` is its job's, `cost` what that may come to.

    `now` is in seconds since the epoch, None where nobody knows.
    """
    counts = plan.counts
    return PlanAnswer(
        changes=PlannedChanges(
            place=counts.place,
            update=counts.update,
            in_place=counts.in_place,
            stop=counts.stop,
            migrate=counts.migrate,
            ignore=counts.ignore,
            lost=counts.lost,
            preempt=counts.preempt,
            blocked=counts.blocked,
            later=counts.later,
        ),
        creates=tuple(
            PlannedCreateAnswer(
                instance_type=each.type_name,
                number=each.number,
                price_per_hour=usd(each.price_usd_per_hour),
            )
            for each in plan.creates
        ),
        price_change_per_hour=PriceChangeAnswer(
            least=usd(plan.least_usd_per_hour), most=usd(plan.most_usd_per_hour)
        ),
        waiting=tuple(answer for each in plan.waiting if (answer := wait_answer(each)) is not None),
        steps=tuple(
            PlannedStepAnswer(instance=each.instance_id, action=each.action, detail=each.detail)
            for each in plan.steps
        ),
        steps_left_out=plan.steps_left_out,
        of_run=plan.of_run,
        next_launch=first_launch(schedule, now),
        cost=estimate_answer(cost),
    )


def estimate_answer(cost: CostEstimate) -> CostEstimateAnswer:
    """Return an estimate as it is answered: what nobody knows is null."""
    found = CostEstimateAnswer(p50_usd=None, p90_usd=None, at_most_usd=None, basis=basis(cost))
    match cost:
        case FromRuns():
            return replace(found, p50_usd=usd(cost.p50_usd), p90_usd=usd(cost.p90_usd))
        case AtMost():
            return replace(found, at_most_usd=usd(cost.usd))
        case Unknown():
            return found
        case _:
            assert_never(cost)
