"""Carrying out what the planner of per-instance jobs says: containers made, started and ended."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import assert_never

from longshore.dispatcher.domain.containers import (
    Attempt,
    AttemptOutcome,
    Container,
    ContainerState,
    Reason,
    StopCause,
    StopReason,
    WaitReason,
)
from longshore.dispatcher.domain.jobs import Job
from longshore.dispatcher.scheduler.placement.container_port import ContainerPort
from longshore.dispatcher.scheduler.placement.decisions import end_attempt
from longshore.dispatcher.scheduler.placement.start import AttemptStarter
from longshore.dispatcher.scheduler.system import model as steps
from longshore.dispatcher.scheduler.system.match import closed, mismatch
from longshore.dispatcher.scheduler.system.model import (
    Closed,
    Host,
    PerInstanceJob,
    SystemPlan,
    SystemSnapshot,
)
from longshore.dispatcher.scheduler.system.snapshot import is_held, revision_of
from longshore.drivers.errors import BugError
from longshore.pool.port import PoolPort

_JOB_OVER = Reason(code="stopped", message="its job has ended")

_Place = tuple[str, str]
"""A job and an instance."""


class SystemApplier:
    """Knows the containers of per-instance jobs that have not ended, and does what plans say.

    `reasons` tells why a container waits, by its id.
    """

    def __init__(
        self,
        pool: PoolPort,
        table: ContainerPort,
        starter: AttemptStarter,
        new_container: Callable[[], tuple[str, int]],
    ) -> None:
        self._pool = pool
        self._table = table
        self._starter = starter
        self._new_container = new_container
        self._containers: dict[_Place, str] = {}
        self._on: dict[str, set[str]] = {}
        self.reasons: dict[str, WaitReason] = {}

    # ---- who there is --------------------------------------------------------------------------

    def know(self, container: Container) -> None:
        """Take in a container that has not ended."""
        self._containers[container.job_id, container.pinned_to] = container.id
        self._on.setdefault(container.pinned_to, set()).add(container.id)

    def forget(self, container: Container) -> None:
        """Let go of a container that ends; not knowing it is no error."""
        self.reasons.pop(container.id, None)
        place = (container.job_id, container.pinned_to)
        if self._containers.get(place) == container.id:
            del self._containers[place]
        others = self._on.get(container.pinned_to, set())
        others.discard(container.id)
        if not others:
            self._on.pop(container.pinned_to, None)

    def instances(self) -> set[str]:
        """Return the instances for which there are containers, as a new set."""
        return set(self._on)

    def job_ids(self) -> set[str]:
        """Return the jobs that have containers, as a new set."""
        return {job_id for job_id, _ in self._containers}

    def containers_on(self, names: Iterable[str]) -> list[Container]:
        """Return the containers for some instances, in the order of their ids."""
        ids = sorted(each for name in names for each in self._on.get(name, ()))
        known = self._table.containers
        # A user's cancel ends one that waits without a word to us.
        return [known[each] for each in ids if each in known]

    # ---- what is done --------------------------------------------------------------------------

    def carry_out(self, plan: SystemPlan, jobs: Mapping[str, Job], now: float) -> None:
        """Do all steps of a plan; a job that is held gets nothing new."""
        for step in plan.steps:
            job = jobs.get(step.job_id)
            if job is not None:
                self._do(step, job, now)

    def _do(self, step: steps.Step, job: Job, now: float) -> None:
        match step:
            case steps.PlaceOn():
                self._place(step, job, now)
            case steps.Stop():
                self._end(step.attempt_id, AttemptOutcome.CANCELLED, stop_reason_of(step), now)
            case steps.Update():
                if not is_held(job):
                    why = StopReason(cause=StopCause.REVISED, of=str(revision_of(job)))
                    self._end(step.attempt_id, AttemptOutcome.PREEMPTED, why, now)
            case steps.UpdateInPlace():
                self._update_in_place(step, job)
            case steps.Evict():
                self._evict(step, job, now)
            case steps.Wait() | steps.Block():
                if not step.attempt_id:
                    container = self._waiting(job, step.instance_id, now)
                    self.reasons[container.id] = _with_cause(step, container)
            case steps.MarkLost() | steps.Ignore():
                pass
            case _:
                assert_never(step)

    def _place(self, step: steps.PlaceOn, job: Job, now: float) -> None:
        container = self._waiting(job, step.instance_id, now)
        if is_held(job) or container.priority == 0:
            return
        self.reasons.pop(container.id, None)
        self._give_spec(container, job)
        worker = self._pool.workers[step.instance_id]
        self._starter.start(container.id, worker, step.resources, now, revision=revision_of(job))

    def _waiting(self, job: Job, instance_id: str, now: float) -> Container:
        """Return the container of a job for an instance, which waits; a new one where none is."""
        container_id = self._containers.get((job.id, instance_id))
        known = None if container_id is None else self._table.containers.get(container_id)
        if known is not None:
            return known
        container_id, sequence = self._new_container()
        task = job.tasks[0]
        container = Container(
            id=container_id,
            sequence=sequence,
            spec=task.spec,
            user=job.user,
            project=job.project,
            priority=job.priority,
            created_at=now,
            job_id=job.id,
            task=task.name,
            pinned_to=instance_id,
        )
        self._table.make(container, held=self._table.jobs.is_held(job.id))
        self.know(container)
        return container

    def _give_spec(self, container: Container, job: Job) -> None:
        """Let a container be what its job's revision says."""
        spec = job.tasks[0].spec
        if container.spec != spec:
            self._table.respecify(container.id, spec)

    def _update_in_place(self, step: steps.UpdateInPlace, job: Job) -> None:
        table = self._table
        found = table.of_attempt(step.attempt_id)
        if found is None:
            raise BugError(f"{step.attempt_id} is to be updated, and is not open")
        container, attempt = found
        self._give_spec(container, job)
        attempt = replace(attempt, revision=revision_of(job))
        container = table.containers[container.id]
        earlier = container.attempts[:-1]
        table.save(replace(container, attempts=(*earlier, attempt)), attempt)

    def _evict(self, step: steps.Evict, job: Job, now: float) -> None:
        if not step.attempt_id:
            container = self._waiting(job, step.instance_id, now)
            number = len(step.victims)
            who = "a container" if number == 1 else f"{number} containers"
            message = f"room is made for it: {who} of lower priority must end"
            self.reasons[container.id] = WaitReason(code="evicting", message=message)
            if container.priority == 0:
                return
        if is_held(job):
            return
        whom = StopReason(cause=StopCause.FOR_JOB, of=job.id)
        for attempt_id in step.victims:
            self._end(attempt_id, AttemptOutcome.PREEMPTED, whom, now)

    def _end(self, attempt_id: str, outcome: AttemptOutcome, why: StopReason, now: float) -> None:
        container_id = self._table.open_attempts.get(attempt_id)
        if container_id is None:
            raise BugError(f"{attempt_id} is to end, and is not open")
        end_attempt(self._table, self._pool, container_id, now, outcome=outcome, by=why)

    # ---- who has no place any more ---------------------------------------------------------------

    def end_without_place(self, snapshot: SystemSnapshot, plan: SystemPlan, now: float) -> None:
        """End what waits on the instances shown and is not wanted there, unless they are just not
        ready.
        """
        wanted = {
            (step.job_id, step.instance_id)
            for step in plan.steps
            if isinstance(step, steps.PlaceOn | steps.Wait | steps.Block | steps.Evict)
        }
        jobs = {job.id: job for job in snapshot.jobs}
        for host in snapshot.hosts:
            for container in self.containers_on([host.id]):
                if container.has_open_attempt or (container.job_id, host.id) in wanted:
                    continue
                reason = _why_not(jobs.get(container.job_id), host)
                if reason is not None:
                    self._finish(container, reason, now)

    def end_on_gone(self, names: Collection[str], now: float) -> None:
        """End what waits for instances that are gone."""
        for name in sorted(names):
            for container in self.containers_on([name]):
                if not container.has_open_attempt:
                    self._finish(container, gone(name), now)

    def _finish(self, container: Container, reason: Reason, now: float) -> None:
        self.forget(container)
        self._table.finish(container, ContainerState.CANCELLED, reason, now)


