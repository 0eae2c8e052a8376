"""What the dispatcher knows: containers, attempts, constraints; pure data, no effects."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Annotated

import msgspec

from longshore.dispatcher.input.quantities import PRIORITY_MAX, Price
from longshore.drivers.interface import Resources
from longshore.pool.model import BehaviorNote

# ---- how elastic jobs queue, as the configuration says it; pure data -----------------------------

_MIB = 2**20


class QueuePolicy(Enum):
    """Which job comes first; `hrrn` is the highest ratio of response to runtime."""

    FIFO = "fifo"
    SIZE = "size"
    DYNSIZE = "dynsize"
    SJF = "sjf"
    SRPT = "srpt"
    HRRN = "hrrn"


class ElasticSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How elastic jobs queue.

    With `backfill` a job that cannot start does not keep those behind it waiting. Under `dynsize` a
    job shrinks by `dynsize_bytes_per_s` for each second that it waited.
    """

    policy: QueuePolicy = QueuePolicy.FIFO
    backfill: bool = False
    dynsize_bytes_per_s: Annotated[int, msgspec.Meta(ge=0, le=2**50)] = 256 * _MIB


# ---- what the dispatcher knows: containers, attempts, constraints; pure data, no effects ---------

PRIORITY_DEFAULT = 500


class ContainerState(Enum):
    """Where a container is; `locked` is mapped onto an instance, with the claim persisted."""

    QUEUED = "queued"
    LOCKED = "locked"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Return whether nothing follows."""
        return self in FINAL_STATES


FINAL_STATES = frozenset(
    {ContainerState.SUCCEEDED, ContainerState.FAILED, ContainerState.CANCELLED}
)


class AttemptOutcome(Enum):
    """How one try ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"
    PREEMPTED = "preempted"
    CANCELLED = "cancelled"


class Preemptible(Enum):
    """Whether a container may, must or must not run on instances that the cloud can take back."""

    ALLOWED = "allowed"
    REQUIRED = "required"
    FORBIDDEN = "forbidden"


class Placement(Enum):
    """Many containers an instance, by resources, or one."""

    PACKED = "packed"
    EXCLUSIVE = "exclusive"


class Profile(Enum):
    """Fullest worker that fits first (others go idle), or emptiest first."""

    OPTIMIZE_UTILIZATION = "optimize-utilization"
    DISTRIBUTE_LOAD = "distribute-load"


Spends = Annotated[
    dict[Annotated[str, msgspec.Meta(min_length=1, max_length=255)], Price],
    msgspec.Meta(max_length=10_000),
]
EVERYBODY_ELSE = "*"
"""Whom a limit of spending is for that names nobody."""


class SchedulerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `scheduler` section of the configuration.

    `max_containers` is how many may have a place at once, None for no limit; of it supervisors fill
    at most `supervisor_fraction`. Containers of `preempt_from_priority` and above may evict others
    of much lower priority where nothing can be created for them, None for nobody; so may system and
    sysbatch jobs, which have no other place to go to, if `preempt_system` and `preempt_sysbatch`
    say so. What all instances cost an hour stays within `max_hourly_spend_usd` (None for no limit),
    a project's and a user's share within theirs, by name; `EVERYBODY_ELSE` names those who are not
    named, without it they have no limit. `elastic` says how elastic jobs queue.

    A container whose instances the cloud took back `max_reclaimed_attempts` times, or for which it
    has had no preemptible instance for `preemptible_patience_s`, runs on types that are not
    preemptible where these would do.
    """

    placement: Placement = Placement.PACKED
    profile: Profile = Profile.OPTIMIZE_UTILIZATION
    max_instances: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 100
    max_containers_per_instance: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 256
    max_price_factor: Annotated[float, msgspec.Meta(ge=1, le=1000)] = 1.5
    max_lost_attempts: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5
    max_reclaimed_attempts: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 3
    preemptible_patience_s: Annotated[float, msgspec.Meta(ge=1, le=86_400)] = 600.0
    max_containers: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] | None = None
    supervisor_fraction: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.3
    preempt_from_priority: Annotated[int, msgspec.Meta(ge=1, le=PRIORITY_MAX)] | None = None
    preempt_system: bool = True
    preempt_sysbatch: bool = False
    max_hourly_spend_usd: Price | None = msgspec.field(default=None, name="max_hourly_spend")
    max_hourly_spend_usd_per_project: Spends = msgspec.field(
        default_factory=dict, name="max_hourly_spend_per_project"
    )
    max_hourly_spend_usd_per_user: Spends = msgspec.field(
        default_factory=dict, name="max_hourly_spend_per_user"
    )
    elastic: ElasticSettings = msgspec.field(default_factory=ElasticSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """What a container demands of its instance, beside room.

    `labels` are (key, value) pairs sorted by key; `instance_types` are sorted names, () for any;
    `max_price_usd_per_hour` is None for no ceiling. `gpu_model` is "" for any, and
    `gpu_memory_bytes` what each of the GPUs has at least.
    """

    labels: tuple[tuple[str, str], ...] = ()
    gpu_model: str = ""
    gpu_memory_bytes: int = 0
    instance_types: tuple[str, ...] = ()
    preemptible: Preemptible = Preemptible.ALLOWED
    max_price_usd_per_hour: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """When a program's own failure is tried again.

    At most `most` times; only after failures whose reason's code is in `on` (sorted; "failed" is
    every one). Where a program exited by itself, and unless `exit_codes` is (), only with one of
    these. The first time `first_delay_s` after its end, then no sooner than `delay_s`, and a second
    at least, after the one before.
    """

    most: int = 0
    on: tuple[str, ...] = ("failed",)
    exit_codes: tuple[int, ...] = ()
    delay_s: float = 15.0
    first_delay_s: float = 0.0


class DependencyOn(Enum):
    """Which end of what is waited for counts: that it succeeded, or that it ended at all."""

    SUCCESS = "success"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """What a container waits for before it may start.

    `of` is a container ("c-1"), a job ("j-1") or one task of a job ("j-1/align"); with `each` the
    element of an array waits for the element with its own index of that task only.
    """

    of: str
    on: DependencyOn = DependencyOn.SUCCESS
    each: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """What a user asked for, validated and with defaults filled in; it never changes.

    `image` is "" for the process engine. With one, `command` may be (), for the image's own, and
    `entrypoint` takes the place of its ENTRYPOINT, () for none (None: the image's stays);
    process 1 is an `init` where the engine has one.
    `env` and `labels` are pairs sorted by name. `retry_lost` says whether the infrastructure's
    fault is tried again. `unnamed` are the dimensions of `resources` (sorted) that the user did not
    name: an instance type may have defaults of its own for them. A `supervisor` submits others.

    It starts once all of `after` have ended as they must, and not before `not_before` (seconds
    since the epoch). An attempt that ran for `time_limit_s` is ended (None: never). Whatever ends
    one of its attempts leaves it `grace_period_s` between TERM and KILL (None: as the pool does).
    """

    name: str
    image: str
    command: tuple[str, ...] = field(repr=False)
    env: tuple[tuple[str, str], ...] = field(repr=False)
    resources: Resources
    constraints: Constraints
    labels: tuple[tuple[str, str], ...] = ()
    retry_lost: bool = True
    retries: Retries = Retries()
    unnamed: tuple[str, ...] = ()
    supervisor: bool = False
    after: tuple[Dependency, ...] = ()
    not_before: float | None = None
    time_limit_s: float | None = None
    grace_period_s: float | None = None
    entrypoint: tuple[str, ...] | None = field(default=None, repr=False)
    init: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a container is where it is: a stable code and one sentence."""

    code: str
    message: str


EVICTED = "preempted"
"""The code of what made way for a container of higher priority."""

INTERRUPTED = "interrupted"
"""The code of what the cloud ended by taking the instance back, with notice."""

SUPERVISOR_LOST = "supervisor_lost"
"""The code of what was lost on an instance that is there: nobody knows how it ended."""

ENGINE_FAILURE = "engine_failure"
"""The code of what its engine could not run: failed by the request's fault, else lost."""

START_REFUSED = "start_refused"
"""The code of what a runner will not start for a fault of the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitReason(Reason):
    """Why something waits, with what its sentence says as data; it is never stored.

    `limit` is the setting that is reached, `behind` the container that is next in line and
    `behind_code` why that one waits; "" for none. `until` is when it ends, in seconds since the
    epoch, None where nobody knows. `topic` tells reasons of one code apart whose sentences differ
    in more than ids, times and amounts. `is_final` says that it never starts while the
    configuration is what it is.
    """

    limit: str = ""
    behind: str = ""
    behind_code: str = ""
    until: float | None = None
    topic: str = ""
    is_final: bool = False

    @property
    def kind(self) -> tuple[str, ...]:
        """Return what makes it another reason than one that differs in ids and numbers only."""
        return self.code, self.limit, self.behind_code, self.topic, str(self.is_final)


class StopCause(Enum):
    """For what an attempt was told to end, by others than its user and its time limit.

    Of a container or a job `StopReason.of` is the id; of `REVISED` it is the number of the
    revision, of `JOB_BEGINS_ANEW` the task that was lost, of `JOB_ENDED` the state that its job
    came to; and "" of the others. Those from `JOB_STOPPED` to `SUPERFLUOUS` are of per-instance
    jobs.
    """

    NOTHING = "nothing"
    FOR_CONTAINER = "for_container"
    FOR_JOB = "for_job"
    REVISED = "revised"
    JOB_BEGINS_ANEW = "job_begins_anew"
    JOB_ENDED = "job_ended"
    JOB_STOPPED = "job_stopped"
    JOB_GONE = "job_gone"
    NO_MATCH = "no_match"
    NODE_DRAINING = "node_draining"
    REVISED_WHILE_HELD = "revised_while_held"
    SUPERFLUOUS = "superfluous"
    INSTANCE_SHUT_DOWN = "instance_shut_down"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReason:
    """For what an attempt was told to end: the cause, and the id or number that belongs to it.

    `of` is "" where there is none. `detail` is what else people are told (what does not match, how
    a task was lost, why a job failed), "" for nothing; nothing is decided by it.
    """

    cause: StopCause
    of: str = ""
    detail: str = ""


NO_STOP = StopReason(cause=StopCause.NOTHING)
"""For what an attempt ends that nobody told to, or its user or its time limit did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try of a container on one instance; `outcome` is None until it is known.

    Times are seconds since the epoch; `started_at` is None until the runner confirmed the start.
    `ending` is what its outcome will be once it has been told to end, None while it has not, and
    `ending_for` for what it was told to.
    `resources` is what it was given, None where that is what its container asks for everywhere.
    `revision` is that of a per-instance job which it runs at. Of an elastic job, which has none, it
    is the number of renewals: how often the job had lost an essential member before this attempt
    was made, and begun anew. It is 0 in other jobs.
    Its image was being fetched from `pulling_since` until `pulled_at`, by our clock: None for both
    where it was there. `image_digest` is what ran, `warning` a sentence for its user: "" for none.
    """

    id: str
    container_id: str
    number: int
    instance_id: str
    instance_type: str
    price_usd_per_hour: Decimal
    created_at: float
    started_at: float | None = None
    finished_at: float | None = None
    outcome: AttemptOutcome | None = None
    ending: AttemptOutcome | None = None
    ending_for: StopReason = NO_STOP
    exit_code: int | None = None
    reason: Reason | None = None
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    log_complete: bool = False
    resources: Resources | None = None
    revision: int = 0
    pulling_since: float | None = None
    pulled_at: float | None = None
    image_digest: str = ""
    warning: str = ""

    @property
    def written_bytes(self) -> int:
        """Return how much it wrote to both streams, 0 while its exit has not told that."""
        return self.stdout_bytes + self.stderr_bytes

    @property
    def is_pulling(self) -> bool:
        """Return whether its image is still being fetched, so that its program does not run yet."""
        return self.pulling_since is not None and self.pulled_at is None and self.outcome is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container with everything that is known of it; changed by making a new value.

    `sequence` is its place among equals of one priority; `cost_usd` adds up its ended attempts.
    `job_id` is "" for one of its own, `task` names its part of the job, and `array_index` is None
    where that is no array. A container of a per-instance job is for the instance `pinned_to`, which
    is "" in others; its `spec` is what its latest attempt runs at.
    """

    id: str
    sequence: int
    spec: ContainerSpec
    user: str
    project: str
    priority: int
    created_at: float
    state: ContainerState = ContainerState.QUEUED
    started_at: float | None = None
    finished_at: float | None = None
    exit_code: int | None = None
    reason: Reason | None = None
    cancel_requested: bool = False
    cost_usd: Decimal = Decimal(0)
    attempts: tuple[Attempt, ...] = ()
    job_id: str = ""
    task: str = ""
    array_index: int | None = None
    pinned_to: str = ""

    @property
    def has_open_attempt(self) -> bool:
        """Return whether its latest attempt's outcome is not known yet."""
        return bool(self.attempts) and self.attempts[-1].outcome is None

    @property
    def is_supervisor(self) -> bool:
        """Return whether it counts for the share of supervisors, as no per-instance job's does."""
        return self.spec.supervisor and not self.pinned_to


def resources_of(container: Container, attempt: Attempt) -> Resources:
    """Return what an attempt of a container was given on its instance."""
    return container.spec.resources if attempt.resources is None else attempt.resources


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRecord:
    """What the store keeps of an instance, so that it can be trusted and billed after a restart.

    `host_key` is "" until it is proven; `gone_at` is None while it may be billed. `behavior` is the
    idle behavior that an admin gave it, until a listing has shown it in its tags; "" for none.
    `note` is what was said of the idle behavior that was asked for last, None for nothing. `killed`
    is the reason of the admin who ended it, "" for none, and None where nobody did.
    """

    id: str
    token: str
    type_name: str
    price_usd_per_hour: Decimal
    created_at: float
    host_key: str = ""
    address: str = ""
    behavior: str = ""
    note: BehaviorNote | None = None
    killed: str | None = None
    gone_at: float | None = None
    gone_reason: str = ""
