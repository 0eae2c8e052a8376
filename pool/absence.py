"""Whether an instance that complete listings lack is gone.

A listing may lack what is there: the cloud's lists are consistent in the end only, an endpoint may
be stale, a region the wrong one. Who takes one listing's word runs twice what runs there, and buys
another beside it. So an instance that is missing counts in every limit, keeps its attempts and gets
no new work until it is gone:

- by the cloud's word on its id (`drivers.interface.Finds`), which decides at once; or
- where there is no such word, because three complete listings in a row lack it, over
  `gone_after_s`, and nobody has proven its key at its address in all that time; or
- because the cloud has accepted to destroy it, one listing lacks it, and nothing runs there.

One that no listing has ever shown may be too new for them: only after `boot_timeout_s` may it be
gone without the cloud's word, and it is a doubt then (`Doubtful`).

`is_gone` decides that from values; the rest gathers them.
"""

from __future__ import annotations

from dataclasses import dataclass

from longshore.drivers.errors import RateLimitError
from longshore.drivers.interface import Existence
from longshore.pool import boot_failures
from longshore.pool.core import PoolCore
from longshore.pool.messages import FindFailed, FindInstance, InstanceFound, ProbeFailed
from longshore.pool.model import Absence, PoolSettings, Worker, WorkerState
from longshore.pool.transitions import Trigger

_LEAST_LISTINGS = 3
_ASK_AGAIN_S = 10.0
_TOO_NEW_S = 30.0
"""The cloud is not asked of who is younger than that and was never listed: it would not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What speaks for an instance being gone, that the latest complete listing lacks."""

    #: The cloud's word on its id.
    existence: Existence
    #: Whether its destroy was accepted and nothing runs there.
    is_ending: bool
    #: How many listings in a row lack it, and over what time.
    listings: int
    lacking_s: float
    #: Whether its address was tried in that time in vain, where that could be.
    silent: bool
    #: For how long it is known.
    age_s: float
    #: Whether a listing ever showed it.
    listed: bool
    #: Whether a probe ever reached it.
    reached: bool


def is_gone(evidence: Evidence, settings: PoolSettings) -> bool:
    """Return whether an instance is gone; until then it counts as there."""
    if evidence.existence is Existence.GONE or (evidence.is_ending and evidence.listings):
        return True
    if not evidence.listed:
        if evidence.age_s < settings.boot_timeout_s:
            return False
        if not evidence.reached:
            return evidence.silent
    long = evidence.lacking_s >= settings.gone_after_s
    return long and evidence.listings >= _LEAST_LISTINGS and evidence.silent


def note(core: PoolCore, worker: Worker, began_at: float, now: float) -> None:
    """Take in that a complete listing which `began_at` then lacks a worker.

    Who speaks to us is there, whatever a listing says; else its session will end.
    """
    if worker.link.session_up or began_at <= max(worker.cloud.listed_at, worker.link.last_contact):
        return
    absence = worker.cloud.absence
    if absence is None:
        absence = worker.cloud.absence = Absence(since=began_at)
        if worker.cloud.missing_since is not None:
            core.note_changed(worker, "a listing lacks it: it counts as there, and gets no work")
    if max(worker.link.last_contact, core.recovered_at) >= absence.first_at:
        absence.listings = 0
    if not absence.listings:
        _begin(core, absence, began_at)
    absence.listings += 1
    absence.latest_at = began_at
    if not _conclude(core, worker, absence, now):
        _ask(core, worker, absence, now)


def _begin(core: PoolCore, absence: Absence, began_at: float) -> None:
    """Count listings, and probes, anew from one that began then."""
    absence.first_at = began_at
    absence.unanswered = False
    absence.mark = core.next_op()


def end(core: PoolCore, worker: Worker, why: str) -> None:
    """Note that a worker is there; of one that was not missing, nothing changes."""
    was_missing = worker.cloud.missing_since is not None
    worker.cloud.absence = None
    if was_missing:
        core.note_changed(worker, why)