def gone(instance_id: str) -> Reason:
    """Return why a container ended whose instance is no longer there."""
    return Reason(code="instance_gone", message=f"its instance {instance_id} is gone")


def with_its_job(attempt: Attempt) -> Reason | None:
    """Return why a container ended after an attempt, since it was cancelled or its job is over.

    Whatever else the attempt was told to end for earlier does not matter for the container.
    """
    reason = attempt.reason
    told = reason is not None and reason.code in ("stopped", "instance_gone")
    if told or attempt.outcome is AttemptOutcome.CANCELLED:
        return reason
    return _JOB_OVER


def stop_reason_of(step: steps.Stop) -> StopReason:
    """Return for what an attempt ends that a plan stops."""
    match step.cause:
        case steps.RemovalCause.JOB_STOPPED:
            return StopReason(cause=StopCause.JOB_STOPPED)
        case steps.RemovalCause.JOB_GONE:
            return StopReason(cause=StopCause.JOB_GONE)
        case steps.RemovalCause.NO_MATCH:
            return StopReason(cause=StopCause.NO_MATCH, detail=step.mismatch)
        case steps.RemovalCause.NODE_DRAINING:
            return StopReason(cause=StopCause.NODE_DRAINING)
        case steps.RemovalCause.REVISED_WHILE_HELD:
            return StopReason(cause=StopCause.REVISED_WHILE_HELD)
        case steps.RemovalCause.SUPERFLUOUS:
            return StopReason(cause=StopCause.SUPERFLUOUS)
        case unknown:
            assert_never(unknown)


def _with_cause(step: steps.Wait | steps.Block, container: Container) -> WaitReason:
    """Return why a container waits; of one that is started again also how it ended."""
    last = container.attempts[-1] if container.attempts else None
    is_restart = isinstance(step, steps.Wait) and step.cause is steps.WaitCause.RESTART
    if not is_restart or last is None or last.reason is None:
        return step.reason
    return replace(step.reason, message=f"{step.reason.message}: {last.reason.message}")


def _why_not(job: PerInstanceJob | None, host: Host) -> Reason | None:
    """Return why a container that waits for an instance is to end; None where it may wait on."""
    if job is None or job.stopped:
        return _JOB_OVER
    why_not = mismatch(host.type, job.spec.constraints)
    if why_not:
        return Reason(code="stopped", message=f"its instance no longer matches: {why_not}")
    cause = closed(job, host)
    if cause is None or cause is Closed.NOT_READY:
        return None
    return Reason(code="stopped", message=f"nothing is placed on its instance: {cause.value}")
