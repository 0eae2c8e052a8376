"""Probing workers: when, and what success, failure and silence mean.

While a session lives its heartbeats stand for probes; a probe is sent only when there is none, or
when a start was not answered. One at a time a worker; a result whose worker changed meanwhile says
nothing about what is missing there.
"""

from __future__ import annotations

from longshore.pool import (
    absence,
    attempts,
    boot_failures,
    shutdown,
    shutdown_decision,
    sizes,
    trials,
)
from longshore.pool.backoff import doubled_s
from longshore.pool.core import PoolCore
from longshore.pool.messages import (
    BrokenReported,
    CloseSession,
    Probe,
    ProbeFailed,
    ProbeSucceeded,
    SessionLost,
)
from longshore.pool.model import READY, AttemptReport, IdleBehavior, Worker, WorkerState
from longshore.pool.timers import TimerKind
from longshore.pool.transitions import Trigger

_LONGEST_WAIT_WHILE_BOOTING_S = 2.0
_MOST_STRANGERS = 500
_FLAP_S = 30.0
_FLAP_FIRST_WAIT_S = 0.5


def ensure(core: PoolCore, worker: Worker, now: float) -> None:
    """See to it that a worker without a session is being probed."""
    if not worker.cloud.address or worker.link.session_up or worker.link.probe_op:
        return
    if worker.id in core.probe_gate:
        return
    if core.timers.due(TimerKind.PROBE, worker.id) is None:
        core.timers.set(TimerKind.PROBE, worker.id, now)


def on_probe_due(core: PoolCore, worker: Worker, now: float) -> None:
    """Send the probe that is due when its turn comes (see `max_probes_per_second`)."""
    core.probe_gate.ask(worker.id)
    release(core, now)


def release(core: PoolCore, now: float) -> None:
    """Send the waiting probes for which there are tokens, first come, first served.

    None is sent where one is under way: its outcome sends the next.
    """
    while (worker_id := core.probe_gate.first()) is not None:
        worker = core.workers.get(worker_id)
        wanted = worker is not None and not worker.link.probe_op and worker.cloud.address
        if worker is None or not wanted or worker.state is WorkerState.SHUTDOWN:
            core.probe_gate.drop(worker_id)
            continue
        if not core.probe_gate.take(now):
            break
        core.probe_gate.drop(worker_id)
        _send_probe(core, worker)
    core.timers.arm(TimerKind.PROBES, core.probe_gate.next_at(now))


def _send_probe(core: PoolCore, worker: Worker) -> None:
    worker.link.probe_op = core.next_op()
    core.commands.append(
        Probe(
            op_id=worker.link.probe_op,
            worker_id=worker.id,
            revision=worker.link.revision,
            address=worker.cloud.address,
            host_key=worker.link.host_key,
            secret=worker.link.secret,
            boot=worker.state not in READY,
            trial=worker.health.on_trial,
            look_anyway=worker.state is WorkerState.UNKNOWN,
            suspend_lease=shutdown.suspends_lease(worker),
            expected=tuple(a.id for a in core.attempts_on(worker.id) if not a.stray),
        )
    )


def on_succeeded(core: PoolCore, event: ProbeSucceeded, now: float) -> None:
    """Take in a successful probe: the key, the session, and what runs there."""
    worker = core.workers.get(event.worker_id)
    if worker is None or worker.state is WorkerState.SHUTDOWN:
        _close_needless(core, event.worker_id)
        return
    if event.op_id != worker.link.probe_op:
        return
    current = event.revision == worker.link.revision
    if not current:
        shutdown.set_lease(core, worker)  # an admin may have held it since the probe was sent
    reattached = not worker.link.session_up
    was_up = worker.state in READY
    worker.link.probe_op = 0
    worker.link.probe_failures = 0
    worker.link.session_up = True
    core.touch(worker.id)
    absence.end(core, worker, "it answers, though a listing lacks it")
    worker.link.shown = True
    worker.health.advised(event.report.advice)
    sizes.take_in(core, worker, event.report.machine, now)
    worker.link.last_contact = min(event.began_at, now)
    worker.health.failed(f"boot: {event.boot_error}" if event.boot_error else "")
    core.timers.clear(TimerKind.OFFLINE, worker.id)
    _pin(core, worker, event.host_key, now)
    if reattached:
        worker.link.attached_at = now
    for report in _reports(core, worker, event, now):
        attempts.observe(core, worker, report, now, current=current)
    if reattached:
        # Later on it is heartbeats that say so, and they may be ahead of a list.
        _hear_complaint(core, worker, event.report.broken, now)
    _find_missing(core, worker, event, now)
    trials.judge(core, worker, event, now)
    if event.boot_error:
        _await_boot(core, worker, now)
    else:
        _settle(core, worker, event.report.boot_id, now)
    if reattached and was_up:
        core.note_changed(worker, "its session is up again")
    if reattached:
        _resume_signals(core, worker, now)


