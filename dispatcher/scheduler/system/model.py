"""What the planner of per-instance jobs decides from, and what it decides; pure data.

A `system` job runs on every matching instance for ever, a `sysbatch` job once to its end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from longshore.dispatcher.domain.containers import (
    START_REFUSED,
    AttemptOutcome,
    ContainerSpec,
    Reason,
    WaitReason,
)
from longshore.dispatcher.domain.jobs import PerInstanceKind, UpdateStrategy
from longshore.dispatcher.scheduler.system.rollout import Rollout
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.model import IdleBehavior

# ---- what there is -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PerInstanceJob:
    """A job with one attempt on every matching instance, as it is at its latest revision."""

    id: str
    #: Its place among equals of one priority.
    sequence: int
    kind: PerInstanceKind
    revision: int
    #: Its `retries.delay_s` holds for restarts.
    spec: ContainerSpec
    priority: int
    #: When the revision was submitted, in seconds since the epoch.
    revised_at: float = 0.0
    update: UpdateStrategy = field(default_factory=UpdateStrategy)
    #: Whether it is also for instances that came after that.
    late_joiners: bool = True
    #: Whether held and draining instances are to it like all others, as long as those that drain
    #: have batch work.
    on_paused: bool = False
    #: Whether its attempts are left alone where an instance drains.
    ignore_system: bool = False
    stopped: bool = False
    #: Whether it takes no room and starts nothing: its steps say what would be done if it were
    #: released.
    held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One instance as this planner sees it."""

    id: str
    type: InstanceType
    #: What is left for containers with all taken off that holds room there, also what is being
    #: ended.
    free: Resources
    #: What each attempt, of any kind, was given that was told to end: one entry for each.
    leaving: tuple[Resources, ...] = ()
    #: How many share the one cpu of those that ask for none.
    on_shared_cpu: int = 0
    behavior: IdleBehavior = IdleBehavior.RUN
    #: Whether something could start there now.
    ready: bool = True
    #: Whether it is being shut down.
    going_away: bool = False
    #: In seconds since the epoch.
    joined_at: float = 0.0
    #: Whether there are attempts of no per-instance job, ending ones too.
    has_batch_work: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveAttempt:
    """An attempt whose end is not known yet, with the revision and the specification it runs at.

    `resources` is what it was given there; `is_ending` says that it was told to end.
    """

    id: str
    job_id: str
    instance_id: str
    revision: int
    spec: ContainerSpec
    resources: Resources
    is_ending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PastAttempt:
    """The latest attempt of a job on an instance, once it has ended. Times are seconds since the
    epoch.
    """

    id: str
    job_id: str
    instance_id: str
    revision: int
    outcome: AttemptOutcome
    ended_at: float
    #: When the latest attempt was made there that followed one of the same revision which had
    #: exited by itself, None for none.
    restarted_at: float | None = None
    #: Whether the job's retries leave it at that: it succeeded, or failed, or was lost, and is not
    #: tried again (`dispatcher.state.restarts`). Only sysbatch jobs are ever left at that.
    settled: bool = False
    #: Why it ended so, None where all went well.
    reason: Reason | None = None

    @property
    def has_failed(self) -> bool:
        """Return whether it failed, and its job leaves it at that."""
        return self.settled and self.outcome is AttemptOutcome.FAILED

    @property
    def was_refused(self) -> bool:
        """Return whether it failed since its start was refused for a fault of the request."""
        refused = self.reason is not None and self.reason.code == START_REFUSED
        return self.has_failed and refused


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSnapshot:
    """All that one plan is made from.

    It may show some of the instances only, with the attempts that are on these: the steps are right
    for them, and `SystemPlan.next_at` and the reports are about them. An attempt of an instance
    that is not shown counts as lost.
    """

    #: In seconds since the epoch.
    now: float
    jobs: Sequence[PerInstanceJob]
    hosts: Sequence[Host]
    live: Sequence[LiveAttempt] = ()
    #: The latest of each job on each instance counts.
    past: Sequence[PastAttempt] = ()
    #: Those that the plan before this one returned.
    rollouts: Mapping[str, Rollout] = field(default_factory=dict)
    #: For each job, the shown instances on which it starts nothing since a user wants that; it
    #: takes no room there, as one that is held takes none anywhere.
    held_back: Mapping[str, Collection[str]] = field(default_factory=dict)


# ---- who makes way -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomRequest:
    """Room that a job wants on an instance, and does not get without an eviction."""

    instance_id: str
    type: InstanceType
    by: PerInstanceKind
    priority: int
    #: What it needs on an instance of this `type`.
    asked: Resources
    #: What is free there once all has ended that is being ended; less than nothing where more is
    #: promised.
    room: Resources
    #: How many then share the one cpu of those that ask for none.
    on_shared_cpu: int
    #: Attempts that may not be evicted: they are being ended (their room is in `room`), or matter
    #: as much.
    spared: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """An attempt of any kind that is to be evicted, and what it was given."""

    attempt_id: str
    resources: Resources


