"""How an attempt ended, and why, in words."""

from __future__ import annotations

# --------------------------------------------------------------------------------------------------
# What follows of the cause for which an attempt was told to end, and how people are told of it.
from dataclasses import dataclass
from typing import assert_never

from longshore.dispatcher.domain.containers import (
    ENGINE_FAILURE,
    EVICTED,
    INTERRUPTED,
    START_REFUSED,
    SUPERVISOR_LOST,
    Attempt,
    AttemptOutcome,
    Container,
    ContainerState,
    Reason,
    StopCause,
    StopReason,
    resources_of,
)
from longshore.pool.model import AttemptExit, ExitKind, Fault
from longshore.pool.pool_events import AttemptLost, AttemptMissing


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """How an attempt ended, which is the latest of `container`; that is in the state as before.

    `gone_since` is when its instance, which is gone, was heard of last, in seconds since the epoch,
    None where it is there; `refused` says that the runner never will start it; `never_ran` that it
    is not where it was placed, and was never seen to run.
    """

    container: Container
    attempt: Attempt
    outcome: AttemptOutcome
    reason: Reason | None
    gone_since: float | None = None
    refused: bool = False
    never_ran: bool = False

    @property
    def instance_gone(self) -> bool:
        """Return whether its instance is gone."""
        return self.gone_since is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartDecision:
    """What becomes of a container after an attempt: its final state and why, None: it waits on."""

    state: ContainerState | None = None
    reason: Reason | None = None


_SENTENCES = {
    StopCause.NOTHING: "nothing",
    StopCause.JOB_STOPPED: "its job was stopped",
    StopCause.JOB_GONE: "its job is no longer there",
    StopCause.NODE_DRAINING: "node draining",
    StopCause.REVISED_WHILE_HELD: "its job changed, and nothing is updated on a held instance",
    StopCause.SUPERFLUOUS: "another one runs there",
    StopCause.INSTANCE_SHUT_DOWN: "its instance is shut down",
}


def in_words(ending_for: StopReason) -> str:
    """Return for what an attempt was told to end, as people are told."""
    of, detail = ending_for.of, ending_for.detail
    and_detail = f": {detail}" if detail else ""
    match ending_for.cause:
        case StopCause.FOR_CONTAINER | StopCause.FOR_JOB:
            return of
        case StopCause.REVISED:
            return f"revision {of} of its job"
        case StopCause.JOB_BEGINS_ANEW:
            return f"the next start of its job, which lost essential {of}{and_detail}"
        case StopCause.JOB_ENDED:
            return f"its job {of}{and_detail}"
        case StopCause.NO_MATCH:
            return f"its instance no longer matches{and_detail}"
        case (
            StopCause.NOTHING
            | StopCause.JOB_STOPPED
            | StopCause.JOB_GONE
            | StopCause.NODE_DRAINING
            | StopCause.REVISED_WHILE_HELD
            | StopCause.SUPERFLUOUS
            | StopCause.INSTANCE_SHUT_DOWN
        ) as cause:
            return _SENTENCES[cause]
        case unknown:
            assert_never(unknown)


def reason_of(ending_for: StopReason) -> Reason | None:
    """Return why an attempt has ended that was told to, None for nothing that is on record."""
    words = in_words(ending_for)
    match ending_for.cause:
        case StopCause.NOTHING:
            return None
        case StopCause.FOR_CONTAINER | StopCause.FOR_JOB | StopCause.JOB_BEGINS_ANEW:
            return Reason(code=EVICTED, message=f"it made way for {words}")
        case StopCause.REVISED:
            return Reason(code="updated", message=f"it made way for {words}")
        case StopCause.INSTANCE_SHUT_DOWN:
            return Reason(code="instance_gone", message=words)
        case (
            StopCause.JOB_ENDED
            | StopCause.JOB_STOPPED
            | StopCause.JOB_GONE
            | StopCause.NO_MATCH
            | StopCause.NODE_DRAINING
            | StopCause.REVISED_WHILE_HELD
            | StopCause.SUPERFLUOUS
        ):
            return Reason(code="stopped", message=words)
        case unknown:
            assert_never(unknown)


def is_eviction(ending_for: StopReason) -> bool:
    """Return whether others wait for the room, so that there is less time between TERM and KILL."""
    match ending_for.cause:
        case StopCause.FOR_CONTAINER | StopCause.FOR_JOB:
            return True
        case (
            StopCause.NOTHING
            | StopCause.REVISED
            | StopCause.JOB_BEGINS_ANEW
            | StopCause.JOB_ENDED
            | StopCause.JOB_STOPPED
            | StopCause.JOB_GONE
            | StopCause.NO_MATCH
            | StopCause.NODE_DRAINING
            | StopCause.REVISED_WHILE_HELD
            | StopCause.SUPERFLUOUS
            | StopCause.INSTANCE_SHUT_DOWN
        ):
            return False
        case unknown:
            assert_never(unknown)


# --------------------------------------------------------------------------------------------------
# Times of one container's life, which several processes told: nothing is before what led to it.
#
# A process's clock is steady, but the wall clock may be set back before the next one starts: what
# the store tells may lie in the future then.


def first_start(container: Container, started_at: float) -> float:
    """Return when a container first started, if an attempt of it did at `started_at`."""
    return container.started_at or max(started_at, container.created_at)


def latest(container: Container) -> float:
    """Return the latest time that is known of a container's life so far."""
    ends = (attempt.finished_at or 0.0 for attempt in container.attempts)
    return max(container.created_at, container.started_at or 0.0, *ends)


def when_it_ran(attempt: Attempt, how: AttemptExit, now: float) -> tuple[float, float]:
    """Return when an attempt ran, by our clock.

    An exit may be found long after it happened: how long it ran is the instance's to tell, as far
    as that can be true. Nothing ends before it began, though a later process's clock was set back.
    """
    started_at = attempt.started_at or attempt.created_at
    ran_s = how.finished_at - how.started_at
    # The instance counts from when the image was there; of which we heard much later, where it
    # could not have run for so long since then.
    pulled_at = attempt.pulled_at or 0.0
    began_at = max(started_at, pulled_at if pulled_at + ran_s <= now else 0.0)
    if how.started_at > 0 and 0 <= ran_s <= now - began_at:
        return started_at, began_at + ran_s
    return started_at, max(started_at, now)


# ---- how an attempt ended, and why, in words -----------------------------------------------------

FINAL_STATE_AFTER = {
    AttemptOutcome.SUCCEEDED: ContainerState.SUCCEEDED,
    AttemptOutcome.FAILED: ContainerState.FAILED,
    AttemptOutcome.CANCELLED: ContainerState.CANCELLED,
}
"""What a container is after an attempt that is the last; the other outcomes go on."""

_TAKEN_BACK = "the cloud took its instance back"
_SAME_S = 0.5
"""By how much the clock of an instance may differ from ours in the time that an attempt takes."""


def classify_exit(container: Container, how: AttemptExit) -> tuple[AttemptOutcome, Reason | None]:
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


def classify_end(
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
    return classify_exit(container, how)


def classify_gone(
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
    """Return why an attempt was stopped for good: by its job's scheduler, or a user, as `said`."""
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
