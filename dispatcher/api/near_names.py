"""The nearest of many names to one that is not among them, in bounded time.

Stands alone: its bound on time holds for whatever a request contains, and its tests show that
without a request.
"""

from __future__ import annotations

from collections.abc import Iterable

from longshore.dispatcher.input.problems import did_you_mean

_HINTS_MOST = 20


class NearNames:
    """Says what somebody may have meant; only the first twenty questions get an answer."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = sorted(set(names))
        self._asked = 0

    def hint(self, word: str) -> str:
        """Return `did you mean "x"?`, or a sentence that lists names; "" after many questions."""
        self._asked += 1
        return did_you_mean(word, self._names) if self._asked <= _HINTS_MOST else ""
