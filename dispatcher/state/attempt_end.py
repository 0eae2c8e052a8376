"""What the end of an attempt means: its outcome, why, when, and what it cost; pure.

The pool says that an attempt is over (`AttemptEnd`). `close` makes of that what is on record, from
the container as it was, and it is stored before anybody decides what follows. Then the scheduler of
the container says what becomes of it, and of others, as a list of `Decision`s, which follow from
the record alone. They are carried out in the same event, so that one commit has them all.

If an attempt was told to end, the outcome that was intended counts, whatever its exit says: the end
was our doing. What we did counts before what the cloud did. An exit tells how long it ran, as far
as that can be true. Doubt: without an exit nobody knows whether it ran. If it was placed and never
seen, it is taken for never started, unless its instance is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import assert_never

from longshore.dispatcher.domain.containers import (
    ENGINE_FAILURE,
    EVICTED,
    INTERRUPTED,
    START_REFUSED,
    SUPERVISOR_LOST,
    WITHHELD,
    Attempt,
    AttemptOutcome,
    Container,
    ContainerState,
    Reason,
    StopCause,
    StopReason,
    resources_of,
)
from longshore.dispatcher.state.job_registry import JobResult
from longshore.pool.model import AttemptExit, ExitKind, Fault
from longshore.pool.pool_events import AttemptEnd, EndKind

# ---- what is decided once an end is on record ----------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """A container waits for a place again: not before `until` (seconds since the epoch), if any."""

    container_id: str
    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """A container ends for good."""

    container_id: str
    state: ContainerState
    reason: Reason | None = None
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndAttempt:
    """The open attempt of a container is told to end; its outcome will be `outcome`."""

    container_id: str
    outcome: AttemptOutcome
    by: StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcludeJob:
    """A job that does not end by itself comes to its end, once all of its containers have."""

    job_id: str
    result: JobResult


Decision = Requeue | Finish | EndAttempt | ConcludeJob


# ---- for what an attempt was told to end, and how people are told of it --------------------------

_SENTENCES = {
    StopCause.NOTHING: "nothing",
    StopCause.JOB_STOPPED: "its job was stopped",
    StopCause.JOB_GONE: "its job is no longer there",
    StopCause.NODE_DRAINING: "node draining",
    StopCause.REVISED_WHILE_HELD: "its job changed, and nothing is updated on a held instance",
    StopCause.SUPERFLUOUS: "another one runs there",
    StopCause.INSTANCE_SHUT_DOWN: "its instance is shut down",
}


def in_words(stop_reason: StopReason) -> str:
    """Return for what an attempt was told to end, as people are told."""
    of, detail = stop_reason.of, stop_reason.detail
    and_detail = f": {detail}" if detail else ""
    match stop_reason.cause:
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


def reason_of(stop_reason: StopReason) -> Reason | None:
    """Return why an attempt has ended that was told to, None for nothing that is on record."""
    words = in_words(stop_reason)
    match stop_reason.cause:
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


def is_eviction(stop_reason: StopReason) -> bool:
    """Return whether others wait for the room, so that there is less time between TERM and KILL."""
    match stop_reason.cause:
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


_NEVER_RAN = {
    EndKind.REFUSED: "never_started",
    EndKind.OVERLOADED: "overloaded",
    EndKind.WITHHELD: WITHHELD,
    EndKind.MISSING: "never_started",
}
"""The code of what was not seen to run, by how it ended; the other kinds do not say that."""


def classify(  # noqa: PLR0911 - a table
    container: Container, end: AttemptEnd
) -> tuple[AttemptOutcome, Reason | None]:
    """Return what the end of a container's open attempt means, and why; None when all went well."""
    attempt = container.attempts[-1]
    if container.cancel_requested or attempt.intended_outcome is AttemptOutcome.CANCELLED:
        return AttemptOutcome.CANCELLED, _stopped(container, attempt, end)
    if end.kind is EndKind.REFUSED:
        return AttemptOutcome.FAILED, Reason(code=START_REFUSED, message=end.cause)
    if end.kind is EndKind.WITHHELD:
        # Nothing is lost: it waits for its secrets, outside of the queue, and counts as no try.
        return AttemptOutcome.PREEMPTED, Reason(code=WITHHELD, message=end.cause)
    if attempt.intended_outcome is AttemptOutcome.PREEMPTED:
        said = end.cause if end.exit is None else "priority set to 0"
        return AttemptOutcome.PREEMPTED, _preempted(attempt, said)
    if attempt.intended_outcome is AttemptOutcome.FAILED and not _ended_in_time(
        container, end.exit
    ):
        return AttemptOutcome.FAILED, _over_time(container)
    if end.interrupted:
        said = end.cause if end.exit is None else _TAKEN_BACK
        return AttemptOutcome.PREEMPTED, Reason(code=INTERRUPTED, message=said)
    if end.exit is not None:
        return classify_exit(container, end.exit)
    code = "lost" if attempt.started_at else _NEVER_RAN.get(end.kind, "lost")
    return AttemptOutcome.LOST, Reason(code=code, message=end.cause)


