"""What is due when: a heap of named deadlines, of which only the latest word for a name counts."""

from __future__ import annotations

import heapq
from enum import Enum, StrEnum
from typing import Self


class Lasts(Enum):
    """For how long a deadline counts, if it is neither set anew nor cleared before."""

    ALWAYS = "always"
    """It is of the pool, of a type, of an attempt, or of what is kept of an instance that went."""
    UNTIL_GONE = "until gone"
    """It is forgotten with the worker that it is about."""
    UNTIL_SHUTDOWN = "until shutdown"
    """It is forgotten when the worker that it is about is shut down, or with it."""


class TimerKind(StrEnum):
    """What is due, and for how long that counts; what each wakes is the table in `pool.reactor`.

    Of what is due at the same moment, the first in the order of these words comes first.
    """

    lasts: Lasts

    def __new__(cls, word: str, lasts: Lasts) -> Self:
        """Make a kind with its word."""
        kind = str.__new__(cls, word)
        kind._value_ = word
        kind.lasts = lasts
        return kind

    LIST = "list", Lasts.ALWAYS
    HOLD = "hold", Lasts.ALWAYS
    CLOUD = "cloud", Lasts.ALWAYS
    BILLS = "bills", Lasts.ALWAYS
    PROBES = "probes", Lasts.ALWAYS
    KEY = "key", Lasts.ALWAYS
    SIZE = "size", Lasts.ALWAYS
    SIGNAL = "signal", Lasts.ALWAYS
    PROOF = "proof", Lasts.ALWAYS
    PROBE = "probe", Lasts.UNTIL_SHUTDOWN
    RECHECK = "recheck", Lasts.UNTIL_SHUTDOWN
    OFFLINE = "offline", Lasts.UNTIL_SHUTDOWN
    TAGS = "tags", Lasts.UNTIL_SHUTDOWN
    OVERLOAD = "overload", Lasts.UNTIL_GONE
    DISMISSAL = "dismissal", Lasts.UNTIL_GONE
    DESTROY = "destroy", Lasts.UNTIL_GONE
    RELEASE = "release", Lasts.UNTIL_GONE


Key = tuple[TimerKind, str]

_SPARE_ENTRIES = 64


class Timers:
    """Deadlines by (kind, subject); setting one again replaces it."""

    def __init__(self) -> None:
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []

    def set(self, kind: TimerKind, subject: str, due: float) -> None:
        """Let (kind, subject) be due at `due`, forgetting an earlier word."""
        key = (kind, subject)
        if self._due.get(key) != due:
            self._due[key] = due
            heapq.heappush(self._heap, (due, key))
            if len(self._heap) > 2 * len(self._due) + _SPARE_ENTRIES:
                self._heap = sorted((at, named) for named, at in self._due.items())

    def soonest(self, kind: TimerKind, subject: str, due: float) -> None:
        """Let (kind, subject) be due at `due` unless it is due earlier already."""
        current = self._due.get((kind, subject))
        if current is None or due < current:
            self.set(kind, subject, due)

    def arm(self, kind: TimerKind, due: float | None) -> None:
        """Let the one timer of a kind be due at `due`; None forgets it."""
        if due is None:
            self.clear(kind, "")
        else:
            self.set(kind, "", due)

    def clear_all(self, subject: str, *lasting: Lasts) -> None:
        """Forget what is set of a worker, of the kinds that last so."""
        for kind in TimerKind:
            if kind.lasts in lasting:
                self.clear(kind, subject)

    def clear(self, kind: TimerKind, subject: str) -> None:
        """Forget (kind, subject); no error when it was not set."""
        self._due.pop((kind, subject), None)

    def due(self, kind: TimerKind, subject: str) -> float | None:
        """Return when (kind, subject) is due, None when it is not set."""
        return self._due.get((kind, subject))

    def next_due(self) -> float | None:
        """Return the earliest deadline, None when there is none."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> Key | None:
        """Remove and return one key that is due at `now`, the earliest first; None when none is."""
        self._drop_stale()
        if not self._heap or self._heap[0][0] > now:
            return None
        _, key = heapq.heappop(self._heap)
        del self._due[key]
        return key

    def _drop_stale(self) -> None:
        heap = self._heap
        while heap and self._due.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
