"""Attempts on workers: placing, what the runner says of them, ending them, letting go of them."""

from __future__ import annotations

from typing import assert_never

from longshore.drivers.errors import BugError
from longshore.drivers.interface import Resources
from longshore.pool import boot_failures, interruption, shutdown, signals, strays, trials
from longshore.pool.core import PoolCore
from longshore.pool.messages import (
    AttemptExited,
    AttemptImageSeen,
    AttemptStarted,
    LogComplete,
    ReleaseAttempt,
    StartAttempt,
    StartRefused,
    StartUnknown,
    StartWithheld,
)
from longshore.pool.model import (
    REBOOTED,
    AttemptExit,
    AttemptOrder,
    AttemptReport,
    ExitKind,
    Finished,
    PoolAttempt,
    Running,
    Starting,
    Stopping,
    Worker,
    WorkerState,
)
from longshore.pool.pool_events import (
    AttemptEnd,
    AttemptImageKnown,
    AttemptLogComplete,
    AttemptLogLost,
    AttemptRunning,
    EndKind,
    RunnerOverloaded,
)
from longshore.pool.timers import TimerKind
from longshore.pool.transitions import Trigger

REFUSALS_BEFORE_DRAIN = 3
OVERLOAD_PAUSE_S = 60.0
_RAN = frozenset({ExitKind.EXITED, ExitKind.OUT_OF_MEMORY})
_FAULTS_OF_THE_REQUEST = ("invalid", "too_large")
_KINDS = {
    **dict.fromkeys(_FAULTS_OF_THE_REQUEST, EndKind.REFUSED),
    "overloaded": EndKind.OVERLOADED,
}
"""What the codes of refused starts say of the attempt; the others, no more than it is not there."""


def place(
    core: PoolCore,
    worker: Worker,
    order: AttemptOrder,
    resources: Resources,
    now: float,
    *,
    grace_s: float | None = None,
    user: str = "",
) -> None:
    """Put an attempt on a ready worker and ask for its start (the caller journals it first).

    `user` is whose container it is. `grace_s` is what it gets between TERM and KILL, None for what
    all get. One whose order says `resident` leaves the worker as idle or as busy as it is.
    """
    if order.attempt_id in core.attempts:
        raise BugError(f"attempt {order.attempt_id} is placed twice")
    op_id = core.next_op()
    attempt = PoolAttempt(
        id=order.attempt_id,
        remote_id=order.attempt_id,
        worker_id=worker.id,
        resources=resources,
        container_id=order.container_id,
        user=user,
        contained=bool(order.image),
        start_op=op_id,
        settled_op=op_id,
        grace_s=grace_s,
        resident=order.resident,
    )
    core.add_attempt(attempt)
    core.hold_resources(worker, attempt)
    if order.resident:
        core.move(worker, Trigger.PLACED_RESIDENT, now)
    else:
        core.move(worker, Trigger.PLACED, now)
        worker.load.was_busy(now, order.container_id)
        core.timers.clear(TimerKind.RECHECK, worker.id)
    core.commands.append(
        StartAttempt(op_id=op_id, worker_id=worker.id, order=order, boot_id=worker.link.boot_id)
    )


def expect(core: PoolCore, attempt: PoolAttempt) -> None:
    """Take up an attempt that an earlier process journalled; its worker's probe decides."""
    core.add_attempt(attempt)


def on_started(core: PoolCore, event: AttemptStarted, now: float) -> None:
    """The runner confirmed the start."""
    attempt = core.attempts.get(event.attempt_id)
    if attempt is None or attempt.start_op != event.op_id:
        return
    attempt.start_op = 0
    attempt.settled_op = core.next_op()
    worker = core.workers.get(attempt.worker_id)
    if worker is not None:
        worker.health.started_one()
    _running(core, attempt, now)
    signal_if_wanted(core, attempt, now)


