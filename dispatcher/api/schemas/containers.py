"""The JSON of the API: what requests may say and what answers say."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from longshore.dispatcher.api.schemas.reading import NEVER_ABSENT, absent_as
from longshore.dispatcher.api.schemas.words import (
    NOTHING_LIKE,
    OF_THE_WHOLE,
    WORDS_FOR_ARRAYS,
    WORDS_FOR_RUNS,
    elsewhere,
    in_order,
)
from longshore.dispatcher.input.quantities import PRIORITY_MAX, CpuMillis, Price, Size

Priority = Annotated[int, msgspec.Meta(ge=0, le=PRIORITY_MAX)]
Amount = Annotated[int, msgspec.Meta(ge=0, le=10**12)]
Gpus = Annotated[int, msgspec.Meta(ge=0, le=1024)]
ExitCode = Annotated[int, msgspec.Meta(ge=1, le=255)]

RETRIES_MAX = 100
RETRY_DELAY_MAX_S = 86_400
TIME_LIMIT_MAX_S = 10 * 365 * 86_400
GRACE_PERIOD_MAX_S = 86_400

TimeLimit = Annotated[float, msgspec.Meta(ge=1, le=TIME_LIMIT_MAX_S)]
GracePeriod = Annotated[float, msgspec.Meta(ge=0, le=GRACE_PERIOD_MAX_S)]
Moment = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]


_Preemptible = Literal["allowed", "required", "forbidden"]
Preemptible = Annotated[
    _Preemptible,
    in_order(_Preemptible, "Whether it may, must or must not be one that the cloud can take back."),
]
_End = Literal["success", "end"]
End = Annotated[_End, in_order(_End, "Which end counts: that it succeeded, or that it ended.")]


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body that a client sends; unknown keys are refused."""

    fields_of_later_versions: ClassVar[frozenset[str]] = frozenset()
    #: What other systems call a field, or where it belongs, by their word.
    words_of_others: ClassVar[Mapping[str, str]] = {}
    #: What to do about a word that is no field's here, as a sentence; `words_of_others` go first.
    advice_on_words: ClassVar[Mapping[str, str]] = {}
    #: How a field is written whose shape people get wrong, for the sentence that says so.
    examples: ClassVar[Mapping[str, str]] = {}


class ConstraintsRequest(Request, frozen=True, kw_only=True):
    """What the instance must be, beside large enough."""

    words_of_others: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("nodeSelector", "node_class", "zone", "zones", "region"), "labels"),
        "spot": "preemptible",
    }

    labels: dict[str, str] = {}
    instance_types: list[str] = []
    preemptible: Preemptible = "allowed"
    max_price_per_hour: Price | None = None


class GpusRequest(Request, frozen=True, kw_only=True):
    """How many GPUs, and what each of them is at least; a `model` of "" is any."""

    words_of_others: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("type", "product", "device", "name"), "model"),
        **dict.fromkeys(("number", "amount", "value"), "count"),
    }

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
    TIME_LIMIT = "time_limit"


class RetriesRequest(Request, frozen=True, kw_only=True):
    """Which failures are tried again: the program's, at most `max` times, and lost attempts.

    `on` is which failures (null: `failed`, every one; or only `exit_code` where `exit_codes` are
    named). `exit_codes` are which of kind `exit_code`, [] for all of them, and say nothing of
    others; to name some puts that kind into `on`, where `failed` is not. The first retry comes
    `first_delay_s` after the failure, at once by default; from one restart to the next it takes at
    least `delay_s`, and a second.
    """

    words_of_others: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("limit", "tries"), "max"),
        **dict.fromkeys(("attempts", "max_attempts"), "max, one less than there are attempts"),
        **dict.fromkeys(("interval", "backoff", "wait"), "delay_s"),
        **dict.fromkeys(("when", "reasons"), "on"),
        **dict.fromkeys(("codes", "onExitCodes", "evaluateOnExit"), "exit_codes"),
    }

    max: Annotated[int, msgspec.Meta(ge=0, le=RETRIES_MAX)] = 0
    on: Annotated[tuple[RetryOn, ...], msgspec.Meta(min_length=1, max_length=32)] | None = None
    exit_codes: Annotated[tuple[ExitCode, ...], msgspec.Meta(max_length=255)] = ()
    delay_s: Annotated[float, msgspec.Meta(ge=0, le=RETRY_DELAY_MAX_S)] = 15.0
    first_delay_s: Annotated[float, msgspec.Meta(ge=0, le=RETRY_DELAY_MAX_S)] = 0.0
    lost: bool = True


