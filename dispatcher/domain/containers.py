"""What the dispatcher knows: containers, attempts, constraints; pure data, no effects."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Annotated

import msgspec

from longshore.dispatcher.input.quantities import PRIORITY_MAX, Price
from longshore.drivers.interface import Resources
from longshore.pool.model import BehaviorNote, SecretUse
from longshore.pool.usage import AttemptUsage

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
    """The `scheduler` section of the configuration."""

    placement: Placement = Placement.PACKED
    profile: Profile = Profile.OPTIMIZE_UTILIZATION
    max_instances: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 100
    max_containers_per_instance: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 256
    max_price_factor: Annotated[float, msgspec.Meta(ge=1, le=1000)] = 1.5
    max_lost_attempts: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5
    #: A container whose instances the cloud took back so often runs on types that are not
    #: preemptible, where these would do.
    max_reclaimed_attempts: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 3
    #: So does one that has had no preemptible instance for this long.
    preemptible_patience_s: Annotated[float, msgspec.Meta(ge=1, le=86_400)] = 600.0
    #: How many may have a place at once, None for no limit.
    max_containers: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] | None = None
    #: How much of that supervisors fill at most.
    supervisor_fraction: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.3
    #: Containers of this priority and above may evict others of much lower priority where nothing
    #: can be created for them, None for nobody.
    preempt_from_priority: Annotated[int, msgspec.Meta(ge=1, le=PRIORITY_MAX)] | None = None
    #: Whether system and sysbatch jobs, which have no other place to go to, may evict too.
    preempt_system: bool = True
    preempt_sysbatch: bool = False
    #: What all instances may cost an hour, None for no limit.
    max_hourly_spend_usd: Price | None = msgspec.field(default=None, name="max_hourly_spend")
    #: What the share of a project and a user may cost an hour, by name; `EVERYBODY_ELSE` names
    #: those who are not named, without it they have no limit.
    max_hourly_spend_usd_per_project: Spends = msgspec.field(
        default_factory=dict, name="max_hourly_spend_per_project"
    )
    max_hourly_spend_usd_per_user: Spends = msgspec.field(
        default_factory=dict, name="max_hourly_spend_per_user"
    )
    #: How elastic jobs queue.
    elastic: ElasticSettings = msgspec.field(default_factory=ElasticSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """What a container demands of its instance, beside room."""

    #: (key, value) pairs sorted by key.
    labels: tuple[tuple[str, str], ...] = ()
    #: "" for any.
    gpu_model: str = ""
    #: What each of the GPUs has at least.
    gpu_memory_bytes: int = 0
    #: Sorted names, () for any.
    instance_types: tuple[str, ...] = ()
    preemptible: Preemptible = Preemptible.ALLOWED
    #: None for no ceiling.
    max_price_usd_per_hour: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """When a program's own failure is tried again."""

    #: How often at most.
    most: int = 0
    #: Only after failures whose reason's code is one of these (sorted); "failed" is every one.
    on: tuple[str, ...] = ("failed",)
    #: Where a program exited by itself, only with one of these; () for any.
    exit_codes: tuple[int, ...] = ()
    #: After the first time no sooner than this, a second at least, after the restart before.
    delay_s: float = 15.0
    #: How long after its end it is tried again the first time.
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
    """What a user asked for, validated and with defaults filled in; it never changes."""

    name: str
    #: "" for the process engine.
    image: str
    #: () for the image's own; never without an image.
    command: tuple[str, ...] = field(repr=False)
    #: Pairs sorted by name.
    env: tuple[tuple[str, str], ...] = field(repr=False)
    resources: Resources
    constraints: Constraints
    #: Pairs sorted by name.
    labels: tuple[tuple[str, str], ...] = ()
    #: Whether it is tried again after a failure that is the infrastructure's fault.
    retry_lost: bool = True
    retries: Retries = Retries()
    #: The dimensions of `resources` (sorted) that the user did not name: an instance type may have
    #: defaults of its own for them.
    unnamed: tuple[str, ...] = ()
    #: Whether it submits others.
    supervisor: bool = False
    #: It starts once all of these have ended as they must.
    after: tuple[Dependency, ...] = ()
    #: It starts no earlier, in seconds since the epoch.
    not_before: float | None = None
    #: An attempt that ran for this long is ended (None: never).
    time_limit_s: float | None = None
    #: What an attempt gets between TERM and KILL, whatever ends it (None: as the pool does).
    grace_period_s: float | None = None
    #: Takes the place of the image's ENTRYPOINT: () for none, None to keep the image's.
    entrypoint: tuple[str, ...] | None = field(default=None, repr=False)
    #: Whether process 1 is an init, where the engine has one.
    init: bool = True
    #: The secrets of its project that it is given, and as what.
    secrets: tuple[SecretUse, ...] = ()
    #: Variables whose values are encrypted, as pairs sorted by name.
    sealed_env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    #: Whether it finds the API inside, where it submits and steers children of its own.
    api: bool = False

    @property
    def has_api(self) -> bool:
        """Return whether it finds the API inside: whoever submits others does."""
        return self.api or self.supervisor


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

