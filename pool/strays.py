"""Strays that are kept: what runs on an instance, and what another store than ours may know.

A stray is ended, as a rule: no container wants it, and our store, which started it, would know. But
a store that was lost and made anew, or put back to an older state, knows nothing of what the one
before it started. The runner tells which store an attempt comes from; what comes from another is
kept. It keeps its instance busy, and as nobody knows what room it takes nothing new goes there. An
admin decides: it is ended, or adopted, which leaves it to its own end and is no leak any more.
"""

from __future__ import annotations

from longshore.drivers.interface import Resources
from longshore.pool import boot_failures
from longshore.pool.core import PoolCore
from longshore.pool.model import AttemptReport, PoolAttempt, Running, Worker, stray_id
from longshore.pool.pool_events import StrayFound


def is_anothers(core: PoolCore, report: AttemptReport) -> bool:
    """Return whether an attempt that we do not know comes from another store than ours."""
    return bool(core.store and report.store) and report.store != core.store


def keep(core: PoolCore, worker: Worker, report: AttemptReport, now: float) -> None:
    """Take a stray that another store may know into the records, and leave it alone."""
    take_in(core, worker, report, now, kept_for=report.store)


def take_in(
    core: PoolCore, worker: Worker, report: AttemptReport, now: float, *, kept_for: str = ""
) -> PoolAttempt:
    """Take an attempt that no container wants into the records, and return it.

    `kept_for` is the other store that may know it, "" for one that is to be ended.
    """
    attempt = PoolAttempt(
        id=stray_id(worker.id, report.attempt_id),
        remote_id=report.attempt_id,
        worker_id=worker.id,
        resources=Resources(),
        phase=Running(),
        stray=True,
        store=kept_for,
        container_id=report.container_id,
        found_at=now if kept_for else 0.0,
    )
    core.add_attempt(attempt)
    core.hold_resources(worker, attempt)
    core.notices.append(
        StrayFound(
            attempt_id=report.attempt_id,
            worker_id=worker.id,
            container_id=report.container_id,
            kept_for=kept_for,
        )
    )
    if not kept_for and not worker.launched_here:
        # An earlier process may have started it there. What another store knows, or an image brings
        # along, says nothing of whether what we start runs.
        boot_failures.note_run(core, worker, now)
    return attempt


def kept(core: PoolCore) -> list[PoolAttempt]:
    """Return the strays that are kept, by instance and name; those that are being ended, too."""
    found = [each for each in core.attempts.values() if each.store]
    return sorted(found, key=lambda each: (each.worker_id, each.remote_id))


def undecided_on(core: PoolCore, worker: Worker) -> list[PoolAttempt]:
    """Return the kept strays on a worker of which no admin has said what becomes of them."""
    found = [core.attempts[attempt_id] for attempt_id in sorted(worker.load.unaccounted)]
    return [each for each in found if not each.adopted and not each.is_to_end]


def adopt(core: PoolCore, attempt: PoolAttempt) -> None:
    """Leave a kept stray to its own end, as an admin wants; one that is being ended ends."""
    attempt.adopted = not attempt.is_to_end
    core.touch(attempt.worker_id)
