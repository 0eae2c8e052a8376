"""Containers that wait outside the queue: for their restart's time, or for an earlier process.

What is held back has no place in any request class, whatever its priority; the container table puts
it into the queue when nothing holds it any more.
"""

from __future__ import annotations

import heapq
from collections.abc import KeysView
from enum import Flag, auto

from longshore.dispatcher.domain.containers import Container, WaitReason
from longshore.dispatcher.state.restarts import restart_reason

# ---- who is due when: a heap in which a later word about somebody replaces an earlier one --------

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


# --------------------------------------------------------------------------------------------------


class Gate(Flag):
    """What keeps a container from the queue until somebody lifts it."""

    NONE = 0
    #: Others have to end first.
    AFTER = auto()
    #: As many of its array are under way as may be.
    MAX_RUNNING = auto()
    #: Its job is held.
    JOB_HELD = auto()
    #: Its job has a scheduler of its own, for as long as it lives.
    OWN_SCHEDULER = auto()
    #: A secret that it is given is not there, or cannot be decrypted.
    SECRETS = auto()
    #: A budget that it counts against is spent.
    BUDGET = auto()


class SchedulingGates:
    """Who is held back, until when or by what."""

    def __init__(self) -> None:
        self._due = Deadlines()
        self._processes: dict[str, dict[str, str]] = {}
        self._blocks: dict[str, Gate] = {}

    def __contains__(self, container_id: str) -> bool:
        return (
            container_id in self._due
            or container_id in self._processes
            or container_id in self._blocks
        )

    def ids(self) -> list[str]:
        """Return the ids of all that are held back, sorted, as a new list."""
        return sorted(self._due.keys() | self._processes.keys() | self._blocks.keys())

    def block(self, container_id: str, what: Gate) -> None:
        """Hold a container back for one thing more."""
        self._blocks[container_id] = self._blocks.get(container_id, Gate.NONE) | what

    def unblock(self, container_id: str, what: Gate) -> None:
        """Hold a container back for one thing less; being held back by it is no must."""
        left = self._blocks.get(container_id, Gate.NONE) & ~what
        if left:
            self._blocks[container_id] = left
        else:
            self._blocks.pop(container_id, None)

    def blocks(self, container_id: str) -> Gate:
        """Return what blocks a container."""
        return self._blocks.get(container_id, Gate.NONE)

    def all_blocks(self) -> list[Gate]:
        """Return what blocks each container that something blocks, in no certain order."""
        return list(self._blocks.values())

    @property
    def by_processes(self) -> int:
        """Return how many containers the processes of earlier attempts hold back."""
        return len(self._processes)

    def until(self, container_id: str, due: float) -> None:
        """Hold a container back until `due` (seconds since the epoch), forgetting an earlier word.

        `release_due` lets it go.
        """
        self._due.set(container_id, due)

    def timed(self) -> list[str]:
        """Return the ids of all that a time holds back, sorted, as a new list."""
        return sorted(self._due.keys())

    def due(self, container_id: str) -> float | None:
        """Return until when a container is held back, None when no time holds it."""
        return self._due.get(container_id)

    def next_due(self) -> float | None:
        """Return when the next one may go, None when no time holds anybody."""
        return self._due.next_due()

    def release_due(self, now: float) -> list[tuple[str, float]]:
        """Forget the times that have come; return whose they were, and when, the earliest first."""
        return self._due.pop_due(now)

    def by_process(self, container_id: str, attempt_id: str, worker_id: str) -> None:
        """Hold a container back as long as the process of an earlier attempt lives on a worker."""
        self._processes.setdefault(container_id, {})[attempt_id] = worker_id

    def process_gone(self, container_id: str, attempt_id: str) -> bool:
        """Note that an earlier attempt's process has ended; return whether it held anybody back."""
        processes = self._processes.get(container_id, {})
        if processes.pop(attempt_id, None) is None:
            return False
        if not processes:
            del self._processes[container_id]
        return True

    def drop(self, container_id: str) -> None:
        """Forget a container; unknown is no error."""
        self._due.discard(container_id)
        self._processes.pop(container_id, None)
        self._blocks.pop(container_id, None)

    def reason(self, container: Container) -> WaitReason | None:
        """Return what holds a container back, None when nothing does."""
        processes = self._processes.get(container.id)
        if processes:
            attempt_id = min(processes)
            message = (
                f"an earlier attempt of it, {attempt_id}, still runs on {processes[attempt_id]}: "
                "it waits for the end of that"
            )
            return WaitReason(code="earlier_attempt", message=message)
        due = self._due.get(container.id)
        return restart_reason(container, due) if due is not None else None
