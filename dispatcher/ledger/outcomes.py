"""How an attempt ended, and why, in words."""

from __future__ import annotations

from typing import assert_never

from longshore.dispatcher.ledger.endings import reason_of
from longshore.dispatcher.model import (
    ENGINE_FAILURE,
    INTERRUPTED,
    START_REFUSED,
    SUPERVISOR_LOST,
    Attempt,
    AttemptOutcome,
    Container,
    ContainerState,
    Reason,
    resources_of,
)
from longshore.pool.model import AttemptExit, ExitKind, Fault
from longshore.pool.notices import AttemptLost, AttemptMissing

FINAL_STATE_AFTER = {
    AttemptOutcome.SUCCEEDED: ContainerState.SUCCEEDED,
    AttemptOutcome.FAILED: ContainerState.FAILED,
    AttemptOutcome.CANCELLED: ContainerState.CANCELLED,
}
"""What a container is after an attempt that is the last; the other outcomes go on."""

_TAKEN_BACK = "the cloud took its instance back"
_SAME_S = 0.5
"""By how much the clock of an instance may differ from ours in the time that an attempt takes."""


def judge_exit(container: Container, how: AttemptExit) -> tuple[AttemptOutcome, Reason | None]:
    """Return what an exit that nobody asked for means, and why; None when all went well."""
    match how.kind:
        case ExitKind.EXITED if how.code == 0:
            return AttemptOutcome.SUCCEEDED, None
        case ExitKind.LOST:
            message = how.message or "its supervisor is gone without an exit record"
            return AttemptOutcome.LOST, Reason(code=SUPERVISOR_LOST, message=message)
        case ExitKind.OUT_OF_MEMORY:
            asked = resources_of(container, container.attempts[-1]).memory_bytes
            message = f"it took more than the {asked} bytes of memory that it asked for"
            return AttemptOutcome.FAILED, Reason(code="out_of_memory", message=message)
        case ExitKind.ENGINE_FAILURE:
            message = how.message or "the container engine could not run it"
            mine = how.fault is Fault.REQUEST
            outcome = AttemptOutcome.FAILED if mine else AttemptOutcome.LOST
            return outcome, Reason(code=ENGINE_FAILURE, message=message)
        case ExitKind.EXITED:
            message = how.message or f"it exited with {how.code}"
            return AttemptOutcome.FAILED, Reason(code="exit_code", message=message)
        case _:
            assert_never(how.kind)


def judge_end(
    container: Container, how: AttemptExit, *, interrupted: bool
) -> tuple[AttemptOutcome, Reason | None]:
    """Return what an exit means, also one that we or the cloud asked for, and why."""
    last = container.attempts[-1]
    ending = last.ending
    if container.cancel_requested or ending is AttemptOutcome.CANCELLED:
        return AttemptOutcome.CANCELLED, _stopped(container, last, "cancelled")
    if ending is AttemptOutcome.PREEMPTED:
        return ending, _preempted(last, "priority set to 0")
    if ending is AttemptOutcome.FAILED and not _ended_in_time(container, how):
        return ending, _over_time(container)
    if interrupted:
        return AttemptOutcome.PREEMPTED, Reason(code=INTERRUPTED, message=_TAKEN_BACK)
    return judge_exit(container, how)


def judge_gone(
    container: Container,
    attempt: Attempt,
    of: AttemptMissing | AttemptLost,
    *,
    refused: bool,
    never: str,
) -> tuple[AttemptOutcome, Reason]:
    """Return what it means that an attempt left no exit; `never` is its code if it never ran."""
    if container.cancel_requested or attempt.ending is AttemptOutcome.CANCELLED:
        said = when_cancelled(attempt, of.message, may_have_run=not never)
        return AttemptOutcome.CANCELLED, _stopped(container, attempt, said)
    if refused:
        return AttemptOutcome.FAILED, Reason(code=START_REFUSED, message=of.message)
    if attempt.ending is AttemptOutcome.PREEMPTED:
        return AttemptOutcome.PREEMPTED, _preempted(attempt, of.message)
    if attempt.ending is AttemptOutcome.FAILED:
        return AttemptOutcome.FAILED, _over_time(container)
    if of.interrupted:
        return AttemptOutcome.PREEMPTED, Reason(code=INTERRUPTED, message=of.message)
    code = "lost" if not never or attempt.started_at else never
    return AttemptOutcome.LOST, Reason(code=code, message=of.message)


def _preempted(attempt: Attempt, why: str) -> Reason:
    """Return why an attempt was preempted: it made way for another, or `why`."""
    return reason_of(attempt.ending_for) or Reason(code="held", message=why)


def _stopped(container: Container, attempt: Attempt, said: str) -> Reason:
    """Return why an attempt was stopped for good: by its job's placer, or a user, as `said`."""
    told = None if container.cancel_requested else reason_of(attempt.ending_for)
    return told or Reason(code="cancelled", message=said)


def _ended_in_time(container: Container, how: AttemptExit) -> bool:
    """Return whether an attempt ended by itself before its time limit, and was heard of later.

    How long it ran is the instance's to tell; where it does not, it was ended.
    """
    ran_s = how.finished_at - how.started_at
    known = how.started_at > 0 and ran_s >= 0
    return known and ran_s + _SAME_S < (container.spec.time_limit_s or 0.0)


def _over_time(container: Container) -> Reason:
    limit_s = container.spec.time_limit_s or 0.0
    message = f"it ran for longer than its time limit of {limit_s:g} s"
    return Reason(code="time_limit", message=message)


def when_cancelled(attempt: Attempt, message: str, *, may_have_run: bool) -> str:
    """Return what is said of a cancelled container whose attempt is missing; `message` says why."""
    if attempt.started_at is not None:
        return f"cancelled while it ran; {message}"
    if may_have_run:
        return f"cancelled, and nobody knows whether it ran; {message}"
    return "cancelled before it ran"


def container_of(attempt_id: str) -> str:
    """Return the id of the container that an attempt belongs to."""
    return attempt_id.rpartition("-")[0]


def was_placed(container: Container, attempt_id: str, worker_id: str) -> bool:
    """Return whether an attempt of a container was placed on a worker, ended or not."""
    return any(
        attempt.id == attempt_id and attempt.instance_id == worker_id
        for attempt in container.attempts
    )
