"""Signals to what is to end: TERM, again and again, and KILL once it had its time.

Both count from when they were decided, which is when they are sent, but for a store stall.
"""

from __future__ import annotations

from typing import assert_never

from longshore.pool.core import PoolCore
from longshore.pool.messages import SignalAttempt
from longshore.pool.model import Finished, PoolAttempt, Running, Starting, Stopping
from longshore.pool.timers import TimerKind

_KILLS_BEFORE_DRAIN = 3


def tell_to_end(attempt: PoolAttempt) -> bool:
    """Note that an attempt is to end; return whether that is new, and it has not ended."""
    match attempt.phase:
        case Starting(to_end=False):
            attempt.phase = Starting(to_end=True)
        case Running():
            attempt.phase = Stopping()
        case Starting() | Stopping() | Finished():
            return False
        case unknown:
            assert_never(unknown)
    return True


def kills_of(attempt: PoolAttempt) -> int:
    """Return how often KILL was sent to an attempt."""
    match attempt.phase:
        case Stopping(kills=kills) | Finished(kills=kills):
            return kills
        case Starting() | Running():
            return 0
        case unknown:
            assert_never(unknown)


def unkillable(attempt: PoolAttempt) -> bool:
    """Return whether KILL was sent to an attempt so often that it will never end."""
    return kills_of(attempt) > _KILLS_BEFORE_DRAIN


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
    if not attempt.is_to_end:
        return
    if core.stalled:
        return
    if worker is None or not worker.link.session_up:
        return
    signal, again_at = "TERM", now + core.settings.signal_interval_s
    left_s = grace_of(core, attempt)
    if isinstance(attempt.phase, Stopping):
        since, kills = attempt.phase.since, attempt.phase.kills
        since = now if since is None else since
        kill_at = since + left_s
        if now >= kill_at:
            signal, kills = "KILL", kills + 1
        elif now < kill_at:
            again_at = min(again_at, kill_at)
        left_s = max(0.0, kill_at - now)
        attempt.phase = Stopping(since=since, kills=kills)
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
    if isinstance(attempt.phase, Stopping):
        sent_at = attempt.phase.since
        attempt.phase = Stopping(since=None if sent_at is None or sent_at >= since else sent_at)
