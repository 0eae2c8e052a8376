"""The JSON of the API: what requests may say and what answers say."""

from __future__ import annotations

from decimal import Decimal
from enum import Enum
from typing import Annotated, ClassVar

import msgspec

from dispatcher.model import PRIORITY_MAX, Preemptible
from dispatcher.validation import CpuMillis, Price, Size
from pool.model import IdleBehavior

Priority = Annotated[int, msgspec.Meta(ge=0, le=PRIORITY_MAX)]
Amount = Annotated[int, msgspec.Meta(ge=0, le=10**12)]
Gpus = Annotated[int, msgspec.Meta(ge=0, le=1024)]
ExitCode = Annotated[int, msgspec.Meta(ge=1, le=255)]

RETRIES_MAX = 100
RETRY_DELAY_MAX_S = 86_400


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body that a client sends; unknown keys are refused."""

    fields_of_later_versions: ClassVar[frozenset[str]] = frozenset()


class ConstraintsRequest(Request, frozen=True, kw_only=True):
    """What the instance must be, beside large enough."""

    labels: dict[str, str] = {}
    instance_types: list[str] = []
    preemptible: Preemptible = Preemptible.ALLOWED
    max_price_per_hour: Price | None = None


class GpusRequest(Request, frozen=True, kw_only=True):
    """How many GPUs, and what each of them is at least; a `model` of "" is any."""

    count: Gpus = 1
    memory: Size | None = None
    model: str = ""


class RetryOn(Enum):
    """The failures of a program that can be tried again, by their reason; `failed` is all."""

    FAILED = "failed"
    EXIT_CODE = "exit_code"
    OUT_OF_MEMORY = "out_of_memory"
    ENGINE_FAILURE = "engine_failure"
    START_REFUSED = "start_refused"


class RetriesRequest(Request, frozen=True, kw_only=True):
    """Which failures are tried again: the program's, at most `max` times, and lost attempts.

    `exit_codes` are those that count, [] for all; after the first retry the next comes no sooner
    than `delay_s`, and a second at least, after the one before.
    """

    max: Annotated[int, msgspec.Meta(ge=0, le=RETRIES_MAX)] = 0
    on: Annotated[tuple[RetryOn, ...], msgspec.Meta(min_length=1, max_length=32)] = (
        RetryOn.FAILED,
    )
    exit_codes: Annotated[tuple[ExitCode, ...], msgspec.Meta(max_length=255)] = ()
    delay_s: Annotated[float, msgspec.Meta(ge=0, le=RETRY_DELAY_MAX_S)] = 15.0
    lost: bool = True


class ContainerRequest(Request, frozen=True, kw_only=True):
    """One container to run; what is left out gets the server's default."""

    fields_of_later_versions: ClassVar[frozenset[str]] = frozenset(
        {
            "time_limit_s",
            "grace_period_s",
            "not_before",
            "after",
            "inputs",
            "outputs",
        }
    )

    command: list[str]
    name: str = ""
    image: str = ""
    env: dict[str, str] = {}
    cpus: CpuMillis | None = None
    memory: Size | None = None
    disk: Size | None = None
    gpus: Gpus | GpusRequest | None = None
    resources: dict[str, Amount] = {}
    priority: Priority | None = None
    project: str | None = None
    labels: dict[str, str] = {}
    constraints: ConstraintsRequest = ConstraintsRequest()
    supervisor: bool = False
    retries: RetriesRequest = RetriesRequest()


class PriorityRequest(Request, frozen=True, kw_only=True):
    """A container's new priority."""

    priority: Priority


class IdleBehaviorRequest(Request, frozen=True, kw_only=True):
    """An instance's new idle behavior."""

    idle_behavior: IdleBehavior


class CancelRequest(Request, frozen=True, kw_only=True):
    """A cancellation; it says nothing yet."""


class KillRequest(Request, frozen=True, kw_only=True):
    """Why an instance is to be destroyed."""

    reason: Annotated[str, msgspec.Meta(max_length=1000)] = ""


class ReasonAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A stable code and one sentence."""

    code: str
    message: str


class WaitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Why a container waits.

    `limit` is the setting that is reached, `behind` the container that is next in line and
    `behind_code` why that one waits, `until` when it ends; each null for none. `never` says that it
    cannot start while the configuration is what it is.
    """

    code: str
    message: str
    limit: str | None
    behind: str | None
    behind_code: str | None
    until: str | None
    never: bool


class ConstraintsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the instance must be, beside large enough."""

    labels: dict[str, str]
    instance_types: tuple[str, ...]
    preemptible: str
    max_price_per_hour: Decimal | None


class RetriesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Which failures are tried again, how often and how soon."""

    max: int
    on: tuple[str, ...]
    exit_codes: tuple[int, ...]
    delay_s: float
    lost: bool


class GpusAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs of which more is asked than their number; `memory` is that of each, in bytes."""

    count: int
    memory: int
    model: str


class GivenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt was given on its instance; sizes in bytes."""

    cpus: float
    memory: int
    disk: int
    gpus: int
    resources: dict[str, int]


class AttemptAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One try on one instance; `outcome` is null until it is known.

    `given` is null where that is what the container says, and something else where its instance
    type has defaults of its own.
    """

    id: str
    number: int
    instance: str
    instance_type: str
    price_per_hour: Decimal
    outcome: str | None
    exit_code: int | None
    reason: ReasonAnswer | None
    created_at: str | None
    started_at: str | None
    finished_at: str | None
    stdout_bytes: int
    stderr_bytes: int
    log_complete: bool
    given: GivenAnswer | None


class ContainerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One container; sizes in bytes, times in RFC 3339, cost in US dollars.

    `gpus` is a number, or an object where a model or a size of their memory is asked for. For one
    that waits `waiting` is a sentence, `waiting_for` the same as data; `position` counts from 1 of
    `queue_length`. `doubt` says what nobody knows of one that should run.
    """

    id: str
    name: str
    image: str
    command: tuple[str, ...]
    env: dict[str, str]
    cpus: float
    memory: int
    disk: int
    gpus: int | GpusAnswer
    resources: dict[str, int]
    priority: int
    project: str
    labels: dict[str, str]
    constraints: ConstraintsAnswer
    supervisor: bool
    retries: RetriesAnswer
    user: str
    job: str | None
    array_index: int | None
    state: str
    exit_code: int | None
    reason: ReasonAnswer | None
    created_at: str | None
    started_at: str | None
    finished_at: str | None
    instance: str | None
    instance_type: str | None
    attempts: tuple[AttemptAnswer, ...]
    cost_usd: Decimal
    waiting: str | None
    waiting_for: WaitAnswer | None
    position: int | None
    queue_length: int | None
    doubt: str | None


class ContainerList(msgspec.Struct, frozen=True, kw_only=True):
    """Containers; `next_cursor` is null on the last page."""

    items: list[ContainerAnswer]
    next_cursor: str | None = None


class InstanceAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One instance as admins see it; a time is null when it never happened.

    `taken_back_at` is when its cloud takes it back, as it says itself; null where none is known.
    """

    id: str
    address: str
    state: str
    idle_behavior: str
    instance_type: str
    provider_type: str
    price_usd_per_hour: Decimal
    running: tuple[str, ...]
    last_container: str
    created_at: str | None
    last_busy_at: str | None
    last_contact_at: str | None
    broken: str
    last_error: str
    taken_back_at: str | None


class InstanceList(msgspec.Struct, frozen=True, kw_only=True):
    """All instances, sorted by id."""

    items: list[InstanceAnswer]
    next_cursor: str | None = None


class LeakAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One instance that is, or one launch that may be, billed and not wanted.

    `instance` is null for a launch whose instance is not known, `launch` (its token) for an
    instance; the price is null where nobody knows it.
    """

    instance: str | None
    launch: str | None
    instance_type: str
    price_usd_per_hour: Decimal | None
    kind: str
    since: str | None
    cost_usd: Decimal
    why: str
    remedy: str


class LeakList(msgspec.Struct, frozen=True, kw_only=True):
    """All leaks: instances by id, then launches by token.

    Without a current listing (`complete` is false) there may be others; `listed_at` is when the
    last complete one began, null for never.
    """

    items: list[LeakAnswer]
    listed_at: str | None
    complete: bool
    next_cursor: str | None = None


class HealthAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Whether work is taken and placed, and what is wrong if not."""

    ready: bool
    problems: tuple[str, ...]


class LiveAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The process answers."""

    live: bool = True


class EventAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The `data` of one server-sent event."""

    number: int
    kind: str
    id: str
    data: dict[str, object]


class FieldProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request is wrong, what is wrong and how to mend it."""

    path: str
    message: str


class ProblemDetails(msgspec.Struct, frozen=True, kw_only=True):
    """An error, by RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    errors: tuple[FieldProblem, ...] = ()
