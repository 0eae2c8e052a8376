"""What jobs want of instances that are on their way, or that are to be created; pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from dispatcher.model import WaitReason
from dispatcher.planner import elastic_reasons as reasons
from dispatcher.planner.elastic_floor import Floor, Seat
from dispatcher.planner.elastic_model import (
    Component,
    Demand,
    ElasticJob,
    ElasticView,
    Part,
    Place,
)
from dispatcher.planner.elastic_seats import sit
from dispatcher.planner.room import Slot, SlotKind


class Remainder:
    """What is wanted beyond what a pass has placed, in the order in which it is asked.

    What is left on the floor is counted first, then what is on its way, so that nothing is created
    twice; `claims` is what is kept on instances that are, or were, on their way, and `hopes` the
    places that count for elastic members, wherever they are.
    """

    def __init__(self, floor: Floor, view: ElasticView) -> None:
        """Nothing is kept for the jobs beyond limits that find room for a part only."""
        self._floor = floor
        self._beyond: Container[str] = view.beyond
        self._hoped = {_member_of(place): place.instance_id for place in view.hopes}
        self._bought = {of: list(slot_ids) for of, slot_ids in view.bought.items()}
        self._asked_for = 0
        self.hopes: list[Place] = []
        self.claims: list[Place] = []
        self.demand: list[Demand] = []

    def essentials(
        self, job: ElasticJob, needed: Sequence[Part], claimed: Sequence[Seat], why: WaitReason
    ) -> WaitReason:
        """Find room for what a waiting job needs, and return why it waits: `why`, or for that.

        Where not all of that may have a place nothing is kept, or created, that would stand by.
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
        places, lacking = self._find(job, others)
        places = [place for place in places if self._is_coming(place)]
        if lacking and job.id in self._beyond:
            self._floor.undo(mark)
            return why
        self._asked_for += lacking
        self.claims += places
        coming |= {place.instance_id for place in places}
        if lacking or not coming or why.code != "no_room":
            return why
        return reasons.on_its_way(len(coming))

    def extras(self, lacking: Sequence[tuple[ElasticJob, Sequence[Part]]]) -> None:
        """Find room for elastic members of jobs that may have instances created for them.

        Those for whom some counts already have it before others look around: who had room
        elsewhere would take what was created for one behind him, and one more be created for that.
        """
        others = []
        for job, parts in lacking:
            left = []
            for part in parts:
                slot = self._expected_on(job, part)
                if slot is None:
                    left.append(part)
                else:
                    self.hopes.append(sit(self._floor, job.id, part, slot).place)
            others.append((job, left))
        for job, parts in others:
            left_over = self._floor.places_left
            few = parts if left_over is None else parts[: max(0, left_over - self._asked_for)]
            places, number = self._find(job, few)
            self.hopes += places
            self._asked_for += number

    def _find(self, job: ElasticJob, parts: Iterable[Part]) -> tuple[list[Place], int]:
        """Return the places that there are, and how many found no room at all."""
        places = []
        lacking: dict[str, tuple[Component, int]] = {}
        for part in parts:
            component = part[0]
            slot = self._expected_on(job, part)
            if slot is None and component.name not in lacking:
                slot = self._floor.find(self._floor.ask(component), coming=True)
            if slot is None:
                number = lacking.get(component.name, (component, 0))[1]
                lacking[component.name] = (component, number + 1)
            else:
                places.append(sit(self._floor, job.id, part, slot).place)
        self.demand += [
            Demand(job_id=job.id, component=component.name, role=component.role, count=number)
            for component, number in lacking.values()
        ]
        return places, sum(number for _, number in lacking.values())

    def _expected_on(self, job: ElasticJob, part: Part) -> Slot | None:
        """Return the instance with room on which a member counts, or that was bought for it."""
        component, member = part
        hoped = self._hoped.get((job.id, component.name, member.index))
        slot = self._with_room(component, hoped)
        if slot is None:
            slot = self._bought_for(job, component)
        return slot

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

    def _is_coming(self, place: Place) -> bool:
        slot = self._floor.slot(place.instance_id)
        return slot is not None and slot.kind is not SlotKind.READY


def _member_of(place: Place) -> tuple[str, str, int]:
    return place.job_id, place.component, place.index
