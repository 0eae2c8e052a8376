"""How long to wait for an end, and what an end means to who waits for it.

Theory of operation. Who waits for a container or a job looks at it again and again, soon at first
and then every two seconds. Who waits, or follows a stream, stays while the server is away, for
`PATIENCE_S` since the last contact: work goes on without it. What a server refuses is no absence,
and ends the wait at once; and so does a server that was never there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from longshore.dispatcher.api.schemas.containers import ContainerAnswer
from longshore.dispatcher.api.schemas.jobs import JobAnswer
from longshore.dispatcher.client.errors import (
    ClientError,
    RunCancelledError,
    RunFailedError,
    SeveralContainersError,
)

PATIENCE_S = 600.0
FIRST_LOOK_S = 0.1
LOOK_INTERVAL_S = 2.0
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 5.0

FINAL_STATES = ("succeeded", "failed", "cancelled")

Found = TypeVar("Found")
Run = TypeVar("Run", ContainerAnswer, JobAnswer)


def look_after_s(looks: int) -> float:
    """Return how long to wait after so many looks; the first is number 1."""
    return min(LOOK_INTERVAL_S, FIRST_LOOK_S * 1.5 ** min(looks - 1, 20))


def has_ended(answer: ContainerAnswer | JobAnswer) -> bool:
    """Return whether nothing follows."""
    return answer.state in FINAL_STATES


def result_of(answer: Run) -> Run:
    """Return what has succeeded, as it is.

    Raises `RunFailedError` and `RunCancelledError` for what has not, as a future does.
    """
    match answer.state:
        case "succeeded":
            return answer
        case "cancelled":
            raise RunCancelledError(_told(answer, "was cancelled"), answer)
        case _:
            code = "" if answer.exit_code is None else f" with exit code {answer.exit_code}"
            raise RunFailedError(_told(answer, f"failed{code}"), answer)


def only_one(job_id: str, found: Sequence[Found]) -> Found:
    """Return the only container of a job; raises `SeveralContainersError` for several or none."""
    if len(found) == 1:
        return found[0]
    how_many = "several containers" if found else "no container yet"
    raise SeveralContainersError(
        f"{job_id} has {how_many}", remedy="Choose one of its containers(), and read its logs()"
    )


def _told(answer: ContainerAnswer | JobAnswer, how: str) -> str:
    why = f": {answer.reason.message}" if answer.reason is not None else ""
    return f"{answer.id} {how}{why}"


class Reconnection:
    """Decides for who follows or waits whether to go on without the server, and when."""

    def __init__(
        self, patience_s: float = PATIENCE_S, first_pause_s: float = FIRST_PAUSE_S
    ) -> None:
        self._patience_s = patience_s
        self._first_pause_s = first_pause_s
        self._last_contact_s: float | None = None
        self._failures = 0

    def reached(self, now_s: float) -> None:
        """Note that the server answered, at a time of any steady clock."""
        self._last_contact_s = now_s
        self._failures = 0

    def pause_s(self, error: ClientError, now_s: float, dice: float) -> float:
        """Return after how long to try again; raises `error` when it is no use.

        `dice` is a number from 0 to 1.
        """
        if self._last_contact_s is None or not error.passing:
            raise error
        if now_s - self._last_contact_s > self._patience_s:
            raise error
        pause_s = min(LONGEST_PAUSE_S, self._first_pause_s * 2.0 ** min(self._failures, 10))
        self._failures += 1
        return pause_s * (1.0 + dice / 4)
