"""When an instance is shut down: idle for long enough, drained, given up, or ended by an admin."""

from __future__ import annotations

from collections.abc import Sequence

from longshore.drivers.errors import RateLimitError
from longshore.drivers.interface import InstanceType, Power
from longshore.pool import absence, boot_failures, signals
from longshore.pool.core import PoolCore
from longshore.pool.messages import (
    CloseSession,
    Destroyed,
    DestroyFailed,
    DestroyInstance,
    SetLease,
    SetTags,
    TagsFailed,
    TagsSet,
)
from longshore.pool.model import BehaviorNote, IdleBehavior, PoolAttempt, Worker, WorkerState
from longshore.pool.pool_events import AttemptDismissed
from longshore.pool.signals import given_up
from longshore.pool.tags import is_unrecognised, tags_of
from longshore.pool.timers import TimerKind
from longshore.pool.transitions import Trigger

# --------------------------------------------------------------------------------------------------
# Residents of a worker that is being shut down: each is told to end, and has some time for it.
#
# They belong to their instance and keep it from nothing, but what they have to put in order before
# it is destroyed they may: for as long as the most patient of them asks, and no longer than all
# get.


def dismiss(core: PoolCore, worker: Worker, now: float) -> bool:
    """Tell the residents of a worker to end; return whether some are to be waited for.

    There are none where nothing can be told to them, and none are those that survive KILL.
    """
    residents = [core.attempts[attempt_id] for attempt_id in sorted(worker.load.resident)]
    ending = [attempt for attempt in residents if not signals.given_up(attempt)]
    if not worker.link.session_up or not ending:
        return False
    for attempt in ending:
        attempt.dismissed = True
        core.notices.append(AttemptDismissed(attempt_id=attempt.id, worker_id=worker.id))
        if signals.tell_to_end(attempt):
            signals.send_if_wanted(core, attempt, now)
    _wait(core, worker, ending, now)
    return True


def wait_anew(core: PoolCore, worker: Worker, now: float) -> None:
    """Give the dismissed residents of a worker their whole time again, if some are waited for."""
    ending = [a for a in core.attempts_on(worker.id) if _is_ending(a)]
    if worker.state is WorkerState.SHUTDOWN and worker.link.session_up and ending:
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


# --------------------------------------------------------------------------------------------------

_FAILURES = frozenset({Trigger.BOOT_TIMEOUT, Trigger.PROBE_TIMEOUT})
_TOLD = frozenset({Trigger.STOPPED, Trigger.FAILED})
_AT_ONCE = _FAILURES | _TOLD | {Trigger.KILLED}
_NOT_READY = frozenset({WorkerState.UNKNOWN, WorkerState.BOOTING})
_LISTING_AFTER_DESTROY_S = 0.5
_LISTING_WHILE_DESTROYING_S = 2.0
_TAGS_AGAIN_S = 30.0
_AGAIN = "it is listed again, and was being shut down"
_LEAVES_WITHIN_S = 120.0
"""How long an instance that is shut down is taken for one that will soon be gone."""


def set_behavior(
    core: PoolCore,
    worker: Worker,
    behavior: IdleBehavior,
    now: float,
    note: BehaviorNote | None = None,
) -> None:
    """Give a worker another idle behavior, write it to its tags, and act on it at once.

    `note` is what somebody said of it, None for nothing; at its end the worker runs again.
    It is remembered until a listing shows it: a call may be lost, or come after a newer process has
    read the old tags.
    """
    if worker.behavior is not behavior:
        held = IdleBehavior.HOLD in (worker.behavior, behavior)
        worker.behavior = behavior
        if behavior is IdleBehavior.RUN:
            # No pass could use it while it was idle: the next says whether anybody waits for it.
            core.awaited |= {worker.id}
        if held and worker.link.session_up:
            set_lease(core, worker)
        worker.link.revision += 1
    # Also when nothing changes here: somebody may have written other tags meanwhile.
    worker.untagged = True
    core.asked_behaviors[worker.id] = behavior
    _keep_note(core, worker, note)
    said = f": {note.reason}" if note is not None and note.reason else ""
    core.note_changed(worker, f"its idle behavior is {behavior.value} now{said}")
    save_tags(core, worker, now)
    review(core, worker, now)


