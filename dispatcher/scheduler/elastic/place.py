"""What a pass over elastic jobs has placed so far, and how one more job gets its turn; pure.

In its turn (`_take_turn`) a job's essential members take what room there is; what is kept for it,
and for the jobs behind it, counts as free. If that will not do, the elastic members that this pass
has placed are set aside; if that will not do either, elastic members of earlier passes give way,
those of the last job first. Then those that gave way, and all elastic members that were set aside,
get back what is left, in order.

A turn that fails leaves everything as if it had never been tried: room is undone in the allocation,
and the rest of what is known here changes only once a turn has succeeded (`_commit`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from longshore.dispatcher.domain.containers import WaitReason
from longshore.dispatcher.domain.jobs import ElasticMode, TaskRole
from longshore.dispatcher.scheduler.elastic import wait_reasons as reasons
from longshore.dispatcher.scheduler.elastic.allocation import (
    Allocation,
    Assignment,
    MemberRequest,
    allocate,
    as_listed,
    assignment_of,
    by_size,
    is_less,
)
from longshore.dispatcher.scheduler.elastic.budget import ElasticBudget
from longshore.dispatcher.scheduler.elastic.model import (
    Component,
    ElasticJob,
    MemberPlace,
    MemberState,
    MemberStop,
    Part,
)
from longshore.dispatcher.scheduler.placement.fleet import SlotKind
from longshore.dispatcher.state.queue import ClassKey


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """What a turn comes to, if it is committed."""

    #: The places of the job's essential members.
    assignments: list[Assignment]
    #: The elastic members of earlier passes that give way for them.
    gone: frozenset[MemberPlace]
    #: Those that gave way in an earlier turn, and for which there is room again.
    spared: frozenset[MemberPlace]
    #: The elastic members that have a place in this pass, by job.
    fresh: dict[str, list[Assignment]]


class ElasticPlacement:
    """Who has a place on the instances that are there, as the turns of a pass give it."""

    def __init__(
        self, allocation: Allocation, order: Sequence[ElasticJob], budget: ElasticBudget, now: float
    ) -> None:
        self._allocation = allocation
        self._order = order
        self._budget = budget
        self._now = now
        self._parts = {job.id: list(job.all_members()) for job in order}
        self._asks = {
            (job.id, component.name): allocation.ask(component)
            for job in order
            for component in job.components
        }
        self._positions = {job.id: number for number, job in enumerate(order)}
        self._growth = {job.id: self._may_grow(job) for job in order}
        self._turns: list[ElasticJob] = []
        self._hopeless: set[tuple[ClassKey, ...]] = set()
        # Jobs equal to one of these fare as it did, until somebody else has a place.
        self._failed_kinds: set[tuple[tuple[ClassKey, ...], tuple[ClassKey, ...]]] = set()
        self._willing = [assignment for job in order for assignment in self._giveable(job)]
        self._gone: dict[MemberPlace, str] = {}
        #: The essential members that were placed.
        self.starts: list[Assignment] = []
        #: The elastic members that were placed, by job, in the order in which the jobs had their
        #: turn.
        self.fresh: dict[str, list[Assignment]] = {}
        #: The room that is kept for jobs that wait, by job.
        self.claimed = {job.id: self._claims_of(job) for job in order}

    def parts(self, job: ElasticJob) -> list[Part]:
        """Return all members of a job, each with its component; not a copy."""
        return self._parts[job.id]

    def ask(self, job: ElasticJob, component: Component) -> MemberRequest:
        """Return what a member of a component asks for."""
        return self._asks[job.id, component.name]

    def needed(self, job: ElasticJob) -> list[Part]:
        """Return the members without which a job does not begin, or go on, and that have no place.

        Those are the essential ones, and of a rigid job that waits all.
        """
        all_of_it = job.mode is ElasticMode.RIGID and not job.is_running
        return [
            (component, member)
            for component, member in self._parts[job.id]
            if (all_of_it or component.role is TaskRole.ESSENTIAL)
            and member.state is MemberState.WAITING
        ]

    def could_grow(self, job: ElasticJob) -> list[Part]:
        """Return the elastic members that may have a place beside what the job needs; no copy."""
        return self._growth[job.id]

    def placed(self) -> list[MemberPlace]:
        """Return the new places: those of essential members first."""
        elastic = [assignment for assignments in self.fresh.values() for assignment in assignments]
        return [assignment.place for assignment in (*self.starts, *elastic)]

    @property
    def stops(self) -> list[MemberStop]:
        """Return who has given way, and for whom; a new list."""
        return [MemberStop(place=place, by=job_id) for place, job_id in self._gone.items()]

    def let_go(self, job: ElasticJob) -> None:
        """Keep no room any more for a job that waits."""
        self._give_all(self.claimed[job.id])
        self.claimed[job.id] = []

    # ---- turns -------------------------------------------------------------------------------

    def begin(self, job: ElasticJob) -> WaitReason | None:
        """Place the essential members of a job that waits, or return why that cannot be."""
        kind = self._keys(job, self.needed(job)), self._keys(job, self._growth[job.id])
        if not self.claimed[job.id] and kind in self._failed_kinds:
            return reasons.NO_LESS_FREE
        mark = self._allocation.mark()
        self._free_claims(job)
        before = self._allocation.free
        turn = self._take_turn(job)
        if turn is None:
            why = self._no_room(job)
        elif self._takes_from_others(turn) and not is_less(self._allocation.free, before):
            why = reasons.NO_LESS_FREE
            if not self.claimed[job.id]:
                self._failed_kinds.add(kind)
        elif (over_budget := self._budget.pay(job.id, turn.assignments)) is not None:
            why = over_budget
        else:
            self._commit(job, turn)
            return None
        self._allocation.undo(mark)
        return why

    def go_on(self, job: ElasticJob) -> WaitReason | None:
        """Let a job that runs have what it lacks, as it fits; or return why it cannot.

        Without its missing essential members it has no more elastic ones either.
        """
        if not self.needed(job):
            self._turns.append(job)
            self.fresh[job.id] = self._grow(job)
            self._failed_kinds.clear()
            return None
        mark = self._allocation.mark()
        self._free_claims(job)
        turn = self._take_turn(job)
        if turn is not None:
            self._commit(job, turn)
            return None
        why = self._no_room(job)
        self._allocation.undo(mark)
        return why

    def _take_turn(self, job: ElasticJob) -> _Attempt | None:
        """Place a job's essential members, then all elastic ones again; None, and undone, if it
        cannot be.

        Nobody is set aside if there is room beside all others.
        """
        mark = self._allocation.mark()
        assignments = self._allocate(job, self._largest_first(job), iter(()), [])
        if assignments is None:
            self._allocation.undo(mark)
            assignments = self._allocate_where_kept(job)
        if assignments is not None:
            return _Attempt(
                assignments=as_listed(assignments, self.needed(job)),
                gone=frozenset(),
                spared=frozenset(),
                fresh={**self.fresh, job.id: self._grow(job)},
            )
        self._allocation.undo(mark)
        for assignments in self.fresh.values():
            self._give_all(assignments)
        needed = self.needed(job)
        asks = self._keys(job, needed)
        found = None if asks in self._hopeless else self._allocate_all(job, needed)
        if found is None:
            self._hopeless.add(asks)
            self._allocation.undo(mark)
            return None
        assignments, displaced = found
        back = {assignment.place for assignment in displaced if self._still_fits(assignment)}
        gone = frozenset(assignment.place for assignment in displaced) - back
        given = [assignment for assignment in self._willing if assignment.place in self._gone]
        spared = frozenset(assignment.place for assignment in given if self._still_fits(assignment))
        fresh = {each.id: self._grow(each) for each in (*self._turns, job)}
        return _Attempt(assignments=assignments, gone=gone, spared=spared, fresh=fresh)

    def _commit(self, job: ElasticJob, turn: _Attempt) -> None:
        self._failed_kinds.clear()
        self._turns.append(job)
        self.starts += turn.assignments
        self.fresh = turn.fresh
        for place in turn.spared:
            del self._gone[place]
        self._gone.update(dict.fromkeys(turn.gone, job.id))
        self.claimed[job.id] = []
        for each in self._from(job):
            self.claimed[each.id] = [
                assignment for assignment in self.claimed[each.id] if self._still_fits(assignment)
            ]

    # ---- essential members -------------------------------------------------------------------

    def _allocate_all(
        self, job: ElasticJob, needed: Sequence[Part]
    ) -> tuple[list[Assignment], list[Assignment]] | None:
        """Return places for all, and the elastic members displaced for them; None if that cannot
        be.

        They give way one by one, the last job's first. If the gaps that this leaves are too small,
        all give way and it is tried once more.
        """
        largest_first = self._largest_first(job)
        mark = self._allocation.mark()
        victims = self._staying()[::-1]
        waiting, displaced = iter(victims), list[Assignment]()
        assignments = self._allocate(job, largest_first, waiting, displaced)
        if assignments is None and displaced:
            self._allocation.undo(mark)
            self._give_all(victims)
            displaced = victims
            assignments = self._allocate(job, largest_first, iter(()), [])
        if assignments is None:
            return None
        # From the first job on, as they are to be put back.
        return as_listed(assignments, needed), displaced[::-1]

    def _allocate(
        self,
        job: ElasticJob,
        members: Sequence[Part],
        victims: Iterator[Assignment],
        displaced: list[Assignment],
    ) -> list[Assignment] | None:
        assignments = []
        for component, member in members:
            ask = self.ask(job, component)
            while (slot := self._allocation.find(ask)) is None:
                victim = next(victims, None)
                if victim is None:
                    return None
                self._allocation.give(victim.slot, victim.need)
                displaced.append(victim)
            assignments.append(allocate(self._allocation, job.id, (component, member), slot))
        return assignments

    def _allocate_where_kept(self, job: ElasticJob) -> list[Assignment] | None:
        """Place members where room is kept for them, then the others in order.

        That is how demand is counted before anything is created, so that what was enough then is so
        here.
        """
        kept = self.claimed[job.id]
        for assignment in kept:
            if assignment.slot.kind is not SlotKind.READY or not self._still_fits(assignment):
                return None
        known = {(assignment.place.component, assignment.place.index) for assignment in kept}
        needed = self.needed(job)
        others = [part for part in needed if (part[0].name, part[1].index) not in known]
        assignments = self._allocate(job, others, iter(()), [])
        return None if assignments is None else [*kept, *assignments]

    def _keys(self, job: ElasticJob, parts: Sequence[Part]) -> tuple[ClassKey, ...]:
        return tuple(self.ask(job, component).key for component, _ in parts)

    def _largest_first(self, job: ElasticJob) -> list[Part]:
        return sorted(self.needed(job), key=lambda part: by_size(part[0]))

    def _no_room(self, job: ElasticJob) -> WaitReason:
        """Return why a job's essential members have no room, as things are."""
        needed = self.needed(job)
        mark = self._allocation.mark()
        for assignments in (*self.fresh.values(), self._staying()):
            self._give_all(assignments)
        if not self._allocation.may_take(len(needed)):
            self._allocation.undo(mark)
            return reasons.too_many(len(needed))
        placed = 0
        for component, member in needed:
            slot = self._allocation.find(self.ask(job, component))
            if slot is None:
                break
            allocate(self._allocation, job.id, (component, member), slot)
            placed += 1
        component = needed[min(placed, len(needed) - 1)][0]
        short = reasons.shortages(self._allocation, self.ask(job, component))
        self._allocation.undo(mark)
        return reasons.no_room(
            component, placed=placed, wanted=len(needed), mode=job.mode, short=short
        )

    # ---- elastic members ---------------------------------------------------------------------

    def _may_grow(self, job: ElasticJob) -> list[Part]:
        if job.mode is ElasticMode.RIGID and not job.is_running:
            return []
        return [
            (component, member)
            for component, member in self._parts[job.id]
            if component.role is TaskRole.ELASTIC
            and member.state is MemberState.WAITING
            and member.not_before <= self._now
        ]

    def _grow(self, job: ElasticJob) -> list[Assignment]:
        """Place as many elastic members of a job as fit, in order."""
        assignments: list[Assignment] = []
        full: set[str] = set()
        for component, member in self._growth[job.id]:
            if component.name in full:
                continue
            slot = self._allocation.find(self.ask(job, component))
            if slot is None:
                full.add(component.name)
            else:
                assignments.append(allocate(self._allocation, job.id, (component, member), slot))
        return assignments

    def _staying(self) -> list[Assignment]:
        """Return the elastic members of earlier passes that may give way, and have not."""
        return [assignment for assignment in self._willing if assignment.place not in self._gone]

    def _giveable(self, job: ElasticJob) -> list[Assignment]:
        """Return the elastic members of earlier passes that may give way."""
        if job.mode is not ElasticMode.FLEXIBLE or not job.is_running:
            return []
        assignments = []
        for component, member in self._parts[job.id]:
            slot = self._allocation.slot(member.instance_id) if member.state.has_place else None
            if component.role is TaskRole.ELASTIC and slot is not None:
                assignments.append(assignment_of(job.id, component, member.index, slot))
        return assignments

    def _takes_from_others(self, turn: _Attempt) -> bool:
        """Return whether anybody has fewer elastic members after a turn."""
        if turn.gone:
            return True
        return any(
            len(turn.fresh[job_id]) < len(assignments) for job_id, assignments in self.fresh.items()
        )

    # ---- claims ------------------------------------------------------------------------------

    def _claims_of(self, job: ElasticJob) -> list[Assignment]:
        """Return what the last plan kept for a job that waits, where it is still to be had."""
        components = {component.name: component for component in job.components}
        waiting = {(component.name, member.index) for component, member in self.needed(job)}
        assignments = []
        for place in job.claims if not job.is_running else ():
            slot = self._allocation.slot(place.instance_id)
            if slot is None or (place.component, place.index) not in waiting:
                continue
            assignment = assignment_of(job.id, components[place.component], place.index, slot)
            if self._still_fits(assignment):
                assignments.append(assignment)
        if not self._allocation.may_take(len(waiting) - len(assignments)):
            self._give_all(assignments)
            return []
        return assignments

    def _free_claims(self, job: ElasticJob) -> None:
        """Give back what is kept for a job and for those after it."""
        for each in self._from(job):
            self._give_all(self.claimed[each.id])

    def _from(self, job: ElasticJob) -> Sequence[ElasticJob]:
        return self._order[self._positions[job.id] :]

    # ---- assignments -------------------------------------------------------------------------

    def _still_fits(self, assignment: Assignment) -> bool:
        """Take an assignment's room again, and return whether there was enough."""
        if not self._allocation.has_room(assignment.slot, assignment.need):
            return False
        self._allocation.take(assignment.slot, assignment.need)
        return True

    def _give_all(self, assignments: Sequence[Assignment]) -> None:
        for assignment in assignments:
            self._allocation.give(assignment.slot, assignment.need)
