"""Elastic jobs as the planner sees them: components, their members, and what a pass decides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from longshore.dispatcher.domain.containers import Constraints, ElasticSettings, WaitReason
from longshore.dispatcher.domain.jobs import ElasticMode, Role
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
    role: Role
    resources: Resources
    count: int = 1
    startup_order: int = 0
    constraints: Constraints = _ANYWHERE
    unnamed: tuple[str, ...] = ()


class MemberState(Enum):
    """Where one container of a component is.

    `waiting` has no place; `placed` has one, and has not been seen to run; `stopping` was told to
    end; `finished` ended with exit code 0, and is placed again only if its job begins anew; `gone`
    is one whose container has ended for good: it is never placed again.
    """

    WAITING = "waiting"
    PLACED = "placed"
    RUNNING = "running"
    STOPPING = "stopping"
    FINISHED = "finished"
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
    """One container of a component, by its number from 0.

    `instance_id` is "" while it has no place. `deaths` is how often in a row it ended otherwise
    than it should; it has no place before `not_before`.
    """

    component: str
    index: int
    state: MemberState = MemberState.WAITING
    instance_id: str = ""
    deaths: int = 0
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
    """A job that waits or runs; changed by making a new value.

    `sequence` is its place among those that came. It runs from `began_at` on, which is None while
    it waits. `members` are those of which there is something to say, in any order: the others wait.
    `size` is what the user gave, None to have it computed; `runtime_s` is how long it would take
    with all components, None where nobody knows, and `progress` the part of it that is done.
    Nothing of it starts before `not_before`. `failed_starts` is how often it was queued again since
    all its essential components ran, `renewals` how often in all, and `losses` how often because an
    essential member was lost.
    `claims` are what the last plan kept for it. Components have names of their own, and at least
    one of them is essential.
    """

    id: str
    sequence: int
    submitted_at: float
    components: tuple[Component, ...]
    mode: ElasticMode = ElasticMode.FLEXIBLE
    began_at: float | None = None
    members: tuple[Member, ...] = ()
    size: float | None = None
    runtime_s: float | None = None
    progress: float = 0.0
    scale_up: bool = False
    not_before: float = 0.0
    failed_starts: int = 0
    renewals: int = 0
    losses: int = 0
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
            and (component.role is Role.ESSENTIAL or self.mode is ElasticMode.RIGID)
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

    `free` is what is left there of all that runs or has a place, members of these jobs included;
    those that are stopping, and what is only claimed, count as gone. `count` is how many containers
    those are, `sharers` how many of them share a cpu.
    """

    id: str
    type: InstanceType
    free: Resources
    kind: SlotKind = SlotKind.READY
    count: int = 0
    sharers: int = 0
    last_busy: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticView:
    """What a pass decides from; it changes nothing of it.

    `jobs` are all that wait or run, in any order; `rooms` the instances that take new work, those
    on their way included; `types` those that are configured. For the jobs `beyond` limits not all
    that is essential can be had: nothing is kept for them in part; of these the `unpaid` ones are
    at a limit of their own project or user: they come last (see `elastic.budget`). Those that
    earlier plans have `passed` were tried in vain. `containers_most` is how many may ever have a
    place at once, `containers_left` how many more may now, which is less than 0 where too many
    have; None for any number. `budget` is what may still be spent, None without limits of it, and
    changed by a pass; `accounts` whose limits count for which job, by its id. `hopes` are those of
    the last plan. `bought` are the instances that have just been created for members of a
    component, one for each of them.
    """

    jobs: tuple[ElasticJob, ...]
    rooms: tuple[ElasticNode, ...]
    types: tuple[InstanceType, ...]
    rules: PackingPolicy
    settings: ElasticSettings = _FIRST_COME
    max_price_factor: float = 1.5
    beyond: frozenset[str] = frozenset()
    unpaid: frozenset[str] = frozenset()
    passed: frozenset[str] = frozenset()
    containers_most: int | None = None
    containers_left: int | None = None
    budget: Budget | None = None
    accounts: Mapping[str, SpendSubjects] = field(default_factory=dict)
    hopes: tuple[MemberPlace, ...] = ()
    bought: Mapping[JobComponent, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDemand:
    """Members of a component for which there is no room, and instances are to be created."""

    job_id: str
    component: str
    role: Role
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticPlan:
    """What a pass decided.

    The jobs `begun` run from now on. `starts` are new places, of which `may_start` tells who is
    next; one on an instance of `stops` waits until what is stopped there has ended. `stops` are
    elastic members that give their room back. `claims` is room kept for essential members of jobs
    that wait, on instances that were on their way. `hopes` are where elastic members count on room
    that is not kept for them: nothing is created for these. `demand` is in the order in which it
    counts: all that is essential first. `waiting` says of each job that lacks something what it
    waits for, by id in policy order. `next_at` is when waiting alone may change the plan, None for
    never. `passed` are jobs that were tried in vain, while there are some that were not tried
    since.
    """

    begun: tuple[str, ...] = ()
    starts: tuple[MemberPlace, ...] = ()
    stops: tuple[MemberStop, ...] = ()
    claims: tuple[MemberPlace, ...] = ()
    hopes: tuple[MemberPlace, ...] = ()
    demand: tuple[MemberDemand, ...] = ()
    waiting: tuple[tuple[str, WaitReason], ...] = ()
    next_at: float | None = None
    passed: frozenset[str] = frozenset()
