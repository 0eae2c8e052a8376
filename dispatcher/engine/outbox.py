"""What leaves the engine, kept in order: nothing overtakes the commit that it follows.

Pure, so that the runtime and a simulation with a store that lags go through the same code.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from longshore.dispatcher.domain.messages import Change, Command, Commit, Following
from longshore.drivers.errors import BugError
from longshore.pool.messages import SignalAttempt, StoreRecovered, StoreStalled

STALLED_AFTER_S = 30.0
"""How long the oldest commit may take before the engine is told; less counts as no time at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Changes to be committed as one; `ticket` is what `Outbox.committed` is told afterwards."""

    ticket: int
    changes: tuple[Change, ...]


@dataclass(slots=True, kw_only=True)
class _Batch:
    ticket: int
    since: float
    then: list[Following] = field(default_factory=list)
    done: bool = False


class Outbox:
    """Orders writes and what follows them; commands without changes wait for earlier commits."""

    def __init__(self) -> None:
        self._batches: deque[_Batch] = deque()
        self._last_ticket = 0
        self.stalled = False

    @property
    def pending(self) -> int:
        """Return how many commits are not known to be done."""
        return sum(not batch.done for batch in self._batches)

    def put(self, commands: Sequence[Command], now: float) -> tuple[list[Write], list[Following]]:
        """Take in what the engine asks for; return the writes and what may be begun, in order."""
        writes: list[Write] = []
        ready: list[Following] = []
        for command in commands:
            if isinstance(command, Commit):
                self._last_ticket += 1
                then = list(command.then)
                batch = _Batch(ticket=self._last_ticket, since=now, then=then)
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

    def next_stall_event(self) -> float | None:
        """Return when `stall_event` tells something; None: not before something is committed."""
        if self.stalled or not self._batches:
            return None
        return self._batches[0].since + STALLED_AFTER_S

    def stall_event(self, now: float) -> StoreStalled | StoreRecovered | None:
        """Return what the engine is to hear of how its commands wait, None for nothing new.

        Signals that wait then are never sent: what is due once they move on may be another one.
        """
        since = self._batches[0].since if self._batches else now
        stalled = now >= since + STALLED_AFTER_S
        if stalled == self.stalled:
            return None
        self.stalled = stalled
        if not stalled:
            return StoreRecovered()
        for batch in self._batches:
            batch.then = [each for each in batch.then if not isinstance(each, SignalAttempt)]
        return StoreStalled(since=since)
