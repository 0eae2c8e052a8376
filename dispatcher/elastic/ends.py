"""How the end of an attempt looks to the rules of elastic jobs, and what is said of it; pure."""

from __future__ import annotations

from dataclasses import replace

from longshore.dispatcher.elastic.jobs import Key, ran_s
from longshore.dispatcher.model import (
    ENGINE_FAILURE,
    INTERRUPTED,
    AttemptOutcome,
    ContainerState,
    Reason,
)
from longshore.dispatcher.planner.elastic_fates import End, Ending, Fate
from longshore.dispatcher.scheduling.placers import ATTEMPTS_MOST, AttemptEnd, Ruling

_OWN_CODE = "exit_code"
"""The code of an attempt whose program ended by itself, and not well."""


def member_end(key: Key, end: AttemptEnd, now: float) -> End:
    """Return the end of a member as the rules want it."""
    code = end.attempt.exit_code
    ending = _ending(end)
    if ending is Ending.EXITED and end.outcome is AttemptOutcome.FAILED and not code:
        code = 1  # the program ended well, and too late or otherwise amiss
    why = end.reason.message if end.reason is not None else ""
    return End(
        component=key[0],
        index=key[1],
        ending=ending,
        exit_code=code or 0,
        why=why,
        ran_s=ran_s(end.attempt, now),
    )


def is_worn_out(end: AttemptEnd) -> bool:
    """Return whether a member that is not told to end has died as often as it may."""
    return len(end.container.attempts) >= ATTEMPTS_MOST and end.attempt.ending is None


def _ending(end: AttemptEnd) -> Ending:
    code = end.reason.code if end.reason is not None else ""
    if end.refused and end.outcome is AttemptOutcome.FAILED:
        # Whatever else was to become of it: it would be refused again.
        return Ending.START_REFUSED
    if end.attempt.ending in (AttemptOutcome.PREEMPTED, AttemptOutcome.CANCELLED):
        return Ending.STOPPED
    if code == ENGINE_FAILURE and end.outcome is AttemptOutcome.FAILED:
        return Ending.START_REFUSED
    if end.never_ran or code in (INTERRUPTED, ENGINE_FAILURE):
        # What the cloud takes back, with a word, is nobody's loss.
        return Ending.START_FAILED
    return Ending.LOST if end.outcome is AttemptOutcome.LOST else Ending.EXITED


def told(fate: Fate, end: AttemptEnd) -> Reason | None:
    """Return why a job failed: by its program's exit, or by what else ended that."""
    reason, why = fate.reason, end.reason
    if reason is None or why is None or reason.code != "essential_failed":
        return reason
    if why.code == _OWN_CODE:
        return reason
    name = end.container.task
    return replace(reason, message=f"essential {name} failed: {why.message}")


def last_ruling(end: AttemptEnd, why: Reason) -> Ruling:
    """Return what becomes of a container whose job has ended, which is `why` it did too."""
    if end.outcome is AttemptOutcome.SUCCEEDED:
        return Ruling(state=ContainerState.SUCCEEDED)
    if end.container.cancel_requested:
        return Ruling(state=ContainerState.CANCELLED, reason=end.reason)
    return Ruling(state=ContainerState.CANCELLED, reason=why)
