"""What users ask of containers and jobs, carried out on the container table and the pool."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from longshore.dispatcher.domain.containers import (
    NO_STOP,
    AttemptOutcome,
    ContainerState,
    Reason,
)
from longshore.dispatcher.domain.messages import (
    AdminEvent,
    BehaviorRequested,
    CancelRequested,
    InstanceKillRequested,
    JobCancelRequested,
    JobHoldRequested,
    JobLaunched,
    JobPriorityRequested,
    JobRevised,
    JobSubmitted,
    PriorityRequested,
    PublishContainer,
    PublishJob,
    PublishStray,
    StrayAction,
    StraysDecided,
    Submitted,
    UserEvent,
)
from longshore.dispatcher.scheduler.placement.decisions import end_attempt
from longshore.dispatcher.scheduler.placement.workload import WorkloadSchedulers
from longshore.dispatcher.state.containers import ContainerTable
from longshore.dispatcher.state.dependencies import Workflow, roots_of
from longshore.pool import attempts, shutdown, strays
from longshore.pool.core import PoolCore
from longshore.pool.model import WorkerState
from longshore.pool.port import PoolPort

# ---- what admins ask of instances, carried out on the pool ---------------------------------------


def carry_out(pool: PoolCore, event: AdminEvent, now: float) -> list[PublishStray]:
    """Do what an admin asks of an instance, if it is known; return what is told of strays there.

    What is being shut down stays so: nothing is journalled, tagged or told. But a kill ends the
    wait for what still puts things in order there.
    """
    worker = pool.workers.get(event.worker_id)
    if worker is None:
        return []
    match event:
        case BehaviorRequested():
            if worker.state is not WorkerState.SHUTDOWN:
                shutdown.set_behavior(pool, worker, event.behavior, now, event.note)
        case InstanceKillRequested():
            shutdown.kill_worker(pool, worker, event.reason, now)
        case StraysDecided():
            return _decide(pool, event, now)
        case _:
            assert_never(event)
    return []


def _decide(pool: PoolCore, event: StraysDecided, now: float) -> list[PublishStray]:
    """End strays that are kept, or leave them to their own end; what is gone is left out."""
    told = []
    for attempt in strays.kept(pool):
        if attempt.worker_id != event.worker_id or attempt.remote_id not in event.attempt_ids:
            continue
        if event.adopt:
            strays.adopt(pool, attempt)
        else:
            attempts.kill(pool, attempt.id, now)
        told.append(
            PublishStray(
                action=StrayAction.ADOPTED if attempt.adopted else StrayAction.KILLED,
                worker_id=attempt.worker_id,
                attempt_id=attempt.remote_id,
                container_id=attempt.container_id,
                store=attempt.store,
            )
        )
    return told


# ---- what users ask of containers and jobs, carried out on table and pool ------------------------

_LOOKED_AGAIN_S = 1.0

JobRequestEvent = (
    JobCancelRequested | JobPriorityRequested | JobHoldRequested | JobRevised | JobLaunched
)
"""What users, or schedules, ask of a whole job."""


class UserRequests:
    """Carries out what users ask, and what earlier processes did not get done of it."""

    def __init__(
        self,
        pool: PoolPort,
        table: ContainerTable,
        workflow: Workflow,
        workloads: WorkloadSchedulers,
    ) -> None:
        self._pool = pool
        self._table = table
        self._workflow = workflow
        self._workloads = workloads

    def begin(self, now: float) -> None:
        """Take up what users asked for and an earlier process did not get done."""
        table = self._table
        for container_id, container in sorted(table.containers.items()):
            if container.cancel_requested:
                self._cancel(container_id, now)
            elif container.has_open_attempt and container.attempts[-1].intended_outcome is not None:
                self._pool.stop(container.attempts[-1].id, now)
            elif container.priority == 0 and container.has_open_attempt:
                self._preempt(container_id, now)
            elif container.priority == 0 and container.state is ContainerState.LOCKED:
                table.unlock(container_id)

    def carry_out(self, event: UserEvent, now: float) -> None:
        """Do what an event says; of what is unknown or has ended, nothing."""
        match event:
            case Submitted() | JobSubmitted():
                self._admit(event, now)
            case CancelRequested():
                self._changed(event.container_id)
                self._note_cancel(event.container_id, now)
            case PriorityRequested():
                self._changed(event.container_id)
                self._set_priority(event.container_id, event.priority, now)
            case _:
                self._carry_out_for_job(event, now)

    def _changed(self, container_id: str) -> None:
        container = self._table.containers.get(container_id)
        if container is not None:
            self._workloads.changed(container.job_id)

    def _carry_out_for_job(self, event: JobRequestEvent, now: float) -> None:
        match event:
            case JobCancelRequested():
                self._workloads.changed(event.job_id)
                self._table.jobs.cancel(event.job_id)
                for container_id in self._table.jobs.containers_of(event.job_id):
                    self._note_cancel(container_id, now)
            case JobPriorityRequested():
                self._workloads.changed(event.job_id)
                self._table.jobs.set_priority(event.job_id, event.priority)
                for container_id in self._table.jobs.containers_of(event.job_id):
                    self._set_priority(container_id, event.priority, now)
            case JobHoldRequested():
                self._workloads.changed(event.job_id)
                self._workflow.hold(event.job_id, held=event.held, now=now)
            case JobRevised():
                self._table.jobs.revise(event.job)
                for container_id in self._table.jobs.containers_of(event.job.id):
                    self._set_priority(container_id, event.job.priority, now)
                self._workloads.admit(event.job)
            case JobLaunched():
                self._table.jobs.set_launched_for(event.job_id, event.launched_for)
            case _:
                assert_never(event)

    def _admit(self, event: Submitted | JobSubmitted, now: float) -> None:
        """Take in new containers, for which the ends of what they wait for were watched."""
        if isinstance(event, JobSubmitted):
            # Its containers are told of when they change: there may be a hundred thousand.
            self._table.published.append(PublishJob(job=event.job))
            self._table.jobs.admit(event.job)
            self._workloads.admit(event.job)
        else:
            for container in event.containers:
                self._table.published.append(PublishContainer(container=container))
        self._workflow.admit(event.containers, event.ended, now)
        for container in event.containers:
            self._workloads.take_in(container)
        self._workflow.unwatch_completions(roots_of(event.containers))

    def end_over_time(self, now: float) -> None:
        """End what has run for as long as it may; it fails, whatever it exits with.

        Without a session it may have ended, or be lost, for all that is known: that comes first.
        """
        table = self._table
        for attempt_id, _ in table.time_limits.pop_due(now):
            container_id = table.open_attempts[attempt_id]
            worker = self._pool.workers.get(table.containers[container_id].attempts[-1].instance_id)
            if worker is not None and worker.link.session_up:
                self._end(container_id, AttemptOutcome.FAILED, now)
            else:
                table.time_limits.set(attempt_id, now + _LOOKED_AGAIN_S)

    def _end(self, container_id: str, outcome: AttemptOutcome, now: float) -> None:
        end_attempt(self._table, self._pool, container_id, now, outcome=outcome, by=NO_STOP)

    def _note_cancel(self, container_id: str, now: float) -> None:
        container = self._table.containers.get(container_id)
        if container is not None and not container.cancel_requested:
            self._table.containers[container_id] = replace(container, cancel_requested=True)
            self._cancel(container_id, now)

    def _cancel(self, container_id: str, now: float) -> None:
        """End what runs of a container; one that only waits is cancelled at once."""
        container = self._table.containers[container_id]
        if container.has_open_attempt:
            self._end(container_id, AttemptOutcome.CANCELLED, now)
            return
        reason = Reason(code="cancelled", message="cancelled while it waited")
        self._table.finish(container, ContainerState.CANCELLED, reason, now)

    def _set_priority(self, container_id: str, priority: int, now: float) -> None:
        container = self._table.containers.get(container_id)
        if container is None or container.priority == priority:
            return
        container = replace(container, priority=priority)
        self._table.containers[container_id] = container
        if not container.has_open_attempt:
            if priority == 0 and container.state is ContainerState.LOCKED:
                self._table.unlock(container_id)
            elif priority > 0:
                self._workflow.enqueue_in_window(container)
            self._table.wait(self._table.containers[container_id], now)
        elif priority == 0 and not container.cancel_requested:
            self._preempt(container_id, now)

    def _preempt(self, container_id: str, now: float) -> None:
        """End what runs of a container, to be queued again, unless it is being ended already."""
        if self._table.containers[container_id].attempts[-1].intended_outcome is None:
            self._end(container_id, AttemptOutcome.PREEMPTED, now)