def _reports(
    core: PoolCore, worker: Worker, event: ProbeSucceeded, now: float
) -> list[AttemptReport]:
    """Return what a probe says of attempts, in order, and of so many that are not ours at most.

    An instance may make up any number. The next probe deals with more, once there are fewer strays.
    """
    room = _MOST_STRANGERS - sum(attempt.stray for attempt in core.attempts_on(worker.id))
    found = []
    for report in sorted(event.report.attempts, key=lambda r: r.attempt_id):
        if core.find_attempt(worker.id, report.attempt_id) is None:
            room -= 1
            if room < 0:
                continue
        found.append(report)
    if room < 0:
        again_at = now + core.jittered_s(core.settings.probe_interval_s)
        core.timers.soonest(TimerKind.PROBE, worker.id, again_at)
    return found


def _close_needless(core: PoolCore, worker_id: str) -> None:
    """Close the session of a worker that needs none, unless it waits for its residents over it."""
    worker = core.workers.get(worker_id)
    if worker is None or not worker.link.session_up:
        core.commands.append(CloseSession(worker_id=worker_id))


def _resume_signals(core: PoolCore, worker: Worker, now: float) -> None:
    """Go on ending attempts; where a signal is due soon it is not hastened.

    Else a session that flaps would use up the KILLs before one of them could work.
    """
    for attempt in core.attempts_on(worker.id):
        if core.timers.due(TimerKind.SIGNAL, attempt.id) is None:
            attempts.signal_if_wanted(core, attempt, now)


def _pin(core: PoolCore, worker: Worker, host_key: str, now: float) -> None:
    """Keep the proven key; the secret that proved it is void from now on.

    It lies on the instance until a probe that carries the pinned key deletes it there: one more
    probe, since deleting it before the pin is journalled could lock us out for ever.
    """
    if worker.link.host_key == host_key:
        return
    if worker.link.secret:
        core.timers.soonest(
            TimerKind.PROBE, worker.id, now + core.jittered_s(core.settings.probe_interval_s)
        )
    worker.link.host_key = host_key
    worker.link.secret = ""
    core.pinned_keys[worker.id] = host_key
    core.note_changed(worker, "its host key is proven")
    if worker.token in core.launches and not core.launches[worker.token].in_flight:
        core.end_launch(worker.token)


def _find_missing(core: PoolCore, worker: Worker, event: ProbeSucceeded, now: float) -> None:
    """Conclude what a probe does not show, of attempts that were settled when it began."""
    reported = {report.attempt_id for report in event.report.attempts}
    for attempt in core.attempts_on(worker.id):
        if attempt.remote_id in reported or attempt.start_op:
            continue
        if attempt.settled_op > event.op_id:
            core.timers.soonest(TimerKind.PROBE, worker.id, now)
        elif attempt.is_finished:
            attempts.give_log_up(core, attempt, now)
        else:
            message = f"it is not on {worker.id}, and no exit of it is recorded there"
            attempts.missing(core, attempt, message, now)


def _await_boot(core: PoolCore, worker: Worker, now: float) -> None:
    """Leave a worker whose boot probe fails in its state, and probe again although it has a
    session.
    """
    if worker.state is WorkerState.SHUTDOWN:
        return
    if worker.load.busy_with:
        worker.load.was_busy(now)
    core.timers.soonest(
        TimerKind.PROBE, worker.id, now + core.jittered_s(core.settings.probe_interval_s)
    )
    shutdown.review(core, worker, now)


def _settle(core: PoolCore, worker: Worker, boot_id: str, now: float) -> None:
    """Move the worker to what the probe showed; `boot_id` is the boot that it was made in."""
    if worker.state is WorkerState.SHUTDOWN:
        return
    if worker.state in READY and worker.link.boot_id != boot_id:
        _boot_anew(core, worker, now)
        return
    if worker.load.busy_with:
        core.move(worker, Trigger.READY_BUSY, now)
        worker.load.was_busy(now)
    elif worker.state is WorkerState.RUNNING:
        core.move(worker, Trigger.LAST_EXIT, now)
    else:
        core.move(worker, Trigger.READY_EMPTY, now)
    # Who is not ready was probed for its boot, too (see `_send_probe`).
    worker.link.boot_id = boot_id
    shutdown.review(core, worker, now)


