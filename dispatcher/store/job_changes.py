"""What each change of a job does to the tables, inside a transaction that somebody else began."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import assert_never

from sqlalchemy import Connection, Update, bindparam, delete, insert, select, update

from longshore.dispatcher.domain.containers import FINAL_STATES, Container
from longshore.dispatcher.domain.jobs import Job, JobState
from longshore.dispatcher.domain.messages import (
    InsertJob,
    NoteJobLaunch,
    RequestJobCancel,
    RequestJobHold,
    RequestJobPriority,
    RequestJobRevision,
)
from longshore.dispatcher.store import codec, job_codec, tables
from longshore.dispatcher.store.errors import NoSuchJob, RevisionConflict
from longshore.dispatcher.store.idempotency import claim_key, of_job
from longshore.dispatcher.store.kinship import expect_open
from longshore.dispatcher.store.shared_updates import Records
from longshore.drivers.errors import BugError

JobChange = (
    InsertJob
    | RequestJobCancel
    | RequestJobPriority
    | RequestJobHold
    | RequestJobRevision
    | NoteJobLaunch
)

_FINAL = sorted(state.value for state in FINAL_STATES)

JOBS = Records(tables.jobs, what="job", states=JobState, missing=NoSuchJob, progress=("tallies",))
_INSERT_JOB = insert(tables.jobs)
_INSERT_TASKS = insert(tables.job_tasks)
_INSERT_CONTAINERS = insert(tables.containers)
_ITS_UNFINISHED = (
    update(tables.containers)
    .where(tables.containers.c.job_id == bindparam("of"))
    .where(tables.containers.c.state.not_in(_FINAL))
)
_CANCEL = tuple(each.values(cancel_requested=True) for each in (JOBS.unfinished, _ITS_UNFINISHED))
_PRIORITIZE = tuple(
    each.values(priority=bindparam("new_priority")) for each in (JOBS.unfinished, _ITS_UNFINISHED)
)
_HOLD = (JOBS.unfinished.values(held=bindparam("is_held")),)
_NOTE_LAUNCH = (JOBS.unfinished.values(launched_for=bindparam("new_launched_for")),)
_REVISE = JOBS.one.values(
    {name: bindparam(name) for name in ("name", "priority", "labels", "terms")}
)
_PRIORITIZE_ITS = _ITS_UNFINISHED.values(priority=bindparam("new_priority"))
_STORED = select(tables.jobs).where(tables.jobs.c.id == bindparam("id"))
_TASK_NAMES = (
    select(tables.job_tasks.c.name)
    .where(tables.job_tasks.c.job_id == bindparam("id"))
    .order_by(tables.job_tasks.c.number)
)
_DELETE_TASKS = delete(tables.job_tasks).where(tables.job_tasks.c.job_id == bindparam("id"))


def apply_job_change(connection: Connection, change: JobChange, now: float) -> None:
    """Carry out one change of the API's; raises what it is refused with, maybe done in part."""
    match change:
        case InsertJob():
            _insert_job(connection, change, now)
        case RequestJobCancel():
            _request(connection, change.job_id, _CANCEL, {})
        case RequestJobPriority():
            _request(connection, change.job_id, _PRIORITIZE, {"new_priority": change.priority})
        case RequestJobHold():
            _request(connection, change.job_id, _HOLD, {"is_held": change.held})
        case RequestJobRevision():
            _revise(connection, change.job)
        case NoteJobLaunch():
            values = {"new_launched_for": change.launched_for}
            _request(connection, change.job_id, _NOTE_LAUNCH, values)
        case _:
            assert_never(change)


def save_jobs(connection: Connection, batch: Sequence[Job]) -> None:
    """Write what the engine decided of jobs, in order; raises `NoSuchJob`."""
    rows = [{"of": job.id, **job_codec.job_progress_values(job)} for job in batch]
    JOBS.save_progress(connection, rows)


