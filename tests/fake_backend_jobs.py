"""The jobs of the in-memory backend: their containers are real, and make up what they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from longshore.dispatcher.domain.containers import Container, ContainerState, Reason, WaitReason
from longshore.dispatcher.domain.jobs import Job, JobState, JobTask, Tally, environment_of
from longshore.dispatcher.domain.queries import ContainerFilter, JobFilter, JobPage
from longshore.dispatcher.service.contracts import Conflict, NewJob, NotFound, Unavailable
from longshore.dispatcher.service.dry_run_model import JobPlan
from longshore.dispatcher.service.job_factory import (
    containers_in,
    misplaced_in_revision,
    new_job,
    next_revision,
    run_of,
    values_of_run,
    why_not_dispatched,
    why_not_revised,
)
from longshore.drivers.errors import InvalidRequest


class FakeJobs(ABC):
    """The part of `FakeBackend` that knows jobs."""

    _now: Callable[[], float]
    _containers: dict[str, Container]
    _jobs: dict[str, Job]
    _keys: dict[tuple[str, str], tuple[str, list[str]]]
    planned: JobPlan
    nowhere: dict[str, WaitReason]
    troubles: dict[str, Reason]
    plans_asked: list[tuple[str, str, NewJob]]
    unavailable: str
    submissions: int

    @abstractmethod
    def _save(self, container: Container) -> Container: ...

    @abstractmethod
    async def cancel(self, container_id: str) -> Container: ...

    async def submit_job(
        self, new: NewJob, *, user: str, idempotency_key: str, fingerprint: str
    ) -> Job:
        if self.unavailable:
            raise Unavailable(self.unavailable)
        if earlier := self._earlier(user, idempotency_key, fingerprint):
            return await self.job(earlier)
        job = new_job(
            new,
            job_id=f"j-{len(self._jobs) + 1:08d}",
            sequence=len(self._jobs) + 1,
            user=user,
            now=self._now(),
        )
        return await self._take_in(job, user, idempotency_key, fingerprint)

    async def dispatch_job(
        self,
        job_id: str,
        parameters: Mapping[str, str],
        *,
        user: str,
        idempotency_key: str,
        fingerprint: str,
    ) -> Job:
        template = await self.job(job_id)
        if sentence := why_not_dispatched(template):
            raise Conflict(sentence)
        env = environment_of(values_of_run(template, parameters))
        if earlier := self._earlier(user, idempotency_key, fingerprint):
            return await self.job(earlier)
        job = run_of(
            template,
            job_id=f"j-{len(self._jobs) + 1:08d}",
            sequence=len(self._jobs) + 1,
            now=self._now(),
            env=env,
        )
        return await self._take_in(job, user, idempotency_key, fingerprint)

    async def revise_job(self, job_id: str, new: NewJob) -> Job:
        self._jobs[job_id] = self._revised(await self.job(job_id), new)
        return await self.job(job_id)

    async def plan_job(self, new: NewJob, *, job_id: str, user: str) -> JobPlan:
        if job_id:
            self._revised(await self.job(job_id), new)
        self.plans_asked.append((user, job_id, new))
        return self.planned

    def _revised(self, job: Job, new: NewJob) -> Job:
        if sentence := why_not_revised(job, new):
            raise Conflict(sentence)
        if problems := misplaced_in_revision(job, new):
            raise InvalidRequest(problems)
        return next_revision(job, new, self._now())

    def _earlier(self, user: str, key: str, fingerprint: str) -> str:
        """Return the job that an earlier request of this key made, "" for none."""
        earlier = self._keys.get((user, key)) if key else None
        if earlier is None:
            return ""
        if earlier[0] != fingerprint:
            raise Conflict(f"the Idempotency-Key {key!r} was used for another body")
        return earlier[1][0]

    async def _take_in(self, job: Job, user: str, key: str, fingerprint: str) -> Job:
        self._jobs[job.id] = job
        for task in job.tasks if containers_in(job) else ():
            for index in range(task.size):
                self._add(job, task, index)
        if key:
            self._keys[user, key] = (fingerprint, [job.id])
        self.submissions += 1
        return await self.job(job.id)

    async def jobs(self, which: JobFilter, *, cursor: str, limit: int) -> JobPage:
        before = number_before(cursor, len(self._jobs) + 1)
        newest_first = sorted(self._jobs.values(), key=lambda one: -one.sequence)
        known = [self._as_it_is(one) for one in newest_first if one.sequence < before]
        found = [one for one in known if _matches_job(one, which)]
        more = f"before-{found[limit - 1].sequence}" if len(found) > limit else None
        return JobPage(items=tuple(found[:limit]), next_cursor=more)

    async def job(self, job_id: str) -> Job:
        if job_id not in self._jobs:
            raise NotFound(f"there is no job {job_id}")
        return self._as_it_is(self._jobs[job_id])

    def why_nowhere(self, job: Job) -> WaitReason | None:
        return self.nowhere.get(job.id)

    def trouble(self, job: Job) -> Reason | None:
        return self.troubles.get(job.id)

    async def cancel_job(self, job_id: str) -> Job:
        job = await self._unfinished_job(job_id)
        self._jobs[job_id] = replace(
            job,
            cancel_requested=True,
            reason=Reason(code="cancelled", message="A user cancelled it."),
        )
        for container in self._of(job_id):
            if not container.state.final:
                await self.cancel(container.id)
        return await self.job(job_id)

    async def set_job_priority(self, job_id: str, priority: int) -> Job:
        self._jobs[job_id] = replace(await self._unfinished_job(job_id), priority=priority)
        for container in self._of(job_id):
            self._save(replace(container, priority=priority))
        return await self.job(job_id)

    async def hold_job(self, job_id: str, *, held: bool) -> Job:
        self._jobs[job_id] = replace(await self._unfinished_job(job_id), held=held)
        return await self.job(job_id)

    def _add(self, job: Job, task: JobTask, index: int) -> None:
        sequence = len(self._containers) + 1
        self._save(
            Container(
                id=f"c-{sequence:08d}",
                sequence=sequence,
                spec=task.spec,
                user=job.user,
                project=job.project,
                priority=job.priority,
                created_at=job.created_at,
                job_id=job.id,
                task=task.name,
                array_index=index if task.is_array else None,
            )
        )

    def _of(self, job_id: str) -> list[Container]:
        return [one for one in list(self._containers.values()) if one.job_id == job_id]

    def _as_it_is(self, job: Job) -> Job:
        mine = self._of(job.id)
        counts = Counter((one.task, one.state.value) for one in mine)
        tallies = tuple(
            Tally(**{state.value: counts[task.name, state.value] for state in ContainerState})
            for task in job.tasks
        )
        codes = [one.exit_code for one in mine if one.exit_code is not None]
        ends = [one.finished_at for one in mine if one.finished_at is not None]
        state = _state(replace(job, tallies=tallies))
        return replace(
            job,
            tallies=tallies,
            state=state,
            exit_code=max(codes) if codes and state.final else None,
            started_at=min((one.started_at for one in mine if one.started_at), default=None),
            finished_at=max(ends, default=job.created_at) if state.final else None,
        )

    async def _unfinished_job(self, job_id: str) -> Job:
        job = await self.job(job_id)
        if job.state.final:
            raise Conflict(f"job {job_id} has ended: it is {job.state.value}")
        return self._jobs[job_id]


def number_before(cursor: str, default: int) -> int:
    """Return the number before which a page begins; raises `InvalidRequest`."""
    if not cursor:
        return default
    prefix, _, number = cursor.partition("-")
    if prefix != "before" or not (number.isascii() and number.isdigit()):
        raise InvalidRequest([("cursor", "is not one of ours: use next_cursor as it came")])
    return int(number[:18])


def matches(container: Container, which: ContainerFilter) -> bool:
    """Return whether a container is among those that are asked for."""
    instance = container.attempts[-1].instance_id if container.attempts else ""
    return all(
        (
            not which.states or container.state in which.states,
            which.user in {"", container.user},
            which.project in {"", container.project},
            which.name in {"", container.spec.name},
            which.instance_id in {"", instance},
            which.job_id in {"", container.job_id},
            which.task in {"", container.task},
            which.array_index in {None, container.array_index},
        )
    )


def _matches_job(job: Job, which: JobFilter) -> bool:
    return all(
        (
            not which.states or job.state in which.states,
            which.user in {"", job.user},
            which.project in {"", job.project},
            which.name in {"", job.name},
            which.parent in {"", job.parent},
            not (which.own and job.parent),
        )
    )


def _state(job: Job) -> JobState:
    tally = job.tally
    if tally.ended < tally.total:
        return JobState.RUNNING if tally.ended + tally.running else JobState.PENDING
    if (job.is_template or job.type.is_per_instance) and not job.cancel_requested:
        return JobState.PENDING
    if tally.failed:
        return JobState.FAILED
    cancelled = tally.cancelled or job.cancel_requested
    return JobState.CANCELLED if cancelled else JobState.SUCCEEDED