def _keep_note(core: PoolCore, worker: Worker, note: BehaviorNote | None) -> None:
    worker.noted = note
    core.timers.clear(TimerKind.RELEASE, worker.id)
    if note is None:
        core.asked_notes.pop(worker.id, None)
        return
    core.asked_notes[worker.id] = note
    if note.until is not None:
        core.timers.set(TimerKind.RELEASE, worker.id, note.until)


def release(core: PoolCore, worker: Worker, now: float) -> None:
    """Let a worker run again whose hold has come to its end."""
    if worker.cloud.remembered:
        # Nobody knows what its tags say now.
        core.timers.set(TimerKind.RELEASE, worker.id, now + core.settings.sync_interval_s)
        return
    note = worker.note
    if note is None or note.until is None or worker.state is WorkerState.SHUTDOWN:
        return
    set_behavior(core, worker, IdleBehavior.RUN, now)


def set_lease(core: PoolCore, worker: Worker) -> None:
    """Let an instance power itself off when nobody contacts it, unless it is held."""
    core.commands.append(SetLease(worker_id=worker.id, suspended=suspends_lease(worker)))


def suspends_lease(worker: Worker) -> bool:
    """Return whether an instance is not to power itself off: it is held, or may be."""
    return worker.behavior is IdleBehavior.HOLD or worker.cloud.remembered


def save_tags(core: PoolCore, worker: Worker, now: float) -> None:
    """Write the tags that the worker's instance should carry."""
    tags = tags_of(core.cluster, worker)
    core.ask_cloud(SetTags(op_id=core.next_op(), instance_id=worker.id, tags=tags), now)


def on_tags_set(core: PoolCore, event: TagsSet, now: float) -> None:
    """Nothing more is to be done: the next listing compares."""
    core.cloud_gate.changes.succeeded(now)
    core.timers.clear(TimerKind.TAGS, event.instance_id)


def on_tags_failed(core: PoolCore, event: TagsFailed, now: float) -> None:
    """Write the tags again later; the listing would find the difference too."""
    limited = isinstance(event.error, RateLimitError)
    if limited:
        core.cloud_gate.changes.failed(event.error, now)
    worker = core.workers.get(event.instance_id)
    if worker is not None and worker.state is not WorkerState.SHUTDOWN:
        worker.health.last_error = f"tags: {event.error}"
        if limited:
            save_tags(core, worker, now)
        else:
            core.timers.set(TimerKind.TAGS, worker.id, now + _TAGS_AGAIN_S)


def condemn(core: PoolCore, worker: Worker, verdict: str) -> None:
    """Judge a worker to be of no use, for good: it gets no more work and drains (see `review`)."""
    if not worker.health.verdict:
        worker.health.verdict = verdict
        worker.link.revision += 1
        core.note_changed(worker, f"it is broken: {verdict}")


def is_draining(worker: Worker) -> bool:
    """Return whether a worker is to go when nothing runs on it.

    Because an admin wants it; or, unless it is held, because it is broken, the cloud takes it back
    or its type is not configured (any more). The latter are not written to its tags: they may not
    last.
    """
    if worker.behavior is not IdleBehavior.RUN:
        return worker.behavior is IdleBehavior.DRAIN
    return bool(worker.health.broken or worker.health.interruption) or is_unrecognised(worker.type)


def in_use(core: PoolCore, worker: Worker) -> bool:
    """Return whether something keeps a worker busy that has not been given up."""
    return not all(
        given_up(core.attempts[attempt_id])
        for attempt_id in worker.load.attempts.keys() - worker.load.resident
    )


