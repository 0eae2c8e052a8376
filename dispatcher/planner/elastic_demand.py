"""What jobs want of instances that are on their way, or that are to be created; pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from dispatcher.model import WaitReason
from dispatcher.planner import elastic_reasons as reasons
from dispatcher.planner.elastic_floor import Floor, Seat
from dispatcher.planner.elastic_model import (
    Component,
    Demand,
    ElasticJob,
    JobComponent,
    Part,
    Place,
)
from dispatcher.planner.room import Slot, SlotKind


class Remainder:
    """What is wanted beyond what a pass has placed, in the order in which it is asked.

    What is left on the floor is counted first, then what is on its way, so that nothing is created
    twice; `claims` is what is kept on instances that are, or were, on their way.
    """

    def __init__(
        self,
        floor: Floor,
        beyond: Container[str],
        bought: Mapping[JobComponent, Sequence[str]],
    ) -> None:
        """Nothing is kept for the jobs `beyond` (by id) that find room for a part only.

        Those for whom instances were `bought` go there: as others fill these, one may be left over.
        """
        self._floor = floor
        self._beyond = beyond
        self._bought = {of: list(slot_ids) for of, slot_ids in bought.items()}
        self._asked_for = 0
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
        if lacking and job.id in self._beyond:
            self._floor.undo(mark)
            return why
        self._asked_for += lacking
        self.claims += places
        coming |= {place.instance_id for place in places}
        if lacking or not coming or why.code != "no_room":
            return why
        return reasons.on_its_way(len(coming))

    def extras(self, job: ElasticJob, lacking: Sequence[Part]) -> None:
        """Find room for elastic members of a job that may have instances created for them."""
        left = self._floor.places_left
        few = lacking if left is None else lacking[: max(0, left - self._asked_for)]
        self._asked_for += self._find(job, few)[1]

    def _find(self, job: ElasticJob, parts: Iterable[Part]) -> tuple[list[Place], int]:
        """Return places on instances on their way, and how many found no room at all."""
        places = []
        lacking: dict[str, tuple[Component, int]] = {}
        for component, member in parts:
            ask = self._floor.ask(component)
            slot = self._bought_for(job, component)
            if slot is None and component.name not in lacking:
                slot = self._floor.find(ask, coming=True)
            if slot is None:
                number = lacking.get(component.name, (component, 0))[1]
                lacking[component.name] = (component, number + 1)
                continue
            self._floor.take(slot, ask.needs[slot.type.name])
            if slot.kind is not SlotKind.READY:
                places.append(
                    Place(
                        job_id=job.id,
                        component=component.name,
                        index=member.index,
                        instance_id=slot.id,
                    )
                )
        self.demand += [
            Demand(job_id=job.id, component=component.name, role=component.role, count=number)
            for component, number in lacking.values()
        ]
        return places, sum(number for _, number in lacking.values())

    def _bought_for(self, job: ElasticJob, component: Component) -> Slot | None:
        """Return the next instance that was bought for a member of a component, if it has room."""
        left = self._bought.get((job.id, component.name))
        slot = self._floor.slot(left.pop(0)) if left else None
        if slot is None:
            return None
        wanted = self._floor.ask(component).needs.get(slot.type.name)
        return slot if wanted is not None and self._floor.has_room(slot, wanted) else None
