"""What the API needs from the rest: the one seam between HTTP and the dispatcher."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from longshore.dispatcher.domain.containers import Container, ContainerSpec, Reason, WaitReason
from longshore.dispatcher.domain.jobs import Job, JobTask, JobType, JobTypeSpec
from longshore.dispatcher.domain.queries import ContainerFilter, JobFilter, JobPage, Page
from longshore.dispatcher.domain.views import (
    Health,
    InstanceReport,
    InstanceView,
    LeakReport,
    ServerEvent,
    StrayPage,
    StrayView,
)
from longshore.dispatcher.domain.vitals import Vitals
from longshore.dispatcher.explain.explanation import Explanation, WaitStatus
from longshore.dispatcher.service.dry_run_model import JobPlan
from longshore.pool.model import IdleBehavior

NO_TERMS = JobTypeSpec()


class NotFound(Exception):  # noqa: N818 - reads as the HTTP answer it becomes
    """There is no such container or instance; the message names it."""


class Conflict(Exception):  # noqa: N818 - reads as the HTTP answer it becomes
    """The thing is in a state that does not allow this; the message says which and why."""


class Unavailable(Exception):  # noqa: N818 - reads as the HTTP answer it becomes
    """The server cannot take this now (inbox full, store not writable); try again later."""


class InDoubt(Unavailable):
    """Nobody knows yet whether this is taken in; the message says so, and how to find out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewContainer:
    """A validated request for one container."""

    spec: ContainerSpec
    priority: int
    project: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A validated request for a job.

    Tasks of its own that its tasks wait for stand in their `after` by name, behind "/" ("/align"):
    the job has no id yet. Cycles and unknown names have been refused.
    """

    name: str
    priority: int
    project: str
    labels: tuple[tuple[str, str], ...]
    tasks: tuple[JobTask, ...]
    type: JobType = JobType.BATCH
    terms: JobTypeSpec = NO_TERMS


class Backend(Protocol):
    """The dispatcher as the API sees it; all calls are made on the event loop."""

    async def submit(
        self, items: Sequence[NewContainer], *, user: str, idempotency_key: str, fingerprint: str
    ) -> Sequence[Container]:
        """Commit new containers, all or none, and return them (the earlier ones on a repeat).

        Raises `InvalidRequest` when one can never run, or waits for what there is not or what is
        another project's (paths begin with its "[index]"),
        `Conflict` when the key was used for something else, `Unavailable` when nothing can be
        taken now.
        """
        ...

    async def containers(self, which: ContainerFilter, *, cursor: str, limit: int) -> Page:
        """Return one page, of each the last few attempts.

        Raises `InvalidRequest` for a cursor that is not ours.
        """
        ...

    async def container(self, container_id: str) -> Container:
        """Return one container with all attempts; raises `NotFound`."""
        ...

    async def submit_job(
        self, new: NewJob, *, user: str, idempotency_key: str, fingerprint: str
    ) -> Job:
        """Commit a new job with all of its containers, and return it (the earlier on a repeat).

        Raises `InvalidRequest` when one of its tasks can never run, or waits for what there is not,
        or what is another project's (paths begin with "tasks[index]"); `Conflict` when the key was
        used for something else, `Unavailable` when it cannot be taken now.
        """
        ...

    async def jobs(self, which: JobFilter, *, cursor: str, limit: int) -> JobPage:
        """Return one page; raises `InvalidRequest` for a cursor that is not ours."""
        ...

    async def job(self, job_id: str) -> Job:
        """Return one job, with today's tallies; raises `NotFound`."""
        ...

    def why_nowhere(self, job: Job) -> WaitReason | None:
        """Return why no instance takes anything of a per-instance job, None for all else."""
        ...

    def trouble(self, job: Job) -> Reason | None:
        """Return what is wrong with a per-instance job that goes on, None for all else."""
        ...

    async def cancel_job(self, job_id: str) -> Job:
        """Commit a job's cancellation; raises `NotFound`, `Conflict` when it has ended."""
        ...

    async def set_job_priority(self, job_id: str, priority: int) -> Job:
        """Commit the priority of all of a job; raises `NotFound`, `Conflict` when it has ended."""
        ...

    async def hold_job(self, job_id: str, *, held: bool) -> Job:
        """Commit whether a job starts anything new; raises `NotFound`, `Conflict`."""
        ...

    async def revise_job(self, job_id: str, new: NewJob) -> Job:
        """Commit the next revision of a system or sysbatch job, and return it.

        Where nothing of it changes it stays at its revision. Raises `NotFound`; `Conflict` for a
        job that has ended or is of another type, and when somebody else was first;
        `InvalidRequest` as `submit_job` does, and for what stays as it is; `Unavailable`.
        """
        ...

    async def plan_job(self, new: NewJob, *, job_id: str, user: str) -> JobPlan:
        """Return what a job would come to, or with `job_id` that job's next revision.

        Changes nothing. Raises as `submit_job` or `revise_job` does.
        """
        ...

    async def dispatch_job(
        self,
        job_id: str,
        parameters: Mapping[str, str],
        *,
        user: str,
        idempotency_key: str,
        fingerprint: str,
    ) -> Job:
        """Commit a run of a parameterised job, and return it (the earlier one on a repeat).

        Raises `NotFound`; `Conflict` for a job that is not parameterised, has ended or is held, or
        when the key was used for something else; `InvalidRequest` for parameters that are missing
        or unknown; else as `submit_job`.
        """
        ...

    def standing(self, container: Container) -> WaitStatus:
        """Return why a container waits, or what nobody knows of it."""
        ...

    async def explain(self, container_id: str) -> Explanation:
        """Return why a container is where it is; raises `NotFound`."""
        ...

    async def cancel(self, container_id: str) -> Container:
        """Commit a cancellation and return; raises `NotFound`, `Conflict` when it has ended."""
        ...

    async def set_priority(self, container_id: str, priority: int) -> Container:
        """Commit a priority and return; raises `NotFound`, `Conflict` when it has ended."""
        ...

    def instances(self, *, cursor: str, limit: int) -> InstanceReport:
        """Return one page of the instances that are known, by id.

        Raises `InvalidRequest` for a cursor that is not ours.
        """
        ...

    async def gone_instances(self, *, cursor: str, limit: int) -> InstanceReport:
        """Return one page of the instances that are gone, the last gone first.

        Raises `InvalidRequest` for a cursor that is not ours.
        """
        ...

    async def instance(self, instance_id: str) -> InstanceView:
        """Return one instance, gone or not.

        Raises `NotFound`; `Unavailable` before the first listing of the cloud, when nobody knows
        whether there is one, and while nobody knows whether it is gone.
        """
        ...

    def leaks(self, *, cursor: str, limit: int) -> LeakReport:
        """Return one page of what is billed and not wanted at this moment.

        Raises `InvalidRequest` for a cursor that is not ours.
        """
        ...

    def strays(self, *, cursor: str, limit: int) -> StrayPage:
        """Return one page of the strays that are kept, by instance and attempt.

        Raises `InvalidRequest` for a cursor that is not ours.
        """
        ...

    async def decide_strays(
        self, instance_id: str, attempts: Sequence[str], *, adopt: bool
    ) -> Sequence[StrayView]:
        """End strays that are kept on an instance, or leave them to their own end; return them.

        No `attempts` are all of them. Raises `NotFound` for what is not there or not kept,
        `Unavailable` as `set_idle_behavior` does.
        """
        ...

    async def set_idle_behavior(
        self,
        instance_id: str,
        behavior: IdleBehavior,
        *,
        reason: str = "",
        user: str = "",
        until: float | None = None,
    ) -> InstanceView:
        """Set an instance's idle behavior; returns once a restart would know of it.

        `reason` is why, "" for no word of it, and `user` who wants it. A hold ends at `until`
        (seconds since the epoch), None for never.

        Raises `NotFound` for one that is gone too, `Unavailable` as `instance` does; `Conflict`
        when it shuts down, but for what that wish led to;
        `Unavailable` while nothing is taken in, or when the store takes too long: it may be done
        all the same.
        """
        ...

    async def kill_instance(self, instance_id: str, reason: str) -> InstanceView:
        """Destroy an instance now, whatever runs on it; returns once a restart would know of it.

        Raises as `instance` does; `Unavailable` as `set_idle_behavior` does.
        """
        ...

    async def read_log(
        self, container_id: str, *, stream: str, offset: int, limit: int
    ) -> tuple[bytes, bool]:
        """Return bytes of the last attempt's stream from `offset`, and whether it is complete
        beyond them (the container has ended and nothing more comes); raises `NotFound`."""
        ...

    def log_problem(self, container: Container) -> str:
        """Return why what a container's last attempt writes does not come here at present, in a
        sentence; "" when nothing is in its way, or nothing more is to come."""
        ...

    async def wait_log(self, container_id: str, *, timeout_s: float) -> None:
        """Return when a log of this container grew or it changed state, or after `timeout_s`."""
        ...

    def events(self, *, after: int | None) -> AsyncIterator[ServerEvent]:
        """Yield events after number `after` (None: from now on); ends when the server stops."""
        ...

    def last_event_number(self) -> int:
        """Return the number of the newest event, to start a gapless follow."""
        ...

    def vitals(self) -> Vitals:
        """Return how store and disk do."""
        ...

    def health(self) -> Health:
        """Return whether the server can take and place work."""
        ...

    def metrics(self) -> bytes:
        """Return the Prometheus text exposition."""
        ...
