"""The nearest of many names to one that is not among them, in bounded time."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import takewhile

from dispatcher.input.problems import did_you_mean, listing

_FEW = 50
_HINTS_MOST = 20


class NearNames:
    """Says what somebody may have meant; comparing a name with 10,000 others well takes a second.

    So of many names those are compared that begin and end alike, and only the first twenty
    questions get a name for an answer.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = sorted(set(names))
        self._asked = 0

    def hint(self, word: str) -> str:
        """Return `did you mean "x"?`, or a sentence that lists names; "" after many questions."""
        self._asked += 1
        if self._asked > _HINTS_MOST:
            return ""
        if len(self._names) <= _FEW:
            return did_you_mean(word, self._names)
        alike = heapq.nlargest(_FEW, self._names, key=lambda name: _alike(word, name))
        meant = did_you_mean(word, alike)
        return meant if meant.startswith("did you") else f"known are {listing(self._names)}"


def _alike(one: str, other: str) -> int:
    """Return how many letters at the beginning and at the end of two names are the same."""
    return _in_common(one, other) + _in_common(one[::-1], other[::-1])


def _in_common(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
