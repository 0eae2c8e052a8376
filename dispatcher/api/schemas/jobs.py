"""The JSON of jobs: what requests may say and what answers say."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, ClassVar, Literal

import msgspec

from longshore.dispatcher.api.schemas.containers import (
    TIME_LIMIT_MAX_S,
    DependencyAnswer,
    Priority,
    ReasonAnswer,
    Request,
    RunRequest,
    WaitAnswer,
)
from longshore.dispatcher.api.schemas.reading import NEVER_ABSENT, absent_as
from longshore.dispatcher.api.schemas.words import (
    NOTHING_LIKE,
    OF_THE_WHOLE,
    WORDS_FOR_ARRAYS,
    WORDS_FOR_RUNS,
    elsewhere,
    in_order,
)
from longshore.dispatcher.input.quantities import JOB_CONTAINERS_MAX

ArraySize = Annotated[int, msgspec.Meta(ge=1, le=JOB_CONTAINERS_MAX)]
StartupOrder = Annotated[int, msgspec.Meta(ge=0, le=1000)]
MaxParallel = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
Stagger = Annotated[float, msgspec.Meta(ge=0, le=86_400)]
JobSize = Annotated[float, msgspec.Meta(gt=0, le=10**18)]
Runtime = Annotated[float, msgspec.Meta(ge=0.001, le=TIME_LIMIT_MAX_S)]

_Kind = Literal["batch", "system", "sysbatch", "elastic"]
Kind = Annotated[
    _Kind,
    in_order(
        _Kind,
        "How a job's containers are placed: `batch` ones wherever there is room; of `system` and"
        " `sysbatch` jobs one on every matching instance, for ever or once to its end; of `elastic`"
        " jobs the essential ones together, and of the others as many as fit.",
    ),
]
_Overlap = Literal["allow", "forbid"]
Overlap = Annotated[
    _Overlap, in_order(_Overlap, "Whether it begins again while an earlier run has not ended.")
]
_Mode = Literal["rigid", "malleable", "flexible"]
Mode = Annotated[
    _Mode,
    in_order(
        _Mode,
        "How a job uses room beyond its essential components: `rigid` ones start with all"
        " components or not at all; `malleable` ones start with the essential ones, grow, and never"
        " give back; `flexible` ones give elastic components back for the essential ones of a job"
        " that waits.",
    ),
]
_Role = Literal["essential", "elastic"]
Role = Annotated[
    _Role, in_order(_Role, "Whether a job needs all of a component, or as many of it as fit.")
]


class ArrayRequest(Request, frozen=True, kw_only=True):
    """How many containers a task has, and how many of them may be under way at once."""

    words_of_others: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("count", "completions", "n"), "size"),
        **dict.fromkeys(("parallelism", "max_parallel", "limit", "concurrency"), "max_running"),
    }

    size: ArraySize
    max_running: ArraySize | None = None


class TaskRequest(RunRequest, frozen=True, kw_only=True):
    """One part of a job: a container, or with `array` many that know their index.

    In an elastic job it is a component of that `role`; lower `startup_order` starts first.
    """

    words_of_others: ClassVar[Mapping[str, str]] = {
        **RunRequest.words_of_others,
        **WORDS_FOR_ARRAYS,
        **dict.fromkeys(("size", "instances"), "array"),
    }
    advice_on_words: ClassVar[Mapping[str, str]] = {
        **NOTHING_LIKE,
        **elsewhere((), OF_THE_WHOLE, "beside tasks, once"),
    }
    examples: ClassVar[Mapping[str, str]] = {
        **RunRequest.examples,
        "array": "array: 100, whose elements have the indices 0 to 99, or"
        " array: {size: 100, max_running: 10}",
    }

    array: ArraySize | ArrayRequest | None = None
    role: Role = "essential"
    startup_order: StartupOrder = 0


class UpdateRequest(Request, frozen=True, kw_only=True):
    """How fast the next revision comes: `max_parallel` replaced at a time, `stagger_s` apart."""

    words_of_others: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("parallelism", "maxUnavailable"), "max_parallel"),
        "min_healthy_time": "stagger_s",
    }

    max_parallel: MaxParallel = 1
    stagger_s: Stagger = 30.0


class PeriodicRequest(Request, frozen=True, kw_only=True):
    """When a job begins again and again: at each time of any of the cron expressions."""

    words_of_others: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("schedule", "crons", "spec"), "cron"),
        **dict.fromkeys(("tz", "timezone", "timeZone"), "time_zone"),
        **dict.fromkeys(("prohibit_overlap", "concurrencyPolicy", "concurrency"), "overlap"),
    }
    advice_on_words: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("startingDeadlineSeconds", "deadline_s", "deadline"),
            "Longshore has nothing like it; of missed times the latest is made up for",
        ),
        **dict.fromkeys(
            ("suspend", "enabled"), "Longshore has nothing like it; 'longshore hold ID' does that"
        ),
    }

    cron: str | list[str]
    time_zone: str = "UTC"
    overlap: Overlap = "allow"


class ParameterizedRequest(Request, frozen=True, kw_only=True):
    """What a job is dispatched with: names, and the values of those that may be left out."""

    words_of_others: ClassVar[Mapping[str, str]] = {
        "meta_required": "required",
        **dict.fromkeys(("meta_optional", "defaults"), "optional"),
    }

    required: list[str] = msgspec.field(default_factory=list)
    optional: dict[str, str] = msgspec.field(default_factory=dict)


class JobRequest(Request, frozen=True, kw_only=True):
    """A job: containers submitted together, and what waits for what.

    `update` to `ignore_system` are for system and sysbatch jobs, `mode` to `scale_up` for elastic
    ones, `periodic` and `parameterized` for batch and sysbatch ones.
    """

    words_of_others: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("jobs", "steps", "groups", "containers", "stages"), "tasks"),
        **WORDS_FOR_RUNS,
        **dict.fromkeys(("timeZone", "concurrencyPolicy"), "periodic"),
        **dict.fromkeys(("meta", "tags"), "labels"),
        **OF_THE_WHOLE,
        "kind": "type",
        "runtime": "runtime_s of an elastic job, else time_limit_s in a task",
    }
    advice_on_words: ClassVar[Mapping[str, str]] = {
        **NOTHING_LIKE,
        **elsewhere(TaskRequest.__struct_fields__, TaskRequest.words_of_others, "in a task"),
    }
    examples: ClassVar[Mapping[str, str]] = {
        "tasks": "tasks: [{name: prepare, command: [./prepare]}, {name: train, command: [./a]}]",
        "periodic": 'periodic: {cron: "30 2 * * *"}',
        "parameterized": "parameterized: {required: [sample]}",
        "update": "update: {max_parallel: 2}",
        "labels": RunRequest.examples["labels"],
    }

    tasks: list[TaskRequest]
    name: str = ""
    type: Kind = "batch"
    priority: Priority | None = None
    project: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    update: UpdateRequest = UpdateRequest()
    late_joiners: bool = True
    on_paused: bool = False
    ignore_system: bool = False
    mode: Mode = "flexible"
    size: JobSize | None = None
    runtime_s: Runtime | None = None
    scale_up: bool = False
    periodic: PeriodicRequest | None = None
    parameterized: ParameterizedRequest | None = None


class DispatchRequest(Request, frozen=True, kw_only=True):
    """The values of a parameterised job's parameters, for one run of it."""

    parameters: dict[str, str] = msgspec.field(default_factory=dict)


