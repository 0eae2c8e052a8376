"""Room: places on instances that are ready, on their way, or only thought of in this pass."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum

from longshore.dispatcher.model import Placement, Profile
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.room import charge, shares_a_cpu

SlotKey = tuple[int, int, Decimal, float, str]


class SlotKind(IntEnum):
    """How near a slot is to running something; nearer is preferred."""

    READY = 0
    COMING = 1
    LAUNCHING = 2
    NEW = 3


@dataclass(slots=True, kw_only=True, eq=False)
class Slot:
    """One instance as the planner sees it.

    `id` is the worker's id, the launch's token, or a name made in a pass for a new one. `free`,
    `count` and `sharers` (of the one cpu that requests of no cpus share) change as it is filled.
    `idle` says that nothing runs there and nothing of it is awaited. One that came for somebody and
    ran nothing yet is `spared_until` then: until it has waited for as long as it took to boot.
    """

    kind: SlotKind
    id: str
    type: InstanceType
    free: Resources
    count: int
    last_busy: float
    idle: bool = False
    sharers: int = 0
    assigned: int = 0
    spared_until: float = 0.0

    @property
    def is_unused(self) -> bool:
        """Return whether it is there and nothing has ever run on it."""
        return self.idle and not self.last_busy

    @property
    def is_overfull(self) -> bool:
        """Return whether more is taken than there is, in some dimension."""
        free = self.free
        amounts = (free.cpu_millis, free.memory_bytes, free.disk_bytes, free.gpus)
        return min(amounts) < 0 or any(amount < 0 for _, amount in free.custom)

    def seen_as(self) -> tuple[object, ...]:
        """Return all that a pass goes by."""
        return (self.kind, self.type, self.free, self.count, self.last_busy, self.idle)

    def assign(self, need: Resources, number: int = 1) -> None:
        """Take room for some equal requests."""
        for _ in range(number):
            self.free = self.free.minus(charge(need, sharers=self.sharers))
            self.sharers += shares_a_cpu(need)
        self.count += number
        self.assigned += number

    def release(self, need: Resources, number: int = 1) -> None:
        """Give back the room of some equal requests."""
        for _ in range(number):
            self.sharers -= shares_a_cpu(need)
            self.free = self.free.plus(charge(need, sharers=self.sharers))
        self.count -= number
        self.assigned -= number


def empty_slot(kind: SlotKind, slot_id: str, type_: InstanceType) -> Slot:
    """Return an instance on which there is nothing yet."""
    return Slot(kind=kind, id=slot_id, type=type_, free=type_.allocatable, count=0, last_busy=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How slots are filled and which is preferred."""

    placement: Placement
    profile: Profile
    max_containers: int

    @property
    def most_containers(self) -> int:
        """Return how many containers one instance takes at most, whatever its room."""
        return 1 if self.placement is Placement.EXCLUSIVE else self.max_containers

    def is_full(self, count: int) -> bool:
        """Return whether a slot with so many containers takes no more, whatever its room."""
        return count >= self.most_containers

    def has_room(self, slot: Slot, need: Resources) -> bool:
        """Return whether one more request has room on a slot."""
        return not self.is_full(slot.count) and charge(need, sharers=slot.sharers).fits_in(
            slot.free
        )

    def key_of(self, slot: Slot) -> SlotKey:
        """Return a slot's place in the order of preference."""
        top = (-slot.last_busy, slot.id)
        return self.key(slot.kind, slot.count, slot.type.price_usd_per_hour, top)

    def key(self, kind: SlotKind, count: int, price: Decimal, top: tuple[float, str]) -> SlotKey:
        """Return a slot's place in the order of preference; the least is preferred.

        First the kind, then by profile the fullest or the emptiest, then the cheapest, then the
        most recently busy (so that the others reach their idle timeout), then the id.
        """
        sign = 1 if self.profile is Profile.DISTRIBUTE_LOAD else -1
        return (kind.value, sign * count, price, *top)
