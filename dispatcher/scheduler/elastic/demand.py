"""What jobs want of instances that are on their way, or that are to be created; pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace

from longshore.dispatcher.domain.containers import WaitReason
from longshore.dispatcher.scheduler.elastic import wait_reasons as reasons
from longshore.dispatcher.scheduler.elastic.allocation import (
    Allocation,
    Assignment,
    allocate,
    by_member,
)
from longshore.dispatcher.scheduler.elastic.model import (
    Component,
    ElasticJob,
    ElasticView,
    MemberDemand,
    MemberPlace,
    Part,
)
from longshore.dispatcher.scheduler.placement.fleet import Slot, SlotKind

_Parts = tuple[ElasticJob, Sequence[Part]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The seats that there are, and what is wanted beside them."""

    seats: list[Assignment]
    demand: list[MemberDemand]

    @property
    def number(self) -> int:
        """Return how many found no room at all."""
        return sum(each.count for each in self.demand)


class UnplacedMembers:
    """What is wanted beyond what a pass has placed, in the order in which it is asked.

    What is left on the instances that are there is counted first, then what is on its way, so that
    nothing is created twice.
    """

    def __init__(self, floor: Allocation, view: ElasticView) -> None:
        """A job beyond limits that finds room for a part only keeps nothing.

        Members for whom an instance was just bought go there. If each took the best room instead,
        the instance of another might be filled, and that one be left without.
        """
        self._floor = floor
        self._beyond: Container[str] = view.beyond
        self._hoped = {by_member(place): place.instance_id for place in view.hopes}
        self._bought = {of: list(slot_ids) for of, slot_ids in view.bought.items()}
        self._asked_for = 0
        #: The jobs that wait of which all that is needed has room, or is asked for.
        self.counted: set[str] = set()
        #: The places that count for elastic members, wherever they are.
        self.hopes: list[MemberPlace] = []
        #: What is kept on instances that are, or were, on their way.
        self.claims: list[MemberPlace] = []
        self.demand: list[MemberDemand] = []

    def essentials(
        self,
        job: ElasticJob,
        needed: Sequence[Part],
        claimed: Sequence[Assignment],
        why: WaitReason,
    ) -> WaitReason:
        """Find room for what a waiting job needs; return why it waits: `why`, or for instances to
        come.

        If not all of it may have a place, nothing is kept or created for it: that would only stand
        by.
        """
        held = {(seat.place.component, seat.place.index) for seat in claimed}
        others = [part for part in needed if (part[0].name, part[1].index) not in held]
        if not self._floor.may_take(self._asked_for + len(others)):
            for seat in claimed:
                self._floor.give(seat.slot, seat.need)
            return reasons.too_many(len(needed)) if why.code == "no_room" else why
        self.claims += [seat.place for seat in claimed]
        coming = {seat.slot.id for seat in claimed if seat.slot.kind is not SlotKind.READY}
        mark = self._floor.mark()
        found = self._find(job, others)
        self.demand += found.demand
        lacking = found.number
        if lacking and job.id in self._beyond:
            self._floor.undo(mark)
            return why
        self.counted.add(job.id)
        self._asked_for += lacking
        places = [seat.place for seat in found.seats if seat.slot.kind is not SlotKind.READY]
        self.claims += places
        coming |= {place.instance_id for place in places}
        if lacking or not coming or why.code != "no_room":
            return why
        return reasons.on_its_way(len(coming))

    def extras(self, lacking: Sequence[_Parts]) -> None:
        """Find room for elastic members of jobs that may have instances created for them; last of
        all.

        First each member takes the first room that fits, in order. If some are left without, it is
        tried again with the members first going where they counted on room, or where something was
        bought for them; whichever leaves fewer without is kept. (First-fit can take the room that
        was bought for another, who would then have one more bought.)
        """
        few = self._within_limits(lacking)
        mark = self._floor.mark()
        bought = {of: list(slot_ids) for of, slot_ids in self._bought.items()}
        found = self._look_around(few)
        if found.number:
            self._floor.undo(mark)
            self._bought = bought
            seated, others = self._where_expected(few)
            kept = self._look_around(others)
            if kept.number < found.number:
                found = replace(kept, seats=[*seated, *kept.seats])
        self.hopes = [seat.place for seat in found.seats]
        self.demand += found.demand

    def _within_limits(self, lacking: Iterable[_Parts]) -> list[_Parts]:
        """Return as many parts, in order, as may have a place beside those asked for so far."""
        left = self._floor.places_left
        if left is None:
            return list(lacking)
        left -= self._asked_for
        few = []
        for job, parts in lacking:
            few.append((job, parts[: max(0, left)]))
            left -= len(parts)
        return few

    def _where_expected(self, wanting: Iterable[_Parts]) -> tuple[list[Assignment], list[_Parts]]:
        """Seat parts where they count on room, or something was bought for them.

        Returns their seats, and all others.
        """
        seats = []
        others: list[_Parts] = []
        for job, parts in wanting:
            left = []
            for component, member in parts:
                hoped = self._hoped.get((job.id, component.name, member.index))
                slot = self._with_room(component, hoped) or self._bought_for(job, component)
                if slot is None:
                    left.append((component, member))
                else:
                    seats.append(allocate(self._floor, job.id, (component, member), slot))
            others.append((job, left))
        return seats, others

    def _look_around(self, wanting: Iterable[_Parts]) -> _Found:
        found = [self._find(job, parts) for job, parts in wanting]
        return _Found(
            seats=[seat for each in found for seat in each.seats],
            demand=[demand for each in found for demand in each.demand],
        )

    def _find(self, job: ElasticJob, parts: Iterable[Part]) -> _Found:
        """Take room for those for whom there is some, and return what the others want."""
        seats = []
        lacking: dict[str, tuple[Component, int]] = {}
        for part in parts:
            component = part[0]
            slot = self._bought_for(job, component)
            if slot is None and component.name not in lacking:
                slot = self._floor.find(self._floor.ask(component), coming=True)
            if slot is None:
                number = lacking.get(component.name, (component, 0))[1]
                lacking[component.name] = (component, number + 1)
            else:
                seats.append(allocate(self._floor, job.id, part, slot))
        demand = [
            MemberDemand(job_id=job.id, component=component.name, role=component.role, count=number)
            for component, number in lacking.values()
        ]
        return _Found(seats=seats, demand=demand)

    def _bought_for(self, job: ElasticJob, component: Component) -> Slot | None:
        """Return the next instance that was bought for a member of a component, if it has room."""
        left = self._bought.get((job.id, component.name))
        return self._with_room(component, left.pop(0)) if left else None

    def _with_room(self, component: Component, slot_id: str | None) -> Slot | None:
        slot = None if slot_id is None else self._floor.slot(slot_id)
        if slot is None:
            return None
        wanted = self._floor.ask(component).needs.get(slot.type.name)
        return slot if wanted is not None and self._floor.has_room(slot, wanted) else None