def on_probe_failed(worker: Worker, event: ProbeFailed) -> None:
    """Note whether somebody with its key answers at a missing worker's address."""
    absence = worker.cloud.absence
    if absence is None:
        return
    if event.proven:
        absence.listings = 0
    elif event.op_id > absence.mark:
        absence.unanswered = True


def on_destroy_answered(worker: Worker) -> None:
    """Count anew from when the cloud first took a worker's destroy: it ends after that only."""
    if worker.cloud.absence is not None:
        worker.cloud.absence.listings = 0


def on_found(core: PoolCore, event: InstanceFound, now: float) -> None:
    """Take in what the cloud says of a missing worker."""
    core.cloud_gate.finds.succeeded(now)
    worker = core.workers.get(event.instance_id)
    absence = None if worker is None else worker.cloud.absence
    if worker is None or absence is None or absence.asked_op != event.op_id:
        return
    absence.asked_op = 0
    absence.existence = event.existence
    if event.existence is Existence.GONE and event.reason:
        worker.cloud.reason = event.reason
    if event.existence is Existence.PRESENT:
        absence.listings = 0
    _conclude(core, worker, absence, now)


def on_find_failed(core: PoolCore, event: FindFailed, now: float) -> None:
    """Ask again after the next listing that lacks it; after a rate limit, when the cloud allows."""
    if isinstance(event.error, RateLimitError):
        core.cloud_gate.finds.failed(event.error, now)
    worker = core.workers.get(event.instance_id)
    absence = None if worker is None else worker.cloud.absence
    if absence is not None and absence.asked_op == event.op_id:
        absence.asked_op = 0


def _ask(core: PoolCore, worker: Worker, absence: Absence, now: float) -> None:
    is_new = not worker.cloud.listed and not worker.cloud.remembered
    first_at = worker.appeared_at + _TOO_NEW_S if is_new else 0.0
    if absence.asked_op or now < max(first_at, absence.asked_at + _ASK_AGAIN_S):
        return
    absence.asked_op = core.next_op()
    absence.asked_at = now
    core.ask_cloud(FindInstance(op_id=absence.asked_op, instance_id=worker.id), now)


def _conclude(core: PoolCore, worker: Worker, absence: Absence, now: float) -> bool:
    """Remove a missing worker if it is gone; return whether it is.

    While no probe can go out, silence says nothing.
    """
    evidence = _evidence(core, worker, absence)
    if not is_gone(evidence, core.settings):
        return False
    if worker.state is WorkerState.BOOTING:
        why = f": {worker.cloud.reason}" if worker.cloud.reason else ""
        boot_failures.note(core, worker, f"it was gone before it was ready{why}", now)
    core.move(worker, Trigger.GONE, now)
    return True


def _evidence(core: PoolCore, worker: Worker, absence: Absence) -> Evidence:
    heard_at = max(worker.link.last_contact, core.recovered_at)
    return Evidence(
        existence=absence.existence,
        is_ending=worker.shutdown.destroy_accepted and not _runs_something(core, worker),
        listings=absence.listings,
        lacking_s=absence.latest_at - absence.first_at,
        silent=not core.stalled and heard_at < absence.first_at and _is_silent(worker, absence),
        age_s=absence.latest_at - worker.appeared_at,
        listed=worker.cloud.listed,
        reached=bool(worker.link.host_key) or worker.cloud.remembered,
    )


def _is_silent(worker: Worker, absence: Absence) -> bool:
    """Return whether all was tried to hear of a missing worker; in shutdown, that it shall end."""
    if worker.state is WorkerState.SHUTDOWN:
        return worker.shutdown.destroy_answered
    return absence.unanswered or not worker.cloud.address


def _runs_something(core: PoolCore, worker: Worker) -> bool:
    """Return whether something may run there, whose end the records would tell too early."""
    return any(not a.is_finished for a in core.attempts_on(worker.id))
