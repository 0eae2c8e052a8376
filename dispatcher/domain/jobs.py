"""What the dispatcher knows of jobs: containers submitted together, and how far they are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

# ---- what a job says beside its tasks, by its type: updates, elasticity, schedules, parameters ---
from typing import assert_never

from longshore.dispatcher.domain.containers import Container, ContainerSpec, ContainerState, Reason
from longshore.dispatcher.input.problems import Problems, member, quoted


class TaskRole(Enum):
    """Whether a job needs all of a component, or as many of it as fit."""

    ESSENTIAL = "essential"
    ELASTIC = "elastic"


class ElasticMode(Enum):
    """How a job uses room beyond its essential components.

    `rigid` jobs start with all components or not at all; `malleable` ones start with the essential
    ones, grow, and never give back; `flexible` ones give elastic components back for the essential
    ones of a job that waits.
    """

    RIGID = "rigid"
    MALLEABLE = "malleable"
    FLEXIBLE = "flexible"


class PerInstanceKind(Enum):
    """Whether a job runs on every matching instance for ever, or once to its end."""

    SYSTEM = "system"
    SYSBATCH = "sysbatch"

    @property
    def most_retries(self) -> int:
        """Return how often a plan is tried again that got nowhere."""
        match self:
            case PerInstanceKind.SYSTEM:
                return 5
            case PerInstanceKind.SYSBATCH:
                return 2
            case _:
                assert_never(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStrategy:
    """At most `max_parallel` destructive updates within any `stagger_s` seconds."""

    max_parallel: int = 1
    stagger_s: float = 30.0


_ONE_BY_ONE = UpdateStrategy()


@dataclass(frozen=True, slots=True, kw_only=True)
class PerInstanceTerms:
    """How a job runs on every matching instance; see `system.model.PerInstanceJob`.

    `revision` counts from 1; `revised_at` is when the latest was submitted, in seconds since the
    epoch.
    """

    revision: int = 1
    revised_at: float = 0.0
    update: UpdateStrategy = _ONE_BY_ONE
    late_joiners: bool = True
    on_paused: bool = False
    ignore_system: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticTerms:
    """How an elastic job queues and grows; see `elastic.model.ElasticJob`.

    `size` is None to have it computed, `runtime_s` None where nobody knows how long it takes with
    all components.
    """

    mode: ElasticMode = ElasticMode.FLEXIBLE
    size: float | None = None
    runtime_s: float | None = None
    scale_up: bool = False


class Overlap(Enum):
    """Whether a periodic job begins again while an earlier run of it has not ended."""

    ALLOW = "allow"
    FORBID = "forbid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a periodic job begins: at any of some cron expressions, in a time zone of the IANA's."""

    cron: tuple[str, ...]
    time_zone: str = "UTC"
    overlap: Overlap = Overlap.ALLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What a parameterised job is dispatched with.

    Who dispatches it names all that are `required` and may name the `optional` ones, which are
    pairs of a name and its value where nobody names it; both are sorted.
    """

    required: tuple[str, ...] = ()
    optional: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTypeSpec:
    """What a job says beside its tasks; each is None where it is not of that type."""

    per_instance: PerInstanceTerms | None = None
    elastic: ElasticTerms | None = None
    schedule: Schedule | None = None
    parameters: Parameters | None = None


NO_TYPE_SPEC = JobTypeSpec()
"""What a plain batch job says."""


# --------------------------------------------------------------------------------------------------
# What parameterised jobs are dispatched with: names, values, and the environment that comes of
# it.
#
# Pure.

PARAMETERS_MOST = 100
VALUES_MOST_BYTES = 64 * 2**10
"""How long all parameters of one run may be as JSON, in a container's environment."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_NAME_RULE = "use 1 to 64 letters, digits and underscores, no digit first"
_PREFIX = "LONGSHORE_PARAMETER_"


def environment_of(values: Mapping[str, str]) -> dict[str, str]:
    """Return the variables in which a run finds its parameters."""
    return {f"{_PREFIX}{name.upper()}": value for name, value in values.items()}


def check_names(names: Iterable[tuple[str, str]], path: str, problems: Problems) -> None:
    """Add what is wrong with the parameters of a job, given as pairs of a place and a name."""
    first: dict[str, str] = {}
    given = list(names)
    if len(given) > PARAMETERS_MOST:
        problems.add(path, f"has {len(given)} parameters: give at most {PARAMETERS_MOST}")
        return
    for place, name in given:
        variable = name.upper()
        if not _NAME.fullmatch(name):
            problems.add(place, f"{quoted(name)} is not a parameter's name: {_NAME_RULE}")
        elif variable in first:
            problems.add(
                place,
                f"{quoted(name)} would be {_PREFIX}{variable}, as {first[variable]} is:"
                " leave one of them out",
            )
        else:
            first[variable] = place


def check_values(values: Mapping[str, str], path: str, problems: Problems) -> None:
    """Add what is wrong with the values of parameters."""
    for name, value in values.items():
        if "\0" in value:
            problems.add(member(path, name), "contains a NUL byte: no program can get one")
    size = len(json.dumps(environment_of(values)))
    if size > VALUES_MOST_BYTES:
        problems.add(
            path,
            f"are {size} bytes as JSON, at most {VALUES_MOST_BYTES} are allowed: pass a file"
            " instead",
        )


