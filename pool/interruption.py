"""What an instance says of being taken back by its cloud, and what that explains.

Believed only of preemptible types: what says so runs on the instance, where a job may forge it. The
worker gets no new work then and is drained; what runs goes on as long as it is let.
"""

from __future__ import annotations

from longshore.pool import shutdown
from longshore.pool.core import PoolCore
from longshore.pool.messages import InterruptionNoticed
from longshore.pool.model import AttemptExit, ExitKind, Worker, WorkerState

_BY_SIGNAL = frozenset({128 + 9, 128 + 15})
"""What exits with when its instance powers off: TERM or KILL, which nobody here sent."""


def on_noticed(core: PoolCore, event: InterruptionNoticed, now: float) -> None:
    """Take in when an instance is to be taken back; a repetition changes nothing."""
    worker = core.workers.get(event.worker_id)
    if worker is None or worker.state is WorkerState.SHUTDOWN or worker.health.interruption:
        return
    if not worker.type.preemptible:
        what = "it says that the cloud takes it back, which is not believed: it is not preemptible"
        core.note_changed(worker, what)
        return
    worker.health.taken_back(event.at)
    core.statistics.interruptions += 1
    worker.invalidate_probe()
    core.note_changed(worker, f"the cloud takes it back at {event.at}")
    shutdown.review(core, worker, now)


def explains_exit(worker: Worker | None, how: AttemptExit) -> bool:
    """Return whether an exit that nobody asked for is the cloud's doing."""
    if worker is None or not worker.health.interruption:
        return False
    return how.kind is ExitKind.LOST or (how.kind is ExitKind.EXITED and how.code in _BY_SIGNAL)


def explains_loss(worker: Worker | None) -> bool:
    """Return whether an attempt of which there is no exit went with an instance taken back."""
    return worker is not None and bool(worker.health.interruption)