WITHHELD = "secret_missing"
"""The code of what was never started, since a secret that it is given could not be had."""

START_REFUSED = "start_refused"
"""The code of what a runner will not start for a fault of the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitReason(Reason):
    """Why something waits, with what its sentence says as data; it is never stored."""

    #: The setting that is reached, "" for none.
    limit: str = ""
    #: The container that is next in line, and why that one waits; "" for none.
    behind: str = ""
    behind_code: str = ""
    #: When it ends, in seconds since the epoch, None where nobody knows.
    until: float | None = None
    #: Tells reasons of one code apart whose sentences differ in more than ids, times and amounts.
    topic: str = ""
    #: Whether it never starts while the configuration is what it is.
    is_final: bool = False

    @property
    def kind(self) -> tuple[str, ...]:
        """Return what makes it another reason than one that differs in ids and numbers only."""
        return self.code, self.limit, self.behind_code, self.topic, str(self.is_final)


class StopCause(Enum):
    """For what an attempt was told to end, by others than its user and its time limit."""

    NOTHING = "nothing"
    #: `StopReason.of` is the id of the container; of the next one, of the job.
    FOR_CONTAINER = "for_container"
    FOR_JOB = "for_job"
    #: `of` is the number of the revision.
    REVISED = "revised"
    #: `of` is the task that was lost.
    JOB_BEGINS_ANEW = "job_begins_anew"
    #: `of` is the state that its job came to.
    JOB_ENDED = "job_ended"
    #: From here to `SUPERFLUOUS` they are of per-instance jobs.
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
    """One try of a container on one instance. Times are seconds since the epoch."""

    id: str
    container_id: str
    number: int
    instance_id: str
    instance_type: str
    price_usd_per_hour: Decimal
    created_at: float
    #: None until the runner confirmed the start.
    started_at: float | None = None
    finished_at: float | None = None
    #: None until it is known.
    outcome: AttemptOutcome | None = None
    #: What its outcome will be once it has ended, None while it was not told to.
    intended_outcome: AttemptOutcome | None = None
    #: For what it was told to end.
    stop_reason: StopReason = NO_STOP
    exit_code: int | None = None
    reason: Reason | None = None
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    log_complete: bool = False
    #: What it was given, None where that is what its container asks for everywhere.
    resources: Resources | None = None
    #: The revision of its per-instance job that it runs at. Of an elastic job the number of
    #: renewals: how often the job had lost an essential member before this attempt was made, and
    #: begun anew. 0 in other jobs.
    revision: int = 0
    #: From when until when its image was being fetched, by our clock; None for both where it was
    #: there.
    pulling_since: float | None = None
    pulled_at: float | None = None
    #: What ran, "" where that is not known.
    image_digest: str = ""
    #: A sentence for its user, "" for none.
    warning: str = ""
    #: What it really took, None where nobody measured it.
    usage: AttemptUsage | None = None

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
    """A container with everything that is known of it; changed by making a new value."""

    id: str
    #: Its place among equals of one priority.
    sequence: int
    #: In a per-instance job what its latest attempt runs at.
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
    #: The sum over its ended attempts.
    cost_usd: Decimal = Decimal(0)
    attempts: tuple[Attempt, ...] = ()
    #: "" for one of its own.
    job_id: str = ""
    #: The name of its part of the job.
    task: str = ""
    #: None where its task is no array.
    array_index: int | None = None
    #: The instance that a container of a per-instance job is for, "" in others.
    pinned_to: str = ""
    #: The container that submitted it from inside, "" where none did. What a job has been submitted
    #: with is the job's: its `Job.parent` says who submitted that.
    parent: str = ""

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
    """What the store keeps of an instance, so that it can be trusted and billed after a restart."""

    id: str
    token: str
    type_name: str
    price_usd_per_hour: Decimal
    created_at: float
    #: "" until it is proven.
    host_key: str = ""
    address: str = ""
    #: The idle behavior that an admin gave it, until a listing has shown it in its tags; "" for
    #: none.
    behavior: str = ""
    #: What was said of the idle behavior that was asked for last, None for nothing.
    note: BehaviorNote | None = None
    #: The reason of the admin who ended it, "" for none, None where nobody did.
    killed: str | None = None
    #: None while it may be billed.
    gone_at: float | None = None
    gone_reason: str = ""
