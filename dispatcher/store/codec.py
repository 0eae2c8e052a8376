"""Translating between the values of the model and rows of the tables, exactly both ways."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec
from sqlalchemy import Row

from longshore.dispatcher.domain.containers import (
    Attempt,
    AttemptOutcome,
    Container,
    ContainerSpec,
    ContainerState,
    InstanceRecord,
    Reason,
    StopCause,
    StopReason,
)
from longshore.dispatcher.domain.secrets import DataKey, StoredSecret
from longshore.drivers.interface import Resources
from longshore.pool.model import BehaviorNote, Launch, Payer
from longshore.pool.usage import AttemptUsage

Values = dict[str, Any]

_SPEC_ENCODER = msgspec.json.Encoder()
_SPEC_DECODER = msgspec.json.Decoder(ContainerSpec)
_RESOURCES_DECODER = msgspec.json.Decoder(Resources)
_IDS_DECODER = msgspec.json.Decoder(tuple[str, ...])
_USAGE_DECODER = msgspec.json.Decoder(AttemptUsage)
_NOTE_DECODER = msgspec.json.Decoder(BehaviorNote)
_STATES = {state.value: state for state in ContainerState}
_ENDING_CAUSES = {cause.value: cause for cause in StopCause}
_OUTCOMES = {outcome.value: outcome for outcome in AttemptOutcome}


def container_values(container: Container) -> Values:
    """Return the row of a new container; its attempts have rows of their own.

    The specification of one of a job is its task's, which has a row of its own as well, unless it
    is pinned to an instance.
    """
    spec = container.spec
    has_own_spec = not container.job_id or container.pinned_to
    return {
        "id": container.id,
        "sequence": container.sequence,
        "user": container.user,
        "project": container.project,
        "priority": container.priority,
        "created_at": container.created_at,
        "cancel_requested": container.cancel_requested,
        **(spec_values(spec) if has_own_spec else {"name": spec.name, "spec": b""}),
        "job_id": container.job_id,
        "task": container.task,
        "array_index": container.array_index,
        "pinned_to": container.pinned_to,
        "parent": container.parent,
        **progress_values(container),
    }


def spec_values(spec: ContainerSpec) -> Values:
    """Return the columns of a specification that is a container's own."""
    return {"name": spec.name, "spec": encode_spec(spec)}


def progress_values(container: Container) -> Values:
    """Return the columns that the engine owns and changes while a container goes its way."""
    return {
        "state": container.state.value,
        "ended": container.state.value if container.state.final else "",
        "started_at": container.started_at,
        "finished_at": container.finished_at,
        "exit_code": container.exit_code,
        "cost_usd": str(container.cost_usd),
        **reason_values(container.reason),
    }


def container_from_row(
    row: Row[Any], attempts: tuple[Attempt, ...], spec: ContainerSpec
) -> Container:
    """Return the container of a row of `containers`, with `attempts` and `spec` as its own."""
    return Container(
        id=row.id,
        sequence=row.sequence,
        spec=spec,
        user=row.user,
        project=row.project,
        priority=row.priority,
        created_at=row.created_at,
        state=_STATES[row.state],
        started_at=row.started_at,
        finished_at=row.finished_at,
        exit_code=row.exit_code,
        reason=reason_from_columns(row.reason_code, row.reason_message),
        cancel_requested=row.cancel_requested,
        cost_usd=Decimal(row.cost_usd),
        attempts=attempts,
        job_id=row.job_id,
        task=row.task,
        array_index=row.array_index,
        pinned_to=row.pinned_to,
        parent=row.parent,
    )


def encode_spec(spec: ContainerSpec) -> bytes:
    """Return a specification as JSON."""
    return _SPEC_ENCODER.encode(spec)


def decode_spec(text: bytes) -> ContainerSpec:
    """Return the specification that `encode_spec` wrote, or an earlier Longshore's."""
    spec = _SPEC_DECODER.decode(text)
    retries = spec.retries
    if retries.exit_codes and retries.on == ("failed",) and b'"first_delay_s"' not in text:
        # Exit codes narrowed every failure then, and not those alone that are exits.
        return replace(spec, retries=replace(retries, on=("exit_code",)))
    return spec


def reason_values(reason: Reason | None) -> Values:
    """Return the two columns of a reason."""
    return {
        "reason_code": None if reason is None else reason.code,
        "reason_message": None if reason is None else reason.message,
    }


def reason_from_columns(code: str | None, message: str | None) -> Reason | None:
    """Return the reason of its two columns."""
    return None if code is None else Reason(code=code, message=message or "")


def attempt_values(attempt: Attempt) -> Values:
    """Return the row of an attempt; `of_container` is for finding its container's sequence."""
    outcome = attempt.outcome
    return {
        "id": attempt.id,
        "of_container": attempt.container_id,
        "container_id": attempt.container_id,
        "number": attempt.number,
        "instance_id": attempt.instance_id,
        "instance_type": attempt.instance_type,
        "price_usd_per_hour": str(attempt.price_usd_per_hour),
        "created_at": attempt.created_at,
        "started_at": attempt.started_at,
        "finished_at": attempt.finished_at,
        "outcome": None if outcome is None else outcome.value,
        "exit_code": attempt.exit_code,
        **reason_values(attempt.reason),
        "stdout_bytes": attempt.stdout_bytes,
        "stderr_bytes": attempt.stderr_bytes,
        "log_complete": attempt.log_complete,
        "ending": None if attempt.intended_outcome is None else attempt.intended_outcome.value,
        "ending_cause": attempt.stop_reason.cause.value,
        "ending_for": attempt.stop_reason.of,
        "ending_detail": attempt.stop_reason.detail,
        "resources": None if attempt.resources is None else _SPEC_ENCODER.encode(attempt.resources),
        "revision": attempt.revision,
        "pulling_since": attempt.pulling_since,
        "pulled_at": attempt.pulled_at,
        "image_digest": attempt.image_digest,
        "warning": attempt.warning,
        "usage": None if attempt.usage is None else _SPEC_ENCODER.encode(attempt.usage).decode(),
    }