def review(core: PoolCore, worker: Worker, now: float) -> None:
    """Apply the idle rules to a worker whose state, behavior or attempts changed."""
    core.timers.clear(TimerKind.IDLE, worker.id)
    core.touch(worker.id)
    if worker.health.broken and not worker.health.broken_at:
        worker.health.broken_at = now
    if worker.state is WorkerState.SHUTDOWN:
        if not are_ending(core, worker):
            wait_no_longer(core, worker, now)
        return
    if worker.behavior is IdleBehavior.HOLD or worker.cloud.remembered:
        # Who is only remembered may be held, for all that is known.
        return
    if _overdue(core, worker, now):
        return
    if is_draining(worker):
        _drain(core, worker, now)
    elif worker.state is WorkerState.IDLE and worker.id not in core.awaited:
        end_at = _idle_since(worker) + core.settings.idle_timeout_s
        if now >= end_at:
            _end_when_released(core, worker, Trigger.IDLE_TIMEOUT, now)
        else:
            core.timers.set(TimerKind.IDLE, worker.id, end_at)


def _idle_since(worker: Worker) -> float:
    """Return since when an idle worker might have been used: not while it rests (see `_pause`)."""
    return max(worker.state_since, worker.health.overloaded_until)


def _overdue(core: PoolCore, worker: Worker, now: float) -> bool:
    """Shut down a worker whose boot or probe timeout passed (perhaps while it was held).

    Or whose cloud says that it is of no use: nobody need wait for a timeout then. Nobody is overdue
    whom no probe can reach; after that each has its whole time anew.
    """
    if core.held_up:
        return False
    trigger, end_at = _told(worker), now
    if trigger is None:
        trigger, end_at = _timeout(core, worker)
    if trigger is None:
        return False
    if now < end_at:
        core.timers.soonest(TimerKind.SILENCE, worker.id, end_at)
        return False
    booting = worker.state in _NOT_READY
    asked = worker.behavior is not IdleBehavior.RUN or worker.id in core.asked_behaviors
    if booting and not asked and trigger is not Trigger.STOPPED and _may_be_in_use(core, worker):
        set_behavior(core, worker, IdleBehavior.HOLD, now, _in_use(now))
        return False
    if booting:
        why = worker.cloud.says or worker.health.last_error or "it never answered"
        boot_failures.note(core, worker, why, now)
    shut_down(core, worker, trigger, now)
    return True


def _told(worker: Worker) -> Trigger | None:
    """Return why the cloud's word on a worker ends it, None where it does not.

    Who has a session is there, whatever a listing says; what failed may run if it did so before.
    """
    if worker.link.session_up:
        return None
    if worker.cloud.power is Power.STOPPED and worker.cloud.power_listings > 1:
        # Some clouds say so for a moment while an instance boots, or its machine does.
        return Trigger.STOPPED
    failed = (
        worker.cloud.power is Power.FAILED and worker.state in _NOT_READY and not worker.link.shown
    )
    return Trigger.FAILED if failed else None


def _timeout(core: PoolCore, worker: Worker) -> tuple[Trigger | None, float]:
    """Return which timeout a worker has, None for none, and when it ends."""
    settings = core.settings
    heard_at = max(worker.link.last_contact, core.moved_on_at)
    if worker.state in _NOT_READY:
        end_at = max(worker.link.boots_since, core.moved_on_at) + settings.boot_timeout_s
        if is_draining(worker):
            # What was found there may end, as long as the instance is heard of (see `_drain`).
            if worker.link.session_up:
                return None, 0.0
            end_at = max(end_at, heard_at + settings.probe_timeout_s)
        return Trigger.BOOT_TIMEOUT, end_at
    if worker.link.session_up:
        return None, 0.0
    return Trigger.PROBE_TIMEOUT, heard_at + settings.probe_timeout_s


def _in_use(now: float) -> BehaviorNote:
    """Return why an instance is held that nobody asked to be."""
    reason = "nobody can reach it, and something that is wanted may run there"
    return BehaviorNote(behavior=IdleBehavior.HOLD, reason=reason, by="", at=now)


