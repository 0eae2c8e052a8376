"""Spare cpus of an instance, shared among the elastic-job containers there; pure.

What no container has reserved is shared equally above the minimum that each asked for. Containers
with GPUs keep what they asked for: they have as many cpus as go with their GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from longshore.dispatcher.domain.jobs import JobType
from longshore.dispatcher.scheduler.placement.container_port import ContainerPort
from longshore.drivers.interface import Resources
from longshore.pool.charging import SHARED_CPU_MILLIS, as_found, charge
from longshore.pool.model import Worker
from longshore.pool.port import PoolPort


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuShare:
    """A container of an elastic job that runs on the instance, by the id of its attempt.

    `given` is what it was given there: the least that it ever has.
    """

    attempt_id: str
    given: Resources

    @property
    def least_millis(self) -> int:
        """Return the thousandths of a cpu that it has without any share."""
        return self.given.cpu_millis or SHARED_CPU_MILLIS


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuLimit:
    """What an attempt may use from now on."""

    attempt_id: str
    cpu_millis: int


def unreserved_millis(allocatable: Resources, reserved: Iterable[Resources]) -> int:
    """Return the thousandths of a cpu that no container of an instance has reserved, at least 0.

    `reserved` is what each container there was given, those of elastic jobs and all others.
    """
    left, on_shared_cpu = allocatable, 0
    for given in sorted(reserved, key=lambda given: given.cpu_millis):
        left = left.minus(charge(given, on_shared_cpu=on_shared_cpu))
        on_shared_cpu += given.cpu_millis == 0
    return max(0, left.cpu_millis)


def cpu_limits(spare_millis: int, shares: Iterable[CpuShare]) -> dict[str, int]:
    """Return what each container may use, in thousandths of a cpu, by attempt.

    All that is spare is given out, if anybody may have it: what cannot be halved goes to the first
    by id.
    """
    everybody = sorted(shares, key=lambda share: share.attempt_id)
    limits = {share.attempt_id: share.least_millis for share in everybody}
    takers = [share.attempt_id for share in everybody if not share.given.gpus]
    for number, attempt_id in enumerate(takers):
        limits[attempt_id] += spare_millis // len(takers) + (number < spare_millis % len(takers))
    return limits


def changes(known: Mapping[str, int], wanted: Mapping[str, int]) -> tuple[CpuLimit, ...]:
    """Return which limits are to be set, in that order, lower ones before higher ones.

    `known` are those that are set, by attempt, or on their way; one that is missing there has none
    yet. Whoever is lowered comes first, so that at no time more is given out than there is.
    """
    new = [
        (limit > known.get(attempt_id, 0), attempt_id, limit)
        for attempt_id, limit in wanted.items()
        if known.get(attempt_id) != limit
    ]
    return tuple(
        CpuLimit(attempt_id=attempt_id, cpu_millis=limit) for _, attempt_id, limit in sorted(new)
    )


# ---- spare cpus of instances, given to the containers of elastic jobs that run there -------------


@dataclass(slots=True, kw_only=True)
class _Given:
    """What the containers on an instance may use, by attempt, in the session of a time."""

    attached_at: float
    limits: dict[str, int] = field(default_factory=dict)


class SpareCpus:
    """Shares the cpus that nobody on an instance has reserved, anew on each start and exit there.

    Nothing is said to an instance without a session; to one whose session is new, all is.
    """

    def __init__(self, pool: PoolPort, table: ContainerPort) -> None:
        self._pool = pool
        self._changes = pool.follow()
        self._table = table
        self._given: dict[str, _Given] = {}
        self._noted: set[str] = set()

    def note(self, worker_id: str) -> None:
        """Remember an instance for the next `share`."""
        self._noted.add(worker_id)

    def note_changes(self) -> None:
        """Remember all instances that have changed since the last time.

        That is for passes: `share` comes after every event, and would go through them each time.
        """
        self._noted |= self._changes.drain()

    def rest(self) -> None:
        """Forget what has changed: there are no jobs."""
        self._changes.drain()

    def share(self) -> None:
        """Tell what has changed of the shares on the instances that were noted, each once."""
        noted, self._noted = self._noted, set()
        for worker_id in sorted(noted):
            worker = self._pool.workers.get(worker_id)
            if worker is None:
                self._given.pop(worker_id, None)
            elif worker.link.session_up:
                self._share(worker)

    def _share(self, worker: Worker) -> None:
        shares = [
            s for id_ in worker.load.attempts if (s := self._share_of(worker, id_)) is not None
        ]
        given = self._given.get(worker.id)
        if given is None or given.attached_at != worker.link.attached_at:
            given = _Given(attached_at=worker.link.attached_at)
        if not shares:
            self._given.pop(worker.id, None)
            return
        spare = unreserved_millis(as_found(worker).allocatable, worker.load.attempts.values())
        wanted = cpu_limits(spare, shares)
        for change in changes(given.limits, wanted):
            self._pool.limit_cpus(worker.id, change.attempt_id, change.cpu_millis)
        given.limits = wanted
        self._given[worker.id] = given

    def _share_of(self, worker: Worker, attempt_id: str) -> CpuShare | None:
        """Return an attempt if it is of an elastic job and runs; with GPUs it has what it has."""
        attempt = self._pool.attempt(attempt_id)
        container_id = self._table.open_attempts.get(attempt_id)
        if attempt is None or container_id is None or not attempt.is_seen_running:
            return None
        job_id = self._table.containers[container_id].job_id
        is_elastic = self._table.jobs.type_of(job_id) is JobType.ELASTIC
        if not is_elastic or worker.load.attempts[attempt_id].gpus:
            return None
        return CpuShare(attempt_id=attempt_id, given=worker.load.attempts[attempt_id])
