"""While the store is stalled no command is sent, so timeouts are suspended.

An instance that was never asked is not to be judged silent, and an attempt that was never sent TERM
gets no KILL. `begin` takes back the signals that were not sent; while it lasts no probe and no
signal goes out, and silence decides nothing. `end` sends the signals that are due by then, and
gives every worker its whole time anew in which to be heard of.

Stands alone: it suspends the time limits of several reactors, and belongs to none of them.
"""

from __future__ import annotations

from longshore.pool import attempts, shutdown, signals
from longshore.pool.core import PoolCore
from longshore.pool.messages import StoreStalled
from longshore.pool.model import PoolAttempt


def begin(core: PoolCore, event: StoreStalled) -> None:
    """Suspend timeouts, and take back the signals that were decided and not sent."""
    core.stalled = True
    for attempt in _to_end(core):
        signals.take_back(core, attempt, event.since)


def end(core: PoolCore, now: float) -> None:
    """Send the signals that are due by now, and let the timeouts of all workers begin anew."""
    core.stalled = False
    core.recovered_at = now
    for attempt in _to_end(core):
        attempts.signal_if_wanted(core, attempt, now)
    for worker_id in sorted(core.workers):
        worker = core.workers[worker_id]
        shutdown.wait_anew(core, worker, now)
        shutdown.review(core, worker, now)


def _to_end(core: PoolCore) -> list[PoolAttempt]:
    """Return the attempts that were told to end and have not, in the order of their ids."""
    return [
        core.attempts[attempt_id]
        for attempt_id in sorted(core.attempts)
        if core.attempts[attempt_id].is_to_end
    ]
