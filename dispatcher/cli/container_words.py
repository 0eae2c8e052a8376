"""What is said of a container, in few words: its state, where it runs, why it waits or ended."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from longshore.dispatcher.api.schemas.containers import (
    AttemptAnswer,
    ContainerAnswer,
    DependencyAnswer,
)
from longshore.dispatcher.cli import times
from longshore.dispatcher.cli.answers import WAITING_STATES, is_final
from longshore.dispatcher.cli.times import lasted_s


def dependency_phrases(awaited: Iterable[DependencyAnswer], job_id: str) -> str:
    """Return what is waited for; what belongs to the same job by its task alone."""
    return ", ".join(_phrase(each, job_id) for each in awaited)


def _phrase(awaited: DependencyAnswer, job_id: str) -> str:
    of = awaited.of.removeprefix(f"{job_id}/") if job_id else awaited.of
    how = ("any end" if awaited.on == "end" else "", "element by element" if awaited.each else "")
    parts = [part for part in how if part]
    return f"{of} ({', '.join(parts)})" if parts else of


def is_pulling(attempt: AttemptAnswer) -> bool:
    """Return whether an attempt's image is still being fetched."""
    begun = attempt.pulling_since is not None
    return begun and attempt.pulled_at is None and attempt.outcome is None


def shown_state(seen: ContainerAnswer) -> str:
    """Return its state for people, who want to know that its program does not run yet."""
    pulling = seen.state == "running" and seen.attempts and is_pulling(seen.attempts[-1])
    return "pulling" if pulling else seen.state


def earlier_attempts(seen: ContainerAnswer) -> int:
    """Return how many attempts there were before those that the server answered."""
    return max(0, seen.attempt_count - len(seen.attempts))


def title(seen: ContainerAnswer) -> str:
    """Return its name, or else its task's, with its place in an array: "align[7]"."""
    place = "" if seen.array_index is None else f"[{seen.array_index}]"
    return f"{seen.name or seen.task or ''}{place}"


def is_waiting(seen: ContainerAnswer) -> bool:
    """Return whether it does not run yet, or not any more before its next attempt."""
    return seen.state in WAITING_STATES


def cancelling(seen: ContainerAnswer) -> str:
    """Return that it is being cancelled, and when KILL comes where that is known, else ""."""
    if is_final(seen) or not seen.cancel_requested:
        return ""
    return "being cancelled" + (f", KILL at {times.moment(seen.kill_at)}" if seen.kill_at else "")


def attempt_started_at(seen: ContainerAnswer) -> str | None:
    """Return when its last attempt began to run; None while it waits for one."""
    if is_waiting(seen):
        return None
    return seen.attempts[-1].started_at if seen.attempts else seen.started_at


def ran_for_s(seen: ContainerAnswer, now: datetime | None = None) -> float | None:
    """Return how long its last attempt has been running, or ran, in seconds.

    None when it never did, and while it waits; 0 when the server's clock is ahead of ours.
    """
    ended_at = seen.attempts[-1].finished_at if seen.attempts else None
    return lasted_s(attempt_started_at(seen), ended_at or seen.finished_at, now)


def short_note(seen: ContainerAnswer) -> str:
    """Return the note in few words, for a listing's row."""
    wait = seen.waiting_for
    if not is_waiting(seen) or wait is None or wait.behind is None or wait.code != "behind":
        told, instance = note(seen), seen.for_instance or ""
        if instance not in told:
            told = f"{instance}: {told}" if told else instance
        return f"{told} (in doubt)" if seen.doubt else told
    why = f" ({wait.behind_code.replace('_', ' ')})" if wait.behind_code else ""
    place = f" (position {seen.position} of {seen.queue_length})" if seen.position else ""
    return f"behind {wait.behind}{why}{place}"


def note(seen: ContainerAnswer) -> str:
    """Return why it waits, else where it runs, else why it ended, in one line."""
    if is_final(seen):
        return seen.reason.message if seen.reason else ""
    if ends := cancelling(seen):
        return f"{seen.instance}: {ends}" if seen.instance else ends
    if is_waiting(seen) and (seen.waiting or seen.state == "queued"):
        # Its last attempt's instance may be gone.
        return seen.waiting or ""
    return seen.instance or seen.waiting or ""