def _boot_anew(core: PoolCore, worker: Worker, now: float) -> None:
    """Take a worker that was ready for one that is not: what its boot set up may be missing now.

    It gets no work before its boot probe has passed for this boot, and has its whole boot time.
    """
    worker.link.boots_since = now
    core.move(worker, Trigger.REBOOTED, now)
    core.timers.soonest(TimerKind.PROBE, worker.id, now)
    shutdown.review(core, worker, now)


def on_failed(core: PoolCore, event: ProbeFailed, now: float) -> None:
    """Probe again after a growing delay; the worker's own timeouts decide when to give up."""
    worker = core.workers.get(event.worker_id)
    if worker is None or event.op_id != worker.link.probe_op:
        return
    worker.link.probe_op = 0
    worker.link.probe_failures += 1
    worker.health.failed(f"{event.stage}: {event.message}")
    absence.on_probe_failed(worker, event)
    interval_s = core.settings.probe_interval_s
    longest_s = interval_s
    if worker.state in (WorkerState.UNKNOWN, WorkerState.BOOTING):
        longest_s = min(interval_s, _LONGEST_WAIT_WHILE_BOOTING_S)
    doublings = min(worker.link.probe_failures - 1, 10)
    delay_s = min(longest_s, interval_s / 20 * 2**doublings)
    core.timers.set(TimerKind.PROBE, worker.id, now + core.jittered_s(delay_s))


def on_session_lost(core: PoolCore, event: SessionLost, now: float) -> None:
    """The session is gone: reconnect, and count the silence from its last word.

    At once, unless it was lost soon after it was attached, again and again: an instance whose
    session flaps must not keep us shaking hands.
    """
    worker = core.workers.get(event.worker_id)
    if worker is None:
        return
    if worker.state is WorkerState.SHUTDOWN:
        shutdown.wait_no_longer(core, worker, now)
        return
    worker.link.session_up = False
    core.touch(worker.id)
    worker.invalidate_probe()
    worker.link.last_contact = min(event.last_contact, now)
    worker.health.failed(f"session: {event.reason}")
    settings = core.settings
    core.timers.soonest(
        TimerKind.RECHECK, worker.id, worker.link.last_contact + settings.probe_timeout_s
    )
    core.timers.set(
        TimerKind.OFFLINE, worker.id, worker.link.last_contact + settings.offline_timeout_s
    )
    core.note_changed(worker, f"its session is lost: {event.reason}")
    worker.link.flaps = worker.link.flaps + 1 if now - worker.link.attached_at < _FLAP_S else 0
    wait_s = doubled_s(_FLAP_FIRST_WAIT_S, worker.link.flaps - 2, settings.probe_interval_s)
    core.timers.soonest(
        TimerKind.PROBE, worker.id, now + (wait_s if worker.link.flaps > 1 else 0.0)
    )


def on_broken(core: PoolCore, event: BrokenReported, now: float) -> None:
    """A worker that reports itself broken gets no more work and is drained, unless held.

    One that was held, or still runs something, may be mended and work again.
    """
    worker = core.workers.get(event.worker_id)
    if worker is not None and worker.health.complaint != event.message:
        _hear_complaint(core, worker, event.message, now)
        shutdown.review(core, worker, now)


def _hear_complaint(core: PoolCore, worker: Worker, message: str, now: float) -> None:
    if worker.health.complaint == message:
        return
    worker.health.complains(message)
    worker.invalidate_probe()
    if message:
        boot_failures.note(core, worker, message, now)
        core.note_changed(worker, f"it is broken: {message}")
        return
    core.note_changed(worker, "it reports that it is no longer broken")


def takes_work(core: PoolCore, worker: Worker, now: float) -> bool:
    """Return whether work may be planned onto a worker, now or when it is ready."""
    return (
        worker.behavior is IdleBehavior.RUN
        and worker.state is not WorkerState.SHUTDOWN
        and not shutdown_decision.is_draining(worker)
        and not is_offline(core, worker, now)
        and not worker.cloud.unseen
        and worker.takes_more(now)
    )


def is_offline(core: PoolCore, worker: Worker, now: float) -> bool:
    """Return whether a worker that was ready has had no session for offline_timeout."""
    if worker.link.session_up or worker.state in (WorkerState.UNKNOWN, WorkerState.BOOTING):
        return False
    return now >= worker.link.last_contact + core.settings.offline_timeout_s


def on_offline_due(core: PoolCore, worker: Worker, now: float) -> None:
    """Have a worker looked at that may be offline; again later, if it was heard of since."""
    offline_at = worker.link.last_contact + core.settings.offline_timeout_s
    if not worker.link.session_up and now < offline_at:
        core.timers.set(TimerKind.OFFLINE, worker.id, offline_at)
    shutdown.review(core, worker, now)
