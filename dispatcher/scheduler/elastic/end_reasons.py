"""Why containers of elastic jobs wait, and why they ended, beside what a pass says; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, assert_never

from longshore.dispatcher.domain.containers import (
    ENGINE_FAILURE,
    INTERRUPTED,
    AttemptOutcome,
    Container,
    ContainerState,
    Reason,
    StopCause,
    StopReason,
    WaitReason,
)
from longshore.dispatcher.domain.timefmt import moment
from longshore.dispatcher.scheduler.elastic.lifecycle import MemberExit, MemberExitKind, Transition
from longshore.dispatcher.scheduler.elastic.model import Member, MemberState
from longshore.dispatcher.scheduler.elastic.runtime_state import Key, ran_s
from longshore.dispatcher.scheduler.placement.workload import ATTEMPTS_MOST
from longshore.dispatcher.state.attempt_end import ClosedAttempt, Finish, in_words
from longshore.dispatcher.state.job_registry import JobResult
from longshore.pool.quotas import QuotaBound

# ---- how the end of an attempt looks to the rules of elastic jobs, and what is said of it --------

_OWN_CODE = "exit_code"
"""The code of an attempt whose program ended by itself, and not well."""


def member_end(key: Key, closed: ClosedAttempt, now: float) -> MemberExit:
    """Return the end of a member as the rules want it."""
    attempt = closed.attempt
    code = attempt.exit_code
    exit_kind = _exit_kind(closed)
    if exit_kind is MemberExitKind.EXITED and attempt.outcome is AttemptOutcome.FAILED and not code:
        code = 1  # the program ended well, and too late or otherwise amiss
    why = attempt.reason.message if attempt.reason is not None else ""
    return MemberExit(
        component=key[0],
        index=key[1],
        kind=exit_kind,
        exit_code=code or 0,
        why=why,
        ran_s=ran_s(attempt, now),
    )


def is_worn_out(closed: ClosedAttempt) -> bool:
    """Return whether a member that is not told to end has died as often as it may."""
    return (
        len(closed.container.attempts) >= ATTEMPTS_MOST and closed.attempt.intended_outcome is None
    )


def _exit_kind(closed: ClosedAttempt) -> MemberExitKind:
    attempt = closed.attempt
    outcome, code = attempt.outcome, attempt.reason.code if attempt.reason is not None else ""
    if closed.refused and outcome is AttemptOutcome.FAILED:
        # Whatever else was to become of it: it would be refused again.
        return MemberExitKind.START_REFUSED
    if attempt.intended_outcome in (AttemptOutcome.PREEMPTED, AttemptOutcome.CANCELLED):
        return MemberExitKind.STOPPED
    if code == ENGINE_FAILURE and outcome is AttemptOutcome.FAILED:
        return MemberExitKind.START_REFUSED
    if closed.never_ran or code in (INTERRUPTED, ENGINE_FAILURE):
        # What the cloud takes back, with a word, is nobody's loss.
        return MemberExitKind.START_FAILED
    return MemberExitKind.LOST if outcome is AttemptOutcome.LOST else MemberExitKind.EXITED


def told(fate: Transition, closed: ClosedAttempt) -> Reason | None:
    """Return why a job failed: by its program's exit, or by what else ended that."""
    reason, why = fate.reason, closed.attempt.reason
    if reason is None or why is None or reason.code != "essential_failed":
        return reason
    if why.code == _OWN_CODE:
        return reason
    name = closed.container.task
    return replace(reason, message=f"essential {name} failed: {why.message}")


def finish(closed: ClosedAttempt, state: ContainerState, reason: Reason | None = None) -> Finish:
    """Return that a container ends for good with its latest attempt."""
    code = closed.attempt.exit_code
    return Finish(container_id=closed.container.id, state=state, reason=reason, exit_code=code)


def with_its_job(closed: ClosedAttempt, why: Reason) -> Finish:
    """Return what becomes of a container whose job has ended, which is `why` it did too."""
    if closed.attempt.outcome is AttemptOutcome.SUCCEEDED:
        return finish(closed, ContainerState.SUCCEEDED)
    if closed.container.cancel_requested:
        return finish(closed, ContainerState.CANCELLED, closed.attempt.reason)
    return finish(closed, ContainerState.CANCELLED, why)


