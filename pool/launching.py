"""Creating instances: journalled intents, what their calls answered, and the holds that follow."""

from __future__ import annotations

from drivers.errors import (
    AmbiguousResult,
    CapacityError,
    CapacityScope,
    CloudError,
    QuotaError,
    RateLimitError,
)
from drivers.interface import InstanceType
from pool import idle, probing
from pool.core import AttemptPhase, Hold, HoldCause, PendingLaunch, PoolAttempt, PoolCore
from pool.messages import Created, CreateFailed, CreateInstance
from pool.model import Launch, WorkerState
from pool.notices import AttemptLost, LaunchMade
from pool.tags import launch_tags, without_room
from pool.transitions import Trigger

_DOUBT_S = 10.0
_LISTING_AFTER_DOUBT_S = 1.0
_UNKNOWN_ERROR_HOLD_S = 5.0
_LONGEST_RATE_LIMIT_S = 3600.0


def request_launch(core: PoolCore, type_: InstanceType, now: float) -> str:
    """Decide to create an instance of a type and return the launch's token.

    Emits `LaunchMade` (to be journalled) and the create command that follows it.
    """
    launch = Launch(
        token=core.new_token(), type_name=type_.name, secret=core.new_secret(), created_at=now
    )
    op_id = core.next_op()
    core.launches[launch.token] = PendingLaunch(
        launch=launch, in_flight=True, counted=True, op_id=op_id
    )
    core.notices.append(LaunchMade(launch=launch))
    core.commands.append(
        CreateInstance(
            op_id=op_id,
            launch=launch,
            instance_type=type_,
            tags=launch_tags(core.cluster, launch),
        )
    )
    return launch.token


def on_created(core: PoolCore, event: Created, now: float) -> None:
    """The create call returned: the worker is booting (whoever saw it first)."""
    pending = core.launches.get(event.token)
    if pending is None or pending.op_id != event.op_id:
        return
    pending.in_flight = False
    core.holds.on_trial = False
    worker = core.workers.get(event.instance.id)
    if worker is None:
        type_ = core.types.get(pending.launch.type_name) or without_room(pending.launch.type_name)
        worker = core.add_worker(event.instance, type_, now=now)
    if worker.token != event.token:
        # The tags are not there yet; the answer itself says what it is.
        core.bind_launch(worker, event.token)
    if worker.state in (WorkerState.UNKNOWN, WorkerState.SHUTDOWN):
        core.move(worker, Trigger.CREATED, now)
    if worker.state is WorkerState.BOOTING:
        probing.ensure(core, worker, now)
        idle.review(core, worker, now)
    if worker.host_key:
        core.end_launch(event.token)
    if not worker.address:
        core.timers.soonest("list", "", now + _LISTING_AFTER_DOUBT_S)


def on_create_failed(core: PoolCore, event: CreateFailed, now: float) -> None:
    """The create call raised: hold what the error tells to hold, and never assume too much."""
    pending = core.launches.get(event.token)
    if pending is None or pending.op_id != event.op_id:
        return
    pending.in_flight = False
    if isinstance(event.error, AmbiguousResult):
        if not pending.instance_id:
            pending.lost_answer_at = now
            core.timers.soonest("list", "", now + _LISTING_AFTER_DOUBT_S)
        return
    worker = core.workers.get(pending.instance_id)
    if worker is None or worker.host_key:
        core.end_launch(event.token)
    _hold(core, pending.launch.type_name, event.error, now)


def _hold(core: PoolCore, type_name: str, error: CloudError, now: float) -> None:
    settings = core.settings
    if isinstance(error, CapacityError) and error.scope is not CapacityScope.ALL:
        core.holds.types_until[type_name] = now + settings.capacity_hold_s
        core.timers.set("hold", type_name, now + settings.capacity_hold_s)
        return
    cause, hold_s = _cause_of(core, error)
    core.holds.on_trial = True
    core.holds.creates[cause] = Hold(
        until=now + hold_s,
        reason=str(error) or type(error).__name__,
        instances=(len(core.workers) or None) if cause is HoldCause.QUOTA else None,
    )
    core.timers.set("creates", cause.value, now + hold_s)


def _cause_of(core: PoolCore, error: CloudError) -> tuple[HoldCause, float]:
    """Return what an error holds creates for, and for how many seconds."""
    match error:
        case QuotaError():
            return HoldCause.QUOTA, core.settings.quota_hold_s
        case CapacityError():
            return HoldCause.CAPACITY, core.settings.capacity_hold_s
        case RateLimitError():
            told = error.retry_after_s or _UNKNOWN_ERROR_HOLD_S
            return HoldCause.RATE_LIMIT, min(told, _LONGEST_RATE_LIMIT_S)
        case _:
            return HoldCause.ERROR, _UNKNOWN_ERROR_HOLD_S


def creates_hold(core: PoolCore, now: float) -> tuple[HoldCause, str] | None:
    """Return what holds creates now and its reason, None when they may go on."""
    for cause in (HoldCause.QUOTA, *HoldCause):
        hold = core.holds.creates.get(cause)
        if hold is None or now >= hold.until:
            continue
        if hold.instances is None or len(core.workers) >= hold.instances:
            return cause, hold.reason
    return None


def creates_left(core: PoolCore) -> int:
    """Return how many create calls may be begun now, holds aside."""
    in_flight = sum(1 for pending in core.launches.values() if pending.in_flight)
    most = 1 if core.holds.on_trial else core.settings.max_concurrent_creates
    return max(0, most - in_flight)


def type_held(core: PoolCore, type_name: str, now: float) -> bool:
    """Return whether a type is at capacity now."""
    return now < core.holds.types_until.get(type_name, 0.0)


def restore(core: PoolCore, launch: Launch) -> None:
    """Take up a launch that an earlier process journalled: nobody knows what came of it."""
    core.launches[launch.token] = PendingLaunch(
        launch=launch, in_flight=False, counted=True, lost_answer_at=launch.created_at
    )


def after_listing(core: PoolCore, began_at: float, now: float) -> None:
    """Stop hoping for launches that listings do not show; forget them after boot_timeout.

    The journal is kept for that long so that an instance that shows late can prove its key.
    """
    for token in sorted(core.launches):
        pending = core.launches[token]
        if pending.in_flight or pending.instance_id or pending.lost_answer_at is None:
            continue
        if began_at - pending.lost_answer_at >= _DOUBT_S:
            pending.counted = False
        if now - pending.lost_answer_at >= core.settings.boot_timeout_s:
            core.end_launch(token)


def lose(core: PoolCore, attempt: PoolAttempt) -> None:
    """Give up an attempt whose instance the cloud does not list."""
    core.forget_attempt(attempt.id)
    if not attempt.stray and attempt.phase is not AttemptPhase.ENDED:
        core.notices.append(
            AttemptLost(
                attempt_id=attempt.id,
                worker_id=attempt.worker_id,
                message=f"its instance {attempt.worker_id} is not in the cloud's listing",
            )
        )
