"""Who places the containers that never wait in the queue: a seam for per-instance and elastic jobs.

A planning pass lets each workload scheduler do its part before the batch work: it starts and ends
attempts of its jobs, and says what room of which instance it keeps
(`WorkloadScheduler.reservations`). Once the end of an attempt of such a job is on record it decides
what follows (`WorkloadScheduler.decide`); of batch work that is for `state.restarts` to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from longshore.dispatcher.domain.containers import Container, SchedulerSettings, WaitReason
from longshore.dispatcher.domain.jobs import Job
from longshore.dispatcher.state import restarts
from longshore.dispatcher.state.attempt_end import ClosedAttempt, Decision
from longshore.dispatcher.state.job_registry import JobRegistry
from longshore.drivers.interface import InstanceType, Resources

NOTHING = Resources()

ATTEMPTS_MOST = 1000
"""With so many attempts a container ends that would only fail once more: each is kept whole."""


class WorkloadScheduler(Protocol):
    """Places the containers of one type of jobs; called on the engine's thread only."""

    @property
    def reservations(self) -> Mapping[str, Resources]:
        """Return what room it keeps, by the slot's id (a worker's, or a launch's token).

        As of the latest `place`; nobody else gets it. Slots that lack keep nothing.
        """
        ...

    @property
    def claimed_workers(self) -> frozenset[str]:
        """Return the workers on their way that something waits for: they are not idle."""
        ...

    @property
    def reserved_count(self) -> int:
        """Return for how many containers it keeps room that count against limits of how many."""
        ...

    def admit(self, job: Job) -> None:
        """Take in a job of its type, new, restored or revised; its containers come after it."""
        ...

    def changed(self, job_id: str, /) -> None:
        """Note that a job was held, released or given another priority, or is to be cancelled."""
        ...

    def take_in(self, container: Container) -> None:
        """Take in a container of such a job, new or restored with its attempts."""
        ...

    def began(self, container: Container, now: float, /) -> None:
        """Note that the latest attempt of a container was seen to run."""
        ...

    def decide(self, closed: ClosedAttempt, now: float, /) -> Sequence[Decision]:
        """Return what becomes of a container whose attempt is over, and what follows for others.

        One of these decisions is about the container itself.
        """
        ...

    def place(self, now: float) -> None:
        """Do its part of a planning pass: start, end, and keep room."""
        ...

    def next_due(self) -> float | None:
        """Return when it wants a pass though nothing happens, None for never."""
        ...

    def reason(self, container: Container) -> WaitReason | None:
        """Return why a container of its waits, None where it does not know of it."""
        ...

    def place_of(self, container: Container) -> str:
        """Return the slot on which room is kept for a container that waits, "" for none."""
        ...


class WorkloadSchedulers:
    """All workload schedulers behind one door: each call goes to the one that knows the job."""

    def __init__(
        self,
        *,
        jobs: JobRegistry,
        settings: SchedulerSettings,
        per_instance: WorkloadScheduler,
        elastic: WorkloadScheduler,
    ) -> None:
        self._jobs = jobs
        self._settings = settings
        self.per_instance = per_instance
        self.elastic = elastic
        self._all = (per_instance, elastic)

    def of(self, container: Container) -> WorkloadScheduler | None:
        """Return who places a container, None where that waits in the queue."""
        return self.of_job(container.job_id)

    def of_job(self, job_id: str) -> WorkloadScheduler | None:
        """Return who places an unfinished job's containers, None where they wait in the queue."""
        type_ = self._jobs.type_of(job_id)
        if type_ is None or not type_.has_own_scheduler:
            return None
        return self.per_instance if type_.is_per_instance else self.elastic

    def admit(self, job: Job) -> None:
        """Take in a job, new or restored or at its next revision; batch jobs are nobody's."""
        workload = self.of_job(job.id)
        if workload is not None:
            workload.admit(job)

    def changed(self, job_id: str) -> None:
        """Note that users asked something of a whole job; batch jobs are nobody's."""
        workload = self.of_job(job_id)
        if workload is not None:
            workload.changed(job_id)

    def take_in(self, container: Container) -> None:
        """Take in a container, new or restored; those of batch jobs, and of none, are nobody's."""
        workload = self.of(container)
        if workload is not None:
            workload.take_in(container)

    def began(self, container: Container, now: float) -> None:
        """Note that the latest attempt of a container was seen to run."""
        workload = self.of(container)
        if workload is not None:
            workload.began(container, now)

    def decide(self, closed: ClosedAttempt, now: float) -> Sequence[Decision]:
        """Return what becomes of a container whose attempt is over, and what follows for others."""
        workload = self.of(closed.container)
        if workload is None:
            return [restarts.after(closed, self._settings, now)]
        return workload.decide(closed, now)

    def reason(self, container: Container) -> WaitReason | None:
        """Return why a container waits, None where no workload scheduler knows of it."""
        workload = self.of(container)
        return workload.reason(container) if workload is not None else None

    def place_of(self, container: Container) -> str:
        """Return the slot on which room is kept for a container that waits, "" for none."""
        workload = self.of(container)
        return workload.place_of(container) if workload is not None else ""

    def place(self, now: float) -> None:
        """Let each do its part of a pass."""
        for workload in self._all:
            workload.place(now)

    def next_due(self) -> float | None:
        """Return when the first of them wants a pass, None for never."""
        dues = [workload.next_due() for workload in self._all]
        return min([due for due in dues if due is not None], default=None)

    def claimed_workers(self) -> frozenset[str]:
        """Return the workers that somebody waits for."""
        return frozenset().union(*(workload.claimed_workers for workload in self._all))

    def reservations(self) -> dict[str, Resources]:
        """Return what room all keep together, by the slot's id; a new mapping."""
        total: dict[str, Resources] = {}
        for workload in self._all:
            for slot_id, room in workload.reservations.items():
                total[slot_id] = total.get(slot_id, NOTHING).plus(room)
        return total

    def reserved_count(self) -> int:
        """Return for how many containers all together keep room, and a place among how many may."""
        return sum(workload.reserved_count for workload in self._all)


class NewInstances:
    """What others find of a new instance: as its type turned out, without what daemons take."""

    def __init__(
        self,
        *,
        as_bought: Callable[[InstanceType], InstanceType],
        daemons_take: Callable[[InstanceType], Resources],
    ) -> None:
        """`as_bought` tells a type as new ones turned out, with the share of use that was lost.

        `daemons_take` tells what is taken of such a one as soon as it is there.
        """
        self._as_bought = as_bought
        self._daemons_take = daemons_take
        # By type, for what is taken of it: there may be hundreds of types, and each pass asks.
        self._left: dict[str, tuple[Resources, InstanceType, InstanceType]] = {}

    def daemon_overhead(self, type_: InstanceType) -> Resources:
        """Return what daemons take of a new instance of a type."""
        return self._daemons_take(self._as_bought(type_))

    def allocatable_left(self, type_: InstanceType) -> InstanceType:
        """Return a type as others find a new instance of it: priced, without what is taken.

        Where instances of it turned out to be smaller than it says, it is so, too.
        """
        type_ = self._as_bought(type_)
        taken = self._daemons_take(type_)
        known = self._left.get(type_.name)
        if known is None or known[:2] != (taken, type_):
            left = replace(type_, reserve=type_.reserve.plus(taken))
            known = (taken, type_, type_ if taken == NOTHING else left)
            self._left[type_.name] = known
        return known[2]
