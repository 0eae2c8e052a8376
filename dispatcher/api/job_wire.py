"""The JSON of jobs: what requests may say and what answers say."""

from __future__ import annotations

from typing import Annotated

import msgspec

from dispatcher.api.wire import (
    DependencyAnswer,
    Priority,
    ReasonAnswer,
    Request,
    RunRequest,
)
from dispatcher.job_model import MOST_CONTAINERS, JobType

ArraySize = Annotated[int, msgspec.Meta(ge=1, le=MOST_CONTAINERS)]


class ArrayRequest(Request, frozen=True, kw_only=True):
    """How many containers a task has, and how many of them may be under way at once."""

    size: ArraySize
    max_running: ArraySize | None = None


class TaskRequest(RunRequest, frozen=True, kw_only=True):
    """One part of a job: a container, or with `array` many that know their index."""

    array: ArraySize | ArrayRequest | None = None


class JobRequest(Request, frozen=True, kw_only=True):
    """A job: containers submitted together, and what waits for what."""

    tasks: list[TaskRequest]
    name: str = ""
    type: JobType = JobType.BATCH
    priority: Priority | None = None
    project: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)


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

    Other tasks of the job stand in `after` by their name alone.
    """

    name: str
    size: int
    array: bool
    max_running: int | None
    after: tuple[DependencyAnswer, ...]
    counts: CountsAnswer


class JobAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One job; `exit_code` is the highest of its failed containers, 0 when all succeeded.

    `tasks` are left out where many jobs are listed, and in events.
    """

    id: str
    name: str
    type: str
    user: str
    project: str
    priority: int
    labels: dict[str, str]
    state: str
    held: bool
    exit_code: int | None
    reason: ReasonAnswer | None
    created_at: str | None
    started_at: str | None
    finished_at: str | None
    counts: CountsAnswer
    tasks: tuple[JobTaskAnswer, ...] | msgspec.UnsetType = msgspec.UNSET


class JobList(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs; `next_cursor` is null on the last page."""

    items: list[JobAnswer]
    next_cursor: str | None = None
