"""The instances of one pass over elastic jobs: what is taken there can be undone to any mark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longshore.dispatcher.domain.feasibility import eligible_types, need
from longshore.dispatcher.scheduler.elastic.model import (
    Component,
    ElasticNode,
    ElasticView,
    MemberPlace,
    Part,
)
from longshore.dispatcher.scheduler.placement.fleet import Fleet, Slot, SlotKind
from longshore.dispatcher.state.queue import ClassKey
from longshore.drivers.interface import Resources
from longshore.pool.charging import charge


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRequest:
    """What one member of a component asks for, by the names of the types that would do."""

    key: ClassKey
    needs: Mapping[str, Resources]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Room on an instance that a pass has taken, or found taken, for a member."""

    place: MemberPlace
    slot: Slot
    need: Resources


class Allocation:
    """Room on all instances of a view, in copies of its own.

    `free` is what is left on those that are ready, added up; `places_left` how many more containers
    may have a place, wherever that is, None for any number.
    """

    def __init__(self, view: ElasticView) -> None:
        self._view = view
        self._fleet = Fleet(view.rules)
        self._journal: list[tuple[Slot, Resources, bool]] = []
        self._asks: dict[ClassKey, MemberRequest] = {}
        self.free = Resources()
        self.places_left = view.containers_left
        for node in sorted(view.nodes, key=lambda node: node.id):
            self._fleet.put(slot_in(node))
            if node.kind is SlotKind.READY:
                self.free = self.free.plus(node.free)

    def ask(self, component: Component) -> MemberRequest:
        """Return what a member of a component asks for."""
        key = ClassKey(
            resources=component.resources,
            constraints=component.constraints,
            unnamed=component.unnamed,
        )
        if key not in self._asks:
            types = eligible_types(
                self._view.types,
                key.resources,
                key.constraints,
                key.unnamed,
                max_price_factor=self._view.max_price_factor,
            )
            needs = {type_.name: need(type_, key.resources, key.unnamed) for type_ in types}
            self._asks[key] = MemberRequest(key=key, needs=needs)
        return self._asks[key]

    def slots(self) -> list[Slot]:
        """Return all instances, sorted by id; they belong to this."""
        return [slot for _, slot in sorted(self._fleet.slots.items())]

    def slot(self, instance_id: str) -> Slot | None:
        """Return an instance, None for one that takes no new work; it belongs to this."""
        return self._fleet.slots.get(instance_id)

    def find(self, ask: MemberRequest, *, coming: bool = False) -> Slot | None:
        """Return the best ready instance with room for one member, None when none has.

        With `coming` those on their way will do as well, if none is ready. Where no more containers
        may have a place there is none.
        """
        if not self.may_take(1):
            return None
        slot = self._fleet.best(ask.key, ask.needs, ())
        if slot is None or coming or slot.kind is SlotKind.READY:
            return slot
        return None

    def has_room(self, slot: Slot, wanted: Resources) -> bool:
        """Return whether one more member fits on an instance."""
        fits = charge(wanted, on_shared_cpu=slot.on_shared_cpu).fits_in(slot.free)
        return fits and not self._view.rules.is_full(slot.count) and self.may_take(1)

    def may_take(self, number: int) -> bool:
        """Return whether so many more containers may have a place, if there is room for them."""
        return self.places_left is None or number <= self.places_left

    # ---- taking ------------------------------------------------------------------------------

    def take(self, slot: Slot, wanted: Resources) -> None:
        """Take room for one member."""
        self._move(slot, wanted, takes=True)
        self._journal.append((slot, wanted, True))

    def give(self, slot: Slot, wanted: Resources) -> None:
        """Give the room of one member back."""
        self._move(slot, wanted, takes=False)
        self._journal.append((slot, wanted, False))

    def mark(self) -> int:
        """Return a mark of how things are now."""
        return len(self._journal)

    def undo(self, mark: int) -> None:
        """Make all as it was at a mark."""
        while len(self._journal) > mark:
            slot, wanted, taken = self._journal.pop()
            self._move(slot, wanted, takes=not taken)

    def _move(self, slot: Slot, wanted: Resources, *, takes: bool) -> None:
        before = slot.free
        if self.places_left is not None:
            self.places_left += -1 if takes else 1
        if takes:
            self._fleet.take(slot, wanted)
        else:
            self._fleet.give(slot, wanted)
        if slot.kind is SlotKind.READY:
            self.free = self.free.plus(slot.free.minus(before))


def slot_in(node: ElasticNode) -> Slot:
    """Return an instance as something that can be filled."""
    return Slot(
        kind=node.kind,
        id=node.id,
        type=node.type,
        free=node.free,
        count=node.count,
        last_busy=node.last_busy,
        on_shared_cpu=node.on_shared_cpu,
    )


# ---- assignments, and what is said of those who are to have them ---------------------------------


def assignment_of(job_id: str, component: Component, index: int, slot: Slot) -> Assignment:
    """Return the assignment of a member to an instance."""
    place = MemberPlace(job_id=job_id, component=component.name, index=index, instance_id=slot.id)
    wanted = need(slot.type, component.resources, component.unnamed)
    return Assignment(place=place, slot=slot, need=wanted)


def allocate(allocation: Allocation, job_id: str, part: Part, slot: Slot) -> Assignment:
    """Assign a member to an instance, taking its room; return that."""
    component, member = part
    assignment = assignment_of(job_id, component, member.index, slot)
    allocation.take(slot, assignment.need)
    return assignment


def as_listed(assignments: Sequence[Assignment], parts: Sequence[Part]) -> list[Assignment]:
    """Return assignments in the order of their members."""
    known = {
        (assignment.place.component, assignment.place.index): assignment
        for assignment in assignments
    }
    return [known[component.name, member.index] for component, member in parts]


def by_member(place: MemberPlace) -> tuple[str, str, int]:
    """Return the member who has, or is to have, a place: by job, component and number."""
    return place.job_id, place.component, place.index


def by_size(component: Component) -> tuple[int, int, int, int]:
    """Return the sort key by which what is hard to place comes first."""
    wanted = charge(component.resources, on_shared_cpu=0)
    return (-wanted.gpus, -wanted.cpu_millis, -wanted.memory_bytes, -wanted.disk_bytes)


def is_less(now: Resources, before: Resources) -> bool:
    """Return whether there is less than before in some dimension."""
    return not before.fits_in(now)
