"""Containers that wait outside the queue: for their restart's time, or for an earlier process.

What is held back has no place in any request class, whatever its priority; the ledger puts it into
the queue when nothing holds it any more.
"""

from __future__ import annotations

import heapq

from dispatcher.model import Container, WaitReason
from dispatcher.outcomes import restart_reason

_SPARE_ENTRIES = 64


class Holdbacks:
    """Who is held back, until when or by what."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._processes: dict[str, dict[str, str]] = {}

    def __contains__(self, container_id: str) -> bool:
        return container_id in self._due or container_id in self._processes

    def ids(self) -> list[str]:
        """Return the ids of all that are held back, sorted, as a new list."""
        return sorted(self._due.keys() | self._processes.keys())

    def until(self, container_id: str, due: float) -> None:
        """Hold a container back until `due` (seconds since the epoch), forgetting an earlier word.

        `release_due` lets it go.
        """
        if self._due.get(container_id) == due:
            return
        self._due[container_id] = due
        heapq.heappush(self._heap, (due, container_id))
        if len(self._heap) > 2 * len(self._due) + _SPARE_ENTRIES:
            self._heap = sorted((at, id_) for id_, at in self._due.items())

    def due(self, container_id: str) -> float | None:
        """Return until when a container is held back, None when no time holds it."""
        return self._due.get(container_id)

    def next_due(self) -> float | None:
        """Return when the next one may go, None when no time holds anybody."""
        heap = self._heap
        while heap and self._due.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def release_due(self, now: float) -> list[tuple[str, float]]:
        """Forget the times that have come; return whose they were, and when, the earliest first."""
        released = []
        while (due := self.next_due()) is not None and due <= now:
            _, container_id = heapq.heappop(self._heap)
            del self._due[container_id]
            released.append((container_id, due))
        return released

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
        self._due.pop(container_id, None)
        self._processes.pop(container_id, None)

    def reason(self, container: Container) -> WaitReason | None:
        """Return what holds a container back, None when nothing does."""
        processes = self._processes.get(container.id)
        if processes:
            attempt_id = min(processes)
            message = (
                f"an earlier attempt of it, {attempt_id}, still runs on {processes[attempt_id]} "
                "and is being ended; it waits for that"
            )
            return WaitReason(code="earlier_attempt", message=message)
        due = self._due.get(container.id)
        return restart_reason(container, due) if due is not None else None
