"""What admins ask of instances, carried out on the pool."""

from __future__ import annotations

from typing import assert_never

from dispatcher.messages import BehaviorRequested, InstanceKillRequested
from pool import idle
from pool.core import PoolCore
from pool.model import WorkerState


def carry_out(pool: PoolCore, event: BehaviorRequested | InstanceKillRequested, now: float) -> None:
    """Do what an admin asks of an instance, if it is known.

    What is being shut down stays so: nothing is journalled, tagged or told. But a kill ends the
    wait for what still puts things in order there.
    """
    worker = pool.workers.get(event.worker_id)
    if worker is None:
        return
    match event:
        case BehaviorRequested():
            if worker.state is not WorkerState.SHUTDOWN:
                idle.set_behavior(pool, worker, event.behavior, now)
        case InstanceKillRequested():
            idle.kill_worker(pool, worker, event.reason, now)
        case _:
            assert_never(event)
