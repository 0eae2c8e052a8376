"""Residents of a worker that is being shut down: each is told to end, and has some time for it.

They belong to their instance and keep it from nothing, but what they have to put in order before it
is destroyed they may: for as long as the most patient of them asks, and no longer than all get.
"""

from __future__ import annotations

from collections.abc import Sequence

from longshore.pool import signals
from longshore.pool.core import PoolCore
from longshore.pool.model import PoolAttempt, Worker, WorkerState
from longshore.pool.notices import AttemptDismissed
from longshore.pool.timers import TimerKind


def dismiss(core: PoolCore, worker: Worker, now: float) -> bool:
    """Tell the residents of a worker to end; return whether some are to be waited for.

    There are none where nothing can be told to them, and none are those that survive KILL.
    """
    residents = [core.attempts[attempt_id] for attempt_id in sorted(worker.resident)]
    ending = [attempt for attempt in residents if not signals.given_up(attempt)]
    if not worker.session_up or not ending:
        return False
    for attempt in ending:
        attempt.dismissed = True
        core.notices.append(AttemptDismissed(attempt_id=attempt.id, worker_id=worker.id))
        if not attempt.kill_wanted:
            attempt.kill_wanted = True
            signals.send_if_wanted(core, attempt, now)
    _wait(core, worker, ending, now)
    return True


def wait_anew(core: PoolCore, worker: Worker, now: float) -> None:
    """Give the dismissed residents of a worker their whole time again, if some are waited for."""
    ending = [a for a in core.attempts_on(worker.id) if _is_ending(a)]
    if worker.state is WorkerState.SHUTDOWN and worker.session_up and ending:
        _wait(core, worker, ending, now)


def _wait(core: PoolCore, worker: Worker, ending: Sequence[PoolAttempt], now: float) -> None:
    longest_s = max(signals.grace_of(core, attempt) for attempt in ending)
    patience_s = min(longest_s, core.settings.term_timeout_s)
    core.timers.set(TimerKind.DISMISSAL, worker.id, now + patience_s)


def are_ending(core: PoolCore, worker: Worker) -> bool:
    """Return whether a resident that was dismissed still runs, or its log is still on its way."""
    return any(_is_ending(attempt) for attempt in core.attempts_on(worker.id))


def _is_ending(attempt: PoolAttempt) -> bool:
    return attempt.dismissed and not signals.given_up(attempt)
