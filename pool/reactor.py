"""The pool's front door: every event and every deadline goes to the one function that knows it."""

from __future__ import annotations

from typing import Literal, assert_never

from longshore.pool import (
    absence,
    attempts,
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
    BrokenReported,
    Created,
    CreateFailed,
    Destroyed,
    DestroyFailed,
    FindFailed,
    HeldUp,
    InstanceFound,
    InterruptionNoticed,
    Listed,
    ListingFailed,
    LogComplete,
    MovedOn,
    PoolEvent,
    ProbeFailed,
    ProbeSucceeded,
    SessionLost,
    StartRefused,
    StartUnknown,
    TagsFailed,
    TagsSet,
)
from longshore.pool.model import Worker, WorkerState
from longshore.pool.timers import TimerKind

_WORTH_A_PASS = frozenset(
    {
        TimerKind.HOLD,
        TimerKind.IDLE,
        TimerKind.OFFLINE,
        TimerKind.OVERLOAD,
        TimerKind.RELEASE,
        TimerKind.SILENCE,
        TimerKind.SIZE,
    }
)
_OfWorker = Literal[
    TimerKind.PROBE,
    TimerKind.IDLE,
    TimerKind.SILENCE,
    TimerKind.OFFLINE,
    TimerKind.OVERLOAD,
    TimerKind.DISMISSAL,
    TimerKind.DESTROY,
    TimerKind.TAGS,
    TimerKind.RELEASE,
]


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
        case StartUnknown():
            attempts.on_unknown(core, event, now)
        case AttemptExited():
            attempts.on_exited(core, event, now)
        case AttemptImageSeen():
            attempts.on_image(core, event)
        case LogComplete():
            attempts.on_log_complete(core, event)
        case HeldUp():
            store_stall.begin(core, event)
        case MovedOn():
            store_stall.end(core, now)
        case _:
            assert_never(event)


def on_wakeup(core: PoolCore, now: float) -> bool:
    """Do everything that is due at `now`; return whether the planner should look again."""
    plan = False
    while (key := core.timers.pop_due(now)) is not None:
        kind, subject = key
        plan = plan or kind in _WORTH_A_PASS
        plan = _on_due(core, kind, subject, now) or plan
    return plan


def _on_due(core: PoolCore, kind: TimerKind, subject: str, now: float) -> bool:
    """Do what is due; return whether creates have their turn, which needs a pass."""
    match kind:
        case TimerKind.LIST:
            listing.request_listing(core, now)
        case TimerKind.HOLD:
            core.timers.arm(TimerKind.HOLD, core.holds.next_end(now))
        case TimerKind.CLOUD:
            return launching.on_token(core, now)
        case TimerKind.PROBES:
            probing.release(core, now)
        case TimerKind.KEY:
            core.forget(subject)
        case TimerKind.SIZE:
            sizes.forget(core, subject, now)
        case TimerKind.SIGNAL:
            attempts.on_signal_due(core, subject, now)
        case _:
            worker = core.workers.get(subject)
            if worker is not None:
                _on_worker_due(core, worker, kind, now)
    return False


def _on_worker_due(core: PoolCore, worker: Worker, kind: _OfWorker, now: float) -> None:
    match kind:
        case TimerKind.PROBE:
            probing.on_probe_due(core, worker, now)
        case TimerKind.OFFLINE:
            probing.await_offline(core, worker, now)
            shutdown.review(core, worker, now)
        case TimerKind.IDLE | TimerKind.SILENCE | TimerKind.OVERLOAD:
            shutdown.review(core, worker, now)
        case TimerKind.DISMISSAL | TimerKind.DESTROY if core.held_up:
            core.timers.set(kind, worker.id, now + core.settings.shutdown_timeout_s)
        case TimerKind.DISMISSAL:
            shutdown.wait_no_longer(core, worker, now)
        case TimerKind.DESTROY:
            if worker.state is WorkerState.SHUTDOWN:
                shutdown.destroy(core, worker, now)
        case TimerKind.TAGS:
            shutdown.save_tags(core, worker, now)
        case TimerKind.RELEASE:
            shutdown.release(core, worker, now)
        case _:
            assert_never(kind)


def begin(core: PoolCore, now: float) -> None:
    """Ask for the first listing; until it is in, nothing is concluded and nothing created."""
    core.began_at = now
    launching.begin(core, now)
    listing.request_listing(core, now)