def added_rows(connection: Connection, new: Sequence[Container]) -> list[codec.Values]:
    """Return the rows of containers that the engine adds to their jobs; raises `NoSuchJob`.

    What users asked of a job when the engine had not heard of it yet holds for these too.
    """
    asked: dict[str, codec.Values] = {}
    for container in new:
        if not container.job_id or not container.pinned_to:
            raise BugError(f"{container.id} was added, but not to a job on an instance")
        if container.attempts:
            raise BugError("a new container has attempts already")
        if container.job_id not in asked:
            job = connection.execute(_STORED, {"id": container.job_id}).one_or_none()
            if job is None:
                raise NoSuchJob(container.job_id)
            asked[container.job_id] = {
                "priority": job.priority,
                "cancel_requested": job.cancel_requested,
            }
    return [{**codec.container_values(each), **asked[each.job_id]} for each in new]


def _insert_job(connection: Connection, change: InsertJob, now: float) -> None:
    _check(change)
    if change.idempotency_key:
        claim_key(
            connection,
            user=change.user,
            key=change.idempotency_key,
            fingerprint=of_job(change.fingerprint),
            ids=(change.job.id,),
            now=now,
        )
    expect_open(connection, [change.job.parent])
    connection.execute(_INSERT_JOB, job_codec.job_values(change.job))
    connection.execute(_INSERT_TASKS, job_codec.task_values(change.job))
    if change.containers:
        rows = [codec.container_values(container) for container in change.containers]
        connection.execute(_INSERT_CONTAINERS, rows)


def _check(change: InsertJob) -> None:
    """Raise `BugError` unless the containers are the job's tasks', as these say."""
    job = change.job
    wanted = {} if job.is_template else {task.name: task.size for task in job.tasks}
    if Counter(each.task for each in change.containers) != Counter(wanted):
        raise BugError(f"{job.id}: its containers are not as many as its tasks say")
    if len(job.tallies) != len(job.tasks):
        raise BugError(f"{job.id}: it has not one tally for each task")
    specs = {task.name: task.spec for task in job.tasks}
    for container in change.containers:
        if container.job_id != job.id:
            raise BugError(f"{container.id} comes with {job.id}, but is not of it")
        if container.attempts:
            raise BugError("a new container has attempts already")
        spec = specs[container.task]
        # Its specification is not stored: it must be what it will be read as.
        if container.spec is not spec and container.spec != spec:
            raise BugError(f"{container.id} has another specification than its task")


def _revise(connection: Connection, job: Job) -> None:
    """Make a job its next revision; raises `RevisionConflict` when it cannot become that."""
    row = connection.execute(_STORED, {"id": job.id}).one_or_none()
    if row is None or JobState(row.state).final:
        raise JOBS.refusal(connection, job.id)
    names = connection.execute(_TASK_NAMES, {"id": job.id}).scalars().all()
    _check_revision(job, job_codec.job_from_row(row, (), ()), names)
    connection.execute(_REVISE, {"of": job.id, **job_codec.job_revision_values(job)})
    connection.execute(_PRIORITIZE_ITS, {"of": job.id, "new_priority": job.priority})
    connection.execute(_DELETE_TASKS, {"id": job.id})
    connection.execute(_INSERT_TASKS, job_codec.task_values(job))


def _check_revision(job: Job, stored: Job, names: Sequence[str]) -> None:
    """Raise `RevisionConflict` unless `stored`, with tasks of these names, can become `job`."""
    if job.type is not stored.type:
        raise RevisionConflict(
            f"job {job.id} is of type {stored.type.value}, and cannot become one of type"
            f" {job.type.value}: cancel it, or give the new one another name"
        )
    if [task.name for task in job.tasks] != names:
        raise RevisionConflict(
            f"job {job.id} has other tasks than its revisions had before: their names cannot change"
        )
    new, known = job.terms.per_instance, stored.terms.per_instance
    if new is None or known is None:
        raise BugError(f"{job.id}: a job of its type has no revisions")
    if new.revision != known.revision + 1:
        raise RevisionConflict(
            f"job {job.id} is at revision {known.revision}, so that revision {new.revision} cannot"
            " follow: somebody else was first; look at what it is now, and submit it again"
        )


def _request(
    connection: Connection,
    job_id: str,
    statements: Sequence[Update],
    values: Mapping[str, object],
) -> None:
    """Carry out `statements`, of which the first is about the job itself."""
    first, *rest = statements
    JOBS.request(connection, job_id, first, values)
    for statement in rest:
        connection.execute(statement, {"of": job_id, **values})
