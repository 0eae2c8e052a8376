"""Carries out what becomes of an instance, and what admins ask of it; its end, until it is gone.

`review` is the one that asks `pool.shutdown_decision`, and everybody calls it whose news may bear
on a worker: what a listing, a probe or an exit says, a deadline, an admin, the planner. A worker
that is shut down has its residents told to end, and keeps its session while they have their time;
then its instance is destroyed, again and again, until a listing lacks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from longshore.drivers.errors import RateLimitError
from longshore.drivers.interface import InstanceType
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
from longshore.pool.pool_events import ResidentToldToEnd
from longshore.pool.shutdown_decision import (
    NOT_READY,
    Hold,
    Keep,
    KillOnceListed,
    RecheckAt,
    ShutDown,
    ShutdownFacts,
    shutdown_decision,
)
from longshore.pool.signals import unkillable
from longshore.pool.tags import tags_of
from longshore.pool.timers import Lasts, TimerKind
from longshore.pool.transitions import Trigger

# --------------------------------------------------------------------------------------------------
# Residents of a worker that is being shut down: each is told to end, and has some time for it.
#
# They never keep an instance alive, but may clean up before it is destroyed: for as long as the
# longest grace period among them, and at most for the time between TERM and KILL that all get.


def stop_residents(core: PoolCore, worker: Worker, now: float) -> bool:
    """Tell the residents of a worker to end; return whether some are to be waited for.

    Nobody is waited for without a session to tell them, nor those that survive KILL.
    """
    residents = [core.attempts[attempt_id] for attempt_id in sorted(worker.load.resident)]
    ending = [attempt for attempt in residents if not signals.unkillable(attempt)]
    if not worker.link.session_up or not ending:
        return False
    for attempt in ending:
        attempt.told_to_end = True
        core.notices.append(ResidentToldToEnd(attempt_id=attempt.id, worker_id=worker.id))
        if signals.tell_to_end(attempt):
            signals.send_if_wanted(core, attempt, now)
    _wait(core, worker, ending, now)
    return True


def wait_anew(core: PoolCore, worker: Worker, now: float) -> None:
    """Give residents that are told to end their whole time again, if some are waited for."""
    ending = [a for a in core.attempts_on(worker.id) if _is_ending(a)]
    if worker.state is WorkerState.SHUTDOWN and worker.link.session_up and ending:
        _wait(core, worker, ending, now)


def _wait(core: PoolCore, worker: Worker, ending: Sequence[PoolAttempt], now: float) -> None:
    longest_s = max(signals.grace_of(core, attempt) for attempt in ending)
    patience_s = min(longest_s, core.settings.term_timeout_s)
    core.timers.set(TimerKind.DISMISSAL, worker.id, now + patience_s)


def are_ending(core: PoolCore, worker: Worker) -> bool:
    """Return whether a resident that was told to end still runs, or its log is still on its way."""
    return any(_is_ending(attempt) for attempt in core.attempts_on(worker.id))


def _is_ending(attempt: PoolAttempt) -> bool:
    return attempt.told_to_end and not signals.unkillable(attempt)


# --------------------------------------------------------------------------------------------------

_FAILURES = frozenset({Trigger.BOOT_TIMEOUT, Trigger.PROBE_TIMEOUT})
_TOLD = frozenset({Trigger.STOPPED, Trigger.FAILED})
_LISTING_AFTER_DESTROY_S = 0.5
_LISTING_WHILE_DESTROYING_S = 2.0
_TAGS_AGAIN_S = 30.0
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
            core.claimed_workers |= {worker.id}
        if held and worker.link.session_up:
            set_lease(core, worker)
        worker.invalidate_probe()
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
        worker.health.failed(f"tags: {event.error}")
        if limited:
            save_tags(core, worker, now)
        else:
            core.timers.set(TimerKind.TAGS, worker.id, now + _TAGS_AGAIN_S)


def mark_broken(core: PoolCore, worker: Worker, verdict: str) -> None:
    """Judge a worker to be of no use, for good: it gets no more work and drains (see `review`)."""
    if not worker.health.verdict:
        worker.health.judged(verdict)
        worker.invalidate_probe()
        core.note_changed(worker, f"it is broken: {verdict}")


def in_use(core: PoolCore, worker: Worker) -> bool:
    """Return whether something keeps a worker busy that has not been given up."""
    return not all(
        unkillable(core.attempts[attempt_id])
        for attempt_id in worker.load.attempts.keys() - worker.load.resident
    )


def review(core: PoolCore, worker: Worker, now: float, *, asked: Trigger | None = None) -> None:
    """Have a worker's fate decided anew (see `pool.shutdown_decision`), and carry that out.

    To be called whenever its record has changed; `asked` is what somebody asks for just now. One
    that is being shut down waits no longer for its residents when none is left.
    """
    core.timers.clear(TimerKind.RECHECK, worker.id)
    core.touch(worker.id)
    worker.health.reviewed(now)
    if worker.state is WorkerState.SHUTDOWN and not are_ending(core, worker):
        wait_no_longer(core, worker, now)
        return
    decision = shutdown_decision(worker, _facts(core, worker, asked), core.settings, now)
    match decision:
        case ShutDown(trigger=trigger):
            _shut_down(core, worker, trigger, now)
        case KillOnceListed():
            why = f"{_as_killed(worker)}: it is destroyed as soon as a listing shows it"
            core.note_changed(worker, why)
        case Hold():
            reason = "nobody can reach it, and something that is wanted may run there"
            note = BehaviorNote(behavior=IdleBehavior.HOLD, reason=reason, by="", at=now)
            set_behavior(core, worker, IdleBehavior.HOLD, now, note)
        case RecheckAt(at=at):
            core.timers.set(TimerKind.RECHECK, worker.id, at)
        case Keep():
            pass
        case _:
            assert_never(decision)


def _facts(core: PoolCore, worker: Worker, asked: Trigger | None) -> ShutdownFacts:
    return ShutdownFacts(
        asked=asked,
        is_claimed=worker.id in core.claimed_workers,
        in_use=in_use(core, worker),
        behavior_asked=worker.id in core.asked_behaviors,
        spares_unknown=core.spares_unknown,
        stalled=core.stalled,
        recovered_at=core.recovered_at,
    )


def _shut_down(core: PoolCore, worker: Worker, trigger: Trigger, now: float) -> None:
    """Move a worker to shutdown, and destroy its instance once its residents had their time.

    The session is kept while they are waited for. They are not waited for if the worker timed out,
    the cloud says that it stopped or failed, or an admin killed it. One that timed out, stopped or
    failed before it was ever ready counts as of no use.
    """
    unheard = trigger in _FAILURES or trigger in _TOLD
    if unheard and worker.state in NOT_READY:
        why = worker.cloud.says or worker.health.last_error or "it never answered"
        boot_failures.note(core, worker, why, now)
    if trigger is Trigger.KILLED:
        worker.shutdown.reason = _as_killed(worker)
    elif not worker.shutdown.reason:
        because = _because(worker, trigger)
        worker.shutdown.reason = f"{trigger.value}: {because}" if because else trigger.value
    core.move(worker, trigger, now)
    core.timers.clear_all(worker.id, Lasts.UNTIL_SHUTDOWN)
    if unheard or trigger is Trigger.KILLED or not stop_residents(core, worker, now):
        _end(core, worker, now)


def _because(worker: Worker, trigger: Trigger) -> str:
    """Return why what makes a worker go has come to that, "" where there is no more to say."""
    if trigger in _TOLD:
        return worker.cloud.reason
    taken_back = worker.health.interruption
    why = worker.health.broken or (f"the cloud takes it back at {taken_back}" if taken_back else "")
    return why or (worker.health.last_error if trigger in _FAILURES else "")


def set_awaited(core: PoolCore, worker_ids: frozenset[str], now: float) -> None:
    """Note which workers somebody waits for, as a pass has found: these are not idle for too long.

    One that is let run again counts among them until the next pass.
    """
    before, core.claimed_workers = core.claimed_workers, worker_ids
    for worker_id in sorted(before - worker_ids):
        worker = core.workers.get(worker_id)
        if worker is not None:
            review(core, worker, now)


def on_unwanted(core: PoolCore, worker: Worker, now: float) -> None:
    """Shut down an idle worker whose place in the quota the planner needs, session or not."""
    review(core, worker, now, asked=Trigger.UNWANTED)


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
    first = worker.shutdown.killed is None
    if first:
        worker.shutdown.killed = core.asked_kills[worker.id] = reason
    if worker.state is not WorkerState.SHUTDOWN:
        review(core, worker, now, asked=Trigger.KILLED)
    elif worker.link.session_up:
        worker.shutdown.reason = _as_killed(worker)
        core.note_changed(worker, worker.shutdown.reason)
        wait_no_longer(core, worker, now)
    elif first:
        core.note_changed(worker, _as_killed(worker))


def _as_killed(worker: Worker) -> str:
    """Return what is told of a worker that an admin killed."""
    reason = worker.shutdown.killed
    return f"{Trigger.KILLED.value}: {reason}" if reason else Trigger.KILLED.value


def resume(core: PoolCore, worker: Worker, now: float) -> None:
    """Go on with a shutdown that was decided before this record of its instance was made.

    An admin killed it, or it was let go while it ended, and is listed again.
    """
    if worker.shutdown.killed is not None and worker.state is not WorkerState.SHUTDOWN:
        kill_worker(core, worker, worker.shutdown.killed, now)
    reason = core.ended.pop(worker.id, None)
    if reason is not None and worker.state is not WorkerState.SHUTDOWN:
        again = f"{Trigger.LISTED_AGAIN.value}: "
        worker.shutdown.reason = f"{again}{reason.removeprefix(again)}"
        review(core, worker, now, asked=Trigger.LISTED_AGAIN)


def _end(core: PoolCore, worker: Worker, now: float) -> None:
    """Drop the session of a worker and destroy its instance."""
    worker.link.session_up = False
    worker.shutdown.destroyed_at = now
    core.touch(worker.id)
    core.timers.clear(TimerKind.DISMISSAL, worker.id)
    core.commands.append(CloseSession(worker_id=worker.id))
    destroy(core, worker, now)


def wait_no_longer(core: PoolCore, worker: Worker, now: float) -> None:
    """Destroy the instance of a worker that waits for its residents; of others, nothing changes.

    They have ended, had their time, or are not heard of any more.
    """
    if worker.state is WorkerState.SHUTDOWN and worker.link.session_up:
        _end(core, worker, now)


def on_dismissal_due(core: PoolCore, worker: Worker, now: float) -> None:
    """The residents of a worker had their time; while the store is stalled they have not."""
    if core.stalled:
        core.timers.set(TimerKind.DISMISSAL, worker.id, now + core.settings.shutdown_timeout_s)
    else:
        wait_no_longer(core, worker, now)


def on_destroy_due(core: PoolCore, worker: Worker, now: float) -> None:
    """Repeat a destroy; while the store is stalled, later."""
    if core.stalled:
        core.timers.set(TimerKind.DESTROY, worker.id, now + core.settings.shutdown_timeout_s)
    elif worker.state is WorkerState.SHUTDOWN:
        destroy(core, worker, now)


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
    worker.health.failed(f"destroy: {worker.shutdown.destroy_error}")
    if limited and worker.state is WorkerState.SHUTDOWN:
        destroy(core, worker, now)
