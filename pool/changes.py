"""Which workers have changed, told to each who keeps something up to date with them.

A reader derives something from workers (a fleet, what they cost, what runs where) and brings it up
to date when it has its turn. Each has a feed of its own: `PoolCore.touch` puts a worker into all of
them, and a reader drains its own when it looks. So nobody's view depends on who else has looked, or
on the order in which they do. A reader that changes workers itself finds them in its feed like
those of others; one that knows already what it did drains again at the end of its turn.

A feed holds each id once, also of workers that are gone by now. It grows until it is drained, so
that a reader drains it in every pass, whether it has a use for what is in there or not.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet


class ChangeFeed:
    """The workers that have changed since its one reader drained it; made by `PoolCore.follow`."""

    def __init__(self) -> None:
        self._worker_ids: set[str] = set()

    @property
    def pending(self) -> AbstractSet[str]:
        """Return the ids that the next `drain` returns; not a copy."""
        return self._worker_ids

    def note(self, worker_id: str) -> None:
        """Put a worker in."""
        self._worker_ids.add(worker_id)

    def drain(self) -> set[str]:
        """Return the ids of the workers that have changed, are new, or are gone, and empty it."""
        drained, self._worker_ids = self._worker_ids, set()
        return drained
