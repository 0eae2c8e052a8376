"""What each change does to the tables, inside a transaction that somebody else began."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from dispatcher.messages import (
    Change,
    DeleteLaunch,
    InsertContainers,
    InsertJob,
    RequestCancel,
    RequestJobCancel,
    RequestJobHold,
    RequestJobPriority,
    RequestPriority,
    SaveAttempt,
    SaveContainer,
    SaveInstance,
    SaveJob,
    SaveLaunch,
)
from dispatcher.model import FINAL_STATES, ContainerState
from dispatcher.store import codec, sqlite, tables
from dispatcher.store.errors import AlreadyFinal, NoSuchContainer
from dispatcher.store.idempotency import claim_key
from dispatcher.store.job_changes import JobChange, apply_job_change, save_jobs
from drivers.errors import BugError

_FINAL = sorted(state.value for state in FINAL_STATES)

_INSERT_CONTAINERS = insert(tables.containers)
_SAVE_PROGRESS = (
    update(tables.containers)
    .where(tables.containers.c.id == bindparam("container_id"))
    .values(
        {
            name: bindparam(name)
            for name in (
                "state",
                "started_at",
                "finished_at",
                "exit_code",
                "reason_code",
                "reason_message",
                "cost_usd",
            )
        }
    )
)
_UNFINISHED = (
    update(tables.containers)
    .where(tables.containers.c.id == bindparam("container_id"))
    .where(tables.containers.c.state.not_in(_FINAL))
)
_CANCEL = _UNFINISHED.values(cancel_requested=True)
_PRIORITIZE = _UNFINISHED.values(priority=bindparam("new_priority"))
_STATE = select(tables.containers.c.state).where(tables.containers.c.id == bindparam("id"))
_SAVE_ATTEMPT = sqlite.upsert(
    tables.attempts,
    keep=("container_id", "sequence", "number"),
    sequence=select(tables.containers.c.sequence)
    .where(tables.containers.c.id == bindparam("of_container"))
    .scalar_subquery(),
)
_SAVE_LAUNCH = sqlite.upsert(tables.launches, keep=())
_SAVE_INSTANCE = sqlite.upsert(tables.instances, keep=())
_DELETE_LAUNCH = delete(tables.launches).where(tables.launches.c.token == bindparam("token"))

_Saving = SaveContainer | SaveAttempt | SaveJob | SaveLaunch | SaveInstance
_Single = InsertContainers | RequestCancel | RequestPriority | DeleteLaunch | JobChange


def apply_changes(connection: Connection, changes: Sequence[Change], *, now: float) -> None:
    """Carry out `changes`, in order, in the transaction of `connection`.

    Savings of one kind are sent together: they touch no table of another kind, so that their
    order among each other is free. Raises what the change is refused with; the caller undoes the
    part that was done. `now` is in seconds since the epoch.
    """
    saved: dict[type[_Saving], list[_Saving]] = {}
    for change in changes:
        match change:
            case SaveContainer() | SaveAttempt() | SaveJob() | SaveLaunch() | SaveInstance():
                saved.setdefault(type(change), []).append(change)
            case _:
                _flush(connection, saved)
                _apply_single(connection, change, now)
    _flush(connection, saved)


def _apply_single(connection: Connection, change: _Single, now: float) -> None:
    match change:
        case InsertContainers():
            _insert_containers(connection, change, now)
        case RequestCancel():
            _request(connection, change.container_id, _CANCEL, {})
        case RequestPriority():
            values = {"new_priority": change.priority}
            _request(connection, change.container_id, _PRIORITIZE, values)
        case DeleteLaunch():
            connection.execute(_DELETE_LAUNCH, {"token": change.token})
        case InsertJob() | RequestJobCancel() | RequestJobPriority() | RequestJobHold():
            apply_job_change(connection, change, now)
        case _:
            assert_never(change)


def _flush(connection: Connection, saved: dict[type[_Saving], list[_Saving]]) -> None:
    for batch in saved.values():
        match batch[0]:
            case SaveContainer():
                _save_progress(connection, [c for c in batch if isinstance(c, SaveContainer)])
            case SaveAttempt():
                rows = [
                    codec.attempt_values(c.attempt) for c in batch if isinstance(c, SaveAttempt)
                ]
                connection.execute(_SAVE_ATTEMPT, rows)
            case SaveJob():
                save_jobs(connection, [c for c in batch if isinstance(c, SaveJob)])
            case SaveLaunch():
                rows = [codec.launch_values(c.launch) for c in batch if isinstance(c, SaveLaunch)]
                connection.execute(_SAVE_LAUNCH, rows)
            case SaveInstance():
                rows = [
                    codec.instance_values(c.instance) for c in batch if isinstance(c, SaveInstance)
                ]
                connection.execute(_SAVE_INSTANCE, rows)
            case other:
                assert_never(other)
    saved.clear()


def _save_progress(connection: Connection, batch: Sequence[SaveContainer]) -> None:
    rows = [
        {"container_id": change.container.id, **codec.progress_values(change.container)}
        for change in batch
    ]
    if connection.execute(_SAVE_PROGRESS, rows).rowcount != len(rows):
        for row in rows:
            if _state(connection, row["container_id"]) is None:
                raise NoSuchContainer(row["container_id"])
        raise BugError("a container was saved, but its row did not change")


def _insert_containers(connection: Connection, change: InsertContainers, now: float) -> None:
    if any(container.attempts for container in change.containers):
        raise BugError("a new container has attempts already")
    if any(container.job_id for container in change.containers):
        raise BugError("a container of a job comes without its job")
    if change.idempotency_key:
        claim_key(
            connection,
            user=change.user,
            key=change.idempotency_key,
            fingerprint=change.fingerprint,
            ids=tuple(container.id for container in change.containers),
            now=now,
        )
    if change.containers:
        rows = [codec.container_values(container) for container in change.containers]
        connection.execute(_INSERT_CONTAINERS, rows)


def _request(
    connection: Connection, container_id: str, statement: Any, values: Mapping[str, object]
) -> None:
    if connection.execute(statement, {"container_id": container_id, **values}).rowcount:
        return
    state = _state(connection, container_id)
    if state is None:
        raise NoSuchContainer(container_id)
    raise AlreadyFinal(f"container {container_id}", state)


def _state(connection: Connection, container_id: str) -> ContainerState | None:
    state = connection.execute(_STATE, {"id": container_id}).scalar_one_or_none()
    return None if state is None else ContainerState(state)
