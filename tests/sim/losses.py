"""How often attempts were lost: on instances that are gone, and on those that are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from longshore.dispatcher.domain.containers import Attempt, AttemptOutcome, Container

LOST_THERE = ("supervisor_lost", "engine_failure")
NEVER_RAN = ("never_started", "engine_failure")
LOST_ON_ONE = 20


def code_of(attempt: Attempt) -> str:
    """Return the code of why an attempt ended, "" for none."""
    return attempt.reason.code if attempt.reason is not None else ""


def lost_on_each(attempts: Iterable[Attempt]) -> Counter[str]:
    """Return how many of some attempts each instance lost, or could not run, that was there."""
    lost = (a for a in attempts if a.outcome is AttemptOutcome.LOST and code_of(a) in LOST_THERE)
    return Counter(attempt.instance_id for attempt in lost)


def is_lost_too_often(attempts: Iterable[Attempt], most: int) -> bool:
    """Return whether attempts were lost as often as they may be, once for each instance."""
    lost = [a for a in attempts if a.outcome is AttemptOutcome.LOST and code_of(a) != "overloaded"]
    on_each = lost_on_each(lost)
    number = len(lost) - sum(on_each.values()) + len(on_each)
    return number >= most or max(on_each.values(), default=0) >= max(most, LOST_ON_ONE)


def may_run_again(container: Container, lost: Attempt) -> bool:
    """Return whether a container may run again that was lost, by its user's word.

    What overloaded instances refuse has a limit of its own.
    """
    code = code_of(lost)
    return code in NEVER_RAN or (container.spec.retry_lost and code != "overloaded")