class SecretValueRequest(Request, frozen=True, kw_only=True):
    """The value of a variable that is kept encrypted, and never shown."""

    secret: str

    def __repr__(self) -> str:
        """Return nothing of the value."""
        return "SecretValueRequest(...)"


class SecretRequest(Request, frozen=True, kw_only=True):
    """A secret of the project that a container is given, as one of three things.

    `env` is the variable, `file` the file in the directory LONGSHORE_SECRETS_DIR, and `registry`
    the registry at which it is the login for the image, as USER:PASSWORD.
    """

    words_of_others: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("secret", "key", "secretName", "valueFrom"), "name"),
        **dict.fromkeys(("variable", "env_var"), "env"),
        **dict.fromkeys(("path", "mount", "destination", "filename"), "file"),
    }

    name: str
    env: str | None = None
    file: str | None = None
    registry: str | None = None


class DependencyRequest(Request, frozen=True, kw_only=True):
    """What is waited for: a container, a job or one task of it, and which end of it counts.

    With `each`, an array's element waits for the element of its own index only.
    """

    words_of_others: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("task", "job", "container", "id", "name", "jobId"), "of"),
        **dict.fromkeys(("type", "condition", "when", "status"), "on, or each: true"),
    }

    of: str
    on: End = "success"
    each: bool = False


class RunRequest(Request, frozen=True, kw_only=True):
    """What is to run, alone or as a task of a job; what is left out gets the server's default.

    Without an image there must be a `command`. With one it may be empty, for the image's CMD;
    `entrypoint` takes the place of the image's ENTRYPOINT (and CMD), [] for none.
    With `init` its process 1 is an init of the engine's, where that has one. With `api`, as with
    `supervisor`, it finds this API inside, and may submit and steer what it submitted.
    """

    fields_of_later_versions: ClassVar[frozenset[str]] = frozenset({"inputs", "outputs"})
    words_of_others: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("timeout", "time", "time_limit", "walltime", "runtime"), "time_limit_s"),
        **dict.fromkeys(("depends_on", "dependsOn", "dependency", "depends", "needs"), "after"),
        **dict.fromkeys(("environment", "variables", "env_vars"), "env"),
        **dict.fromkeys(("args", "cmd", "run", "script", "wrap"), "command"),
        **dict.fromkeys(("vcpus", "cpu", "cores", "ncpus", "cpus_per_task"), "cpus"),
        **dict.fromkeys(("mem", "ram", "memory_mb"), "memory"),
        **dict.fromkeys(("mem_per_cpu", "memory_per_cpu"), "memory, for all of its cpus together"),
        **dict.fromkeys(("gpu", "gres", "gpus_per_node"), "gpus"),
        **dict.fromkeys(("licenses", "tres"), "resources"),
        **dict.fromkeys(("container", "docker_image"), "image"),
        **dict.fromkeys(("retry", "restart", "attempts", "backoffLimit"), "retries"),
        **dict.fromkeys(
            ("retryStrategy", "restartPolicy", "podFailurePolicy", "requeue"), "retries"
        ),
        **dict.fromkeys(("instance_types", "partition", "nodeSelector"), "constraints"),
        **dict.fromkeys(("spot", "preemptible", "max_price_per_hour"), "constraints"),
        **dict.fromkeys(("affinity", "tolerations", "datacenters"), "constraints"),
        **dict.fromkeys(("begin", "start_at", "earliest"), "not_before"),
        **dict.fromkeys(("killTimeout", "kill_timeout", "stop_timeout"), "grace_period_s"),
        **dict.fromkeys(("activeDeadlineSeconds", "attemptDurationSeconds"), "time_limit_s"),
        "terminationGracePeriodSeconds": "grace_period_s",
        "limits": "cpus, memory and time_limit_s",
        "requests": "cpus and memory",
        "resourceRequirements": "cpus, memory and gpus",
        "meta": "labels",
        "tags": "labels",
    }
    advice_on_words: ClassVar[Mapping[str, str]] = NOTHING_LIKE
    examples: ClassVar[Mapping[str, str]] = {
        "command": "command: [python3, train.py], or command: [sh, -c, './prepare && ./train']",
        "entrypoint": "entrypoint: [], with command: [sh, -c, './prepare && ./train']",
        "env": 'env: {THREADS: "4"}, or env: {PASSWORD: {secret: "..."}}',
        "secrets": "secrets: [{name: db, env: DB_PASSWORD}, {name: cert, file: cert.pem}]",
        "gpus": "gpus: 1, or gpus: {count: 1, model: a100}",
        "resources": "resources: {licence: 1}",
        "labels": 'labels: {run: "7"}',
        "constraints": "constraints: {instance_types: [small], preemptible: forbidden}",
        "retries": "retries: {max: 3}",
        "after": "after: [prepare]",
        "time_limit_s": "time_limit_s: 3600, which is an hour",
        "grace_period_s": "grace_period_s: 30",
    }

    command: list[str] = []
    name: str = ""
    image: str = ""
    entrypoint: list[str] | None = None
    init: bool = True
    env: dict[str, str | SecretValueRequest] = {}
    secrets: list[SecretRequest] = []
    cpus: CpuMillis | None = None
    memory: Size | None = None
    disk: Size | None = None
    gpus: Gpus | GpusRequest | None = None
    resources: dict[str, Amount] = {}
    labels: dict[str, str] = {}
    constraints: ConstraintsRequest = ConstraintsRequest()
    supervisor: bool = False
    api: bool = False
    retries: RetriesRequest = RetriesRequest()
    after: list[str | DependencyRequest] = []
    not_before: Moment | None = None
    time_limit_s: TimeLimit | None = None
    grace_period_s: GracePeriod | None = None


