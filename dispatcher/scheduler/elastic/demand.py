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
    """The assignments that can be made, and what is wanted beside them."""

    assignments: list[Assignment]
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

    def __init__(self, allocation: Allocation, view: ElasticView) -> None:
        """A job beyond limits that finds room for a part only keeps nothing.

        Members for whom an instance was just bought go there. If each took the best room instead,
        the instance of another might be filled, and that one be left without.
        """
        self._allocation = allocation
        self._infeasible: Container[str] = view.infeasible
        self._soft_reserved = {
            by_member(place): place.instance_id for place in view.soft_reservations
        }
        self._bought = {of: list(slot_ids) for of, slot_ids in view.bought.items()}
        self._asked_for = 0
        #: The jobs that wait of which all that is needed has room, or is asked for.
        self.counted: set[str] = set()
        #: The places that count for elastic members, wherever they are.
        self.soft_reservations: list[MemberPlace] = []
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
        held = {(assignment.place.component, assignment.place.index) for assignment in claimed}
        others = [part for part in needed if (part[0].name, part[1].index) not in held]
        if not self._allocation.may_take(self._asked_for + len(others)):
            for assignment in claimed:
                self._allocation.give(assignment.slot, assignment.need)
            return reasons.too_many(len(needed)) if why.code == "no_room" else why
        self.claims += [assignment.place for assignment in claimed]
        coming = {
            assignment.slot.id
            for assignment in claimed
            if assignment.slot.kind is not SlotKind.READY
        }
        mark = self._allocation.mark()
        found = self._find(job, others)
        self.demand += found.demand
        lacking = found.number
        if lacking and job.id in self._infeasible:
            self._allocation.undo(mark)
            return why
        self.counted.add(job.id)
        self._asked_for += lacking
        places = [
            assignment.place
            for assignment in found.assignments
            if assignment.slot.kind is not SlotKind.READY
        ]
        self.claims += places
        coming |= {place.instance_id for place in places}
        if lacking or not coming or why.code != "no_room":
            return why
        return reasons.on_its_way(len(coming))

    def grow(self, lacking: Sequence[_Parts]) -> None:
        """Find room for elastic members of jobs that may have instances created for them; last of
        all.

        First each member takes the first room that fits, in order. If some are left without, it is
        tried again with the members first going where they counted on room, or where something was
        bought for them; whichever leaves fewer without is kept. (First-fit can take the room that
        was bought for another, who would then have one more bought.)
        """
        few = self._within_limits(lacking)
        mark = self._allocation.mark()
        bought = {of: list(slot_ids) for of, slot_ids in self._bought.items()}
        found = self._look_around(few)
        if found.number:
            self._allocation.undo(mark)
            self._bought = bought
            placed, others = self._where_expected(few)
            kept = self._look_around(others)
            if kept.number < found.number:
                found = replace(kept, assignments=[*placed, *kept.assignments])
        self.soft_reservations = [assignment.place for assignment in found.assignments]
        self.demand += found.demand

    def _within_limits(self, lacking: Iterable[_Parts]) -> list[_Parts]:
        """Return as many parts, in order, as may have a place beside those asked for so far."""
        left = self._allocation.places_left
        if left is None:
            return list(lacking)
        left -= self._asked_for
        few = []
        for job, parts in lacking:
            few.append((job, parts[: max(0, left)]))
            left -= len(parts)
        return few

    def _where_expected(self, wanting: Iterable[_Parts]) -> tuple[list[Assignment], list[_Parts]]:
        """Assign parts where they count on room, or something was bought for them.

        Returns their assignments, and all others.
        """
        assignments = []
        others: list[_Parts] = []
        for job, parts in wanting:
            left = []
            for component, member in parts:
                reserved_on = self._soft_reserved.get((job.id, component.name, member.index))
                slot = self._with_room(component, reserved_on) or self._bought_for(job, component)
                if slot is None:
                    left.append((component, member))
                else:
                    assignments.append(
                        allocate(self._allocation, job.id, (component, member), slot)
                    )
            others.append((job, left))
        return assignments, others

    def _look_around(self, wanting: Iterable[_Parts]) -> _Found:
        found = [self._find(job, parts) for job, parts in wanting]
        return _Found(
            assignments=[assignment for each in found for assignment in each.assignments],
            demand=[demand for each in found for demand in each.demand],
        )

    def _find(self, job: ElasticJob, parts: Iterable[Part]) -> _Found:
        """Take room for those for whom there is some, and return what the others want."""
        assignments = []
        lacking: dict[str, tuple[Component, int]] = {}
        for part in parts:
            component = part[0]
            slot = self._bought_for(job, component)
            if slot is None and component.name not in lacking:
                slot = self._allocation.find(self._allocation.ask(component), coming=True)
            if slot is None:
                number = lacking.get(component.name, (component, 0))[1]
                lacking[component.name] = (component, number + 1)
            else:
                assignments.append(allocate(self._allocation, job.id, part, slot))
        demand = [
            MemberDemand(job_id=job.id, component=component.name, role=component.role, count=number)
            for component, number in lacking.values()
        ]
        return _Found(assignments=assignments, demand=demand)

    def _bought_for(self, job: ElasticJob, component: Component) -> Slot | None:
        """Return the next instance that was bought for a member of a component, if it has room."""
        left = self._bought.get((job.id, component.name))
        return self._with_room(component, left.pop(0)) if left else None

    def _with_room(self, component: Component, slot_id: str | None) -> Slot | None:
        slot = None if slot_id is None else self._allocation.slot(slot_id)
        if slot is None:
            return None
        wanted = self._allocation.ask(component).needs.get(slot.type.name)
        return slot if wanted is not None and self._allocation.has_room(slot, wanted) else None
