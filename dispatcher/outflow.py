"""What leaves the engine, kept in order: nothing overtakes the commit that it follows.

Pure, so that the runtime and a simulation with a store that lags go through the same code.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from dispatcher.messages import (
    Change,
    Command,
    Commit,
    Publication,
)
from drivers.errors import BugError
from pool.messages import PoolCommand

Following = PoolCommand | Publication


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Changes to be committed as one; `ticket` is what `Outflow.committed` is told afterwards."""

    ticket: int
    changes: tuple[Change, ...]


@dataclass(slots=True, kw_only=True)
class _Batch:
    ticket: int
    then: list[Following] = field(default_factory=list)
    done: bool = False


class Outflow:
    """Orders writes and what follows them; commands without changes wait for earlier commits."""

    def __init__(self) -> None:
        self._batches: deque[_Batch] = deque()
        self._last_ticket = 0

    @property
    def pending(self) -> int:
        """Return how many commits are not known to be done."""
        return sum(not batch.done for batch in self._batches)

    def put(self, commands: Sequence[Command]) -> tuple[list[Write], list[Following]]:
        """Take in what the engine asks for; return the writes and what may be begun, in order."""
        writes: list[Write] = []
        ready: list[Following] = []
        for command in commands:
            if isinstance(command, Commit):
                self._last_ticket += 1
                batch = _Batch(ticket=self._last_ticket, then=list(command.then))
                self._batches.append(batch)
                writes.append(Write(ticket=batch.ticket, changes=command.changes))
            elif self._batches:
                self._batches[-1].then.append(command)
            else:
                ready.append(command)
        return writes, ready

    def committed(self, ticket: int) -> list[Following]:
        """Note that a write is committed; return what may be begun now, in order.

        Raises `BugError` for a ticket that is not pending.
        """
        batch = next((b for b in self._batches if b.ticket == ticket and not b.done), None)
        if batch is None:
            raise BugError(f"write {ticket} is not pending")
        batch.done = True
        ready: list[Following] = []
        while self._batches and self._batches[0].done:
            ready += self._batches.popleft().then
        return ready