def on_refused(core: PoolCore, event: StartRefused, now: float) -> None:
    """The runner will not start it: it never ran.

    A refusal for a cause in the request is the user's fault. Any other counts against the instance,
    and after several in a row it counts as broken. An overloaded instance gets no new work for a
    while, and further refusals in that time do not count. If it is overloaded with nothing else
    running, it counts as of no use: the next that is bought may be the same.
    """
    attempt = core.attempts.get(event.attempt_id)
    if attempt is None or attempt.start_op != event.op_id:
        return
    kind = _KINDS.get(event.code, EndKind.MISSING)
    refused, overloaded = kind is EndKind.REFUSED, kind is EndKind.OVERLOADED
    worker = core.workers.get(attempt.worker_id)
    known = worker is not None and now < worker.health.overloaded_until and overloaded
    # That it has booted anew is no fault of the instance's either: its probe tells of that.
    blamed = not refused and event.code != REBOOTED
    if worker is not None and blamed and not known:
        worker.health.refused_one(event.message)
        if worker.health.refusals >= REFUSALS_BEFORE_DRAIN:
            what = f"{worker.health.refusals} starts in a row were refused: {event.message}"
            shutdown.mark_broken(core, worker, what)
            boot_failures.note(core, worker, what, now)
    missing(core, attempt, event.message, now, kind=kind)
    if worker is not None and overloaded:
        if not known:
            _pause(core, worker, event.message, now)
        if not worker.load.busy_with:
            what = f"a start was refused where nothing else ran: {event.message}"
            boot_failures.note(core, worker, what, now)


def _pause(core: PoolCore, worker: Worker, why: str, now: float) -> None:
    """Give an overloaded worker no new work for a while.

    The engine is told only if something else keeps the worker busy: otherwise the cause is not how
    much runs there.
    """
    worker.health.overloaded(now + OVERLOAD_PAUSE_S)
    core.touch(worker.id)
    core.timers.set(TimerKind.OVERLOAD, worker.id, worker.health.overloaded_until)
    if worker.load.busy_with:
        message = f"{worker.id} refused a start: {why}"
        core.notices.append(RunnerOverloaded(worker_id=worker.id, message=message))


def on_withheld(core: PoolCore, event: StartWithheld, now: float) -> None:
    """It was never sent: nobody is to blame on the instance, and it never ran."""
    attempt = core.attempts.get(event.attempt_id)
    if attempt is not None and attempt.start_op == event.op_id:
        missing(core, attempt, event.message, now, kind=EndKind.WITHHELD)


def on_unknown(core: PoolCore, event: StartUnknown, now: float) -> None:
    """Nobody knows whether it started: never read as "it did not"; the next probe decides."""
    attempt = core.attempts.get(event.attempt_id)
    if attempt is None or attempt.start_op != event.op_id:
        return
    attempt.start_op = 0
    attempt.settled_op = core.next_op()
    worker = core.workers.get(attempt.worker_id)
    if worker is not None:
        worker.invalidate_probe()
        core.timers.soonest(TimerKind.PROBE, worker.id, now)


def missing(
    core: PoolCore,
    attempt: PoolAttempt,
    cause: str,
    now: float,
    *,
    kind: EndKind = EndKind.MISSING,
) -> None:
    """The attempt is not on its worker, and nothing says that it ended there; `cause` says why."""
    core.forget_attempt(attempt.id)
    worker = core.workers.get(attempt.worker_id)
    if worker is not None:
        _vacate(core, worker, attempt, now)
    if not attempt.stray:
        core.notices.append(
            AttemptEnd(
                attempt_id=attempt.id,
                kind=kind,
                cause=cause,
                interrupted=interruption.explains_loss(worker),
            )
        )


