"""Starting containers on workers, for whoever decides it: the batch pass, or another placer."""

from __future__ import annotations

from longshore.dispatcher.ledger.environment import environment
from longshore.dispatcher.ledger.ledger import Ledger
from longshore.dispatcher.model import Attempt
from longshore.drivers.interface import Resources
from longshore.pool import attempts
from longshore.pool.core import PoolCore
from longshore.pool.model import AttemptOrder, Worker
from longshore.pool.room import SHARED_CPU_MILLIS


class Starter:
    """Begins attempts: in the ledger first, so that they are journalled, then in the pool."""

    def __init__(self, pool: PoolCore, ledger: Ledger) -> None:
        self._pool = pool
        self._ledger = ledger

    def start(
        self,
        container_id: str,
        worker: Worker,
        need: Resources,
        now: float,
        *,
        revision: int = 0,
        more: tuple[tuple[str, str], ...] = (),
    ) -> Attempt:
        """Begin an attempt of a waiting container on a ready worker, where `need` is its room.

        `revision` is what `Attempt.revision` is to be; `more` goes to its environment.
        """
        ledger = self._ledger
        attempt = ledger.open_attempt(container_id, worker, now, revision=revision)
        container = ledger.containers[container_id]
        spec = container.spec
        array_size = ledger.jobs.size_of(container)
        order = AttemptOrder(
            attempt_id=attempt.id,
            container_id=container_id,
            image=spec.image,
            command=spec.command,
            entrypoint=spec.entrypoint,
            init=spec.init,
            env=environment(container, attempt, array_size, more),
            cpu_millis=need.cpu_millis or SHARED_CPU_MILLIS,
            memory_bytes=need.memory_bytes,
            resident=bool(container.pinned_to),
        )
        grace_s, user = spec.grace_period_s, container.user
        attempts.place(self._pool, worker, order, need, now, grace_s=grace_s, user=user)
        return attempt
