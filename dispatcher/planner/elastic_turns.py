"""Whose turn it is where more elastic jobs want something in vain than one pass tries; pure.

The first ones have theirs in each pass, the others in one pass after the other: each is told who
had one in vain since some were left out, and tells the next.
"""

from __future__ import annotations


class Turns:
    """The turns of one pass; `later` are the jobs for which it has none left."""

    def __init__(self, most: int, passed: frozenset[str]) -> None:
        """Of the `most` turns that count, the second half is for whom none has `passed` yet."""
        self._most = most
        self._passed = passed
        self._counted = 0
        self._in_vain: set[str] = set()
        self.later: set[str] = set()

    def admits(self, job_id: str) -> bool:
        """Return whether a job has a turn now; whoever has none is noted as `later`."""
        most = self._most // 2 if job_id in self._passed else self._most
        if self._counted < most:
            return True
        self.later.add(job_id)
        return False

    def count(self) -> None:
        """Count a turn as one of the most that there are."""
        self._counted += 1

    def fail(self, job_id: str) -> None:
        """Note that a job had its turn in vain."""
        self._in_vain.add(job_id)

    @property
    def unserved(self) -> set[str]:
        """Return who had a turn in vain, or none; a copy."""
        return self._in_vain | self.later

    @property
    def passed(self) -> frozenset[str]:
        """Return who lets others go first in the next pass: nobody once all have had a turn."""
        has_new = bool(self.later - self._passed)
        return self._passed | self._in_vain if has_new else frozenset()