def given_values(
    parameters: Parameters, given: Mapping[str, str], path: str, problems: Problems
) -> dict[str, str]:
    """Return the values of all parameters of a run, by name; adds what is wrong to `problems`."""
    optional = dict(parameters.optional)
    known = {*parameters.required, *optional}
    for name in parameters.required:
        if name not in given:
            problems.add(member(path, name), "is missing: the job cannot run without it")
    for name in given:
        if name not in known:
            hint = problems.hint(name, known)
            problems.add(member(path, name), f"is not a parameter of this job: {hint}")
    values = {name: value for name, value in {**optional, **given}.items() if name in known}
    check_values(values, path, problems)
    return dict(sorted(values.items()))


# ---- what the dispatcher knows of jobs: containers submitted together, and how far they are ------


class JobType(Enum):
    """How a job's containers are placed.

    `batch` ones wherever there is room; of `system` and `sysbatch` jobs one on every matching
    instance, for ever or once to its end; of `elastic` jobs the essential ones together, and of the
    others as many as fit.
    """

    BATCH = "batch"
    SYSTEM = "system"
    SYSBATCH = "sysbatch"
    ELASTIC = "elastic"

    @property
    def is_per_instance(self) -> bool:
        """Return whether each matching instance has a container of its own."""
        return self in (JobType.SYSTEM, JobType.SYSBATCH)

    @property
    def has_own_scheduler(self) -> bool:
        """Return whether its containers never queue (see `scheduler.placement.workload`)."""
        return self is not JobType.BATCH


class JobState(Enum):
    """Where a job is: `pending` while nothing of it ever started, final when all has ended."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Return whether nothing follows."""
        return self in FINAL_JOB_STATES


FINAL_JOB_STATES = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many containers are in which state."""

    queued: int = 0
    locked: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def total(self) -> int:
        """Return how many there are."""
        return self.ended + self.queued + self.locked + self.running

    @property
    def ended(self) -> int:
        """Return how many have reached their final state."""
        return self.succeeded + self.failed + self.cancelled

    def moved(self, before: ContainerState | None, after: ContainerState, number: int = 1) -> Tally:
        """Return what it is once `number` containers changed their state; None is a new one's."""
        changed = {after.value: getattr(self, after.value) + number}
        if before is not None and before is not after:
            changed[before.value] = getattr(self, before.value) - number
        elif before is after:
            return self
        return replace(self, **changed)

    def plus(self, other: Tally) -> Tally:
        """Return the sum of two."""
        return Tally(
            queued=self.queued + other.queued,
            locked=self.locked + other.locked,
            running=self.running + other.running,
            succeeded=self.succeeded + other.succeeded,
            failed=self.failed + other.failed,
            cancelled=self.cancelled + other.cancelled,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTask:
    """A part of a job: `size` containers of one specification.

    In an elastic job it is a component.
    """

    #: "" for the only task of a job that names none.
    name: str
    spec: ContainerSpec
    #: 0 for the only task of a per-instance job: its containers come with the instances.
    size: int = 1
    #: Whether each container has an index from 0.
    is_array: bool = False
    #: How many of an array are under way at once at most, None for no such limit.
    max_running: int | None = None
    #: What it is as a component, and when it starts.
    role: TaskRole = TaskRole.ESSENTIAL
    startup_order: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job with what is known of it; changed by making a new value.

    A job that is periodic or parameterised has no containers: its runs are jobs of their own.
    """

    id: str
    sequence: int
    name: str
    user: str
    project: str
    priority: int
    created_at: float
    tasks: tuple[JobTask, ...]
    #: One for each of `tasks`, in their order. Of a job that has not ended those in the store may
    #: be old.
    tallies: tuple[Tally, ...]
    type: JobType = JobType.BATCH
    labels: tuple[tuple[str, str], ...] = ()
    state: JobState = JobState.PENDING
    started_at: float | None = None
    finished_at: float | None = None
    #: The highest of its failed containers, 0 when all succeeded, None before its end and where no
    #: program of it ever ended.
    exit_code: int | None = None
    reason: Reason | None = None
    cancel_requested: bool = False
    #: Whether it starts nothing new.
    held: bool = False
    terms: JobTypeSpec = NO_TYPE_SPEC
    #: The periodic or parameterised job whose run it is, or the container that submitted it from
    #: inside; "" for neither.
    parent: str = ""
    #: Of a periodic job the time of its schedule for which the last run was made, in seconds since
    #: the epoch, None before the first.
    launched_for: float | None = None

    @property
    def is_template(self) -> bool:
        """Return whether its runs are jobs of their own."""
        return self.terms.schedule is not None or self.terms.parameters is not None

    @property
    def ends_by_itself(self) -> bool:
        """Return whether it has ended once all of its containers have."""
        return self.type is JobType.BATCH and not self.is_template

    @property
    def tally(self) -> Tally:
        """Return the sum over its tasks."""
        total = Tally()
        for each in self.tallies:
            total = total.plus(each)
        return total


# ---- what can be waited for ----------------------------------------------------------------------


def task_node(job_id: str, task: str) -> str:
    """Return the name under which dependencies know one task of a job: "j-1/align"."""
    return f"{job_id}/{task}"


def element_node(job_id: str, task: str, index: int) -> str:
    """Return the name under which dependencies know one element of an array: "j-1/align[7]"."""
    return f"{job_id}/{task}[{index}]"


def nodes_of(container: Container) -> tuple[str, ...]:
    """Return the names under which a container itself is known to dependencies."""
    if container.array_index is None:
        return (container.id,)
    return container.id, element_node(container.job_id, container.task, container.array_index)
