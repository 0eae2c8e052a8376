"""The pool's deadlines, with an account of what was last said of each."""

from __future__ import annotations

from math import inf

from longshore.pool.timers import Key, TimerKind, Timers
from tests.sim.truth import expect


class WatchedTimers(Timers):
    """Deadlines that are looked at: none comes early, late words count only where they must."""

    def pop_due(self, now: float) -> Key | None:
        """Take what is due, and look whether it is."""
        earliest = self.next_due()
        key = super().pop_due(now)
        early = key is not None and (earliest is None or earliest > now)
        expect(not early, "deadlines are kept", key, "comes at", now, "not", earliest)
        return key

    def soonest(self, kind: TimerKind, subject: str, due: float) -> None:
        """Hasten a deadline, and look that it is not put off."""
        before = self.due(kind, subject)
        super().soonest(kind, subject, due)
        right = self.due(kind, subject) == min(due, inf if before is None else before)
        expect(right, "deadlines are kept", kind, subject, before, "then", due)

    def clear(self, kind: TimerKind, subject: str) -> None:
        """Forget a deadline, and look that it never comes."""
        super().clear(kind, subject)
        right = self.due(kind, subject) is None
        expect(right, "deadlines are kept", kind, subject, "is cleared")
