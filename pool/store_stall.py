"""While the store cannot be written, what is decided is not done, and time says nothing.

No probe goes out and no signal: who does not answer may never have been asked. So nobody is judged
by silence until it is over; then each has the whole time anew in which to be heard of.

Stands alone: it suspends the time limits of several reactors, and belongs to none of them.
"""

from __future__ import annotations

from longshore.pool import attempts, shutdown, signals
from longshore.pool.core import PoolCore
from longshore.pool.messages import HeldUp
from longshore.pool.model import PoolAttempt


def begin(core: PoolCore, event: HeldUp) -> None:
    """Judge nobody from now on, and take back the signals that were not sent."""
    core.held_up = True
    for attempt in _to_end(core):
        signals.take_back(core, attempt, event.since)


def end(core: PoolCore, now: float) -> None:
    """Send the signals that are due by now, and let all that is waited for begin anew."""
    core.held_up = False
    core.moved_on_at = now
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