def observe(
    core: PoolCore, worker: Worker, report: AttemptReport, now: float, *, current: bool
) -> None:
    """Take in what a run probe says of one attempt.

    `current` says that the worker has not changed since the probe began; what an older one shows
    running may have ended and been released since.
    """
    attempt = core.find_attempt(worker.id, report.attempt_id)
    if attempt is None:
        if report.exit is not None:
            _release(core, worker.id, report.attempt_id)
        elif current and strays.is_anothers(core, report):
            strays.keep(core, worker, report, now)
        elif current:
            _adopt_stray(core, worker, report, now)
        else:
            core.timers.soonest(TimerKind.PROBE, worker.id, now)
        return
    if report.exit is not None:
        _ended(core, attempt, report.exit, now)
    elif not attempt.is_finished:
        core.hold_resources(worker, attempt)
        _running(core, attempt, now)
    elif isinstance(attempt.phase, Finished) and attempt.phase.without_exit:
        _adopt_stray(core, worker, report, now)
        give_log_up(core, attempt, now)


def _adopt_stray(core: PoolCore, worker: Worker, report: AttemptReport, now: float) -> None:
    """A process that no container wants is ended."""
    attempt = strays.take_in(core, worker, report, now)
    kill(core, attempt.id, now)


def _running(core: PoolCore, attempt: PoolAttempt, now: float) -> None:
    match attempt.phase:
        case Starting(to_end=to_end):
            attempt.phase = Stopping() if to_end else Running()
        case Running() | Stopping() | Finished():
            return
        case unknown:
            assert_never(unknown)
    if attempt.worker_id in core.workers:
        boot_failures.seen_running(core, core.workers[attempt.worker_id], attempt, now)
    core.notices.append(AttemptRunning(attempt_id=attempt.id, worker_id=attempt.worker_id))


def on_image(core: PoolCore, event: AttemptImageSeen, now: float) -> None:
    """The runner says what it knows of an attempt's image; it may come before the start's reply."""
    attempt = core.find_attempt(event.worker_id, event.attempt_id)
    if attempt is not None and not attempt.stray and not attempt.is_finished:
        worker = core.workers.get(event.worker_id)
        if worker is not None and attempt.is_seen_running and not event.image.pulling:
            boot_failures.seen_running(core, worker, attempt, now)
        attempt.pulling = event.image.pulling
        core.notices.append(AttemptImageKnown(attempt_id=attempt.id, image=event.image))


def on_exited(core: PoolCore, event: AttemptExited, now: float) -> None:
    """The runner says how an attempt ended; it repeats that until the attempt is released."""
    worker = core.workers.get(event.worker_id)
    if worker is not None:
        # It may speak on a session that its probe has not told of yet.
        worker.link.last_contact = max(worker.link.last_contact, now)
        core.touch(worker.id)
    attempt = core.find_attempt(event.worker_id, event.attempt_id)
    if attempt is not None:
        _ended(core, attempt, event.exit, now)
    elif worker is not None:
        _release(core, event.worker_id, event.attempt_id)


def _ended(core: PoolCore, attempt: PoolAttempt, how: AttemptExit, now: float) -> None:
    if attempt.is_finished:
        return
    told_to_end = attempt.is_to_end
    attempt.phase = Finished(kills=signals.kills_of(attempt))
    attempt.start_op = 0
    attempt.settled_op = core.next_op()
    core.timers.clear(TimerKind.SIGNAL, attempt.id)
    core.timers.clear(TimerKind.PROOF, attempt.id)
    worker = core.workers.get(attempt.worker_id)
    if attempt.stray:
        core.forget_attempt(attempt.id, how)
        _release(core, attempt.worker_id, attempt.remote_id)
    else:
        if worker is not None:
            worker.load.awaits_log(attempt.id)
        core.notices.append(
            AttemptEnd(
                attempt_id=attempt.id,
                kind=EndKind.EXITED,
                exit=how,
                interrupted=interruption.explains_exit(worker, how),
            )
        )
    if worker is not None:
        if how.kind in _RAN:
            boot_failures.note_run(core, worker, now)
        if not attempt.stray and not told_to_end and not worker.health.interruption:
            trials.note_end(core, worker, attempt, how, now)
        _vacate(core, worker, attempt, now)


