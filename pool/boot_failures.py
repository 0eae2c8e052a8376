"""Instances that are of no use before anything ran on them, and how they slow creating down.

A mistake in the configuration must not buy and destroy instances without end. So a row of two or
more that were of no use, without one in between that ran something, holds all creates, longer each
time. Instances that were bought before the end of a hold count as part of the same mistake.
"""

from __future__ import annotations

import math

from longshore.pool.core import PoolCore
from longshore.pool.model import IdleBehavior, Worker, WorkerState
from longshore.pool.timers import TimerKind


def note(core: PoolCore, worker: Worker, why: str, now: float) -> None:
    """Count a worker as of no use, once, unless something ran on it; two or more hold creates."""
    if worker.health.proven or worker.health.stillborn:
        return
    worker.health.stillborn = True
    if worker.appeared_at < core.stillborn_until:
        # It was bought before those told that were bought with it: ten at once are one mistake.
        return
    core.stillborn += 1
    core.stillborn_why = why
    core.stillborn_since = min(core.stillborn_since, worker.appeared_at)
    if core.stillborn == 1:
        return
    core.stillborn_until = core.holds.stillborn(count=core.stillborn, why=why, now=now)
    core.timers.arm(TimerKind.HOLD, core.holds.next_end(now))


def prove(core: PoolCore, worker: Worker, now: float) -> None:
    """Note that an attempt was seen to run on a worker; its first one ends the row, and the hold.

    But not if the worker is older than all of the row: that it works says nothing of what is bought
    now.
    """
    if worker.health.proven:
        return
    worker.health.proven = True
    if core.stillborn and worker.appeared_at >= core.stillborn_since:
        core.stillborn = 0
        core.stillborn_since = math.inf
        core.stillborn_until = min(core.stillborn_until, now)
        core.holds.useful()
        core.timers.arm(TimerKind.HOLD, core.holds.next_end(now))


def unproven(core: PoolCore) -> bool:
    """Return whether an instance bought since the last useless ones may yet be of use."""
    return any(
        worker.appeared_at >= core.stillborn_until
        and worker.behavior is IdleBehavior.RUN
        and worker.state is not WorkerState.SHUTDOWN
        and not worker.health.broken
        and not worker.health.proven
        for worker in core.workers.values()
    )
