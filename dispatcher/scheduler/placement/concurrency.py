"""How many containers may run at once: as many as the store and the runners stand.

There is no limit at first. When one of them reports overload, the limit becomes one less than what
runs, a step a second at most. After each minute without another report in which the limit was
reached it rises by a tenth and one; when it has not been reached for ten minutes, it is gone.

It counts containers, never instances, so that free room on an instance is always taken. A quota of
the cloud's is none of these limits: it keeps nobody from room that is there. How many supervisors
there may be at one is `dispatcher.scheduler.placement.supervisors`' to say.
"""

from __future__ import annotations

import math

from longshore.dispatcher.scheduler.placement import supervisors

QUIET_S = 60.0
FORGOTTEN_AFTER_S = 600.0
STEP_S = 1.0


class Concurrency:
    """The limits of how many containers, and how many supervisors among them, may have a place."""

    def __init__(self, *, max_containers: int | None, supervisor_fraction: float) -> None:
        """Begin without a limit but `max_containers`, None for none.

        `supervisor_fraction` is the share, from 0 to 1, that supervisors may take of a limit.
        """
        self._max_containers = max_containers
        self._supervisor_fraction = supervisor_fraction
        self._adaptive: int | None = None
        self._running = 0
        self._quiet_since = 0.0
        self._stepped_at = -math.inf
        self._reached_at = 0.0
        self._risen = False
        self.cause = ""

    def limit(self, now: float) -> int | None:
        """Return how many containers may run or have a place, None for any number."""
        self._rise(now)
        limits = [n for n in (self._max_containers, self._adaptive) if n is not None]
        return min(limits) if limits else None

    def supervisors(self, limit: int | None) -> int | None:
        """Return how many of `limit` containers may be supervisors, at least one.

        None, for any number, while there is no limit.
        """
        return None if limit is None else supervisors.share_of(self._supervisor_fraction, limit)

    def overloaded(self, running: int, now: float, cause: str = "") -> bool:
        """Note a report of overload while `running` containers run; return whether the limit sank.

        What does not run cannot be the cause: nothing follows from a report while nothing runs.
        `cause` is a sentence for those who wait.
        """
        self._rise(now)
        self._quiet_since = now
        if running < 1 or now < self._stepped_at + STEP_S:
            return False
        lower = max(1, running - 1)
        if self._adaptive is not None and self._adaptive <= lower:
            return False
        self._adaptive = lower
        self._running = running
        self._stepped_at = self._reached_at = now
        self.cause = cause
        return True

    def observe(self, running: int, now: float) -> bool:
        """Note how many containers run; return whether the limit has risen since the last time."""
        self._rise(now)
        reached = self._is_reached()
        self._running = running
        if reached or self._is_reached():
            self._reached_at = now
        risen, self._risen = self._risen, False
        return risen

    def next_rise(self) -> float | None:
        """Return when the limit may rise next, None while there is none but the configured one."""
        return None if self._adaptive is None else self._quiet_since + QUIET_S

    def _is_reached(self) -> bool:
        return self._adaptive is not None and self._running >= self._adaptive

    def _rise(self, now: float) -> None:
        """Take in the quiet minutes that have passed."""
        while self._adaptive is not None and now >= self._quiet_since + QUIET_S:
            began, self._quiet_since = self._quiet_since, self._quiet_since + QUIET_S
            if self._is_reached():
                self._reached_at = self._quiet_since
            if self._reached_at > began:
                self._adaptive = int(self._adaptive * 1.1) + 1
                self._risen = True
            elif self._quiet_since - self._reached_at >= FORGOTTEN_AFTER_S:
                self._adaptive = None
                self._risen = True
                self.cause = ""