def attempt_from_row(row: Row[Any]) -> Attempt:
    """Return the attempt of a row of `attempts`."""
    return Attempt(
        id=row.id,
        container_id=row.container_id,
        number=row.number,
        instance_id=row.instance_id,
        instance_type=row.instance_type,
        price_usd_per_hour=Decimal(row.price_usd_per_hour),
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        outcome=None if row.outcome is None else _OUTCOMES[row.outcome],
        exit_code=row.exit_code,
        reason=reason_from_columns(row.reason_code, row.reason_message),
        stdout_bytes=row.stdout_bytes,
        stderr_bytes=row.stderr_bytes,
        log_complete=row.log_complete,
        intended_outcome=None if row.ending is None else _OUTCOMES[row.ending],
        stop_reason=StopReason(
            cause=_ENDING_CAUSES[row.ending_cause], of=row.ending_for, detail=row.ending_detail
        ),
        resources=None if row.resources is None else _RESOURCES_DECODER.decode(row.resources),
        revision=row.revision,
        pulling_since=row.pulling_since,
        pulled_at=row.pulled_at,
        image_digest=row.image_digest,
        warning=row.warning,
        usage=None if row.usage is None else usage_from(row.usage),
    )


def usage_from(text: str) -> AttemptUsage:
    """Return the usage of the text of its column."""
    return _USAGE_DECODER.decode(text)


def launch_values(launch: Launch) -> Values:
    """Return the row of a launch intent."""
    return {
        "token": launch.token,
        "type_name": launch.type_name,
        "secret": launch.secret,
        "created_at": launch.created_at,
        "payer_project": launch.payer.project,
        "payer_user": launch.payer.user,
        "payer_job_name": launch.payer.job_name,
    }


def launch_from_row(row: Row[Any]) -> Launch:
    """Return the launch intent of a row of `launches`."""
    return Launch(
        token=row.token,
        type_name=row.type_name,
        secret=row.secret,
        created_at=row.created_at,
        payer=Payer(project=row.payer_project, user=row.payer_user, job_name=row.payer_job_name),
    )


def instance_values(instance: InstanceRecord) -> Values:
    """Return the row of an instance."""
    return {
        "id": instance.id,
        "token": instance.token,
        "type_name": instance.type_name,
        "price_usd_per_hour": str(instance.price_usd_per_hour),
        "created_at": instance.created_at,
        "host_key": instance.host_key,
        "address": instance.address,
        "gone_at": instance.gone_at,
        "gone_reason": instance.gone_reason,
        "behavior": instance.behavior,
        "behavior_note": _note_text(instance.note),
        "killed": instance.killed,
    }


def _note_text(note: BehaviorNote | None) -> str:
    return "" if note is None else _SPEC_ENCODER.encode(note).decode()


def instance_from_row(row: Row[Any]) -> InstanceRecord:
    """Return the instance of a row of `instances`."""
    return InstanceRecord(
        id=row.id,
        token=row.token,
        type_name=row.type_name,
        price_usd_per_hour=Decimal(row.price_usd_per_hour),
        created_at=row.created_at,
        host_key=row.host_key,
        address=row.address,
        gone_at=row.gone_at,
        gone_reason=row.gone_reason,
        behavior=row.behavior,
        note=_NOTE_DECODER.decode(row.behavior_note) if row.behavior_note else None,
        killed=row.killed,
    )


def secret_values(secret: StoredSecret) -> Values:
    """Return the row of a secret."""
    return {
        "project": secret.project,
        "name": secret.name,
        "ciphertext": secret.ciphertext,
        "updated_at": secret.updated_at,
        "updated_by": secret.updated_by,
    }


def secret_from_row(row: Row[Any]) -> StoredSecret:
    """Return the secret of a row of `secrets`."""
    return StoredSecret(
        project=row.project,
        name=row.name,
        ciphertext=row.ciphertext,
        updated_at=row.updated_at,
        updated_by=row.updated_by,
    )


def data_key_values(data_key: DataKey) -> Values:
    """Return the row of a data key."""
    return {
        "id": data_key.id,
        "ciphertext": data_key.ciphertext,
        "created_at": data_key.created_at,
    }


def data_key_from_row(row: Row[Any]) -> DataKey:
    """Return the data key of a row of `secret_data_keys`."""
    return DataKey(id=row.id, ciphertext=row.ciphertext, created_at=row.created_at)


def encode_ids(ids: tuple[str, ...]) -> bytes:
    """Return ids as JSON, in their order."""
    return _SPEC_ENCODER.encode(ids)


def decode_ids(text: bytes) -> tuple[str, ...]:
    """Return the ids that `encode_ids` wrote."""
    return _IDS_DECODER.decode(text)
