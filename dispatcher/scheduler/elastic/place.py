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
from longshore.dispatcher.domain.jobs import ElasticMode, Role
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
    seats: list[Assignment]
    #: The elastic members of earlier passes that give way for them.
    gone: frozenset[MemberPlace]
    #: Those that gave way in an earlier turn, and for which there is room again.
    spared: frozenset[MemberPlace]
    #: The elastic members that have a place in this pass, by job.
    fresh: dict[str, list[Assignment]]


class ElasticPlacement:
    """Who has a place on the instances that are there, as the turns of a pass give it."""

    def __init__(
        self, floor: Allocation, order: Sequence[ElasticJob], purse: ElasticBudget, now: float
    ) -> None:
        self._floor = floor
        self._order = order
        self._purse = purse
        self._now = now
        self._parts = {job.id: list(job.all_members()) for job in order}
        self._asks = {
            (job.id, component.name): floor.ask(component)
            for job in order
            for component in job.components
        }
        self._positions = {job.id: number for number, job in enumerate(order)}
        self._growth = {job.id: self._may_grow(job) for job in order}
        self._turns: list[ElasticJob] = []
        self._hopeless: set[tuple[ClassKey, ...]] = set()
        # Jobs equal to one of these fare as it did, until somebody else has a place.
        self._in_vain: set[tuple[tuple[ClassKey, ...], tuple[ClassKey, ...]]] = set()
        self._willing = [seat for job in order for seat in self._giveable(job)]
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
            if (all_of_it or component.role is Role.ESSENTIAL)
            and member.state is MemberState.WAITING
        ]

    def could_grow(self, job: ElasticJob) -> list[Part]:
        """Return the elastic members that may have a place beside what the job needs; no copy."""
        return self._growth[job.id]

    def placed(self) -> list[MemberPlace]:
        """Return the new places: those of essential members first."""
        elastic = [seat for seats in self.fresh.values() for seat in seats]
        return [seat.place for seat in (*self.starts, *elastic)]

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
        if not self.claimed[job.id] and kind in self._in_vain:
            return reasons.NO_LESS_FREE
        mark = self._floor.mark()
        self._free_claims(job)
        before = self._floor.free
        turn = self._take_turn(job)
        if turn is None:
            why = self._no_room(job)
        elif self._takes_from_others(turn) and not is_less(self._floor.free, before):
            why = reasons.NO_LESS_FREE
            if not self.claimed[job.id]:
                self._in_vain.add(kind)
        elif (unpaid := self._purse.pay(job.id, turn.seats)) is not None:
            why = unpaid
        else:
            self._commit(job, turn)
            return None
        self._floor.undo(mark)
        return why

    def go_on(self, job: ElasticJob) -> WaitReason | None:
        """Let a job that runs have what it lacks, as it fits; or return why it cannot.

        Without its missing essential members it has no more elastic ones either.
        """
        if not self.needed(job):
            self._turns.append(job)
            self.fresh[job.id] = self._grow(job)
            self._in_vain.clear()
            return None
        mark = self._floor.mark()
        self._free_claims(job)
        turn = self._take_turn(job)
        if turn is not None:
            self._commit(job, turn)
            return None
        why = self._no_room(job)
        self._floor.undo(mark)
        return why

    def _take_turn(self, job: ElasticJob) -> _Attempt | None:
        """Place a job's essential members, then all elastic ones again; None, and undone, if it
        cannot be.

        Nobody is set aside if there is room beside all others.
        """
        mark = self._floor.mark()
        seats = self._seat(job, self._largest_first(job), iter(()), [])
        if seats is None:
            self._floor.undo(mark)
            seats = self._seat_where_kept(job)
        if seats is not None:
            return _Attempt(
                seats=as_listed(seats, self.needed(job)),
                gone=frozenset(),
                spared=frozenset(),
                fresh={**self.fresh, job.id: self._grow(job)},
            )
        self._floor.undo(mark)
        for seats in self.fresh.values():
            self._give_all(seats)
        needed = self.needed(job)
        asks = self._keys(job, needed)
        found = None if asks in self._hopeless else self._seat_all(job, needed)
        if found is None:
            self._hopeless.add(asks)
            self._floor.undo(mark)
            return None
        seats, displaced = found
        back = {seat.place for seat in displaced if self._sits_again(seat)}
        gone = frozenset(seat.place for seat in displaced) - back
        given = [seat for seat in self._willing if seat.place in self._gone]
        spared = frozenset(seat.place for seat in given if self._sits_again(seat))
        fresh = {each.id: self._grow(each) for each in (*self._turns, job)}
        return _Attempt(seats=seats, gone=gone, spared=spared, fresh=fresh)

    def _commit(self, job: ElasticJob, turn: _Attempt) -> None:
        self._in_vain.clear()
        self._turns.append(job)
        self.starts += turn.seats
        self.fresh = turn.fresh
        for place in turn.spared:
            del self._gone[place]
        self._gone.update(dict.fromkeys(turn.gone, job.id))
        self.claimed[job.id] = []
        for each in self._from(job):
            self.claimed[each.id] = [
                seat for seat in self.claimed[each.id] if self._sits_again(seat)
            ]

    # ---- essential members -------------------------------------------------------------------

    def _seat_all(
        self, job: ElasticJob, needed: Sequence[Part]
    ) -> tuple[list[Assignment], list[Assignment]] | None:
        """Return places for all, and the elastic members displaced for them; None if that cannot
        be.

        They give way one by one, the last job's first. If the gaps that this leaves are too small,
        all give way and it is tried once more.
        """
        largest_first = self._largest_first(job)
        mark = self._floor.mark()
        victims = self._staying()[::-1]
        waiting, displaced = iter(victims), list[Assignment]()
        seats = self._seat(job, largest_first, waiting, displaced)
        if seats is None and displaced:
            self._floor.undo(mark)
            self._give_all(victims)
            displaced = victims
            seats = self._seat(job, largest_first, iter(()), [])
        if seats is None:
            return None
        # From the first job on, as they are to be put back.
        return as_listed(seats, needed), displaced[::-1]

    def _seat(
        self,
        job: ElasticJob,
        members: Sequence[Part],
        victims: Iterator[Assignment],
        displaced: list[Assignment],
    ) -> list[Assignment] | None:
        seats = []
        for component, member in members:
            ask = self.ask(job, component)
            while (slot := self._floor.find(ask)) is None:
                victim = next(victims, None)
                if victim is None:
                    return None
                self._floor.give(victim.slot, victim.need)
                displaced.append(victim)
            seats.append(allocate(self._floor, job.id, (component, member), slot))
        return seats

    def _seat_where_kept(self, job: ElasticJob) -> list[Assignment] | None:
        """Place members where room is kept for them, then the others in order.

        That is how demand is counted before anything is created, so that what was enough then is so
        here.
        """
        kept = self.claimed[job.id]
        for seat in kept:
            if seat.slot.kind is not SlotKind.READY or not self._sits_again(seat):
                return None
        known = {(seat.place.component, seat.place.index) for seat in kept}
        needed = self.needed(job)
        others = [part for part in needed if (part[0].name, part[1].index) not in known]
        seats = self._seat(job, others, iter(()), [])
        return None if seats is None else [*kept, *seats]

    def _keys(self, job: ElasticJob, parts: Sequence[Part]) -> tuple[ClassKey, ...]:
        return tuple(self.ask(job, component).key for component, _ in parts)

    def _largest_first(self, job: ElasticJob) -> list[Part]:
        return sorted(self.needed(job), key=lambda part: by_size(part[0]))

    def _no_room(self, job: ElasticJob) -> WaitReason:
        """Return why a job's essential members have no room, as things are."""
        needed = self.needed(job)
        mark = self._floor.mark()
        for seats in (*self.fresh.values(), self._staying()):
            self._give_all(seats)
        if not self._floor.may_take(len(needed)):
            self._floor.undo(mark)
            return reasons.too_many(len(needed))
        seated = 0
        for component, member in needed:
            slot = self._floor.find(self.ask(job, component))
            if slot is None:
                break
            allocate(self._floor, job.id, (component, member), slot)
            seated += 1
        component = needed[min(seated, len(needed) - 1)][0]
        short = reasons.shortages(self._floor, self.ask(job, component))
        self._floor.undo(mark)
        return reasons.no_room(
            component, seated=seated, wanted=len(needed), mode=job.mode, short=short
        )

    # ---- elastic members ---------------------------------------------------------------------

    def _may_grow(self, job: ElasticJob) -> list[Part]:
        if job.mode is ElasticMode.RIGID and not job.is_running:
            return []
        return [
            (component, member)
            for component, member in self._parts[job.id]
            if component.role is Role.ELASTIC
            and member.state is MemberState.WAITING
            and member.not_before <= self._now
        ]

    def _grow(self, job: ElasticJob) -> list[Assignment]:
        """Place as many elastic members of a job as fit, in order."""
        seats: list[Assignment] = []
        full: set[str] = set()
        for component, member in self._growth[job.id]:
            if component.name in full:
                continue
            slot = self._floor.find(self.ask(job, component))
            if slot is None:
                full.add(component.name)
            else:
                seats.append(allocate(self._floor, job.id, (component, member), slot))
        return seats

    def _staying(self) -> list[Assignment]:
        """Return the elastic members of earlier passes that may give way, and have not."""
        return [seat for seat in self._willing if seat.place not in self._gone]

    def _giveable(self, job: ElasticJob) -> list[Assignment]:
        """Return the elastic members of earlier passes that may give way."""
        if job.mode is not ElasticMode.FLEXIBLE or not job.is_running:
            return []
        seats = []
        for component, member in self._parts[job.id]:
            slot = self._floor.slot(member.instance_id) if member.state.has_place else None
            if component.role is Role.ELASTIC and slot is not None:
                seats.append(assignment_of(job.id, component, member.index, slot))
        return seats

    def _takes_from_others(self, turn: _Attempt) -> bool:
        """Return whether anybody has fewer elastic members after a turn."""
        if turn.gone:
            return True
        return any(len(turn.fresh[job_id]) < len(seats) for job_id, seats in self.fresh.items())

    # ---- claims ------------------------------------------------------------------------------

    def _claims_of(self, job: ElasticJob) -> list[Assignment]:
        """Return what the last plan kept for a job that waits, where it is still to be had."""
        components = {component.name: component for component in job.components}
        waiting = {(component.name, member.index) for component, member in self.needed(job)}
        seats = []
        for place in job.claims if not job.is_running else ():
            slot = self._floor.slot(place.instance_id)
            if slot is None or (place.component, place.index) not in waiting:
                continue
            seat = assignment_of(job.id, components[place.component], place.index, slot)
            if self._sits_again(seat):
                seats.append(seat)
        if not self._floor.may_take(len(waiting) - len(seats)):
            self._give_all(seats)
            return []
        return seats

    def _free_claims(self, job: ElasticJob) -> None:
        """Give back what is kept for a job and for those after it."""
        for each in self._from(job):
            self._give_all(self.claimed[each.id])

    def _from(self, job: ElasticJob) -> Sequence[ElasticJob]:
        return self._order[self._positions[job.id] :]

    # ---- seats -------------------------------------------------------------------------------

    def _sits_again(self, seat: Assignment) -> bool:
        """Take a seat's room, and return whether there was enough."""
        if not self._floor.has_room(seat.slot, seat.need):
            return False
        self._floor.take(seat.slot, seat.need)
        return True

    def _give_all(self, seats: Sequence[Assignment]) -> None:
        for seat in seats:
            self._floor.give(seat.slot, seat.need)
