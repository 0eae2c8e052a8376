"""When an instance is shut down: idle for long enough, drained, given up, or ended by an admin."""

from __future__ import annotations

from drivers.errors import InstanceNotFound
from pool.core import PoolCore
from pool.messages import (
    CloseSession,
    Destroyed,
    DestroyFailed,
    DestroyInstance,
    SetTags,
    TagsFailed,
    TagsSet,
)
from pool.model import IdleBehavior, Worker, WorkerState
from pool.tags import tags_of
from pool.transitions import Trigger

KILLS_BEFORE_DRAIN = 3
_FAILURES = frozenset({Trigger.BOOT_TIMEOUT, Trigger.PROBE_TIMEOUT})
_LISTING_AFTER_DESTROY_S = 0.5
_LISTING_WHILE_DESTROYING_S = 2.0
_TAGS_AGAIN_S = 30.0


def set_behavior(core: PoolCore, worker: Worker, behavior: IdleBehavior, now: float) -> None:
    """Give a worker another idle behavior, write it to its tags, and act on it at once."""
    if worker.behavior is not behavior:
        worker.behavior = behavior
        worker.revision += 1
        core.note_changed(worker, f"its idle behavior is {behavior.value} now")
    save_tags(core, worker)
    review(core, worker, now)


def save_tags(core: PoolCore, worker: Worker) -> None:
    """Write the tags that the worker's instance should carry."""
    tags = tags_of(core.cluster, worker)
    core.commands.append(SetTags(op_id=core.next_op(), instance_id=worker.id, tags=tags))


def on_tags_set(core: PoolCore, event: TagsSet) -> None:
    """Nothing more is to be done: the next listing compares."""
    core.timers.clear("tags", event.instance_id)


def on_tags_failed(core: PoolCore, event: TagsFailed, now: float) -> None:
    """Write the tags again later; the listing would find the difference too."""
    worker = core.workers.get(event.instance_id)
    if worker is not None:
        worker.last_error = f"tags: {event.error}"
        core.timers.set("tags", worker.id, now + _TAGS_AGAIN_S)


def review(core: PoolCore, worker: Worker, now: float) -> None:
    """Apply the idle rules to a worker whose state, behavior or attempts changed."""
    core.timers.clear("idle", worker.id)
    if worker.state is WorkerState.SHUTDOWN or worker.behavior is IdleBehavior.HOLD:
        return
    if _overdue(core, worker, now):
        return
    if worker.behavior is IdleBehavior.DRAIN or worker.broken:
        _drain(core, worker, now)
    elif worker.state is WorkerState.IDLE and worker.session_up:
        end_at = worker.state_since + core.settings.idle_timeout_s
        if now >= end_at:
            _end_when_released(core, worker, Trigger.IDLE_TIMEOUT, now)
        else:
            core.timers.set("idle", worker.id, end_at)


def _overdue(core: PoolCore, worker: Worker, now: float) -> bool:
    """Shut down a worker whose boot or probe timeout passed (perhaps while it was held)."""
    settings = core.settings
    if worker.state in (WorkerState.UNKNOWN, WorkerState.BOOTING):
        end_at = worker.appeared_at + settings.boot_timeout_s
        trigger = Trigger.BOOT_TIMEOUT
    elif not worker.session_up:
        end_at = worker.last_contact + settings.probe_timeout_s
        trigger = Trigger.PROBE_TIMEOUT
    else:
        return False
    if now < end_at:
        core.timers.soonest("silence", worker.id, end_at)
        return False
    if trigger is Trigger.BOOT_TIMEOUT:
        core.note_stillborn(worker, worker.last_error or "it never answered", now)
    shut_down(core, worker, trigger, now)
    return True


def _drain(core: PoolCore, worker: Worker, now: float) -> None:
    if worker.state is WorkerState.UNKNOWN:
        return
    if worker.state is WorkerState.RUNNING:
        attempts = [core.attempts[attempt_id] for attempt_id in sorted(worker.attempts)]
        if any(attempt.kills_sent <= KILLS_BEFORE_DRAIN for attempt in attempts):
            return
        shut_down(core, worker, Trigger.DRAINED, now)
    elif worker.state is WorkerState.BOOTING:
        shut_down(core, worker, Trigger.DRAINED, now)
    else:
        _end_when_released(core, worker, Trigger.DRAINED, now)


def _end_when_released(core: PoolCore, worker: Worker, trigger: Trigger, now: float) -> None:
    """Shut down, but let logs that are still on their way arrive, for probe_timeout at most."""
    latest = worker.state_since + core.settings.probe_timeout_s
    if worker.unreleased and now < latest:
        core.timers.set("idle", worker.id, latest)
        return
    shut_down(core, worker, trigger, now)


def on_unwanted(core: PoolCore, worker: Worker, now: float) -> None:
    """Shut down an idle worker whose place in the quota the planner needs."""
    if (
        worker.state is WorkerState.IDLE
        and worker.behavior is IdleBehavior.RUN
        and not worker.unreleased
    ):
        shut_down(core, worker, Trigger.UNWANTED, now)


def kill_worker(core: PoolCore, worker: Worker, reason: str, now: float) -> None:
    """Shut an instance down now, whatever runs there and whatever its idle behavior.

    `reason` is the admin's, "" for none.
    """
    worker.end_reason = f"{Trigger.KILLED.value}: {reason}" if reason else Trigger.KILLED.value
    shut_down(core, worker, Trigger.KILLED, now)


def shut_down(core: PoolCore, worker: Worker, trigger: Trigger, now: float) -> None:
    """Move a worker to shutdown, drop its session and destroy its instance."""
    if not worker.end_reason:
        because = worker.broken or (worker.last_error if trigger in _FAILURES else "")
        worker.end_reason = f"{trigger.value}: {because}" if because else trigger.value
    core.move(worker, trigger, now)
    worker.session_up = False
    for kind in ("boot", "probe", "silence", "idle", "offline"):
        core.timers.clear(kind, worker.id)
    core.commands.append(CloseSession(worker_id=worker.id))
    destroy(core, worker, now)


def destroy(core: PoolCore, worker: Worker, now: float) -> None:
    """Ask the cloud to destroy, and again after shutdown_timeout, until it is gone."""
    core.commands.append(DestroyInstance(op_id=core.next_op(), instance_id=worker.id))
    core.timers.set("destroy", worker.id, now + core.settings.shutdown_timeout_s)
    core.timers.soonest("list", "", now + _LISTING_WHILE_DESTROYING_S)


def on_destroyed(core: PoolCore, event: Destroyed, now: float) -> None:
    """The cloud accepted: look soon whether the instance is gone."""
    if event.instance_id in core.workers:
        core.timers.soonest("list", "", now + _LISTING_AFTER_DESTROY_S)


def on_destroy_failed(core: PoolCore, event: DestroyFailed, now: float) -> None:
    """Keep the repetition going; only a listing may say that the instance is gone."""
    worker = core.workers.get(event.instance_id)
    if worker is None:
        return
    if isinstance(event.error, InstanceNotFound):
        core.timers.soonest("list", "", now)
        return
    worker.last_error = f"destroy: {event.error}"
