"""The invariants of the pool's state, which tests look at after every event."""

from __future__ import annotations

from longshore.drivers.errors import BugError
from longshore.pool.core import PoolCore
from longshore.pool.model import Worker, WorkerState
from longshore.pool.room import room_left
from longshore.pool.timers import TimerKind


def check(core: PoolCore) -> None:
    """Raise `BugError` when an invariant of the pool does not hold."""
    residents: dict[str, set[str]] = {}
    for attempt in core.attempts.values():
        if attempt.resident:
            residents.setdefault(attempt.worker_id, set()).add(attempt.id)
    for worker in core.workers.values():
        _check_worker(core, worker, residents.get(worker.id, set()))
    for attempt in core.attempts.values():
        if attempt.worker_id not in core.workers and core.listed_once:
            raise BugError(f"{attempt.id}: on a worker that is not known")


def _check_worker(core: PoolCore, worker: Worker, residents: set[str]) -> None:
    if worker.free != room_left(worker):
        raise BugError(f"{worker.id}: free resources do not add up")
    if worker.state is WorkerState.IDLE and worker.busy_with:
        busy = sorted(worker.attempts.keys() - worker.resident)
        raise BugError(f"{worker.id}: idle with attempts {busy}")
    if worker.state is WorkerState.RUNNING and not worker.busy_with:
        raise BugError(f"{worker.id}: running without an attempt")
    if worker.resident != residents & worker.attempts.keys():
        raise BugError(f"{worker.id}: its residents do not add up")
    waits = worker.state is WorkerState.SHUTDOWN and worker.session_up
    if waits != (core.timers.due(TimerKind.DISMISSAL, worker.id) is not None):
        raise BugError(f"{worker.id}: it waits for its residents without end, or for none")
    if not worker.attempts.keys() <= core.attempts.keys():
        strangers = sorted(worker.attempts.keys() - core.attempts.keys())
        raise BugError(f"{worker.id}: holds room for unknown attempts {strangers}")
