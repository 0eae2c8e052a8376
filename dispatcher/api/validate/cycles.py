"""Finding circles among things that wait for each other; pure, and linear in what they say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def find_cycles(after: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """Yield circles: each waits for the next, and the last for the first.

    `after` says for each by its number for which others it waits. Of circles that have members in
    common it may be one that is told: whoever breaks it and asks again is told of the next.
    """
    search = _Search(after)
    for start in range(len(after)):
        yield from search.from_(start)


class _Search:
    """A search in depth without recursion: a chain may be longer than Python's stack.

    `_depth` is where on the way to here each one stands, -1 when it is not on it. `_told` says for
    each of the way how deep the deepest is, from the start up to it, that has been in a circle
    already.
    """

    def __init__(self, after: Sequence[Sequence[int]]) -> None:
        self._after = after
        self._seen = [False] * len(after)
        self._depth = [-1] * len(after)
        self._way: list[int] = []
        self._told: list[int] = []
        self._next: list[Iterator[int]] = []

    def from_(self, start: int) -> Iterator[tuple[int, ...]]:
        """Yield the circles that are reached from `start` and from nobody before."""
        if not self._seen[start]:
            self._enter(start)
        while self._way:
            found = next(self._next[-1], None)
            if found is None:
                self._leave()
            elif not self._seen[found]:
                self._enter(found)
            elif self._told[-1] < self._depth[found]:
                yield self._circle(self._depth[found])

    def _enter(self, number: int) -> None:
        self._seen[number] = True
        self._depth[number] = len(self._way)
        self._told.append(self._told[-1] if self._told else -1)
        self._way.append(number)
        self._next.append(iter(self._after[number]))

    def _leave(self) -> None:
        self._depth[self._way.pop()] = -1
        self._told.pop()
        self._next.pop()

    def _circle(self, first: int) -> tuple[int, ...]:
        for depth in range(first, len(self._way)):
            self._told[depth] = depth
        return tuple(self._way[first:])