class JobChangeRequest(Request, frozen=True, kw_only=True):
    """A job's new priority, and whether it starts anything new; null leaves it as it is."""

    priority: Priority | None = None
    held: bool | None = None


class CountsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How many containers are in which state."""

    queued: int
    locked: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    total: int


class JobTaskAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a job; `name` is "" for the only one of a job that names none.

    Other tasks of the job stand in `after` by their name alone. `role` and `startup_order` are
    those of elastic jobs' components.
    """

    name: str
    size: Annotated[int, absent_as(1)]
    array: bool
    max_running: int | None
    after: tuple[DependencyAnswer, ...]
    counts: CountsAnswer
    role: str | msgspec.UnsetType = msgspec.UNSET
    startup_order: int | msgspec.UnsetType = msgspec.UNSET


class UpdateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How fast the next revision comes."""

    max_parallel: int
    stagger_s: float


class PeriodicAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """When a job begins again and again."""

    cron: tuple[str, ...]
    time_zone: str
    overlap: str


class ParameterizedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a job is dispatched with."""

    required: tuple[str, ...]
    optional: dict[str, str]


class PartCostAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a part of a job cost; `array_index` is null for a whole task."""

    task: str
    array_index: int | None
    cost_usd: Decimal


class JobCostsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a job's ended attempts cost: its tasks add up to `total_usd`.

    `lost_work_usd` is how much of that came to nothing, null where it is too much to be added up
    for an answer. `elements` are those of arrays, the 1,000 dearest, if they are asked for.
    """

    total_usd: Decimal
    lost_work_usd: Decimal | None
    tasks: tuple[PartCostAnswer, ...]
    elements: tuple[PartCostAnswer, ...]


class JobAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One job; `exit_code` is the highest of its failed containers, 0 when all succeeded.

    `tasks` are left out where many jobs are listed, and in events; what is only for jobs of other
    types is left out too. `revision` is null where a job is never revised, `parent` the job whose
    run it is, or the container that submitted it from inside, "" for neither, `launched_for` the
    time of its schedule for which its last run was made. `next_launch`, the next time of it, is
    told of one job alone; null for none, as while it is held. There, too, a periodic job says in
    `waiting_for` which run must end before another is launched, and a job for each instance why no
    instance takes anything of it; null where nothing must, or one does, or some of it lives. In
    `costs` are there where they are asked for. In
    `trouble` it says, in lists too, that its program is started again and again, or that no type
    would do; else null. `cancel_requested` says that it is to be cancelled, though some of it may
    not have ended yet.
    """

    id: Annotated[str, NEVER_ABSENT]
    name: str
    type: str
    user: str
    project: str
    priority: int
    labels: dict[str, str]
    state: Annotated[str, NEVER_ABSENT]
    held: bool
    cancel_requested: bool
    exit_code: int | None
    reason: ReasonAnswer | None
    created_at: str | None
    started_at: str | None
    finished_at: str | None
    counts: CountsAnswer
    parent: str
    revision: int | None
    update: UpdateAnswer | msgspec.UnsetType = msgspec.UNSET
    late_joiners: bool | msgspec.UnsetType = msgspec.UNSET
    on_paused: bool | msgspec.UnsetType = msgspec.UNSET
    ignore_system: bool | msgspec.UnsetType = msgspec.UNSET
    mode: str | msgspec.UnsetType = msgspec.UNSET
    size: float | msgspec.UnsetType | None = msgspec.UNSET
    runtime_s: float | msgspec.UnsetType | None = msgspec.UNSET
    scale_up: bool | msgspec.UnsetType = msgspec.UNSET
    periodic: PeriodicAnswer | msgspec.UnsetType | None = msgspec.UNSET
    parameterized: ParameterizedAnswer | msgspec.UnsetType | None = msgspec.UNSET
    launched_for: str | msgspec.UnsetType | None = msgspec.UNSET
    next_launch: str | msgspec.UnsetType | None = msgspec.UNSET
    waiting_for: WaitAnswer | msgspec.UnsetType | None = msgspec.UNSET
    trouble: ReasonAnswer | msgspec.UnsetType | None = msgspec.UNSET
    tasks: tuple[JobTaskAnswer, ...] | msgspec.UnsetType = msgspec.UNSET
    costs: JobCostsAnswer | msgspec.UnsetType = msgspec.UNSET


class JobList(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs; `next_cursor` is null on the last page."""

    items: list[JobAnswer]
    next_cursor: str | None = None


class PlannedChanges(msgspec.Struct, frozen=True, kw_only=True):
    """How many containers would be started, replaced, changed as they run, ended, and so on.

    `migrate` are those that end since their instance drains, `preempt` those of others that make
    way. Of a system or sysbatch job `place` and `update` count those too that have to wait, and
    `later` says how many these are; of others `later` are those that wait for their turn, for
    others, or for a time, and `blocked` those without room.
    """

    place: int
    update: int
    in_place: int
    stop: int
    migrate: int
    ignore: int
    lost: int
    preempt: int
    blocked: int
    later: int


class PlannedCreateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Instances of one type that would be created."""

    instance_type: str
    number: int
    price_per_hour: Decimal


class PriceChangeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Between how many US dollars more all instances would cost an hour."""

    least: Decimal
    most: Decimal


class PlannedStepAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What would be done on one instance.

    `instance` is "" for one that is to be created, and for what gets no place.
    """

    instance: str
    action: str
    detail: str


class CostEstimateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What all containers together may come to in US dollars, and what that rests on.

    From what such runs came to before, `p50_usd` and `p90_usd`: half and nine of ten times it is no
    more. Where too few ended, `at_most_usd` is an upper bound from time limits. What nobody knows
    is null, and never 0.
    """

    p50_usd: Decimal | None
    p90_usd: Decimal | None
    at_most_usd: Decimal | None
    basis: str


class PlanAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What would be done for a job as soon as it is submitted; nothing of it is done.

    `steps` are the first of them, and `steps_left_out` says how many more there are. Of a periodic
    or parameterized job nothing starts then: `of_run` says that one run is planned as if it were
    launched now, and `next_launch` when the schedule launches the first, null for never. `cost` is
    what it may come to, null from a server that does not estimate.
    """

    changes: PlannedChanges
    creates: tuple[PlannedCreateAnswer, ...]
    price_change_per_hour: PriceChangeAnswer
    waiting: tuple[WaitAnswer, ...]
    steps: tuple[PlannedStepAnswer, ...]
    steps_left_out: int
    of_run: bool
    next_launch: str | None
    cost: CostEstimateAnswer | None
