"""What follows of the cause for which an attempt was told to end, and how people are told of it."""

from __future__ import annotations

from typing import assert_never

from longshore.dispatcher.model import EVICTED, EndingCause, EndingFor, Reason

_SENTENCES = {
    EndingCause.NOTHING: "nothing",
    EndingCause.JOB_STOPPED: "its job was stopped",
    EndingCause.JOB_GONE: "its job is no longer there",
    EndingCause.NODE_DRAINING: "node draining",
    EndingCause.REVISED_WHILE_HELD: "its job changed, and nothing is updated on a held instance",
    EndingCause.SUPERFLUOUS: "another one runs there",
    EndingCause.INSTANCE_SHUT_DOWN: "its instance is shut down",
}


def in_words(ending_for: EndingFor) -> str:
    """Return for what an attempt was told to end, as people are told."""
    of, detail = ending_for.of, ending_for.detail
    and_detail = f": {detail}" if detail else ""
    match ending_for.cause:
        case EndingCause.FOR_CONTAINER | EndingCause.FOR_JOB:
            return of
        case EndingCause.REVISED:
            return f"revision {of} of its job"
        case EndingCause.JOB_BEGINS_ANEW:
            return f"the next start of its job, which lost essential {of}{and_detail}"
        case EndingCause.JOB_ENDED:
            return f"its job {of}{and_detail}"
        case EndingCause.NO_MATCH:
            return f"its instance no longer matches{and_detail}"
        case (
            EndingCause.NOTHING
            | EndingCause.JOB_STOPPED
            | EndingCause.JOB_GONE
            | EndingCause.NODE_DRAINING
            | EndingCause.REVISED_WHILE_HELD
            | EndingCause.SUPERFLUOUS
            | EndingCause.INSTANCE_SHUT_DOWN
        ) as cause:
            return _SENTENCES[cause]
        case unknown:
            assert_never(unknown)


def reason_of(ending_for: EndingFor) -> Reason | None:
    """Return why an attempt has ended that was told to, None for nothing that is on record."""
    words = in_words(ending_for)
    match ending_for.cause:
        case EndingCause.NOTHING:
            return None
        case EndingCause.FOR_CONTAINER | EndingCause.FOR_JOB | EndingCause.JOB_BEGINS_ANEW:
            return Reason(code=EVICTED, message=f"it made way for {words}")
        case EndingCause.REVISED:
            return Reason(code="updated", message=f"it made way for {words}")
        case EndingCause.INSTANCE_SHUT_DOWN:
            return Reason(code="instance_gone", message=words)
        case (
            EndingCause.JOB_ENDED
            | EndingCause.JOB_STOPPED
            | EndingCause.JOB_GONE
            | EndingCause.NO_MATCH
            | EndingCause.NODE_DRAINING
            | EndingCause.REVISED_WHILE_HELD
            | EndingCause.SUPERFLUOUS
        ):
            return Reason(code="stopped", message=words)
        case unknown:
            assert_never(unknown)


def is_eviction(ending_for: EndingFor) -> bool:
    """Return whether others wait for the room, so that there is less time between TERM and KILL."""
    match ending_for.cause:
        case EndingCause.FOR_CONTAINER | EndingCause.FOR_JOB:
            return True
        case (
            EndingCause.NOTHING
            | EndingCause.REVISED
            | EndingCause.JOB_BEGINS_ANEW
            | EndingCause.JOB_ENDED
            | EndingCause.JOB_STOPPED
            | EndingCause.JOB_GONE
            | EndingCause.NO_MATCH
            | EndingCause.NODE_DRAINING
            | EndingCause.REVISED_WHILE_HELD
            | EndingCause.SUPERFLUOUS
            | EndingCause.INSTANCE_SHUT_DOWN
        ):
            return False
        case unknown:
            assert_never(unknown)
