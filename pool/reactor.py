"""The pool's front door: every event and every deadline goes to the one function that knows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, assert_never

from longshore.pool import (
    absence,
    attempts,
    billing,
    boot_failures,
    interruption,
    launching,
    listing,
    probing,
    shutdown,
    sizes,
    store_stall,
)
from longshore.pool.core import PoolCore
from longshore.pool.messages import (
    AttemptExited,
    AttemptImageSeen,
    AttemptStarted,
    BillsFailed,
    BillsTold,
    BrokenReported,
    Created,
    CreateFailed,
    Destroyed,
    DestroyFailed,
    FindFailed,
    InstanceFound,
    InterruptionNoticed,
    Listed,
    ListingFailed,
    LogComplete,
    PoolEvent,
    ProbeFailed,
    ProbeSucceeded,
    SessionLost,
    StartRefused,
    StartUnknown,
    StartWithheld,
    StoreRecovered,
    StoreStalled,
    TagsFailed,
    TagsSet,
)
from longshore.pool.model import Worker
from longshore.pool.timers import TimerKind


def on_event(core: PoolCore, event: PoolEvent, now: float) -> None:  # noqa: C901, PLR0912, PLR0915 - a table
    """Take in one event."""
    core.statistics.heard(event, core.workers, now)
    match event:
        case Listed():
            listing.on_listed(core, event, now)
        case ListingFailed():
            listing.on_listing_failed(core, event, now)
        case Created():
            launching.on_created(core, event, now)
        case CreateFailed():
            launching.on_create_failed(core, event, now)
        case Destroyed():
            shutdown.on_destroyed(core, event, now)
        case DestroyFailed():
            shutdown.on_destroy_failed(core, event, now)
        case TagsSet():
            shutdown.on_tags_set(core, event, now)
        case TagsFailed():
            shutdown.on_tags_failed(core, event, now)
        case InstanceFound():
            absence.on_found(core, event, now)
        case FindFailed():
            absence.on_find_failed(core, event, now)
        case BillsTold():
            billing.on_told(core, event, now)
        case BillsFailed():
            billing.on_failed(core, event, now)
        case ProbeSucceeded():
            probing.on_succeeded(core, event, now)
        case ProbeFailed():
            probing.on_failed(core, event, now)
        case SessionLost():
            probing.on_session_lost(core, event, now)
        case BrokenReported():
            probing.on_broken(core, event, now)
        case InterruptionNoticed():
            interruption.on_noticed(core, event, now)
        case AttemptStarted():
            attempts.on_started(core, event, now)
        case StartRefused():
            attempts.on_refused(core, event, now)
        case StartWithheld():
            attempts.on_withheld(core, event, now)
        case StartUnknown():
            attempts.on_unknown(core, event, now)
        case AttemptExited():
            attempts.on_exited(core, event, now)
        case AttemptImageSeen():
            attempts.on_image(core, event, now)
        case LogComplete():
            attempts.on_log_complete(core, event)
        case StoreStalled():
            store_stall.begin(core, event)
        case StoreRecovered():
            store_stall.end(core, now)
        case _:
            assert_never(event)


def on_wakeup(core: PoolCore, now: float) -> bool:
    """Do everything that is due at `now`; return whether the planner should look again."""
    plan = False
    while (key := core.timers.pop_due(now)) is not None:
        kind, subject = key
        plan = WAKES[kind](core, subject, now) or plan
    return plan


_Wake = Callable[[PoolCore, str, float], bool]
"""Does what is due about a subject; returns whether somebody may find a place after it."""


def _of_pool(react: Callable[[PoolCore, float], None], *, plans: bool = False) -> _Wake:
    def wake(core: PoolCore, _subject: str, now: float) -> bool:
        react(core, now)
        return plans

    return wake


def _of_subject(react: Callable[[PoolCore, str, float], None], *, plans: bool = False) -> _Wake:
    def wake(core: PoolCore, subject: str, now: float) -> bool:
        react(core, subject, now)
        return plans

    return wake


def _of_worker(react: Callable[[PoolCore, Worker, float], None], *, plans: bool = False) -> _Wake:
    def wake(core: PoolCore, worker_id: str, now: float) -> bool:
        worker = core.workers.get(worker_id)
        if worker is not None:
            react(core, worker, now)
        return plans

    return wake


WAKES: Final[Mapping[TimerKind, _Wake]] = {
    TimerKind.LIST: _of_pool(listing.request_listing),
    TimerKind.HOLD: _of_pool(launching.arm_hold, plans=True),
    # Creates have their turn, which needs a pass, or others have.
    TimerKind.CLOUD: lambda core, _subject, now: launching.on_token(core, now),
    TimerKind.BILLS: _of_pool(billing.look),
    TimerKind.PROBES: _of_pool(probing.release),
    TimerKind.KEY: _of_subject(lambda core, instance_id, _now: core.forget(instance_id)),
    TimerKind.SIZE: _of_subject(sizes.forget, plans=True),
    TimerKind.SIGNAL: _of_subject(attempts.on_signal_due),
    TimerKind.PROOF: boot_failures.on_proof_due,
    TimerKind.PROBE: _of_worker(probing.on_probe_due),
    TimerKind.RECHECK: _of_worker(shutdown.review, plans=True),
    TimerKind.OFFLINE: _of_worker(probing.on_offline_due, plans=True),
    TimerKind.TAGS: _of_worker(shutdown.save_tags),
    TimerKind.OVERLOAD: _of_worker(shutdown.review, plans=True),
    TimerKind.DISMISSAL: _of_worker(shutdown.on_dismissal_due),
    TimerKind.DESTROY: _of_worker(shutdown.on_destroy_due),
    TimerKind.RELEASE: _of_worker(shutdown.release, plans=True),
}
"""What each deadline wakes. For how long one counts stands at its kind (`pool.timers`)."""


def begin(core: PoolCore, now: float) -> None:
    """Ask for the first listing; until it is in, nothing is concluded and nothing created."""
    core.began_at = now
    launching.begin(core, now)
    listing.request_listing(core, now)
    billing.look(core, now)
