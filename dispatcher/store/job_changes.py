"""What each change of a job does to the tables, inside a transaction that somebody else began."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from sqlalchemy import Connection, bindparam, insert, select, update

from dispatcher.job_model import FINAL_JOB_STATES, JobState
from dispatcher.messages import (
    InsertJob,
    RequestJobCancel,
    RequestJobHold,
    RequestJobPriority,
    SaveJob,
)
from dispatcher.model import FINAL_STATES
from dispatcher.store import codec, job_codec, tables
from dispatcher.store.errors import AlreadyFinal, NoSuchJob
from dispatcher.store.idempotency import claim_key
from drivers.errors import BugError

JobChange = InsertJob | RequestJobCancel | RequestJobPriority | RequestJobHold

_FINAL = sorted(state.value for state in FINAL_STATES)
_FINAL_JOBS = sorted(state.value for state in FINAL_JOB_STATES)

_INSERT_JOB = insert(tables.jobs)
_INSERT_TASKS = insert(tables.job_tasks)
_INSERT_CONTAINERS = insert(tables.containers)
_SAVE_PROGRESS = (
    update(tables.jobs)
    .where(tables.jobs.c.id == bindparam("of_job"))
    .values(
        {
            name: bindparam(name)
            for name in (
                "state",
                "started_at",
                "finished_at",
                "exit_code",
                "tallies",
                "reason_code",
                "reason_message",
            )
        }
    )
)
_UNFINISHED_JOB = (
    update(tables.jobs)
    .where(tables.jobs.c.id == bindparam("of_job"))
    .where(tables.jobs.c.state.not_in(_FINAL_JOBS))
)
_ITS_UNFINISHED = (
    update(tables.containers)
    .where(tables.containers.c.job_id == bindparam("of_job"))
    .where(tables.containers.c.state.not_in(_FINAL))
)
_CANCEL = tuple(each.values(cancel_requested=True) for each in (_UNFINISHED_JOB, _ITS_UNFINISHED))
_PRIORITIZE = tuple(
    each.values(priority=bindparam("new_priority")) for each in (_UNFINISHED_JOB, _ITS_UNFINISHED)
)
_HOLD = (_UNFINISHED_JOB.values(held=bindparam("is_held")),)
_STATE = select(tables.jobs.c.state).where(tables.jobs.c.id == bindparam("id"))


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
        case _:
            assert_never(change)


def save_jobs(connection: Connection, batch: Sequence[SaveJob]) -> None:
    """Write what the engine decided of jobs, in order; raises `NoSuchJob`."""
    rows = [{"of_job": each.job.id, **job_codec.job_progress_values(each.job)} for each in batch]
    if connection.execute(_SAVE_PROGRESS, rows).rowcount != len(rows):
        for row in rows:
            if _state(connection, row["of_job"]) is None:
                raise NoSuchJob(row["of_job"])
        raise BugError("a job was saved, but its row did not change")


def _insert_job(connection: Connection, change: InsertJob, now: float) -> None:
    _check(change)
    if change.idempotency_key:
        claim_key(
            connection,
            user=change.user,
            key=change.idempotency_key,
            # Containers that were submitted with the same key and text are another request.
            fingerprint=f"job {change.fingerprint}",
            ids=(change.job.id,),
            now=now,
        )
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


def _request(
    connection: Connection, job_id: str, statements: Sequence[Any], values: Mapping[str, object]
) -> None:
    """Carry out `statements`, of which the first is about the job itself."""
    first, *rest = statements
    if not connection.execute(first, {"of_job": job_id, **values}).rowcount:
        state = _state(connection, job_id)
        if state is None:
            raise NoSuchJob(job_id)
        raise AlreadyFinal(f"job {job_id}", state)
    for statement in rest:
        connection.execute(statement, {"of_job": job_id, **values})


def _state(connection: Connection, job_id: str) -> JobState | None:
    state = connection.execute(_STATE, {"id": job_id}).scalar_one_or_none()
    return None if state is None else JobState(state)