class ContainerRequest(RunRequest, frozen=True, kw_only=True):
    """One container to run."""

    words_of_others: ClassVar[Mapping[str, str]] = {**RunRequest.words_of_others, **OF_THE_WHOLE}
    advice_on_words: ClassVar[Mapping[str, str]] = {
        **NOTHING_LIKE,
        **elsewhere(("array", "role", "startup_order"), WORDS_FOR_ARRAYS, "in a task of a job"),
        **elsewhere((), WORDS_FOR_RUNS, "in a job, beside its tasks"),
    }

    priority: Priority | None = None
    project: str | None = None


class SecretSetRequest(Request, frozen=True, kw_only=True):
    """The new value of a secret; no answer ever has it."""

    value: str

    def __repr__(self) -> str:
        """Return nothing of the value."""
        return "SecretSetRequest(...)"


class PriorityRequest(Request, frozen=True, kw_only=True):
    """A container's new priority."""

    priority: Priority


class CancelRequest(Request, frozen=True, kw_only=True):
    """A cancellation; it says nothing yet."""


class SecretAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A secret, without its value: when it was set last, and by whom.

    `readable` is false where the key that it is encrypted with is missing.
    """

    project: str
    name: Annotated[str, NEVER_ABSENT]
    updated_at: str
    updated_by: str
    readable: Annotated[bool, absent_as(True)]


class SecretList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the secrets of a project, by name; `next_cursor` is null on the last."""

    items: list[SecretAnswer]
    next_cursor: str | None


class RotationRequest(Request, frozen=True, kw_only=True):
    """Nothing is to be said about new keys."""


class RotationAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How many secrets were encrypted anew with a new key."""

    secrets: Annotated[int, NEVER_ABSENT]


class ContainerCancelRequest(Request, frozen=True, kw_only=True):
    """The cancellation of a container, with `tree` also of all that it submitted from inside."""

    tree: bool = False


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
    preemptible: Annotated[str, absent_as("allowed")]
    max_price_per_hour: Decimal | None


class RetriesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Which failures are tried again, how often and how soon."""

    max: int
    on: tuple[str, ...]
    exit_codes: tuple[int, ...]
    delay_s: Annotated[float, absent_as(15.0)]
    first_delay_s: float
    lost: Annotated[bool, absent_as(True)]


class GpusAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs of which more is asked than their number; `memory` is that of each, in bytes."""

    count: int
    memory: int
    model: str


class DependencyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What is waited for, and which end of it counts."""

    of: str
    on: Annotated[str, absent_as("success")]
    each: bool


class GivenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt was given on its instance; sizes in bytes."""

    cpus: float
    memory: int
    disk: int
    gpus: int
    resources: dict[str, int]


class UsageAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt really took, as its instance measured it; null for what it could not.

    Sizes are in bytes. `cpu_seconds` are those of all processors together. `read_bytes` and
    `written_bytes` are from and to disks. `gpu_mean_utilization` goes from 0 to 1. What an attempt
    costs does not depend on any of it.
    """

    peak_memory_bytes: int | None
    mean_memory_bytes: int | None
    cpu_seconds: float | None
    read_bytes: int | None
    written_bytes: int | None
    gpu_peak_memory_bytes: int | None
    gpu_mean_utilization: float | None


class AttemptAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One try on one instance; `outcome` is null until it is known.

    `given` is null where that is what the container says, and something else where its instance
    type has defaults of its own. `revision` is that of its job where that one has revisions,
    or how often its elastic job had begun anew. Its image was being fetched from `pulling_since`
    until `pulled_at`, null for both where it was there; that is outside the time limit.
    `image_digest` is that of the image that ran (where the engine knows no digest, the image's id),
    `warning` a sentence about how the image takes what was asked for; null for none. `usage` is
    null until it has ended, and where nothing was measured.
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
    log_complete: Annotated[bool, absent_as(True)]
    given: GivenAnswer | None
    pulling_since: str | None
    pulled_at: str | None
    image_digest: str | None
    warning: str | None
    usage: UsageAnswer | None
    revision: int | msgspec.UnsetType = msgspec.UNSET
    cost_usd: Decimal | msgspec.UnsetType | None = msgspec.UNSET


class SecretMark(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown in the place of a secret value."""

    secret: bool = True


class SecretUseAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A secret that a container is given, and as what; nothing of its value."""

    name: str
    env: str | msgspec.UnsetType = msgspec.UNSET
    file: str | msgspec.UnsetType = msgspec.UNSET
    registry: str | msgspec.UnsetType = msgspec.UNSET


class ContainerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One container; sizes in bytes, times in RFC 3339, cost in US dollars.

    `entrypoint` is null where that is the image's own. While its image is being fetched the `state`
    is "running", and its last attempt is `pulling_since` then and not `pulled_at` yet.
    `gpus` is a number, or an object where a model or a size of their memory is asked for. For one
    that waits `waiting` is a sentence, `waiting_for` the same as data; `position` counts from 1 of
    `queue_length`. `doubt` says what nobody knows of one that should run.
    In `env` a secret value is shown as {"secret": true}.
    `parent` is the container that submitted it from inside.
    `for_instance` is the instance for which a system or sysbatch job has it. `attempts` are the
    latest, the last of all last: up to 10 of each in a list and in an event, up to 100 of one that
    is asked for alone. `attempt_count` is how many there were. `cancel_requested` says that it is
    to be cancelled; `kill_at` is when KILL comes to what was told to end, null while nobody knows.
    `log_problem`, of one that is asked for alone, is why what it writes does not come at present,
    or that some of it was lost. `cost_of_tree_usd`, where the tree is asked for, is what it and
    all below it cost, if it submitted any from inside. `cost_usd` is what its ended attempts cost;
    `cost_so_far_usd`, where costs are asked for, what all of them have cost up to now, as each then
    says for itself, and null where their instances had too much else on them to reckon that here.
    """

    id: Annotated[str, NEVER_ABSENT]
    name: str
    image: str
    entrypoint: tuple[str, ...] | None
    init: Annotated[bool, absent_as(True)]
    command: tuple[str, ...]
    env: dict[str, str | SecretMark]
    secrets: tuple[SecretUseAnswer, ...]
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
    api: Annotated[bool, absent_as(False)]
    retries: RetriesAnswer
    after: tuple[DependencyAnswer, ...]
    not_before: str | None
    time_limit_s: float | None
    grace_period_s: float | None
    user: str
    job: str | None
    task: str | None
    array_index: int | None
    state: Annotated[str, NEVER_ABSENT]
    exit_code: int | None
    reason: ReasonAnswer | None
    created_at: str | None
    started_at: str | None
    finished_at: str | None
    instance: str | None
    instance_type: str | None
    attempts: tuple[AttemptAnswer, ...]
    attempt_count: int
    cost_usd: Decimal
    waiting: str | None
    waiting_for: WaitAnswer | None
    position: int | None
    queue_length: int | None
    doubt: str | None
    cancel_requested: bool
    kill_at: str | None
    parent: str | msgspec.UnsetType = msgspec.UNSET
    for_instance: str | msgspec.UnsetType = msgspec.UNSET
    log_problem: str | msgspec.UnsetType | None = msgspec.UNSET
    cost_of_tree_usd: Decimal | msgspec.UnsetType = msgspec.UNSET
    cost_so_far_usd: Decimal | msgspec.UnsetType | None = msgspec.UNSET


class ContainerList(msgspec.Struct, frozen=True, kw_only=True):
    """Containers; `next_cursor` is null on the last page."""

    items: list[ContainerAnswer]
    next_cursor: str | None = None


class EventAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The `data` of one server-sent event."""

    number: int
    kind: str
    id: str
    data: dict[str, Any]


class StreamNotice(msgspec.Struct, frozen=True, kw_only=True):
    """The `data` of an event about the stream itself: `gap` or `stopped`."""

    message: str


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
