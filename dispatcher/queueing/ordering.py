"""A sorted sequence that stays fast at a million entries: add, remove, count and look by position.

Entries are kept in chunks of a bounded length, so that no change moves more than one chunk.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import accumulate, islice

Order = tuple[int, int]
"""What containers of a class are sorted by: the negative priority, then the place in arrival."""

_CHUNK = 1024


class OrderedEntries:
    """Pairs of an order and an id, sorted; no two are equal."""

    def __init__(self) -> None:
        self._chunks: list[list[tuple[Order, str]]] = []
        self._starts: list[int] | None = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def copy(self) -> OrderedEntries:
        """Return a copy."""
        copied = OrderedEntries()
        copied._chunks = [chunk.copy() for chunk in self._chunks]
        copied._starts = None
        copied._length = self._length
        return copied

    def add(self, order: Order, container_id: str) -> None:
        """Put an entry in its place; it must not be there yet."""
        self._length += 1
        entry = (order, container_id)
        if not self._chunks:
            self._chunks.append([entry])
            self._starts = None
            return
        index = self._chunk_of(entry)
        chunk = self._chunks[index]
        insort(chunk, entry)
        if len(chunk) > 2 * _CHUNK:
            self._chunks[index : index + 1] = [chunk[:_CHUNK], chunk[_CHUNK:]]
        self._starts = None

    def remove(self, order: Order, container_id: str) -> None:
        """Take an entry out; raises ValueError when it is not there."""
        entry = (order, container_id)
        index = self._chunk_of(entry) if self._chunks else 0
        chunk = self._chunks[index] if self._chunks else []
        place = bisect_left(chunk, entry)
        if place == len(chunk) or chunk[place] != entry:
            raise ValueError(f"{container_id} is not in order here")
        del chunk[place]
        if not chunk:
            del self._chunks[index]
        self._length -= 1
        self._starts = None

    def at(self, position: int) -> tuple[Order, str] | None:
        """Return the entry at a position from 0 on, None past the end."""
        if position >= self._length:
            return None
        if self._chunks and position < len(self._chunks[0]):
            return self._chunks[0][position]
        starts = self._positions()
        index = bisect_left(starts, position + 1) - 1
        return self._chunks[index][position - starts[index]]

    def before(self, order: Order) -> int:
        """Return how many entries come before an order."""
        entry = (order, "")
        if not self._chunks or entry <= self._chunks[0][0]:
            return 0
        index = self._chunk_of(entry)
        return self._positions()[index] + bisect_left(self._chunks[index], entry)

    def span(self, start: int, stop: int) -> Iterator[tuple[Order, str]]:
        """Return the entries from one position to before another, which may be past the end."""
        if start >= min(stop, self._length):
            return
        starts = self._positions()
        index = bisect_left(starts, start + 1) - 1
        left = min(stop, self._length) - start
        skip = start - starts[index]
        while left > 0:
            part = self._chunks[index][skip : skip + left]
            yield from islice(part, left)
            left -= len(part)
            skip, index = 0, index + 1

    def _chunk_of(self, entry: tuple[Order, str]) -> int:
        """Return the chunk in which an entry is or belongs."""
        low, high = 0, len(self._chunks) - 1
        while low < high:
            middle = (low + high) // 2
            if self._chunks[middle][-1] < entry:
                low = middle + 1
            else:
                high = middle
        return low

    def _positions(self) -> list[int]:
        """Return the position of each chunk's first entry, counted anew after a change."""
        if self._starts is None:
            self._starts = [0, *accumulate(len(chunk) for chunk in self._chunks[:-1])]
        return self._starts