def _may_be_in_use(core: PoolCore, worker: Worker) -> bool:
    """Return whether a worker that cannot be reached may run what a lost store has started.

    With that store went what its key is proven by, so that nobody can look. It is held: an admin
    sees it among the leaks, and says what becomes of it.
    """
    provable = worker.link.host_key or worker.link.secret or worker.launched_here
    return core.spares_unknown and not worker.link.shown and not provable


def _drain(core: PoolCore, worker: Worker, now: float) -> None:
    """Shut a draining worker down, unless something may run there that has not been given up."""
    if worker.state is WorkerState.UNKNOWN and not worker.link.shown:
        return
    if worker.state is WorkerState.BOOTING:
        shut_down(core, worker, Trigger.DRAINED, now)
        return
    if not in_use(core, worker):
        _end_when_released(core, worker, Trigger.DRAINED, now)


def _end_when_released(core: PoolCore, worker: Worker, trigger: Trigger, now: float) -> None:
    """Shut down, but let logs that are still on their way arrive, for probe_timeout at most."""
    if worker.load.unreleased and core.held_up:
        return
    waits_since = max(worker.state_since, worker.load.last_busy, core.moved_on_at)
    latest = waits_since + core.settings.probe_timeout_s
    if worker.load.unreleased and now < latest:
        core.timers.set(TimerKind.IDLE, worker.id, latest)
        return
    shut_down(core, worker, trigger, now)


def set_awaited(core: PoolCore, worker_ids: frozenset[str], now: float) -> None:
    """Note which workers somebody waits for, as a pass has found: these are not idle for too long.

    One that is let run again counts among them until the next pass.
    """
    before, core.awaited = core.awaited, worker_ids
    for worker_id in sorted(before - worker_ids):
        worker = core.workers.get(worker_id)
        if worker is not None:
            review(core, worker, now)


def on_unwanted(core: PoolCore, worker: Worker, now: float) -> None:
    """Shut down an idle worker whose place in the quota the planner needs, session or not."""
    if (
        worker.state is WorkerState.IDLE
        and worker.behavior is IdleBehavior.RUN
        and not worker.cloud.remembered
        and not worker.load.unreleased
    ):
        shut_down(core, worker, Trigger.UNWANTED, now)


def leaving(core: PoolCore, now: float) -> list[InstanceType]:
    """Return the types of the instances whose places in quotas will soon be free: they are ending.

    One that has not gone in two minutes may never do so: nobody is to wait for its place.
    """
    return [
        worker.type
        for worker in core.workers.values()
        if worker.state is WorkerState.SHUTDOWN and now < worker.state_since + _LEAVES_WITHIN_S
    ]


def kill_worker(core: PoolCore, worker: Worker, reason: str, now: float) -> None:
    """Shut an instance down now, whatever runs there and whatever its idle behavior.

    `reason` is the admin's, "" for none; the first is remembered, so that a newer process does not
    let the instance live whose destroy failed. One that is being shut down waits no longer for its
    residents, if it does.
    """
    told = f"{Trigger.KILLED.value}: {reason}" if reason else Trigger.KILLED.value
    first = worker.shutdown.killed is None
    if first:
        worker.shutdown.killed = core.asked_kills[worker.id] = reason
    if worker.cloud.remembered and not worker.link.session_up:
        core.note_changed(worker, f"{told}: it is destroyed as soon as a listing shows it")
    elif worker.state is not WorkerState.SHUTDOWN:
        worker.shutdown.reason = told
        shut_down(core, worker, Trigger.KILLED, now)
    elif worker.link.session_up:
        worker.shutdown.reason = told
        core.note_changed(worker, told)
        wait_no_longer(core, worker, now)
    elif first:
        core.note_changed(worker, told)


def keep_killed(core: PoolCore, worker: Worker, now: float) -> None:
    """Shut an instance down that was killed before this record of it was made."""
    if worker.shutdown.killed is not None and worker.state is not WorkerState.SHUTDOWN:
        kill_worker(core, worker, worker.shutdown.killed, now)


