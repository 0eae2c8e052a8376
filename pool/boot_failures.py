"""Instances that are of no use before anything ran on them, and how they slow creating down.

A mistake in the configuration must not buy and destroy instances without end. So a row of two or
more that were of no use, without one in between that ran something, holds all creates, longer each
time. Instances that were bought before the end of a hold count as part of the same mistake.

What proves an instance is a program that has run there: one that ended as programs do, a plain
process that its runner has started, or one with an image that was seen to run for
`PROVES_AFTER_S`. Of these it is not enough that they were started: an engine may find out only then
that it can run nothing (`pool.trials`), and the time in which an image is fetched says nothing
either. Doubt: an engine that takes longer than that to fail passes for one that works.
"""

from __future__ import annotations

import math

from longshore.pool.core import PoolCore
from longshore.pool.model import IdleBehavior, PoolAttempt, Worker, WorkerState
from longshore.pool.timers import TimerKind

PROVES_AFTER_S = 30.0


def note(core: PoolCore, worker: Worker, why: str, now: float) -> None:
    """Count a worker as of no use, once, unless something ran on it; two or more hold creates."""
    if worker.health.has_run or worker.health.boot_failed:
        return
    worker.health.was_of_no_use()
    if worker.appeared_at < core.boot_failures_until:
        # It was bought before those told that were bought with it: ten at once are one mistake.
        return
    core.boot_failures += 1
    core.boot_failure_reason = why
    core.boot_failures_since = min(core.boot_failures_since, worker.appeared_at)
    if core.boot_failures == 1:
        return
    core.boot_failures_until = core.holds.boot_failed(count=core.boot_failures, why=why, now=now)
    core.timers.arm(TimerKind.HOLD, core.holds.next_end(now))


def seen_running(core: PoolCore, worker: Worker, attempt: PoolAttempt, now: float) -> None:
    """Have an attempt that is seen to run prove its worker; with an image, if it goes on like that.

    What was there before us may have run for long, and proves it at once.
    """
    attempt.running_since = now
    if not worker.launched_here or not attempt.contained:
        note_run(core, worker, now)
    elif not worker.health.has_run:
        core.timers.set(TimerKind.PROOF, attempt.id, now + PROVES_AFTER_S)


def on_proof_due(core: PoolCore, attempt_id: str, now: float) -> bool:
    """Take an attempt that still runs for a proof; return whether that lets creating go on.

    Without a session nobody knows whether it does.
    """
    attempt = core.attempts.get(attempt_id)
    worker = core.workers.get(attempt.worker_id) if attempt is not None else None
    if attempt is None or worker is None or not attempt.is_seen_running:
        return False
    if attempt.pulling or not worker.link.session_up:
        core.timers.set(TimerKind.PROOF, attempt_id, now + PROVES_AFTER_S)
        return False
    slowed_down = core.boot_failures > 0
    note_run(core, worker, now)
    return slowed_down and core.boot_failures == 0


def note_run(core: PoolCore, worker: Worker, now: float) -> None:
    """Note that something has run on a worker; its first ends the row, and the hold.

    But not if the worker is older than all of the row: that it works says nothing of what is bought
    now.
    """
    if worker.health.has_run:
        return
    worker.health.ran_one()
    if core.boot_failures and worker.appeared_at >= core.boot_failures_since:
        core.boot_failures = 0
        core.boot_failures_since = math.inf
        core.boot_failures_until = min(core.boot_failures_until, now)
        core.holds.useful()
        core.timers.arm(TimerKind.HOLD, core.holds.next_end(now))


def any_untried(core: PoolCore) -> bool:
    """Return whether an instance bought since the last useless ones may yet be of use."""
    return any(
        worker.appeared_at >= core.boot_failures_until
        and worker.behavior is IdleBehavior.RUN
        and worker.state is not WorkerState.SHUTDOWN
        and not worker.health.broken
        and not worker.health.has_run
        for worker in core.workers.values()
    )
