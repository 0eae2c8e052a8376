"""Room: places on instances that are ready, on their way, or only thought of in this pass."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum

from dispatcher.model import Placement, Profile
from dispatcher.queue import RequestClass
from drivers.interface import InstanceType, Resources

SlotKey = tuple[int, int, Decimal, float, str]


class SlotKind(IntEnum):
    """How near a slot is to running something; nearer is preferred."""

    READY = 0
    COMING = 1
    LAUNCHING = 2
    NEW = 3


@dataclass(slots=True, kw_only=True)
class Slot:
    """One instance as a pass sees it; `free` and `count` change as the pass fills it.

    `id` is the worker's id, the launch's token, or a name made in this pass for a new one.
    """

    kind: SlotKind
    id: str
    type: InstanceType
    free: Resources
    count: int
    last_busy: float
    idle: bool = False
    assigned: int = 0

    def accepts(self, resources: Resources, *, placement: Placement, max_containers: int) -> bool:
        """Return whether one more such request fits."""
        if placement is Placement.EXCLUSIVE and self.count:
            return False
        return self.count < max_containers and resources.fits_in(self.free)

    def assign(self, resources: Resources) -> None:
        """Take room for one request."""
        self.free = self.free.minus(resources)
        self.count += 1
        self.assigned += 1


class Candidates:
    """The slots that may take one class's containers, best first.

    Order: the kind, then by profile the fullest or the emptiest, then the cheapest, then the most
    recently busy (so that the others reach their idle timeout), then the id.
    """

    def __init__(self, request_class: RequestClass, slots: Iterable[Slot], rules: Rules) -> None:
        self._resources = request_class.key.resources
        self._types = {type_.name for type_ in request_class.types}
        self._rules = rules
        self._heap: list[tuple[SlotKey, Slot]] = []
        for slot in slots:
            self.offer(slot)

    def offer(self, slot: Slot) -> None:
        """Consider one more slot."""
        if slot.type.name in self._types and self._accepts(slot):
            heapq.heappush(self._heap, (self._rules.key(slot), slot))

    def best(self) -> Slot | None:
        """Return the best slot that has room, None when none has."""
        while self._heap:
            key, slot = self._heap[0]
            if not self._accepts(slot):
                heapq.heappop(self._heap)
            elif key != self._rules.key(slot):
                heapq.heapreplace(self._heap, (self._rules.key(slot), slot))
            else:
                return slot
        return None

    def _accepts(self, slot: Slot) -> bool:
        return slot.accepts(
            self._resources,
            placement=self._rules.placement,
            max_containers=self._rules.max_containers,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How slots are filled and which is preferred."""

    placement: Placement
    profile: Profile
    max_containers: int

    def key(self, slot: Slot) -> SlotKey:
        """Return a slot's place in the order of preference; the least is preferred."""
        sign = 1 if self.profile is Profile.DISTRIBUTE_LOAD else -1
        return (
            slot.kind.value,
            sign * slot.count,
            slot.type.price_usd_per_hour,
            -slot.last_busy,
            slot.id,
        )
