"""What is said of a job, in few words: what it is, how far it is, how it ended."""

from __future__ import annotations

from datetime import datetime

from longshore.dispatcher.api.schemas.jobs import CountsAnswer, JobAnswer
from longshore.dispatcher.cli.answers import FINAL_STATES, UNFINISHED_STATES, is_final
from longshore.dispatcher.cli.times import lasted_s

_STANDING = tuple(reversed(UNFINISHED_STATES))
_PER_INSTANCE_TYPES = ("system", "sysbatch")


def ended(counts: CountsAnswer) -> int:
    """Return how many have reached their final state."""
    return counts.succeeded + counts.failed + counts.cancelled


def counts_phrase(counts: CountsAnswer) -> str:
    """Return how far they are: "37/100 done, 12 running, 1 failed"."""
    parts = _numbers(counts, ("running", "failed", "cancelled"))
    return ", ".join([f"{ended(counts)}/{counts.total} done", *parts])


def outcome(counts: CountsAnswer) -> str:
    """Return how many ended how: "99 succeeded, 1 failed"."""
    return ", ".join(_numbers(counts, FINAL_STATES))


def _numbers(counts: CountsAnswer, states: tuple[str, ...]) -> list[str]:
    return [f"{number} {state}" for state in states if (number := getattr(counts, state))]


def is_template(seen: JobAnswer) -> bool:
    """Return whether its runs are jobs of their own, and it has no containers."""
    return bool(seen.periodic or seen.parameterized)


def is_per_instance(seen: JobAnswer) -> bool:
    """Return whether it has a container on each instance that it is for."""
    return seen.type in _PER_INSTANCE_TYPES and not is_template(seen)


def kind(seen: JobAnswer) -> str:
    """Return its type, and what else it is: "batch, periodic"."""
    terms = (("periodic", seen.periodic), ("parameterized", seen.parameterized))
    return ", ".join([seen.type, *(name for name, value in terms if value)])


def cancelling(seen: JobAnswer) -> str:
    """Return that it is being cancelled and some of it has not ended, else ""."""
    return "being cancelled" if seen.cancel_requested and not is_final(seen) else ""


def title(seen: JobAnswer) -> str:
    """Return its id, with its name where it has one."""
    return f"{seen.id} {seen.name}".rstrip()


def progress(seen: JobAnswer) -> str:
    """Return how far it is; of one that goes on for ever, how many containers are there."""
    if is_template(seen):
        return "its runs are jobs of their own"
    if seen.type == "system" and not is_final(seen):
        return ", ".join(_numbers(seen.counts, _STANDING)) or "none running"
    return counts_phrase(seen.counts)


def ran_for_s(seen: JobAnswer, now: datetime | None = None) -> float | None:
    """Return how long it is since its first container started, or was until its end.

    None when none did; 0 when the server's clock is ahead of ours.
    """
    return lasted_s(seen.started_at, seen.finished_at, now)


def note(seen: JobAnswer) -> str:
    """Return why it ended as it did, else how far it is."""
    if is_final(seen) and seen.reason is not None and seen.reason.message:
        return seen.reason.message
    if ends := cancelling(seen):
        return f"{progress(seen)} ({ends})"
    return f"{progress(seen)}{' (held)' if seen.held and not is_final(seen) else ''}"
