"""Probing workers: when, and what success, failure and silence mean.

While a session lives its heartbeats stand for probes; a probe is sent only when there is none, or
when a start was not answered. One at a time a worker; a result whose worker changed meanwhile says
nothing about what is missing there.
"""

from __future__ import annotations

from pool import attempts, idle
from pool.core import AttemptPhase, PoolCore
from pool.messages import (
    BrokenReported,
    CloseSession,
    Probe,
    ProbeFailed,
    ProbeSucceeded,
    SessionLost,
)
from pool.model import IdleBehavior, Worker, WorkerState
from pool.transitions import Trigger

_LONGEST_WAIT_WHILE_BOOTING_S = 2.0


def ensure(core: PoolCore, worker: Worker, now: float) -> None:
    """See to it that a worker without a session is being probed."""
    if not worker.address or worker.session_up or worker.probe_op:
        return
    if core.timers.due("probe", worker.id) is None:
        core.timers.set("probe", worker.id, now)


def on_probe_due(core: PoolCore, worker: Worker) -> None:
    """Send the probe that is due, unless one is under way (its outcome sends the next)."""
    if worker.probe_op or worker.state is WorkerState.SHUTDOWN or not worker.address:
        return
    worker.probe_op = core.next_op()
    core.commands.append(
        Probe(
            op_id=worker.probe_op,
            worker_id=worker.id,
            revision=worker.revision,
            address=worker.address,
            host_key=worker.host_key,
            secret=worker.secret,
            boot=worker.state in (WorkerState.UNKNOWN, WorkerState.BOOTING),
            expected=tuple(a.id for a in core.attempts_on(worker.id) if not a.stray),
        )
    )


def on_succeeded(core: PoolCore, event: ProbeSucceeded, now: float) -> None:
    """Take in a successful probe: the key, the session, and what runs there."""
    worker = core.workers.get(event.worker_id)
    if worker is None or worker.state is WorkerState.SHUTDOWN:
        core.commands.append(CloseSession(worker_id=event.worker_id))
        return
    if event.op_id != worker.probe_op:
        return
    current = event.revision == worker.revision
    reattached = not worker.session_up
    was_up = worker.state in (WorkerState.IDLE, WorkerState.RUNNING)
    worker.probe_op = 0
    worker.probe_failures = 0
    worker.session_up = True
    worker.last_contact = now
    worker.last_error = ""
    core.timers.clear("silence", worker.id)
    core.timers.clear("offline", worker.id)
    _pin(core, worker, event.host_key, now)
    worker.broken = worker.broken or event.report.broken
    if worker.broken:
        core.note_stillborn(worker, worker.broken, now)
    for report in sorted(event.report.attempts, key=lambda r: r.attempt_id):
        attempts.observe(core, worker, report, now, current=current)
    _find_missing(core, worker, event, now)
    if reattached and worker.state is WorkerState.IDLE:
        # Whoever waited for it to come back gets it before its idle timeout ends it.
        worker.state_since = now
    _settle(core, worker, now)
    if reattached and was_up:
        core.note_changed(worker, "its session is up again")
    if reattached:
        for attempt in core.attempts_on(worker.id):
            attempts.signal_if_wanted(core, attempt, now)


def _pin(core: PoolCore, worker: Worker, host_key: str, now: float) -> None:
    """Keep the proven key; the secret that proved it is void from now on.

    It lies on the instance until a probe that carries the pinned key deletes it there: one more
    probe, since deleting it before the pin is journalled could lock us out for ever.
    """
    if worker.host_key == host_key:
        return
    if worker.secret:
        core.timers.soonest("probe", worker.id, now + core.settings.probe_interval_s)
    worker.host_key = host_key
    worker.secret = ""
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
            core.timers.soonest("probe", worker.id, now)
        elif attempt.phase is AttemptPhase.ENDED:
            attempts.give_log_up(core, attempt, now)
        else:
            message = f"it is not on {worker.id}, and no exit of it is recorded there"
            attempts.missing(core, attempt, message, now)


def _settle(core: PoolCore, worker: Worker, now: float) -> None:
    """Move the worker to what the probe showed."""
    if worker.state is WorkerState.SHUTDOWN:
        return
    if worker.attempts:
        core.move(worker, Trigger.READY_BUSY, now)
        worker.last_busy = now
    elif worker.state is WorkerState.RUNNING:
        core.move(worker, Trigger.LAST_EXIT, now)
    else:
        core.move(worker, Trigger.READY_EMPTY, now)
    idle.review(core, worker, now)


def on_failed(core: PoolCore, event: ProbeFailed, now: float) -> None:
    """Probe again after a growing delay; the worker's own timeouts decide when to give up."""
    worker = core.workers.get(event.worker_id)
    if worker is None or event.op_id != worker.probe_op:
        return
    worker.probe_op = 0
    worker.probe_failures += 1
    worker.last_error = f"{event.stage}: {event.message}"
    interval_s = core.settings.probe_interval_s
    longest_s = interval_s
    if worker.state in (WorkerState.UNKNOWN, WorkerState.BOOTING):
        longest_s = min(interval_s, _LONGEST_WAIT_WHILE_BOOTING_S)
    doublings = min(worker.probe_failures - 1, 10)
    delay_s = min(longest_s, interval_s / 20 * 2**doublings)
    core.timers.set("probe", worker.id, now + delay_s)


def on_session_lost(core: PoolCore, event: SessionLost, now: float) -> None:
    """The session is gone: reconnect at once, and count the silence from its last word."""
    worker = core.workers.get(event.worker_id)
    if worker is None or worker.state is WorkerState.SHUTDOWN:
        return
    worker.session_up = False
    worker.revision += 1
    worker.last_contact = min(event.last_contact, now)
    worker.last_error = f"session: {event.reason}"
    settings = core.settings
    core.timers.set("silence", worker.id, worker.last_contact + settings.probe_timeout_s)
    core.timers.set("offline", worker.id, worker.last_contact + settings.offline_timeout_s)
    core.note_changed(worker, f"its session is lost: {event.reason}")
    core.timers.soonest("probe", worker.id, now)


def on_broken(core: PoolCore, event: BrokenReported, now: float) -> None:
    """A worker that reports itself broken gets no more work and is drained, unless held."""
    worker = core.workers.get(event.worker_id)
    if worker is not None and worker.broken != event.message:
        worker.broken = event.message
        worker.revision += 1
        core.note_stillborn(worker, event.message, now)
        core.note_changed(worker, f"it is broken: {event.message}")
        idle.review(core, worker, now)


def takes_work(core: PoolCore, worker: Worker, now: float) -> bool:
    """Return whether work may be planned onto a worker, now or when it is ready."""
    return (
        worker.behavior is IdleBehavior.RUN
        and worker.state is not WorkerState.SHUTDOWN
        and not worker.broken
        and not _offline(core, worker, now)
    )


def _offline(core: PoolCore, worker: Worker, now: float) -> bool:
    if worker.session_up or worker.state in (WorkerState.UNKNOWN, WorkerState.BOOTING):
        return False
    return now >= worker.last_contact + core.settings.offline_timeout_s


def is_ready(worker: Worker) -> bool:
    """Return whether an attempt can be started on a worker at once."""
    return worker.session_up and worker.state in (WorkerState.IDLE, WorkerState.RUNNING)
