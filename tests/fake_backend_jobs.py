"""The jobs of the in-memory backend: their containers are real, and make up what they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from dispatcher.api.backend import Conflict, NewJob, NotFound, Unavailable
from dispatcher.job_model import Job, JobState, JobTask, Tally
from dispatcher.model import Container, ContainerState, Dependency, Reason
from dispatcher.queries import ContainerFilter, JobFilter, JobPage
from drivers.errors import InvalidRequest


class FakeJobs(ABC):
    """The part of `FakeBackend` that knows jobs."""

    _now: Callable[[], float]
    _containers: dict[str, Container]
    _jobs: dict[str, Job]
    _keys: dict[tuple[str, str], tuple[str, list[str]]]
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
        if idempotency_key and (earlier := self._keys.get((user, idempotency_key))):
            if earlier[0] != fingerprint:
                raise Conflict(f"the Idempotency-Key {idempotency_key!r} was used for another body")
            return await self.job(earlier[1][0])
        sequence = len(self._jobs) + 1
        job_id = f"j-{sequence:08d}"
        job = Job(
            id=job_id,
            sequence=sequence,
            name=new.name,
            user=user,
            project=new.project,
            priority=new.priority,
            created_at=self._now(),
            tasks=tuple(_known_by(job_id, task) for task in new.tasks),
            tallies=(),
            type=new.type,
            labels=new.labels,
        )
        self._jobs[job_id] = job
        for task in job.tasks:
            for index in range(task.size):
                self._add(job, task, index)
        if idempotency_key:
            self._keys[user, idempotency_key] = (fingerprint, [job_id])
        self.submissions += 1
        return await self.job(job_id)

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
        state = _state(replace(job, tallies=tallies).tally)
        return replace(
            job,
            tallies=tallies,
            state=state,
            exit_code=max(codes) if codes and state.final else None,
            started_at=min((one.started_at for one in mine if one.started_at), default=None),
            finished_at=max(ends) if state.final else None,
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
        )
    )


def _known_by(job_id: str, task: JobTask) -> JobTask:
    """Return a task that names its siblings as everybody knows them."""
    after = tuple(
        Dependency(
            of=f"{job_id}{each.of}" if each.of.startswith("/") else each.of,
            on=each.on,
            each=each.each,
        )
        for each in task.spec.after
    )
    return replace(task, spec=replace(task.spec, after=after))


def _state(tally: Tally) -> JobState:
    if tally.ended < tally.total:
        return JobState.RUNNING if tally.ended + tally.running else JobState.PENDING
    if tally.failed:
        return JobState.FAILED
    return JobState.CANCELLED if tally.cancelled else JobState.SUCCEEDED