def _vacate(core: PoolCore, worker: Worker, attempt: PoolAttempt, now: float) -> None:
    core.free_resources(worker, attempt.id)
    worker.invalidate_probe()
    if not attempt.resident:
        worker.load.was_busy(now)
    if worker.state is WorkerState.RUNNING and not worker.load.busy_with:
        core.move(worker, Trigger.LAST_EXIT, now)
    shutdown.review(core, worker, now)


def on_log_complete(core: PoolCore, event: LogComplete) -> None:
    """Every byte is kept; the engine journals that and then calls `release`."""
    attempt = core.find_attempt(event.worker_id, event.attempt_id)
    if attempt is not None and attempt.is_finished:
        core.notices.append(
            AttemptLogComplete(attempt_id=event.attempt_id, worker_id=event.worker_id)
        )


def release(core: PoolCore, attempt_id: str, now: float) -> None:
    """Let go of an ended attempt: its exit is journalled (with this) and its log complete."""
    attempt = core.attempts.get(attempt_id)
    if attempt is None:
        return
    core.forget_attempt(attempt_id)
    _release(core, attempt.worker_id, attempt.remote_id)
    worker = core.workers.get(attempt.worker_id)
    if worker is not None:
        worker.load.released(attempt_id)
        shutdown.review(core, worker, now)


def _release(core: PoolCore, worker_id: str, attempt_id: str) -> None:
    core.commands.append(ReleaseAttempt(worker_id=worker_id, attempt_id=attempt_id))


def kill(core: PoolCore, attempt_id: str, now: float) -> None:
    """Ask an attempt to end: TERM, repeated until term_timeout, then KILL; its exit follows.

    Unknown or ended attempts, and those that are being killed already, are left alone.
    """
    attempt = core.attempts.get(attempt_id)
    if attempt is None or not signals.tell_to_end(attempt):
        return
    core.touch(attempt.worker_id)
    signal_if_wanted(core, attempt, now)


def staying_on_shared_cpu(core: PoolCore, worker: Worker) -> int:
    """Return how many of those who share a cpu on a worker are not told to end.

    Nothing new may share the cpu of those that are ending: it may be promised to somebody for when
    the last of them has ended.
    """
    return sum(not core.attempts[attempt_id].is_to_end for attempt_id in worker.load.sharing)


def shorten_grace(core: PoolCore, attempt_id: str) -> None:
    """Give an attempt no more time between TERM and KILL than all get: somebody waits for it."""
    attempt = core.attempts.get(attempt_id)
    if attempt is not None and attempt.grace_s is not None:
        attempt.grace_s = min(attempt.grace_s, core.settings.term_timeout_s)


def on_signal_due(core: PoolCore, attempt_id: str, now: float) -> None:
    """Repeat the signal; when KILL does not help either, the worker is broken and drained."""
    attempt = core.attempts.get(attempt_id)
    if attempt is not None:
        signal_if_wanted(core, attempt, now)


def signal_if_wanted(core: PoolCore, attempt: PoolAttempt, now: float) -> None:
    """Send the signal that is due to an attempt that is to end; see `signals.send_if_wanted`."""
    signals.send_if_wanted(core, attempt, now)
    worker = core.workers.get(attempt.worker_id)
    if worker is not None and signals.unkillable(attempt):
        shutdown.mark_broken(core, worker, f"attempt {attempt.remote_id} survives KILL")
        shutdown.review(core, worker, now)


def give_log_up(core: PoolCore, attempt: PoolAttempt, now: float) -> None:
    """Stop waiting for the rest of an ended attempt's log: its instance no longer has it."""
    core.forget_attempt(attempt.id)
    core.notices.append(AttemptLogLost(attempt_id=attempt.id, worker_id=attempt.worker_id))
    worker = core.workers.get(attempt.worker_id)
    if worker is not None:
        worker.load.released(attempt.id)
        shutdown.review(core, worker, now)