def keep_ended(core: PoolCore, worker: Worker, now: float) -> None:
    """Shut an instance down anew that was let go while it ended, and is listed again."""
    reason = core.ended.pop(worker.id, None)
    if reason is not None and worker.state is not WorkerState.SHUTDOWN:
        worker.shutdown.reason = f"{_AGAIN}: {reason.removeprefix(f'{_AGAIN}: ')}"
        shut_down(core, worker, Trigger.DRAINED, now)


def shut_down(core: PoolCore, worker: Worker, trigger: Trigger, now: float) -> None:
    """Move a worker to shutdown, and destroy its instance once its residents had their time.

    Its session lives for as long as they are waited for. They are not where it was not heard of, or
    an admin wants it gone, whatever runs there.
    """
    if not worker.shutdown.reason:
        because = worker.health.broken or (worker.health.last_error if trigger in _FAILURES else "")
        if trigger in _TOLD:
            because = worker.cloud.reason
        worker.shutdown.reason = f"{trigger.value}: {because}" if because else trigger.value
    core.move(worker, trigger, now)
    for kind in (
        TimerKind.PROBE,
        TimerKind.SILENCE,
        TimerKind.IDLE,
        TimerKind.OFFLINE,
        TimerKind.TAGS,
    ):
        core.timers.clear(kind, worker.id)
    if trigger in _AT_ONCE or not dismiss(core, worker, now):
        _end(core, worker, now)


def _end(core: PoolCore, worker: Worker, now: float) -> None:
    """Drop the session of a worker and destroy its instance."""
    worker.link.session_up = False
    worker.shutdown.destroyed_at = now
    core.timers.clear(TimerKind.DISMISSAL, worker.id)
    core.commands.append(CloseSession(worker_id=worker.id))
    destroy(core, worker, now)


def wait_no_longer(core: PoolCore, worker: Worker, now: float) -> None:
    """Destroy the instance of a worker that waits for its residents; of others, nothing changes.

    They have ended, had their time, or are not heard of any more.
    """
    if worker.state is WorkerState.SHUTDOWN and worker.link.session_up:
        _end(core, worker, now)


def destroy(core: PoolCore, worker: Worker, now: float) -> None:
    """Ask the cloud to destroy; from its sending on it is repeated (see `release_cloud`)."""
    core.ask_cloud(DestroyInstance(op_id=core.next_op(), instance_id=worker.id), now)
    core.timers.soonest(TimerKind.LIST, "", now + _LISTING_WHILE_DESTROYING_S)


def on_destroyed(core: PoolCore, event: Destroyed, now: float) -> None:
    """The cloud accepted: look soon whether the instance is gone."""
    core.cloud_gate.changes.succeeded(now)
    worker = core.workers.get(event.instance_id)
    if worker is not None:
        if not worker.shutdown.destroy_answered:
            absence.on_destroy_answered(worker)
        worker.shutdown.destroy_answered = True
        worker.shutdown.destroy_accepted = worker.shutdown.destroy_accepted or event.known
        worker.shutdown.destroy_failures = 0
        worker.shutdown.destroy_error = ""
        core.timers.soonest(TimerKind.LIST, "", now + _LISTING_AFTER_DESTROY_S)


def on_destroy_failed(core: PoolCore, event: DestroyFailed, now: float) -> None:
    """Keep the repetition going; only a listing may say that the instance is gone.

    After a rate limit it is repeated as soon as the cloud allows.
    """
    limited = isinstance(event.error, RateLimitError)
    if limited:
        core.cloud_gate.changes.failed(event.error, now)
    worker = core.workers.get(event.instance_id)
    if worker is None:
        return
    worker.shutdown.destroy_answered = False
    worker.shutdown.destroy_failures += 1
    worker.shutdown.destroy_error = str(event.error) or type(event.error).__name__
    worker.health.last_error = f"destroy: {worker.shutdown.destroy_error}"
    if limited and worker.state is WorkerState.SHUTDOWN:
        destroy(core, worker, now)
