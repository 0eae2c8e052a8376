"""The one way in which schedulers reach containers and jobs, as `PoolPort` is to instances.

Protocols: `state.containers.ContainerTable` and its parts are what stands behind them. Schedulers
read containers as values, and change them by what is named here, which journals and publishes what
follows of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from longshore.dispatcher.domain.containers import (
    Attempt,
    AttemptOutcome,
    Container,
    ContainerSpec,
    ContainerState,
    Reason,
    StopReason,
    WaitReason,
)
from longshore.dispatcher.domain.jobs import Job, JobType
from longshore.dispatcher.domain.messages import Publication
from longshore.dispatcher.state.attempt_spend import AttemptSpend
from longshore.dispatcher.state.job_registry import JobResult
from longshore.dispatcher.state.queue import RequestClass
from longshore.dispatcher.state.scheduling_gates import Gate
from longshore.pool.model import Worker


class JobPort(Protocol):
    """The jobs that have not ended."""

    def __contains__(self, job_id: str) -> bool:
        """Return whether a job has not ended."""
        ...

    def job(self, job_id: str) -> Job | None:
        """Return a job as it is now, None for one that has ended."""
        ...

    def type_of(self, job_id: str) -> JobType | None:
        """Return the type of a job, None for one that has ended."""
        ...

    def is_held(self, job_id: str) -> bool:
        """Return whether a job is held."""
        ...

    def size_of(self, container: Container) -> int | None:
        """Return how many elements the array of a container has, None when it is in none."""
        ...

    def containers_of(self, job_id: str) -> Sequence[str]:
        """Return the containers of a job that have not ended."""
        ...

    def is_concluded(self, job_id: str) -> bool:
        """Return whether it is decided how a job ends, or it was cancelled."""
        ...

    def conclude(self, job_id: str, conclusion: JobResult) -> None:
        """Decide how a job ends, once its containers have."""
        ...


class QueuePort(Protocol):
    """The containers that wait for batch passes, by class."""

    def __len__(self) -> int:
        """Return how many wait."""
        ...

    def __contains__(self, container_id: str) -> bool:
        """Return whether one waits."""
        ...

    def classes(self) -> list[RequestClass]:
        """Return the classes, the one with the first container first."""
        ...

    def class_of(self, container_id: str) -> RequestClass | None:
        """Return the class in which a container waits, None when it does not."""
        ...

    def renew(self) -> list[RequestClass]:
        """Ask again which types are allowed; return the classes of which others are than before."""
        ...


class GatePort(Protocol):
    """What keeps containers out of the queue."""

    def blocks(self, container_id: str) -> Gate:
        """Return what holds a container back."""
        ...

    def reason(self, container: Container) -> WaitReason | None:
        """Return why a container waits for a time, or for an earlier process of its own."""
        ...


class ContainerPort(Protocol):
    """The containers that have not ended, and what schedulers do to them."""

    @property
    def jobs(self) -> JobPort:
        """Return the jobs."""
        ...

    @property
    def queue(self) -> QueuePort:
        """Return the containers that wait for batch passes."""
        ...

    @property
    def gates(self) -> GatePort:
        """Return what keeps containers out of the queue."""
        ...

    @property
    def containers(self) -> Mapping[str, Container]:
        """Return all by id."""
        ...

    @property
    def open_attempts(self) -> Mapping[str, str]:
        """Return the containers with an open attempt, by that."""
        ...

    @property
    def spend(self) -> AttemptSpend:
        """Return what the open attempts cost those who have a limit of it."""
        ...

    @property
    def placed(self) -> int:
        """Return how many have an open attempt and count for limits of how many may."""
        ...

    @property
    def supervisors_placed(self) -> int:
        """Return how many supervisors have an open attempt."""
        ...

    def supervisors_on(self) -> dict[str, int]:
        """Return how many of those are on instances of each type."""
        ...

    def of_attempt(self, attempt_id: str) -> tuple[Container, Attempt] | None:
        """Return an open attempt with its container, None for all others."""
        ...

    def why_not_begin(self, container: Container) -> WaitReason | None:
        """Return what holds a container back, whatever room there is; None for nothing."""
        ...

    def why_job_not_begin(self, job: Job) -> WaitReason | None:
        """Return what holds back all of a job of one task; None for nothing."""
        ...

    def make(self, container: Container, *, held: bool) -> None:
        """Take in a new container of a job with a scheduler of its own; `held` with its job."""
        ...

    def respecify(self, container_id: str, spec: ContainerSpec) -> None:
        """Give a container the specification of its job's latest revision."""
        ...

    def open_attempt(
        self, container_id: str, worker: Worker, now: float, *, revision: int
    ) -> Attempt:
        """Begin an attempt of a waiting container on a worker."""
        ...

    def save(self, container: Container, attempt: Attempt | None = None) -> None:
        """Take in a new value of a container, and of an attempt of it."""
        ...

    def requeue(self, container_id: str, now: float, *, until: float | None = None) -> None:
        """Let a container wait again whose attempt is over; None: it may be placed at once."""
        ...

    def mark_stopping(self, container_id: str, outcome: AttemptOutcome, *, by: StopReason) -> str:
        """Note what the end of a container's open attempt will mean; return the attempt."""
        ...

    def finish(
        self,
        container: Container,
        state: ContainerState,
        reason: Reason | None,
        now: float,
        *,
        exit_code: int | None = None,
    ) -> None:
        """Bring a container to its final state and let go of it."""
        ...

    def lock(self, container_id: str) -> None:
        """Note that a container has a place that it waits for."""
        ...

    def unlock(self, container_id: str) -> None:
        """Note that a container has none any more."""
        ...

    def publish(self, what: Publication) -> None:
        """Tell people of something that changes no container."""
        ...
