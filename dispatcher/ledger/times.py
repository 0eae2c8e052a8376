"""Times of one container's life, which several processes told: nothing is before what led to it.

A process's clock is steady, but the wall clock may be set back before the next one starts: what the
store tells may lie in the future then.
"""

from __future__ import annotations

from longshore.dispatcher.model import Attempt, Container
from longshore.pool.model import AttemptExit


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
