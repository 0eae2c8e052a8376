"""The queue: waiting containers by request class, in priority order within each.

A request class is all containers with equal resources and constraints, so that the planner's cost
does not grow with the number of containers that wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from dispatcher.model import Constraints, Container
from dispatcher.planner.fit import need
from drivers.interface import InstanceType, Resources

Order = tuple[int, int]

_SPARE_ENTRIES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassKey:
    """What makes containers equal to the planner.

    `unnamed` are the dimensions of `resources` for which an instance type may have defaults of its
    own, () where none has any; `account` is whose spending counts, "" where there are no limits but
    the cluster's.
    """

    resources: Resources
    constraints: Constraints
    unnamed: tuple[str, ...] = ()
    supervisor: bool = False
    account: str = ""


class RequestClass:
    """The waiting containers of one class; the first is the next to get a place.

    Each time that a container is given a place in the order it gets a number; entries with an older
    number are ghosts, so that nothing is ever found twice.
    """

    def __init__(self, key: ClassKey, types: tuple[InstanceType, ...]) -> None:
        self.key = key
        self.types = types
        self._needs = {type_.name: need(type_, key.resources, key.unnamed) for type_ in types}
        self._places: dict[str, tuple[Order, int]] = {}
        self._heap: list[tuple[Order, str, int]] = []
        self._last_number = 0

    def __len__(self) -> int:
        return len(self._places)

    def need(self, type_: InstanceType) -> Resources:
        """Return what one of its containers asks for on an instance of one of its types."""
        return self._needs[type_.name]

    def add(self, container: Container) -> None:
        """Let a container wait, or give one that waits its new place."""
        order = (-container.priority, container.sequence)
        known = self._places.get(container.id)
        if known is not None and known[0] == order:
            return
        self._last_number += 1
        self._places[container.id] = (order, self._last_number)
        heapq.heappush(self._heap, (order, container.id, self._last_number))
        self._compact()

    def discard(self, container_id: str) -> None:
        """Let a container wait no more; not waiting is no error."""
        self._places.pop(container_id, None)
        self._compact()

    def first(self) -> tuple[Order, str] | None:
        """Return the first container's order and id without taking it; None when none waits."""
        heap = self._heap
        while heap and self._places.get(heap[0][1]) != (heap[0][0], heap[0][2]):
            heapq.heappop(heap)
        return (heap[0][0], heap[0][1]) if heap else None

    def take(self) -> tuple[Order, str]:
        """Take the first container out for the length of a pass; `put_back` ends that.

        Raises IndexError when none waits.
        """
        if self.first() is None:
            raise IndexError("no container waits in this class")
        order, container_id, _ = heapq.heappop(self._heap)
        return order, container_id

    def put_back(self, taken: list[tuple[Order, str]]) -> None:
        """Put back what was taken; what left the queue meanwhile is recognised and dropped."""
        for order, container_id in taken:
            place = self._places.get(container_id)
            if place is not None and place[0] == order:
                heapq.heappush(self._heap, (order, container_id, place[1]))

    def _compact(self) -> None:
        if len(self._heap) > 2 * len(self._places) + _SPARE_ENTRIES:
            self._heap = sorted(
                (order, container_id, number)
                for container_id, (order, number) in self._places.items()
            )


class Queue:
    """All waiting containers, by class."""

    def __init__(self, eligible: Callable[[ClassKey], tuple[InstanceType, ...]]) -> None:
        self._eligible = eligible
        self._classes: dict[ClassKey, RequestClass] = {}
        self._class_of: dict[str, RequestClass] = {}

    def __len__(self) -> int:
        return len(self._class_of)

    def __contains__(self, container_id: str) -> bool:
        return container_id in self._class_of

    def add(self, container: Container) -> None:
        """Let a container wait, or give one that waits its new place."""
        spec = container.spec
        key = ClassKey(
            resources=spec.resources,
            constraints=spec.constraints,
            unnamed=spec.unnamed,
            supervisor=spec.supervisor,
        )
        request_class = self._classes.get(key)
        if request_class is None:
            request_class = self._classes[key] = RequestClass(key, self._eligible(key))
        request_class.add(container)
        self._class_of[container.id] = request_class

    def discard(self, container_id: str) -> None:
        """Let a container wait no more; not waiting is no error."""
        request_class = self._class_of.pop(container_id, None)
        if request_class is None:
            return
        request_class.discard(container_id)
        if not request_class:
            del self._classes[request_class.key]

    def class_of(self, container_id: str) -> RequestClass | None:
        """Return the class in which a container waits, None when it does not."""
        return self._class_of.get(container_id)

    def classes(self) -> list[RequestClass]:
        """Return the classes, the one with the first container first."""
        keyed = [(first, c) for c in self._classes.values() if (first := c.first()) is not None]
        keyed.sort(key=lambda pair: pair[0])
        return [request_class for _, request_class in keyed]
