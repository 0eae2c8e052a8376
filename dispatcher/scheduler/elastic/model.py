"""Elastic jobs as the planner sees them: components, their members, and what a pass decides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from longshore.dispatcher.domain.containers import Constraints, ElasticSettings, WaitReason
from longshore.dispatcher.domain.jobs import ElasticMode, TaskRole
from longshore.dispatcher.scheduler.placement.fleet import PackingPolicy, SlotKind
from longshore.dispatcher.scheduler.placement.snapshot import Budget
from longshore.dispatcher.state.spend_limits import SpendSubjects
from longshore.drivers.interface import InstanceType, Resources

_ANYWHERE = Constraints()


_FIRST_COME = ElasticSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A part of an elastic job: `count` equal containers.

    What each asks for is said as a container says it: see `ContainerSpec`. Lower `startup_order`
    starts first.
    """

    name: str
    role: TaskRole
    resources: Resources
    count: int = 1
    startup_order: int = 0
    constraints: Constraints = _ANYWHERE
    unnamed: tuple[str, ...] = ()


class MemberState(Enum):
    """Where one container of a component is."""

    #: It has no place.
    WAITING = "waiting"
    #: It has a place, and was not seen to run.
    PLACED = "placed"
    RUNNING = "running"
    #: It was told to end.
    STOPPING = "stopping"
    #: It ended with exit code 0, and is placed again only if its job begins anew.
    FINISHED = "finished"
    #: Its container has ended for good: it is never placed again.
    GONE = "gone"

    @property
    def is_over(self) -> bool:
        """Return whether there is nothing to start of it since its job began."""
        return self in (MemberState.FINISHED, MemberState.GONE)

    @property
    def has_place(self) -> bool:
        """Return whether room is taken for it."""
        return self in (MemberState.PLACED, MemberState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One container of a component, by its number from 0."""

    component: str
    index: int
    state: MemberState = MemberState.WAITING
    #: "" while it has no place.
    instance_id: str = ""
    #: How often in a row it ended otherwise than it should.
    deaths: int = 0
    #: It has no place before this.
    not_before: float = 0.0


Part = tuple[Component, Member]
"""A member with its component."""

JobComponent = tuple[str, str]
"""The id of a job, and the name of one of its components."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPlace:
    """A member and the instance on which it has room, or is to have it."""

    job_id: str
    component: str
    index: int
    instance_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStop:
    """An elastic member that gives its room back, and the job that gets it."""

    place: MemberPlace
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticJob:
    """A job that waits or runs; changed by making a new value."""

    id: str
    #: Its place among those that came.
    sequence: int
    submitted_at: float
    #: They have different names, and at least one of them is essential.
    components: tuple[Component, ...]
    mode: ElasticMode = ElasticMode.FLEXIBLE
    #: From when on it runs, None while it waits.
    began_at: float | None = None
    #: Those of which there is something to say, in any order: the others wait.
    members: tuple[Member, ...] = ()
    #: What the user gave, None to have it computed.
    size: float | None = None
    #: How long it would take with all components, None where nobody knows.
    runtime_s: float | None = None
    #: The part of its runtime that is done.
    progress: float = 0.0
    scale_up: bool = False
    #: Nothing of it starts before this.
    not_before: float = 0.0
    #: How often it was queued again since all its essential components ran.
    failed_starts: int = 0
    #: How often it was queued again in all.
    renewals: int = 0
    #: How often of these because an essential member was lost.
    losses: int = 0
    #: What the last plan kept for it.
    claims: tuple[MemberPlace, ...] = ()

    @property
    def is_running(self) -> bool:
        """Return whether it has begun: whether all its essential components had a place at once."""
        return self.began_at is not None

    @property
    def count(self) -> int:
        """Return how many members it has."""
        return sum(component.count for component in self.components)

    @property
    def needs_at_once(self) -> int:
        """Return how many members must have a place at once for it to begin.

        Those are the essential ones that have not done their work, and all of a rigid job.
        """
        return sum(
            not member.state.is_over
            and (component.role is TaskRole.ESSENTIAL or self.mode is ElasticMode.RIGID)
            for component, member in self.all_members()
        )

    def all_members(self) -> Iterator[Part]:
        """Yield every member with its component, in the order of components and numbers."""
        known = {(member.component, member.index): member for member in self.members}
        for component in self.components:
            for index in range(component.count):
                member = known.get((component.name, index))
                yield component, member or Member(component=component.name, index=index)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticNode:
    """One instance as a pass sees it.

    Members that are stopping, and what is only claimed, count as gone.
    """

    id: str
    type: InstanceType
    #: What is left there of all that runs or has a place, members of these jobs included.
    free: Resources
    kind: SlotKind = SlotKind.READY
    #: How many containers those are, and how many of them share a cpu.
    count: int = 0
    on_shared_cpu: int = 0
    last_busy: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticView:
    """What a pass decides from; it changes nothing of it."""

    #: All that wait or run, in any order.
    jobs: tuple[ElasticJob, ...]
    #: The instances that take new work, those on their way included.
    nodes: tuple[ElasticNode, ...]
    #: The instance types that are configured.
    types: tuple[InstanceType, ...]
    rules: PackingPolicy
    settings: ElasticSettings = _FIRST_COME
    max_price_factor: float = 1.5
    #: The jobs of which not all that is essential can be had within the limits: nothing is kept for
    #: them in part.
    infeasible: frozenset[str] = frozenset()
    #: Those of them that are at a limit of their own project or user: they come last.
    over_budget: frozenset[str] = frozenset()
    #: Those that earlier plans have tried in vain.
    tried_before: frozenset[str] = frozenset()
    #: How many containers may ever have a place at once, None for any number.
    containers_most: int | None = None
    #: How many more may have a place now, None for any number; below 0 where too many have one.
    containers_left: int | None = None
    #: What may still be spent, None without limits of it; changed by a pass.
    budget: Budget | None = None
    #: Whose limits of spending count for which job, by its id.
    accounts: Mapping[str, SpendSubjects] = field(default_factory=dict)
    #: Where elastic members counted on room in the last plan.
    soft_reservations: tuple[MemberPlace, ...] = ()
    #: The instances that have just been created for members of a component, one for each of them.
    bought: Mapping[JobComponent, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDemand:
    """Members of a component for which there is no room, and instances are to be created."""

    job_id: str
    component: str
    role: TaskRole
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticPlan:
    """What a pass decided."""

    #: The jobs that run from now on.
    begun: tuple[str, ...] = ()
    #: New places, of which `may_start` tells who is next; one on an instance of `stops` waits until
    #: what is stopped there has ended.
    starts: tuple[MemberPlace, ...] = ()
    #: Elastic members that give their room back.
    stops: tuple[MemberStop, ...] = ()
    #: Room kept for essential members of jobs that wait, on instances that were on their way.
    claims: tuple[MemberPlace, ...] = ()
    #: Where elastic members count on room that is not kept for them: nothing is created for these.
    soft_reservations: tuple[MemberPlace, ...] = ()
    #: In the order in which it counts: all that is essential first.
    demand: tuple[MemberDemand, ...] = ()
    #: What each job that lacks something waits for, by id in policy order.
    waiting: tuple[tuple[str, WaitReason], ...] = ()
    #: When waiting alone may change the plan, None for never.
    next_at: float | None = None
    #: Jobs that were tried in vain, while there are some that were not tried since.
    tried_before: frozenset[str] = frozenset()
