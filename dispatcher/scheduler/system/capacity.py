"""Room on instances while a plan for per-instance jobs hands it out; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from longshore.dispatcher.domain.feasibility import need
from longshore.dispatcher.scheduler.placement.fleet import Slot, SlotKind, empty_slot
from longshore.dispatcher.scheduler.system.match import mismatch
from longshore.dispatcher.scheduler.system.model import Host, PerInstanceJob
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.charging import SHARED_CPU_MILLIS, charge, clamped, shares_a_cpu

_NOTHING = Resources()


@dataclass(slots=True, kw_only=True)
class SystemCapacity:
    """The room on one instance in the course of a plan.

    Nothing starts that does not fit both `now` and `later`: what is free may be promised to
    somebody who waits for the rest. Both are without what the plan has given away so far.
    """

    #: Free at this moment.
    now: Slot
    #: Free once everything that is being ended has ended.
    later: Slot
    #: Free, and left out of `now`: reserved for the successor in an update, which needs it beside
    #: the room of its predecessor, however long others take to end.
    held: Resources = _NOTHING
    #: Whether `held` has the one cpu in it that those who ask for none share, while none of them is
    #: there yet.
    holds_shared_cpu: bool = False
    #: Attempts that are not to be evicted: those of `evicted`, and others.
    spared: set[str] = field(default_factory=set)
    #: Attempts that the plan ends to make room.
    evicted: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, host: Host) -> SystemCapacity:
        """Return it before anything has been given away."""
        now = Slot(
            kind=SlotKind.READY,
            id=host.id,
            type=host.type,
            free=host.free,
            count=0,
            last_busy=0.0,
            on_shared_cpu=host.on_shared_cpu,
        )
        later = replace(now)
        for resources in host.leaving:
            later.release(resources)
        return cls(now=now, later=later)

    def copy(self) -> SystemCapacity:
        """Return the same room; what is given away in the one is still there in the other."""
        return SystemCapacity(
            now=replace(self.now),
            later=replace(self.later),
            held=self.held,
            holds_shared_cpu=self.holds_shared_cpu,
            spared=set(self.spared),
            evicted=set(self.evicted),
        )

    def fits_now(self, wanted: Resources, giving: Iterable[Resources] = ()) -> bool:
        """Return whether something fits at once, when others (`giving`) end before it starts."""
        given = tuple(giving)
        return _fits(self.now, wanted, given) and _fits(self.later, wanted, given)

    def fits_later(self, wanted: Resources, giving: Iterable[Resources] = ()) -> bool:
        """Return whether something fits once all has ended that is being ended."""
        return _fits(self.later, wanted, tuple(giving))

    def short_of(self, wanted: Resources, giving: Iterable[Resources] = ()) -> tuple[str, ...]:
        """Return the dimensions that lack even once all of these have ended."""
        slot = self.without(giving)
        return tuple(charge(wanted, on_shared_cpu=slot.on_shared_cpu).shortages(slot.free))

    def without(self, giving: Iterable[Resources]) -> Slot:
        """Return what is there once these have ended, and all that is being ended; a copy."""
        return _without(self.later, giving)

    def evict(self, attempt_ids: set[str]) -> None:
        """Note who is ended to make room; what they give back counts with `promise`."""
        self.evicted |= attempt_ids
        self.spared |= attempt_ids

    def take(self, wanted: Resources) -> None:
        """Give room away that is used at once.

        If it shares a cpu, and one was held for those that do, it is no longer held: it is there
        for all of them from now on.
        """
        if self.holds_shared_cpu and shares_a_cpu(wanted):
            self.held = self.held.minus(Resources(cpu_millis=SHARED_CPU_MILLIS))
            self.holds_shared_cpu = False
        self.now.assign(wanted)
        self.later.assign(wanted)

    def promise(self, wanted: Resources, giving: Iterable[Resources] = ()) -> None:
        """Give room away that is used once these have ended, and all that was being ended."""
        self.release(giving)
        self.later.assign(wanted)

    def hold(self, wanted: Resources, giving: Iterable[Resources]) -> None:
        """Hold what something needs of the room that is free now, if it fits once `giving` have
        ended.

        A shared cpu that is held can be shared by others at once, unless somebody has to end first.
        """
        ending = tuple(giving)
        slot = _without(self.now, ending)
        slot.assign(wanted)
        if slot.is_overfull:
            return
        more = clamped(self.now.free.minus(slot.free))
        self.now.free = self.now.free.minus(more)
        if ending:
            self.now.on_shared_cpu = min(self.now.on_shared_cpu, slot.on_shared_cpu)
        else:
            self.holds_shared_cpu |= not self.now.on_shared_cpu and bool(slot.on_shared_cpu)
            self.now.on_shared_cpu = slot.on_shared_cpu
        self.held = self.held.plus(more)

    def release(self, giving: Iterable[Resources]) -> None:
        """Count on the room of attempts that are now told to end."""
        for resources in giving:
            self.later.release(resources)

    @property
    def reserved(self) -> Resources:
        """Return what of the free room is promised."""
        return self.held.plus(clamped(self.now.free.minus(self.later.free)))


def never_fits(type_: InstanceType, wanted: Resources) -> tuple[str, ...]:
    """Return the dimensions in which even an empty instance of a type is too small."""
    return tuple(charge(wanted, on_shared_cpu=0).shortages(type_.allocatable))


def taken_of_new_instance(jobs: Iterable[PerInstanceJob], type_: InstanceType) -> Resources:
    """Return what per-instance jobs will take of a new instance of a type.

    When a type is chosen for batch work, that is not there for it: jobs that match and take late
    joiners come onto every new instance, higher priorities first, as far as they fit.
    """
    slot = empty_slot(SlotKind.NEW, type_.name, type_)
    for job in sorted(jobs, key=job_order):
        if job.stopped or not job.late_joiners or mismatch(type_, job.spec.constraints):
            continue
        wanted = need(type_, job.spec.resources, job.spec.unnamed)
        if _fits(slot, wanted, ()):
            slot.assign(wanted)
    return type_.allocatable.minus(slot.free)


def job_order(job: PerInstanceJob) -> tuple[int, int, str]:
    """Return the sort key by which jobs have their turn: the higher first, then the older."""
    return (-job.priority, job.sequence, job.id)


def _fits(slot: Slot, wanted: Resources, giving: tuple[Resources, ...]) -> bool:
    slot = _without(slot, giving)
    return charge(wanted, on_shared_cpu=slot.on_shared_cpu).fits_in(slot.free)


def _without(slot: Slot, giving: Iterable[Resources]) -> Slot:
    """Return a copy of a slot on which these attempts have ended."""
    copy = replace(slot)
    for resources in giving:
        copy.release(resources)
    return copy
