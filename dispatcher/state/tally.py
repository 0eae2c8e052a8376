"""How many containers there are of each kind, by project: what an overview is told from; pure.

Pages ask for it every few seconds, so nothing is counted then: each container is counted where it
is when it comes, moves and goes. Those that are held back are kept by what holds them first, which
is looked at whenever the container table decides whether one waits in the queue. Who has ended is
counted by the ten minutes in which that was, for a day; a restart forgets it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from enum import Enum
from typing import TypeVar

from longshore.dispatcher.domain.containers import Container, ContainerState
from longshore.dispatcher.state.queue import ClassKey
from longshore.dispatcher.state.scheduling_gates import Gate, SchedulingGates

Key = TypeVar("Key")

ENDED_FOR_S = 86_400.0
"""For how long who has ended is counted."""
_SLOT_S = 600


class HeldBy(Enum):
    """What keeps a container from the queue, in the order in which it is told; by its code."""

    PRIORITY = "held"
    AFTER = "after"
    JOB_HELD = "job_held"
    MAX_RUNNING = "max_running"
    BUDGET = "over_budget"
    SECRETS = "secret"
    PROCESS = "earlier_attempt"
    TIME = "later"
    OWN_SCHEDULER = "own_scheduler"


_BY_GATE = (
    (Gate.AFTER, HeldBy.AFTER),
    (Gate.JOB_HELD, HeldBy.JOB_HELD),
    (Gate.MAX_RUNNING, HeldBy.MAX_RUNNING),
    (Gate.BUDGET, HeldBy.BUDGET),
    (Gate.SECRETS, HeldBy.SECRETS),
)


def held_by(gates: SchedulingGates, container: Container) -> HeldBy:
    """Return what holds a container back first, of one that something does."""
    if container.priority == 0:
        return HeldBy.PRIORITY
    blocks = gates.blocks(container.id)
    for gate, cause in _BY_GATE:
        if gate in blocks:
            return cause
    if Gate.OWN_SCHEDULER in blocks:
        return HeldBy.OWN_SCHEDULER
    return HeldBy.TIME if gates.due(container.id) is not None else HeldBy.PROCESS


class ContainerTally:
    """Numbers of containers by project; the container table keeps them."""

    def __init__(self) -> None:
        self._states: Counter[tuple[str, ContainerState]] = Counter()
        self._queued: Counter[tuple[ClassKey, str]] = Counter()
        self._held: dict[tuple[str, HeldBy], dict[str, None]] = {}
        self._held_as: dict[str, tuple[str, HeldBy]] = {}
        self._ended: dict[int, Counter[tuple[str, ContainerState]]] = {}

    # ---- what is told ------------------------------------------------------------------------

    @property
    def states(self) -> Mapping[tuple[str, ContainerState], int]:
        """Return how many have not ended, by project and state."""
        return self._states

    @property
    def queued(self) -> Mapping[tuple[ClassKey, str], int]:
        """Return how many are in the queue, by class and project."""
        return self._queued

    @property
    def held(self) -> Mapping[tuple[str, HeldBy], Collection[str]]:
        """Return who is held back, by project and cause."""
        return self._held

    def ended(self, now: float) -> Counter[tuple[str, ContainerState]]:
        """Return how many have ended in the day before `now`, by project and state; a copy."""
        first = int(now - ENDED_FOR_S) // _SLOT_S
        return sum((c for slot, c in self._ended.items() if slot >= first), Counter())

    # ---- what is counted ---------------------------------------------------------------------

    def moved(self, before: ContainerState | None, container: Container) -> None:
        """Count a container in its state, and no more in `before`, None for a new one."""
        if before is not None:
            _less(self._states, (container.project, before))
        self._states[container.project, container.state] += 1

    def queue(self, key: ClassKey, project: str) -> None:
        """Count one in the queue."""
        self._queued[key, project] += 1

    def unqueue(self, key: ClassKey, project: str) -> None:
        """Count one in the queue no more."""
        _less(self._queued, (key, project))

    def hold(self, container: Container, cause: HeldBy) -> None:
        """Count a container as held back, for this alone."""
        kind = (container.project, cause)
        if self._held_as.get(container.id) != kind:
            self.release(container.id)
            self._held_as[container.id] = kind
            self._held.setdefault(kind, {})[container.id] = None

    def release(self, container_id: str) -> None:
        """Count one as held back no more; not being so is no error."""
        kind = self._held_as.pop(container_id, None)
        if kind is not None:
            of_kind = self._held[kind]
            del of_kind[container_id]
            if not of_kind:
                del self._held[kind]

    def end(self, container: Container, now: float) -> None:
        """Count a container that has ended, and in no state of the others."""
        _less(self._states, (container.project, container.state))
        self.release(container.id)
        slot = int(now) // _SLOT_S
        if slot not in self._ended:
            first = int(now - ENDED_FOR_S) // _SLOT_S
            self._ended = {each: c for each, c in self._ended.items() if each >= first}
            self._ended[slot] = Counter()
        self._ended[slot][container.project, container.state] += 1


def _less(counts: Counter[Key], key: Key) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
