"""The API's part for jobs: taking them in, listing them with today's counts, steering them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from dispatcher.api.backend import Conflict, NewJob, NotFound, Unavailable
from dispatcher.intake import Intake, Wanted
from dispatcher.job_model import Job, JobTask, Tally
from dispatcher.ledger import Ledger
from dispatcher.messages import (
    InsertJob,
    JobCancelRequested,
    JobHoldRequested,
    JobPriorityRequested,
    JobSubmitted,
    RequestJobCancel,
    RequestJobHold,
    RequestJobPriority,
)
from dispatcher.model import Container
from dispatcher.queries import JobFilter, JobPage
from dispatcher.spec_size import own_bytes, spec_bytes
from dispatcher.store.errors import IdempotencyConflict, IdempotentRepeat, StoreBusy
from dispatcher.store.store import Store


class JobDesk:
    """Implements the methods for jobs of `dispatcher.api.backend.Backend`."""

    def __init__(
        self,
        *,
        intake: Intake,
        store: Store,
        ledger: Ledger,
        now: Callable[[], float],
        new_id: Callable[[], str],
    ) -> None:
        self._intake = intake
        self._store = store
        self._ledger = ledger
        self._now = now
        self._new_id = new_id

    async def submit(
        self, new: NewJob, *, user: str, idempotency_key: str, fingerprint: str
    ) -> Job:
        """Commit a new job with its containers, then tell the engine; see the protocol."""
        self._intake.refuse_impossible(
            (f"tasks[{number}]", task.spec) for number, task in enumerate(new.tasks)
        )
        self._intake.expect_room(
            containers=sum(task.size for task in new.tasks),
            size_bytes=sum(
                task.size * own_bytes(task.spec) + spec_bytes(task.spec) for task in new.tasks
            ),
        )
        job = self._job(new, user)
        containers = self._containers(job)
        change = InsertJob(
            job=job,
            containers=containers,
            user=user,
            idempotency_key=idempotency_key,
            fingerprint=fingerprint,
        )
        try:
            await self._intake.admit(
                containers,
                _wanted(job),
                change,
                lambda ended: JobSubmitted(job=job, containers=containers, ended=ended),
            )
        except IdempotentRepeat as repeat:
            return await self.job(repeat.container_ids[0])
        except IdempotencyConflict as conflict:
            raise Conflict(str(conflict)) from conflict
        return job

    def _job(self, new: NewJob, user: str) -> Job:
        job_id = f"j-{self._new_id()}"
        return Job(
            id=job_id,
            sequence=self._store.next_job_sequence(),
            name=new.name,
            type=new.type,
            user=user,
            project=new.project,
            priority=new.priority,
            created_at=self._now(),
            labels=new.labels,
            tasks=tuple(_with_siblings(task, job_id) for task in new.tasks),
            tallies=tuple(Tally(queued=task.size) for task in new.tasks),
        )

    def _containers(self, job: Job) -> tuple[Container, ...]:
        sequences = iter(self._store.next_sequences(sum(task.size for task in job.tasks)))
        return tuple(
            Container(
                id=f"c-{self._new_id()}",
                sequence=next(sequences),
                spec=task.spec,
                user=job.user,
                project=job.project,
                priority=job.priority,
                created_at=job.created_at,
                job_id=job.id,
                task=task.name,
                array_index=index if task.is_array else None,
            )
            for task in job.tasks
            for index in range(task.size)
        )

    # ---- looking ---------------------------------------------------------------------------

    async def jobs(self, which: JobFilter, *, cursor: str, limit: int) -> JobPage:
        """Return one page, newest first."""
        try:
            page = await asyncio.to_thread(self._store.jobs, which, cursor=cursor, limit=limit)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error
        return replace(page, items=tuple(self._as_of_today(job) for job in page.items))

    async def job(self, job_id: str) -> Job:
        """Return one job as it is committed, with today's counts."""
        try:
            found = await asyncio.to_thread(self._store.job, job_id)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error
        if found is None:
            raise NotFound(f"there is no job {job_id}")
        return self._as_of_today(found)

    def _as_of_today(self, job: Job) -> Job:
        live = None if job.state.final else self._ledger.jobs.job(job.id)
        return job if live is None else replace(job, tallies=live.tallies)

    # ---- steering ----------------------------------------------------------------------------

    async def cancel(self, job_id: str) -> Job:
        """Commit a job's cancellation, then tell the engine."""
        change = RequestJobCancel(job_id=job_id)
        await self._intake.request(change, JobCancelRequested(job_id=job_id))
        return await self.job(job_id)

    async def set_priority(self, job_id: str, priority: int) -> Job:
        """Commit the priority of all of a job, then tell the engine."""
        change = RequestJobPriority(job_id=job_id, priority=priority)
        event = JobPriorityRequested(job_id=job_id, priority=priority)
        with self._intake.kinds_arrive(self._held_back(job_id) if priority > 0 else []):
            await self._intake.request(change, event)
        return await self.job(job_id)

    async def hold(self, job_id: str, *, held: bool) -> Job:
        """Commit whether a job starts anything new, then tell the engine."""
        change = RequestJobHold(job_id=job_id, held=held)
        with self._intake.kinds_arrive([] if held else self._held_back(job_id)):
            await self._intake.request(change, JobHoldRequested(job_id=job_id, held=held))
        return await self.job(job_id)

    def _held_back(self, job_id: str) -> list[Container]:
        """Return the containers of a job that do not wait for room and do not run."""
        ledger = self._ledger
        found = (ledger.containers[each] for each in ledger.jobs.containers_of(job_id))
        return [each for each in found if each.id not in ledger.queue and not each.has_open_attempt]


def _with_siblings(task: JobTask, job_id: str) -> JobTask:
    """Return a task whose `after` names others of its job by the job's id."""
    after = tuple(
        replace(each, of=f"{job_id}{each.of}") if each.of.startswith("/") else each
        for each in task.spec.after
    )
    return task if after == task.spec.after else replace(task, spec=replace(task.spec, after=after))


def _wanted(job: Job) -> list[Wanted]:
    """Return what a job's tasks wait for that is no part of the job."""
    return [
        Wanted(
            path=f"tasks[{number}].after[{place}].of",
            dependency=dependency,
            project=job.project,
            size=task.size if task.is_array else None,
        )
        for number, task in enumerate(job.tasks)
        for place, dependency in enumerate(task.spec.after)
        if dependency.of.partition("/")[0] != job.id
    ]
