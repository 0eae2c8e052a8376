"""What admins ask of instances, carried out on the pool."""

from __future__ import annotations

from typing import assert_never

from longshore.dispatcher.messages import (
    AdminEvent,
    BehaviorRequested,
    InstanceKillRequested,
    PublishStray,
    StrayDeed,
    StraysDecided,
)
from longshore.pool import attempts, idle, strays
from longshore.pool.core import PoolCore
from longshore.pool.model import WorkerState


def carry_out(pool: PoolCore, event: AdminEvent, now: float) -> list[PublishStray]:
    """Do what an admin asks of an instance, if it is known; return what is told of strays there.

    What is being shut down stays so: nothing is journalled, tagged or told. But a kill ends the
    wait for what still puts things in order there.
    """
    worker = pool.workers.get(event.worker_id)
    if worker is None:
        return []
    match event:
        case BehaviorRequested():
            if worker.state is not WorkerState.SHUTDOWN:
                idle.set_behavior(pool, worker, event.behavior, now, event.note)
        case InstanceKillRequested():
            idle.kill_worker(pool, worker, event.reason, now)
        case StraysDecided():
            return _decide(pool, event, now)
        case _:
            assert_never(event)
    return []


def _decide(pool: PoolCore, event: StraysDecided, now: float) -> list[PublishStray]:
    """End strays that are kept, or leave them to their own end; what is gone is left out."""
    told = []
    for attempt in strays.kept(pool):
        if attempt.worker_id != event.worker_id or attempt.remote_id not in event.attempt_ids:
            continue
        if event.adopt:
            strays.adopt(pool, attempt)
        else:
            attempts.kill(pool, attempt.id, now)
        told.append(
            PublishStray(
                deed=StrayDeed.ADOPTED if attempt.adopted else StrayDeed.KILLED,
                worker_id=attempt.worker_id,
                attempt_id=attempt.remote_id,
                container_id=attempt.container_id,
                store=attempt.store,
            )
        )
    return told
