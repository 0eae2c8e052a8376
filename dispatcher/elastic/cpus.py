"""Spare cpus of instances, given to the containers of elastic jobs that run there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from longshore.dispatcher.ledger.ledger import Ledger
from longshore.dispatcher.planner.elastic_shares import (
    Sharer,
    changes,
    cpu_limits,
    unreserved_millis,
)
from longshore.dispatcher.scheduling.placers import Placers
from longshore.pool.core import PoolCore
from longshore.pool.messages import UpdateLimits
from longshore.pool.model import AttemptPhase, Worker
from longshore.pool.room import as_found


@dataclass(slots=True, kw_only=True)
class _Given:
    """What the containers on an instance may use, by attempt, in the session of a time."""

    attached_at: float
    limits: dict[str, int] = field(default_factory=dict)


class SpareCpus:
    """Shares the cpus that nobody on an instance has reserved, anew on each start and exit there.

    Nothing is said to an instance without a session; to one whose session is new, all is.
    """

    def __init__(self, pool: PoolCore, ledger: Ledger, placers: Placers) -> None:
        self._pool = pool
        self._ledger = ledger
        self._placers = placers
        self._given: dict[str, _Given] = {}
        self._noted: set[str] = set()

    def note(self, worker_ids: Iterable[str]) -> None:
        """Remember instances for the next `share`: whoever else goes by them forgets them."""
        self._noted |= set(worker_ids)

    def share(self) -> None:
        """Tell what has changed of the shares on the instances that were noted, each once.

        It comes after every event: the pool's `touched` would be gone through each time.
        """
        noted, self._noted = self._noted, set()
        for worker_id in sorted(noted):
            worker = self._pool.workers.get(worker_id)
            if worker is None:
                self._given.pop(worker_id, None)
            elif worker.session_up:
                self._share(worker)

    def _share(self, worker: Worker) -> None:
        sharers = [s for id_ in worker.attempts if (s := self._sharer(worker, id_)) is not None]
        given = self._given.get(worker.id)
        if given is None or given.attached_at != worker.attached_at:
            given = _Given(attached_at=worker.attached_at)
        if not sharers:
            self._given.pop(worker.id, None)
            return
        spare = unreserved_millis(as_found(worker).allocatable, worker.attempts.values())
        wanted = cpu_limits(spare, sharers)
        for change in changes(given.limits, wanted):
            self._pool.commands.append(
                UpdateLimits(
                    worker_id=worker.id,
                    attempt_id=change.attempt_id,
                    cpu_millis=change.cpu_millis,
                )
            )
        given.limits = wanted
        self._given[worker.id] = given

    def _sharer(self, worker: Worker, attempt_id: str) -> Sharer | None:
        """Return an attempt if it is of an elastic job and runs; with GPUs it has what it has."""
        attempt = self._pool.attempts.get(attempt_id)
        container_id = self._ledger.open_attempts.get(attempt_id)
        if attempt is None or container_id is None or attempt.phase is not AttemptPhase.RUNNING:
            return None
        placer = self._placers.of(self._ledger.containers[container_id])
        if (
            placer is None
            or placer is not self._placers.elastic
            or worker.attempts[attempt_id].gpus
        ):
            return None
        return Sharer(attempt_id=attempt_id, given=worker.attempts[attempt_id])