class Preempt(Protocol):
    """Says who is evicted for a request, if anybody may be."""

    def __call__(self, request: RoomRequest) -> Sequence[Victim] | None:
        """Return attempts without which there is room, None where nobody may be evicted."""
        ...


def nobody(request: RoomRequest) -> None:
    """Evict nobody, whoever asks."""


# ---- what is decided -----------------------------------------------------------------------------


class RemovalCause(Enum):
    """Why an attempt is stopped and none follows, as far as anybody knows now."""

    JOB_STOPPED = "job_stopped"
    JOB_GONE = "job_gone"
    NO_MATCH = "no_match"
    NODE_DRAINING = "node_draining"
    REVISED_WHILE_HELD = "revised_while_held"
    SUPERFLUOUS = "superfluous"


class IgnoreCause(Enum):
    """Why an attempt is left as it is."""

    UP_TO_DATE = "it is what the job asks for"
    ENDING = "it is being ended already"
    EVICTED = "it is evicted by this plan"
    HELD = "its instance is held"
    DRAINING = "its instance drains"
    GOING_AWAY = "its instance is being shut down"
    NOT_READY = "its instance is not ready for another revision"


class WaitCause(Enum):
    """What a placement or an update waits for that comes without anybody's help."""

    ROUND = "update_round"
    RESTART = "restart_delay"
    ROOM = "room_coming"


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkLost:
    """The instance of an attempt is gone: its outcome is `lost`."""

    job_id: str
    instance_id: str
    attempt_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """End an attempt; no other takes its place.

    `mismatch` says in words what an instance of `NO_MATCH` lacks; it is "" of other causes.
    """

    job_id: str
    instance_id: str
    attempt_id: str
    cause: RemovalCause
    mismatch: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """End an attempt since these fields changed; once it has ended, a plan places its successor."""

    job_id: str
    instance_id: str
    attempt_id: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateInPlace:
    """Let an attempt be one of the job's revision as it runs: these fields need no restart."""

    job_id: str
    instance_id: str
    attempt_id: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore:
    """Leave an attempt as it is."""

    job_id: str
    instance_id: str
    attempt_id: str
    cause: IgnoreCause


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOn:
    """Start an attempt, which is given `resources`; `previous_id` is the one before it, "" none."""

    job_id: str
    instance_id: str
    previous_id: str
    resources: Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """End others, so that there is room; a plan after that places, or updates `attempt_id`."""

    job_id: str
    instance_id: str
    victims: tuple[str, ...]
    attempt_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing yet: what it waits for comes by itself, at `until` (None: nobody knows when).

    `attempt_id` is the one that is to be updated, "" where there is none.
    """

    job_id: str
    instance_id: str
    cause: WaitCause
    reason: WaitReason
    until: float | None = None
    attempt_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """There is no room, and nobody makes way; whatever comes free there is looked at again.

    `short_of` names the dimensions that lack. An attempt that is to be updated runs on.
    """

    job_id: str
    instance_id: str
    short_of: tuple[str, ...]
    reason: WaitReason
    attempt_id: str = ""


Step = MarkLost | Stop | Update | UpdateInPlace | Ignore | PlaceOn | Evict | Wait | Block


class Closed(Enum):
    """Why nothing new is placed on an instance that matches."""

    GOING_AWAY = "being shut down"
    HELD = "held"
    DRAINING = "draining"
    NOT_READY = "not ready"
    JOINED_LATER = "joined after the job"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """How a job stands to all instances of a snapshot, whether or not it runs there.

    Each instance is counted once.
    """

    job_id: str
    #: The instances that it may run on.
    open: int = 0
    #: Those that do not meet a demand of the job, by the first such demand.
    filtered: tuple[tuple[str, int], ...] = ()
    #: Those that are closed to it, by cause.
    closed: tuple[tuple[Closed, int], ...] = ()
    #: Why none is open, None where one is.
    reason: WaitReason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPlan:
    """What is to be done: one step for each live attempt, and for each place that lacks one."""

    steps: tuple[Step, ...]
    reports: tuple[JobReport, ...]
    #: Replaces what was known for the jobs of the snapshot: who is not in it has none.
    rollouts: Mapping[str, Rollout]
    #: When something is due that no event tells of, None for never.
    next_at: float | None
    #: What of the free room of an instance is promised, so that nothing else may be started in it.
    reserved: Mapping[str, Resources]

    @property
    def blocked(self) -> tuple[Block, ...]:
        """Return what has no room, in the order of jobs and then of instances."""
        return tuple(step for step in self.steps if isinstance(step, Block))
