"""Who is due when: a heap in which a later word about somebody replaces an earlier one."""

from __future__ import annotations

import heapq
from collections.abc import KeysView

_SPARE_ENTRIES = 64


class Deadlines:
    """One time (seconds since the epoch) for each key."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def __contains__(self, key: str) -> bool:
        return key in self._due

    def keys(self) -> KeysView[str]:
        """Return the keys that have a time, in no certain order; a view."""
        return self._due.keys()

    def set(self, key: str, due: float) -> None:
        """Give a key its time, forgetting an earlier one."""
        if self._due.get(key) == due:
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, key))
        if len(self._heap) > 2 * len(self._due) + _SPARE_ENTRIES:
            self._heap = sorted((at, each) for each, at in self._due.items())

    def hasten(self, key: str, latest: float) -> None:
        """Let a key that has a time be due at `latest`, at the latest."""
        due = self._due.get(key)
        if due is not None and due > latest:
            self.set(key, latest)

    def get(self, key: str) -> float | None:
        """Return when a key is due, None when it has no time."""
        return self._due.get(key)

    def discard(self, key: str) -> None:
        """Forget a key; having no time is no error."""
        self._due.pop(key, None)

    def next_due(self) -> float | None:
        """Return when the next one is due, None when nobody is."""
        heap = self._heap
        while heap and self._due.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def pop_due(self, now: float) -> list[tuple[str, float]]:
        """Forget the times that have come; return whose they were, and when, the earliest first."""
        popped = []
        while (due := self.next_due()) is not None and due <= now:
            _, key = heapq.heappop(self._heap)
            del self._due[key]
            popped.append((key, due))
        return popped