def _preempted(attempt: Attempt, why: str) -> Reason:
    """Return why an attempt was preempted: it made way for another, or `why`."""
    return reason_of(attempt.stop_reason) or Reason(code="held", message=why)


def _stopped(container: Container, attempt: Attempt, end: AttemptEnd) -> Reason:
    """Return why an attempt was stopped for good: by its job's scheduler, or a user."""
    told = None if container.cancel_requested else reason_of(attempt.stop_reason)
    if told is not None:
        return told
    said = "cancelled"
    if end.exit is None:
        said = when_cancelled(attempt, end.cause, may_have_run=end.kind not in _NEVER_RAN)
    return Reason(code="cancelled", message=said)


def _ended_in_time(container: Container, how: AttemptExit | None) -> bool:
    """Return whether an attempt ended by itself before its time limit, and was heard of later.

    How long it ran is the instance's to tell; where it does not, it was ended.
    """
    if how is None:
        return False
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


# ---- the end of an attempt, as it is on record ---------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedAttempt:
    """An attempt that is over, as it was stored; what follows is decided from that."""

    #: The container as it was when the attempt was open.
    before: Container
    #: The container with the end on record, in the state that it had: that is still to be decided.
    container: Container
    end: AttemptEnd

    @property
    def attempt(self) -> Attempt:
        """Return the attempt, with its outcome and why it has that."""
        return self.container.attempts[-1]

    @property
    def refused(self) -> bool:
        """Return whether the runner never will start it."""
        return self.end.kind is EndKind.REFUSED

    @property
    def instance_gone(self) -> bool:
        """Return whether its instance is gone."""
        return self.end.kind is EndKind.INSTANCE_GONE

    @property
    def never_ran(self) -> bool:
        """Return whether it is not where it was placed, and was never seen to run."""
        return self.end.kind in _NEVER_RAN and self.attempt.started_at is None


def close(
    container: Container,
    end: AttemptEnd,
    now: float,
    *,
    cost_usd: Callable[[Attempt, float], Decimal],
) -> ClosedAttempt:
    """Return what the end of a container's open attempt comes to: its outcome, times and cost.

    `cost_usd` tells what an attempt costs that ended at a time.
    """
    outcome, reason = classify(container, end)
    before, attempt, how = container, container.attempts[-1], end.exit
    if how is not None:
        started_at, finished_at = when_it_ran(attempt, how, now)
        container = replace(container, started_at=first_start(container, started_at))
        ended_at = now
        attempt = replace(
            attempt,
            started_at=started_at,
            finished_at=finished_at,
            stdout_bytes=how.stdout_bytes,
            stderr_bytes=how.stderr_bytes,
            exit_code=how.code,
            usage=how.usage,
        )
    else:
        # Nobody pays for the time that it took until an instance was known to be gone.
        ended_at = now if end.seen_at is None else min(now, end.seen_at)
        finished_at = max(ended_at, attempt.started_at or attempt.created_at)
        attempt = replace(attempt, finished_at=finished_at)
    attempt = replace(attempt, outcome=outcome, reason=reason)
    container = replace(
        container,
        attempts=(*container.attempts[:-1], attempt),
        cost_usd=container.cost_usd + cost_usd(attempt, ended_at),
    )
    return ClosedAttempt(before=before, container=container, end=end)


# ---- attempts by their names ---------------------------------------------------------------------


def container_of(attempt_id: str) -> str:
    """Return the id of the container that an attempt belongs to."""
    return attempt_id.rpartition("-")[0]


def was_placed(container: Container, attempt_id: str, worker_id: str) -> bool:
    """Return whether an attempt of a container was placed on a worker, ended or not."""
    return any(
        attempt.id == attempt_id and attempt.instance_id == worker_id
        for attempt in container.attempts
    )
