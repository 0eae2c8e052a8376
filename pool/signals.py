"""Signals to what is to end: TERM, again and again, and KILL once it had its time.

Both count from when they were decided, which is when they are sent, but for a standstill.
"""

from __future__ import annotations

from longshore.pool.core import PoolCore
from longshore.pool.messages import SignalAttempt
from longshore.pool.model import AttemptPhase, PoolAttempt
from longshore.pool.timers import TimerKind

_KILLS_BEFORE_DRAIN = 3


def given_up(attempt: PoolAttempt) -> bool:
    """Return whether KILL was sent to an attempt so often that it will never end."""
    return attempt.kills_sent > _KILLS_BEFORE_DRAIN


def grace_of(core: PoolCore, attempt: PoolAttempt) -> float:
    """Return how many seconds an attempt gets between TERM and KILL."""
    return core.settings.term_timeout_s if attempt.grace_s is None else attempt.grace_s


def send_if_wanted(core: PoolCore, attempt: PoolAttempt, now: float) -> None:
    """Send the signal that is due to an attempt that is to end; without a session, none is.

    Nor is one while all commands wait: it would come at the same moment as the next.

    The time until KILL counts from the first TERM that had a session to go through and was sent to
    what is known to run: a start that is not answered yet may still be on its way. The runner is
    told of it: it kills what outlives the program by then, whatever has become of us.
    """
    worker = core.workers.get(attempt.worker_id)
    if not attempt.kill_wanted or attempt.phase is AttemptPhase.ENDED:
        return
    if core.held_up:
        return
    if worker is None or not worker.session_up:
        return
    if attempt.killed_at is None and attempt.phase is AttemptPhase.RUNNING:
        attempt.killed_at = now
    signal, again_at = "TERM", now + core.settings.signal_interval_s
    kill_at = None if attempt.killed_at is None else attempt.killed_at + grace_of(core, attempt)
    if kill_at is not None and now >= kill_at:
        signal = "KILL"
        attempt.kills_sent += 1
    elif kill_at is not None and now < kill_at:
        again_at = min(again_at, kill_at)
    left_s = grace_of(core, attempt) if kill_at is None else max(0.0, kill_at - now)
    core.commands.append(
        SignalAttempt(
            worker_id=attempt.worker_id,
            attempt_id=attempt.remote_id,
            signal=signal,
            grace_s=left_s,
        )
    )
    core.timers.set(TimerKind.SIGNAL, attempt.id, again_at)


def take_back(core: PoolCore, attempt: PoolAttempt, since: float) -> None:
    """Forget the signals that were decided `since` then: none of them was sent, and none will be.

    KILLs of before are forgotten with them, so that it gets enough of them once they are sent.
    """
    core.timers.clear(TimerKind.SIGNAL, attempt.id)
    attempt.kills_sent = 0
    if attempt.killed_at is not None and attempt.killed_at >= since:
        attempt.killed_at = None
