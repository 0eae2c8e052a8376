"""What the planner of per-instance jobs sees of the pool and the container table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf

from longshore.dispatcher.domain.containers import (
    AttemptOutcome,
    Container,
    InstanceRecord,
    StopCause,
    resources_of,
)
from longshore.dispatcher.domain.jobs import Job, JobType, PerInstanceKind
from longshore.dispatcher.scheduler.placement.container_port import ContainerPort
from longshore.dispatcher.scheduler.system.model import (
    Host,
    LiveAttempt,
    PastAttempt,
    PerInstanceJob,
)
from longshore.dispatcher.scheduler.system.rollout import Wave
from longshore.dispatcher.state.restarts import restart_due, runs_again_if_lost
from longshore.drivers.errors import BugError
from longshore.drivers.interface import Resources
from longshore.pool.charging import as_found
from longshore.pool.model import IdleBehavior, Worker, WorkerState
from longshore.pool.port import PoolPort

_BY_ITSELF = frozenset({AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED, AttemptOutcome.LOST})


def is_held(job: Job) -> bool:
    """Return whether a job is to start nothing, and so updates nothing."""
    return job.held or job.priority == 0


def revision_of(job: Job) -> int:
    """Return the latest revision of a system or sysbatch job."""
    terms = job.terms.per_instance
    if terms is None:
        raise BugError(f"{job.id} is no per-instance job")
    return terms.revision


def planned_job(job: Job, *, stopped: bool = False) -> PerInstanceJob:
    """Return a system or sysbatch job as its planner sees it."""
    terms = job.terms.per_instance
    if terms is None:
        raise BugError(f"{job.id} is no per-instance job")
    kind = PerInstanceKind.SYSTEM if job.type is JobType.SYSTEM else PerInstanceKind.SYSBATCH
    return PerInstanceJob(
        id=job.id,
        sequence=job.sequence,
        kind=kind,
        revision=terms.revision,
        spec=job.tasks[0].spec,
        priority=job.priority,
        revised_at=terms.revised_at,
        update=terms.update,
        late_joiners=terms.late_joiners,
        on_paused=terms.on_paused,
        ignore_system=terms.ignore_system,
        stopped=stopped,
        held=is_held(job),
    )


def host_of(
    worker: Worker,
    pool: PoolPort,
    table: ContainerPort,
    records: Mapping[str, InstanceRecord],
    now: float,
) -> Host:
    """Return a worker as the planner sees it.

    It is not ready while a process is being ended there that nobody wants: it may be an earlier
    attempt of a job that would now get a second one.
    """
    record = records.get(worker.id)
    behavior = worker.behavior
    if behavior is IdleBehavior.RUN and pool.is_draining(worker):
        behavior = IdleBehavior.DRAIN
    return Host(
        id=worker.id,
        type=as_found(worker),
        free=worker.load.free,
        leaving=_leaving(worker, table),
        on_shared_cpu=worker.load.on_shared_cpu,
        behavior=behavior,
        ready=_is_ready(worker, now) and not pool.has_strays(worker.id),
        going_away=worker.state is WorkerState.SHUTDOWN,
        joined_at=record.created_at if record is not None else worker.appeared_at,
        has_batch_work=len(worker.load.attempts) > len(worker.load.resident),
    )


def _is_ready(worker: Worker, now: float) -> bool:
    return worker.is_ready and worker.takes_more(now) and not worker.health.broken


def _leaving(worker: Worker, table: ContainerPort) -> tuple[Resources, ...]:
    found = []
    for attempt_id, resources in sorted(worker.load.attempts.items()):
        container_id = table.open_attempts.get(attempt_id)
        if container_id is None:
            # A stray, of which nobody knows what it takes: it holds nothing.
            continue
        container = table.containers[container_id]
        if container.attempts[-1].intended_outcome is not None or container.cancel_requested:
            found.append(resources)
    return tuple(found)


def live_attempts(containers: Iterable[Container]) -> list[LiveAttempt]:
    """Return the open attempts of per-instance jobs' containers."""
    found = []
    for container in containers:
        if not container.has_open_attempt:
            continue
        attempt = container.attempts[-1]
        found.append(
            LiveAttempt(
                id=attempt.id,
                job_id=container.job_id,
                instance_id=container.pinned_to,
                revision=attempt.revision,
                spec=container.spec,
                resources=resources_of(container, attempt),
                is_ending=attempt.intended_outcome is not None or container.cancel_requested,
            )
        )
    return found


def held_back(containers: Iterable[Container]) -> dict[str, list[str]]:
    """Return for each job the instances whose containers a user holds back."""
    found: dict[str, list[str]] = {}
    for container in containers:
        if container.priority == 0:
            found.setdefault(container.job_id, []).append(container.pinned_to)
    return found


def past_attempt(container: Container) -> PastAttempt | None:
    """Return the latest attempt of a per-instance container if it has ended, else None."""
    if not container.attempts or container.has_open_attempt:
        return None
    last = container.attempts[-1]
    assert last.outcome is not None  # noqa: S101 - narrows the type; it is not open
    return PastAttempt(
        id=last.id,
        job_id=container.job_id,
        instance_id=container.pinned_to,
        revision=last.revision,
        outcome=last.outcome,
        ended_at=last.finished_at or last.created_at,
        restarted_at=_restarted_at(container),
        settled=_is_settled(container),
        reason=last.reason,
    )


def remembered_attempt(container: Container) -> PastAttempt | None:
    """Return the latest attempt of a container as it was stored, if that has ended, else None.

    An earlier version left some containers waiting for another attempt where this one would end
    them: these still get it.
    """
    past = past_attempt(container)
    return None if past is None else replace(past, settled=past.settled and container.state.final)


def not_after(past: PastAttempt, now: float) -> PastAttempt:
    """Return a past attempt whose times are no later than now, though the clock was set back."""
    restarted_at = past.restarted_at
    return replace(
        past,
        ended_at=min(past.ended_at, now),
        restarted_at=None if restarted_at is None else min(restarted_at, now),
    )


def rounds_of(container: Container) -> tuple[Wave, ...]:
    """Return the rounds in which a restored container's attempts made way for a revision.

    When one was told that has not ended yet is not on record: it counts as told just now.
    """
    told = [a for a in container.attempts if a.stop_reason.cause is StopCause.REVISED]
    ends = (inf if attempt.outcome is None else attempt.finished_at for attempt in told)
    return tuple(Wave(began_at=end or 0.0, updates=1) for end in ends)


def _is_settled(container: Container) -> bool:
    """Return whether the container's retries leave it at its latest attempt."""
    last = container.attempts[-1]
    if last.outcome is AttemptOutcome.LOST:
        return not runs_again_if_lost(container)
    if last.outcome is AttemptOutcome.SUCCEEDED:
        return True
    return last.outcome is AttemptOutcome.FAILED and restart_due(container) is None


def _restarted_at(container: Container) -> float | None:
    last = container.attempts[-1]
    found = None
    for before, after in zip(container.attempts, container.attempts[1:], strict=False):
        of_revision = before.revision == after.revision == last.revision
        if of_revision and before.outcome in _BY_ITSELF:
            found = after.created_at
    return found
