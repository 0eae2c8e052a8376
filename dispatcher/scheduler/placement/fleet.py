"""The fleet: all slots, kept from pass to pass and indexed so that a place is found quickly.

Slots of one type with the same room are one shape. Each request class keeps, for each of its types,
a heap of the shapes that it fits into, and brings it up to date from a log of what has changed
since it last looked: its cost grows with the changes, not with the number of instances.
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import IntEnum

from longshore.dispatcher.domain.containers import Placement, Profile
from longshore.dispatcher.state.queue import ClassKey
from longshore.drivers.errors import BugError
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.charging import charge, shares_a_cpu

# ---- room: places on instances that are ready, on their way, or only thought of in this pass -----

SlotKey = tuple[int, int, Decimal, float, str]


class SlotKind(IntEnum):
    """How near a slot is to running something; nearer is preferred."""

    READY = 0
    COMING = 1
    LAUNCHING = 2
    NEW = 3


@dataclass(slots=True, kw_only=True, eq=False)
class Slot:
    """One instance as the planner sees it."""

    kind: SlotKind
    #: The worker's id, the launch's token, or a name made in a pass for a new one.
    id: str
    type: InstanceType
    #: What is left; this, `count` and `on_shared_cpu` change as it is filled.
    free: Resources
    count: int
    last_busy: float
    #: Whether nothing runs there and nothing of it is awaited.
    idle: bool = False
    #: How many share the one cpu of requests of no cpus.
    on_shared_cpu: int = 0
    assigned: int = 0
    #: Of one that came for somebody and ran nothing yet: when it has waited for as long as it took
    #: to boot.
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
            self.free = self.free.minus(charge(need, on_shared_cpu=self.on_shared_cpu))
            self.on_shared_cpu += shares_a_cpu(need)
        self.count += number
        self.assigned += number

    def release(self, need: Resources, number: int = 1) -> None:
        """Give back the room of some equal requests."""
        for _ in range(number):
            self.on_shared_cpu -= shares_a_cpu(need)
            self.free = self.free.plus(charge(need, on_shared_cpu=self.on_shared_cpu))
        self.count -= number
        self.assigned -= number


def empty_slot(kind: SlotKind, slot_id: str, type_: InstanceType) -> Slot:
    """Return an instance on which there is nothing yet."""
    return Slot(kind=kind, id=slot_id, type=type_, free=type_.allocatable, count=0, last_busy=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackingPolicy:
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
        return not self.is_full(slot.count) and charge(
            need, on_shared_cpu=slot.on_shared_cpu
        ).fits_in(slot.free)

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


# ---- the fleet: all slots, kept from pass to pass and indexed so that a place is found quickly ---

ShapeKey = tuple[SlotKind, str, int, int, Resources]

_SPARE = 256
_SPARE_MEMBERS = 16


@dataclass(slots=True, kw_only=True, eq=False)
class _Shape:
    """Slots that are equal but for when they were last busy and their ids."""

    number: int
    type: InstanceType
    kind: SlotKind
    count: int
    on_shared_cpu: int
    free: Resources
    live: int = 0
    members: list[tuple[float, str]] = field(default_factory=list)


@dataclass(slots=True)
class _OfType:
    """The shapes of one type by number; `log` has those whose best slot became better, in order.

    The log's first entry is the `began`th that there ever was.
    """

    shapes: dict[int, _Shape] = field(default_factory=dict)
    log: list[_Shape] = field(default_factory=list)
    began: int = 0


@dataclass(slots=True)
class _Finder:
    """What one request class knows of the shapes of one type."""

    heap: list[tuple[SlotKey, int]] = field(default_factory=list)
    seen: int = 0


class Fleet:
    """All slots; claims are counted on slots that are not ready, by request class."""

    def __init__(self, rules: PackingPolicy) -> None:
        self.rules = rules
        self.slots: dict[str, Slot] = {}
        self.idle: set[str] = set()
        self.claims: dict[ClassKey, dict[str, int]] = {}
        self._claimed: dict[str, dict[ClassKey, Resources]] = {}
        self._shapes: dict[ShapeKey, _Shape] = {}
        self._shape_of: dict[str, _Shape] = {}
        self._types: dict[str, _OfType] = {}
        self._finders: dict[ClassKey, dict[str, _Finder]] = {}
        self._last_number = 0

    # ---- slots -----------------------------------------------------------------------------

    def put(self, slot: Slot) -> None:
        """Take in a slot, in place of the one with its id; the claims on that one are kept.

        What is claimed is taken off the new one's room; a ready slot has no claims. Where the new
        one has less room (its machine turned out to be smaller than its type says), as many claims
        are kept as it has room for.
        """
        kept = self._claimed.pop(slot.id, {})
        old = self.slots.get(slot.id)
        if old is not None:
            self._leave(old)
        self.slots[slot.id] = slot
        if slot.kind is SlotKind.READY:
            self._forget_claims(slot.id, kept)
        elif kept:
            self._claim_again(slot, kept)
        self._enter(slot)

    def _claim_again(self, slot: Slot, needs: dict[ClassKey, Resources]) -> None:
        """Take off a slot's room what is claimed on it, and forget the claims that do not fit."""
        for key, need in needs.items():
            slot.assign(need, self.claims[key][slot.id])
        lost = []
        if slot.is_overfull or slot.count > self.rules.most_containers:
            wished = {key: self.claims[key][slot.id] for key in sorted_keys(needs)}
            for key in reversed(wished):
                slot.release(needs[key], wished[key])
            for key, number in wished.items():
                found = 0
                while found < number and self.rules.has_room(slot, needs[key]):
                    slot.assign(needs[key])
                    found += 1
                self.claims[key][slot.id] = found
                if not found:
                    lost.append(key)
        self._forget_claims(slot.id, lost)
        left = {key: need for key, need in needs.items() if key not in lost}
        if left:
            self._claimed[slot.id] = left

    def remove(self, slot_id: str) -> None:
        """Forget a slot with the claims on it; one that is not known is no error."""
        slot = self.slots.pop(slot_id, None)
        if slot is None:
            return
        self._leave(slot)
        self._forget_claims(slot_id, self._claimed.pop(slot_id, {}))

    def rename(self, old_id: str, slot: Slot) -> None:
        """Put a slot in the place of one that was known by another id, with its claims."""
        for key in sorted_keys(self._claimed.get(old_id, {})):
            by_slot = self.claims[key]
            by_slot[slot.id] = by_slot.get(slot.id, 0) + by_slot.pop(old_id)
        claimed = self._claimed.pop(old_id, {})
        if claimed:
            self._claimed.setdefault(slot.id, {}).update(claimed)
        self.remove(old_id)
        self.put(slot)

    @contextlib.contextmanager
    def without(self, slot_ids: Collection[str]) -> Iterator[None]:
        """Find none of these slots meanwhile; nothing may be put, taken or given meanwhile."""
        hidden = [self.slots[slot_id] for slot_id in sorted(slot_ids)]
        for slot in hidden:
            self._leave(slot)
        try:
            yield
        finally:
            for slot in hidden:
                self._enter(slot)

    def take(self, slot: Slot, need: Resources, number: int = 1) -> None:
        """Take room on a slot for some equal requests."""
        self._leave(slot)
        slot.assign(need, number)
        self._enter(slot)

    def give(self, slot: Slot, need: Resources, number: int = 1) -> None:
        """Give room on a slot back."""
        self._leave(slot)
        slot.release(need, number)
        self._enter(slot)

    # ---- claims ------------------------------------------------------------------------------

    def claim(self, key: ClassKey, slot: Slot, need: Resources, number: int) -> None:
        """Keep room on a slot that is not ready for some of a class's containers.

        Raises `BugError` for one that is ready: what may start there does.
        """
        if slot.kind is SlotKind.READY:
            raise BugError(f"{slot.id} is ready: nothing is claimed there")
        self.take(slot, need, number)
        by_slot = self.claims.setdefault(key, {})
        by_slot[slot.id] = by_slot.get(slot.id, 0) + number
        self._claimed.setdefault(slot.id, {})[key] = need

    def unclaim(self, key: ClassKey, slot: Slot, number: int) -> None:
        """Give up some of a class's claims on a slot; raises BugError when there are fewer."""
        by_slot = self.claims.get(key, {})
        left = by_slot.get(slot.id, 0) - number
        if left < 0:
            raise BugError(f"{number} claims on {slot.id} cannot be given up")
        self.give(slot, self._claimed[slot.id][key], number)
        if left:
            by_slot[slot.id] = left
            return
        self._forget_claims(slot.id, {key: self._claimed[slot.id].pop(key)})
        if not self._claimed[slot.id]:
            del self._claimed[slot.id]

    def claimed(self) -> list[str]:
        """Return the ids of the slots on which there are claims, sorted."""
        return sorted(self._claimed)

    def claimed_on(self, slot_id: str) -> list[tuple[Resources, int]]:
        """Return what is claimed on a slot: the room of one container, and for how many, each."""
        claimed = self._claimed.get(slot_id, {})
        return [(claimed[key], self.claims[key][slot_id]) for key in sorted_keys(claimed)]

    def _forget_claims(self, slot_id: str, keys: Collection[ClassKey]) -> None:
        for key in keys:
            by_slot = self.claims[key]
            del by_slot[slot_id]
            if not by_slot:
                del self.claims[key]

    def expect(self, bare: Slot) -> None:
        """Raise `BugError` unless the slot with this id is this one, but for the claims on it."""
        slot = self.slots.get(bare.id)
        for key, need in self._claimed.get(bare.id, {}).items():
            bare.assign(need, self.claims[key][bare.id])
        if slot is None or slot.seen_as() != bare.seen_as():
            raise BugError(f"the fleet has {slot} for {bare}")

    # ---- finding -------------------------------------------------------------------------------

    def best(
        self, key: ClassKey, needs: Mapping[str, Resources], closed: Collection[str]
    ) -> Slot | None:
        """Return the best slot with room for one container of a class, None when none has.

        `needs` is what it asks for by type name; the types in `closed` are left out.
        """
        finders = self._finders.get(key)
        if finders is None:
            finders = self._finders[key] = {}
        best: SlotKey | None = None
        for name, of_type in self._types.items():
            need = needs.get(name)
            if need is None or name in closed:
                continue
            finder = finders.get(name)
            if finder is None:
                finder = finders[name] = _Finder()
            found = self._top(finder, of_type, need)
            if found is not None and (best is None or found < best):
                best = found
        return self.slots[best[-1]] if best is not None else None

    def forget_classes(self, keys: Collection[ClassKey]) -> None:
        """Drop what is kept for classes other than `keys`: nobody of them waits any more."""
        for key in [key for key in self._finders if key not in keys]:
            del self._finders[key]

    def _top(self, finder: _Finder, of_type: _OfType, need: Resources) -> SlotKey | None:
        """Return the key of the best slot of one type, None when none has room."""
        self._catch_up(finder, of_type, need)
        heap = finder.heap
        while heap:
            key, number = heap[0]
            shape = of_type.shapes.get(number)
            now = self._key(shape) if shape is not None else None
            if now is None:
                heapq.heappop(heap)
            elif now != key:
                heapq.heapreplace(heap, (now, number))
            else:
                return key
        return None

    def _catch_up(self, finder: _Finder, of_type: _OfType, need: Resources) -> None:
        """Take in what has changed since a class looked last; anew when that is too much."""
        end = of_type.began + len(of_type.log)
        if finder.seen == end:
            return
        fresh = of_type.log[finder.seen - of_type.began :]
        if finder.seen < of_type.began or len(finder.heap) > 4 * len(of_type.shapes) + _SPARE:
            finder.heap.clear()
            fresh = list(of_type.shapes.values())
        for shape in fresh:
            self._offer(finder, shape, need)
        finder.seen = end

    def _offer(self, finder: _Finder, shape: _Shape, need: Resources) -> None:
        if charge(need, on_shared_cpu=shape.on_shared_cpu).fits_in(shape.free):
            key = self._key(shape)
            if key is not None:
                heapq.heappush(finder.heap, (key, shape.number))

    def _key(self, shape: _Shape) -> SlotKey | None:
        """Return the key of a shape's best slot, None when it has none (any more)."""
        members = shape.members
        while members and not self._is_in(shape, members[0]):
            heapq.heappop(members)
        if not members:
            return None
        return self.rules.key(shape.kind, shape.count, shape.type.price_usd_per_hour, members[0])

    def _is_in(self, shape: _Shape, member: tuple[float, str]) -> bool:
        last_busy, slot_id = member
        slot = self.slots.get(slot_id)
        here = self._shape_of.get(slot_id) is shape
        return here and slot is not None and -slot.last_busy == last_busy

    # ---- shapes --------------------------------------------------------------------------------

    def _enter(self, slot: Slot) -> None:
        if slot.idle and not slot.assigned:
            self.idle.add(slot.id)
        if self.rules.is_full(slot.count):
            return
        key = (slot.kind, slot.type.name, slot.count, slot.on_shared_cpu, slot.free)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._make(key, slot.type)
        entry = (-slot.last_busy, slot.id)
        self._shape_of[slot.id] = shape
        shape.live += 1
        heapq.heappush(shape.members, entry)
        if len(shape.members) > 2 * shape.live + _SPARE_MEMBERS:
            shape.members = sorted({m for m in shape.members if self._is_in(shape, m)})
        if shape.members[0] == entry:
            self._note(shape)

    def _leave(self, slot: Slot) -> None:
        self.idle.discard(slot.id)
        shape = self._shape_of.pop(slot.id, None)
        if shape is not None:
            shape.live -= 1
            if not shape.live:
                self._drop(shape)

    def _make(self, key: ShapeKey, type_: InstanceType) -> _Shape:
        kind, _, count, on_shared_cpu, free = key
        self._last_number += 1
        shape = _Shape(
            number=self._last_number,
            type=type_,
            kind=kind,
            count=count,
            on_shared_cpu=on_shared_cpu,
            free=free,
        )
        self._shapes[key] = shape
        self._types.setdefault(type_.name, _OfType()).shapes[shape.number] = shape
        return shape

    def _drop(self, shape: _Shape) -> None:
        del self._types[shape.type.name].shapes[shape.number]
        del self._shapes[shape.kind, shape.type.name, shape.count, shape.on_shared_cpu, shape.free]

    def _note(self, shape: _Shape) -> None:
        """Log that a shape has a better slot; who has not read the older half looks at all anew."""
        of_type = self._types[shape.type.name]
        of_type.log.append(shape)
        if len(of_type.log) > 4 * len(of_type.shapes) + _SPARE:
            cut = len(of_type.log) // 2
            of_type.began += cut
            del of_type.log[:cut]


def sorted_keys(keys: Collection[ClassKey]) -> list[ClassKey]:
    """Return class keys in an order that is the same in every process."""
    return sorted(keys, key=repr)
