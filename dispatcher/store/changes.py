"""What each change does to the tables, inside a transaction that somebody else began."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from sqlalchemy import Connection, bindparam, delete, insert, select

from longshore.dispatcher.domain.containers import Container, ContainerState
from longshore.dispatcher.domain.messages import (
    AddContainer,
    AddCorrections,
    AddPrices,
    Change,
    CloseMonth,
    DeleteLaunch,
    DropBill,
    ForgetDelivery,
    InsertContainers,
    InsertToken,
    NoteListing,
    NoteTokenUse,
    RemoveSecret,
    RequestCancel,
    RequestPriority,
    SaveAttempt,
    SaveAudit,
    SaveBill,
    SaveBookedHour,
    SaveBudget,
    SaveContainer,
    SaveDelivery,
    SaveInstance,
    SaveInterval,
    SaveJob,
    SaveLaunch,
    SaveSecrets,
    SaveSpec,
    SaveToken,
    SaveUnusualDay,
)
from longshore.dispatcher.store import (
    access_records,
    budget_records,
    codec,
    ledger_corrections,
    ledger_records,
    sqlite,
    tables,
)
from longshore.dispatcher.store.errors import NoSuchContainer
from longshore.dispatcher.store.idempotency import claim_key
from longshore.dispatcher.store.job_changes import (
    JobChange,
    added_rows,
    apply_job_change,
    save_jobs,
)
from longshore.dispatcher.store.kinship import expect_open
from longshore.dispatcher.store.shared_updates import Records
from longshore.drivers.errors import BugError

CONTAINERS = Records(
    tables.containers,
    what="container",
    states=ContainerState,
    missing=NoSuchContainer,
    progress=("cost_usd",),
)
_INSERT_CONTAINERS = insert(tables.containers)
_CANCEL = CONTAINERS.unfinished.values(cancel_requested=True)
_PRIORITIZE = CONTAINERS.unfinished.values(priority=bindparam("new_priority"))
_SAVE_SPEC = CONTAINERS.one.values(name=bindparam("name"), spec=bindparam("spec"))
_SAVE_ATTEMPT = sqlite.upsert(
    tables.attempts,
    keep=("container_id", "sequence", "number"),
    sequence=select(tables.containers.c.sequence)
    .where(tables.containers.c.id == bindparam("of_container"))
    .scalar_subquery(),
)
_SAVE_LAUNCH = sqlite.upsert(tables.launches, keep=())
_SAVE_INSTANCE = sqlite.upsert(tables.instances, keep=())
_SAVE_SECRET = sqlite.upsert(tables.secrets, keep=())
_SAVE_DATA_KEY = sqlite.upsert(tables.secret_data_keys, keep=())
_DELETE_SECRET = delete(tables.secrets).where(
    tables.secrets.c.project == bindparam("of_project"),
    tables.secrets.c.name == bindparam("called"),
)
_DELETE_LAUNCH = delete(tables.launches).where(tables.launches.c.token == bindparam("token"))

_Saving = (
    AddContainer
    | SaveContainer
    | SaveSpec
    | SaveAttempt
    | SaveJob
    | SaveLaunch
    | SaveInstance
    | SaveInterval
    | SaveBill
)
_OfAccess = InsertToken | SaveToken | NoteTokenUse | SaveAudit
_OfBudgets = SaveBudget | SaveUnusualDay | SaveDelivery | ForgetDelivery
_OfMoney = (
    DropBill | NoteListing | SaveBookedHour | AddCorrections | CloseMonth | AddPrices | _OfBudgets
)
_Single = (
    InsertContainers
    | RequestCancel
    | RequestPriority
    | DeleteLaunch
    | JobChange
    | SaveSecrets
    | RemoveSecret
    | _OfAccess
    | _OfMoney
)


def apply_changes(connection: Connection, changes: Sequence[Change], *, now: float) -> None:
    """Carry out `changes`, in order, in the transaction of `connection`.

    Savings of one kind are sent together: they touch no column of another kind, so that their
    order among each other is free, but that a container is added before all else. Raises what the
    change is refused with; the caller undoes the part that was done. `now` is in seconds since the
    epoch.
    """
    saved: dict[type[_Saving], list[_Saving]] = {}
    for change in changes:
        if isinstance(change, _Saving):
            saved.setdefault(type(change), []).append(change)
        else:
            _flush(connection, saved)
            _apply_single(connection, change, now)
    _flush(connection, saved)


def _apply_single(connection: Connection, change: _Single, now: float) -> None:
    if isinstance(change, JobChange):
        apply_job_change(connection, change, now)
        return
    if isinstance(change, _OfAccess):
        _apply_of_access(connection, change, now)
        return
    if isinstance(change, _OfMoney):
        _apply_of_money(connection, change, now)
        return
    match change:
        case InsertContainers():
            _insert_containers(connection, change, now)
        case RequestCancel():
            CONTAINERS.request(connection, change.container_id, _CANCEL, {})
        case RequestPriority():
            values = {"new_priority": change.priority}
            CONTAINERS.request(connection, change.container_id, _PRIORITIZE, values)
        case DeleteLaunch():
            connection.execute(_DELETE_LAUNCH, {"token": change.token})
        case SaveSecrets():
            _save_secrets(connection, change)
        case RemoveSecret():
            named = {"of_project": change.project, "called": change.name}
            connection.execute(_DELETE_SECRET, named)
        case _:
            assert_never(change)


def _apply_of_access(connection: Connection, change: _OfAccess, now: float) -> None:
    match change:
        case InsertToken():
            if change.idempotency_key:
                claim_key(
                    connection,
                    user=change.user,
                    key=change.idempotency_key,
                    fingerprint=f"token {change.fingerprint}",
                    ids=(change.token.id,),
                    now=now,
                )
            values = access_records.token_values(change.token)
            connection.execute(access_records.SAVE_TOKEN, values)
        case SaveToken():
            values = access_records.token_values(change.token)
            connection.execute(access_records.SAVE_TOKEN, values)
        case NoteTokenUse():
            access_records.note_use(connection, change)
        case SaveAudit():
            values = access_records.audit_values(change.entry)
            connection.execute(access_records.SAVE_AUDIT, values)
        case _:
            assert_never(change)


def _apply_of_money(connection: Connection, change: _OfMoney, now: float) -> None:
    if isinstance(change, _OfBudgets):
        _apply_of_budgets(connection, change)
        return
    match change:
        case DropBill():
            ledger_records.drop_bill(connection, change.launch_id)
        case NoteListing():
            ledger_records.note_listing(connection, change.at_ms)
        case AddPrices():
            ledger_records.add_prices(connection, change.rows, change.prepaid)
        case AddCorrections():
            ledger_corrections.add(connection, change.corrections)
        case SaveBookedHour():
            ledger_records.save_booked_hour(connection, change.booked, now=now)
        case CloseMonth():
            ledger_corrections.close_month(connection, change.month, now=now)
        case _:
            assert_never(change)


def _apply_of_budgets(connection: Connection, change: _OfBudgets) -> None:
    match change:
        case SaveBudget():
            budget_records.save_budget(connection, change)
        case SaveUnusualDay():
            budget_records.save_unusual_day(connection, change)
        case SaveDelivery():
            budget_records.save_delivery(connection, change.delivery)
        case ForgetDelivery():
            budget_records.forget_delivery(connection, change)
        case _:
            assert_never(change)


def _save_secrets(connection: Connection, change: SaveSecrets) -> None:
    if change.data_keys:
        rows = [codec.data_key_values(each) for each in change.data_keys]
        connection.execute(_SAVE_DATA_KEY, rows)
    if change.secrets:
        connection.execute(_SAVE_SECRET, [codec.secret_values(each) for each in change.secrets])


def _flush(connection: Connection, saved: dict[type[_Saving], list[_Saving]]) -> None:
    # New containers first: what is saved of them comes after them in any case.
    for kind in sorted(saved, key=lambda kind: kind is not AddContainer):
        _save(connection, saved[kind])
    saved.clear()


def _save(connection: Connection, batch: Sequence[_Saving]) -> None:
    """Write savings of one kind, in order."""
    match batch[0]:
        case AddContainer():
            new = [c.container for c in batch if isinstance(c, AddContainer)]
            connection.execute(_INSERT_CONTAINERS, added_rows(connection, new))
        case SaveContainer():
            rows = [
                {"of": c.container.id, **codec.progress_values(c.container)}
                for c in batch
                if isinstance(c, SaveContainer)
            ]
            CONTAINERS.save_progress(connection, rows)
        case SaveSpec():
            specs = [_spec_row(c.container) for c in batch if isinstance(c, SaveSpec)]
            CONTAINERS.save(connection, _SAVE_SPEC, specs)
        case SaveAttempt():
            rows = [codec.attempt_values(c.attempt) for c in batch if isinstance(c, SaveAttempt)]
            connection.execute(_SAVE_ATTEMPT, rows)
        case SaveJob():
            save_jobs(connection, [c.job for c in batch if isinstance(c, SaveJob)])
        case SaveLaunch():
            rows = [codec.launch_values(c.launch) for c in batch if isinstance(c, SaveLaunch)]
            connection.execute(_SAVE_LAUNCH, rows)
        case SaveInstance():
            rows = [codec.instance_values(c.instance) for c in batch if isinstance(c, SaveInstance)]
            connection.execute(_SAVE_INSTANCE, rows)
        case SaveInterval():
            kept = [c for c in batch if isinstance(c, SaveInterval)]
            ledger_records.save_intervals(connection, kept)
        case SaveBill():
            ledger_records.save_bills(connection, [c for c in batch if isinstance(c, SaveBill)])
        case other:
            assert_never(other)


def _spec_row(container: Container) -> codec.Values:
    if not container.pinned_to:
        raise BugError(f"{container.id} is for no instance: its specification never changes")
    return {"of": container.id, **codec.spec_values(container.spec)}


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
    expect_open(connection, (container.parent for container in change.containers))
    if change.containers:
        rows = [codec.container_values(container) for container in change.containers]
        connection.execute(_INSERT_CONTAINERS, rows)
