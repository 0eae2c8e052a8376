"""What keeps a per-instance job from an instance, as steps with their sentences; pure."""

from __future__ import annotations

from longshore.dispatcher.model import WaitReason
from longshore.dispatcher.moments import moment
from longshore.dispatcher.planner.per_instance_model import (
    Block,
    Host,
    PerInstanceJob,
    Wait,
    WaitCause,
)


def next_round(job: PerInstanceJob, host: Host, attempt_id: str, until: float | None) -> Wait:
    """Return that an attempt is updated in a later round, at `until` at the soonest."""
    update = job.update
    message = f"it is updated in its turn, {update.max_parallel} at a time"
    message += f" and {update.stagger_s:g} s apart"
    message += f"; the next at {moment(until)}" if until is not None else ""
    return _wait(job, host, WaitCause.ROUND, message, until=until, attempt_id=attempt_id)


def restart_delayed(job: PerInstanceJob, host: Host, until: float) -> Wait:
    """Return that a job whose attempt ended is started again at `until`."""
    message = f"it is started again at {moment(until)}: its last attempt on {host.id} ended"
    return _wait(job, host, WaitCause.RESTART, message, until=until)


def room_coming(job: PerInstanceJob, host: Host, attempt_id: str) -> Wait:
    """Return that there is room once all has ended that is being ended."""
    message = f"it waits for room on {host.id}, where others are being ended"
    return _wait(job, host, WaitCause.ROOM, message, attempt_id=attempt_id)


def no_room(job: PerInstanceJob, host: Host, attempt_id: str, lacking: tuple[str, ...]) -> Block:
    """Return that there is no room for a job, and that nobody makes way."""
    message = f"{host.id} is short of {_and(lacking)}, and nothing there makes way"
    reason = WaitReason(code="no_room", message=message)
    return _block(job, host, attempt_id, lacking, reason)


def too_small(job: PerInstanceJob, host: Host, attempt_id: str, lacking: tuple[str, ...]) -> Block:
    """Return that there is never room for a job, however empty the instance is."""
    message = f"{host.id}, a {host.type.name}, is too small in {_and(lacking)} even when empty"
    reason = WaitReason(code="too_small", message=message, is_final=True)
    return _block(job, host, attempt_id, lacking, reason)


def _wait(
    job: PerInstanceJob,
    host: Host,
    cause: WaitCause,
    message: str,
    *,
    until: float | None = None,
    attempt_id: str = "",
) -> Wait:
    return Wait(
        job_id=job.id,
        instance_id=host.id,
        cause=cause,
        reason=WaitReason(code=cause.value, message=message, until=until),
        until=until,
        attempt_id=attempt_id,
    )


def _block(
    job: PerInstanceJob,
    host: Host,
    attempt_id: str,
    lacking: tuple[str, ...],
    reason: WaitReason,
) -> Block:
    return Block(
        job_id=job.id,
        instance_id=host.id,
        short_of=lacking,
        reason=reason,
        attempt_id=attempt_id,
    )


def _and(names: tuple[str, ...]) -> str:
    return " and ".join(names)