# ---- why containers of elastic jobs wait, and why they ended, beside what a pass says ------------

_ENDED = "job_ended"
JOB_CANCELLED = Reason(code=_ENDED, message="its job was cancelled")
WORN_OUT = Reason(
    code="attempts_most",
    message=f"it was started {ATTEMPTS_MOST} times, and failed again; its job goes on without it",
)


class Barred(NamedTuple):
    """A container that is held back, and by what."""

    container_id: str
    why: WaitReason


def of_member(member: Member, *, barred: Barred | None) -> WaitReason | None:
    """Return why a member waits by itself, None where its job as a whole does.

    `barred` is the container, held back, that its job needs; None for none.
    """
    match member.state:
        case MemberState.FINISHED:
            message = "it has ended with exit code 0; what becomes of it follows from its job's end"
            return WaitReason(code="job_goes_on", message=message)
        case MemberState.PLACED | MemberState.RUNNING | MemberState.STOPPING:
            message = (
                f"it has a place on {member.instance_id}, and is started there after those of lower"
                " startup_order, and once who made way for it has ended"
            )
            return WaitReason(code="has_place", message=message)
        case MemberState.WAITING if barred is not None:
            container_id, why = barred
            message = f"its job needs {container_id}, which may not begin: {why.message}"
            return replace(why, code="behind_held", message=message, behind=container_id)
        case MemberState.WAITING if member.not_before:
            message = (
                f"it has ended {member.deaths} times in a row otherwise than it should; it is"
                f" placed again from {moment(member.not_before)} on, as there is room"
            )
            return WaitReason(code="backoff", message=message, until=member.not_before)
        case MemberState.WAITING | MemberState.GONE:
            return None
        case unknown:
            assert_never(unknown)


def with_cause(why: WaitReason | None, container: Container) -> WaitReason | None:
    """Return why a container waits; of one that is tried again later also how it ended last."""
    last = container.attempts[-1].reason if container.attempts else None
    if why is None or why.code != "backoff" or last is None:
        return why
    return replace(why, message=f"{why.message}: {last.message}")


def beyond_quota(why: WaitReason, quotas: Sequence[QuotaBound] = ()) -> WaitReason:
    """Return why a job waits for whose lack of room no instances can be created.

    `quotas` are those, as errors have told of them, that it would exceed.
    """
    if not quotas:
        message = (
            f"{why.message}; for the rest no instance may be created (max_instances, a limit of"
            " spending, or one of the cloud's)"
        )
        return replace(why, message=message)
    told = " and ".join(_quota(bound) for bound in quotas)
    again_at = max((bound.again_at for bound in quotas if bound.left), default=None)
    tried = "from time to time" if again_at is None else f"from {moment(again_at)} on"
    message = (
        f"{why.message}; for the rest the cloud's quota is too small: by its last error there may"
        f" be {told}; whether there may be more is tried {tried}"
    )
    return replace(why, message=message, until=again_at)


def _quota(bound: QuotaBound) -> str:
    of = "" if bound.everywhere else f" of {', '.join(sorted(bound.covers))}"
    return f"{bound.most} instances{of} ({bound.reason})"


def job_ended(comes_to: JobResult) -> Reason:
    """Return why a container ended whose job came to an end without it."""
    return Reason(code=_ENDED, message=in_words(job_end(comes_to)))


def job_end(comes_to: JobResult) -> StopReason:
    """Return for what the members of a job end that came to an end without them."""
    why = comes_to.reason.message if comes_to.reason is not None else ""
    return StopReason(cause=StopCause.JOB_ENDED, of=comes_to.state.value, detail=why)


def next_start(closed: ClosedAttempt) -> StopReason:
    """Return what the others of a job make way for one of whose essential members was lost."""
    reason = closed.attempt.reason
    why = reason.message if reason is not None else ""
    return StopReason(cause=StopCause.JOB_BEGINS_ANEW, of=closed.container.task, detail=why)
