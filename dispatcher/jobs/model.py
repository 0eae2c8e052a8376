"""What the dispatcher knows of jobs: containers submitted together, and how far they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from longshore.dispatcher.jobs.terms import NO_TERMS, Terms
from longshore.dispatcher.model import Container, ContainerSpec, ContainerState, Reason
from longshore.dispatcher.planner.elastic_model import Role

MOST_CONTAINERS = 100_000
"""How many containers one job may have, over all of its tasks."""


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
    def has_own_placer(self) -> bool:
        """Return whether its containers never queue (see `dispatcher.scheduling.placers`)."""
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

    `name` is "" for the only task of a job that names none. With `is_array` each container has an
    index from 0; of them at most `max_running` are under way at once, None for no such limit. The
    only task of a per-instance job has `size` 0: its containers come with the instances.
    In an elastic job it is a component of that `role`, and starts by `startup_order`.
    """

    name: str
    spec: ContainerSpec
    size: int = 1
    is_array: bool = False
    max_running: int | None = None
    role: Role = Role.ESSENTIAL
    startup_order: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job with what is known of it; changed by making a new value.

    `tallies` has one for each of `tasks`, in their order; of a job that has not ended those in the
    store may be old. A `held` job starts nothing new. `exit_code` is the highest of its failed
    containers, 0 when all succeeded, None before its end and where no program of it ever ended.

    A job that is periodic or parameterised has no containers: its runs are jobs of their own, whose
    `parent` it is ("" for none); `launched_for` is the time of its schedule for which the last one
    was made, in seconds since the epoch, None before the first.
    """

    id: str
    sequence: int
    name: str
    user: str
    project: str
    priority: int
    created_at: float
    tasks: tuple[JobTask, ...]
    tallies: tuple[Tally, ...]
    type: JobType = JobType.BATCH
    labels: tuple[tuple[str, str], ...] = ()
    state: JobState = JobState.PENDING
    started_at: float | None = None
    finished_at: float | None = None
    exit_code: int | None = None
    reason: Reason | None = None
    cancel_requested: bool = False
    held: bool = False
    terms: Terms = NO_TERMS
    parent: str = ""
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
