"""Creating instances: journalled intents, what their calls answered, and the holds that follow."""

from __future__ import annotations

from dataclasses import replace

from longshore.drivers.errors import AmbiguousResult
from longshore.drivers.interface import InstanceType
from longshore.pool import probing, shutdown
from longshore.pool.core import PoolCore
from longshore.pool.holds import InstanceCounts, Scope
from longshore.pool.messages import Created, CreateFailed, CreateInstance
from longshore.pool.model import Launch, Payer, PendingLaunch, WorkerState
from longshore.pool.pool_events import LaunchMade
from longshore.pool.quotas import QuotaBound
from longshore.pool.tags import launch_tags, without_room
from longshore.pool.timers import TimerKind
from longshore.pool.transitions import Trigger

_DOUBT_S = 10.0
_LISTING_AFTER_DOUBT_S = 1.0
_LISTING_AFTER_CREATE_S = 2.0


def request_launch(core: PoolCore, type_: InstanceType, payer: Payer, now: float) -> str:
    """Decide to create an instance of a type for somebody and return the launch's token.

    Emits `LaunchMade` (to be journalled) and the create command that follows it.
    """
    launch = Launch(
        token=core.new_token(),
        type_name=type_.name,
        secret=core.new_secret(),
        created_at=now,
        payer=payer,
    )
    op_id = core.next_op()
    core.launches[launch.token] = PendingLaunch(
        launch=launch, in_flight=True, counted=True, op_id=op_id
    )
    core.notices.append(LaunchMade(launch=launch))
    create = CreateInstance(
        op_id=op_id, launch=launch, instance_type=type_, tags=launch_tags(core.cluster, launch)
    )
    core.ask_cloud(create, now)
    return launch.token


def on_created(core: PoolCore, event: Created, now: float) -> None:
    """The create call returned: the worker is booting (whoever saw it first)."""
    pending = core.launches.get(event.token)
    if pending is None or pending.op_id != event.op_id:
        return
    pending.in_flight = False
    type_ = type_of(core, pending.launch)
    worker = core.workers.get(event.instance.id)
    if worker is None:
        worker = core.add_worker(event.instance, type_, now=now)
        # A listing may have shown it, and one have lacked it, before the call returned.
        worker.cloud.listed = pending.seen_and_gone
    if worker.token != event.token:
        # The tags are not there yet; the answer itself says what it is.
        core.bind_launch(worker, event.token)
    shutdown.resume(core, worker, now)
    if worker.state in (WorkerState.UNKNOWN, WorkerState.SHUTDOWN):
        core.move(worker, Trigger.CREATED, now)
    if worker.state is WorkerState.BOOTING:
        probing.ensure(core, worker, now)
        shutdown.review(core, worker, now)
    _note_made(core, pending, now)
    if worker.link.host_key:
        core.end_launch(event.token)
    # Until a listing has shown it, nobody can tell whether it is gone.
    wait_s = _LISTING_AFTER_CREATE_S if worker.cloud.address else _LISTING_AFTER_DOUBT_S
    core.timers.soonest(TimerKind.LIST, "", now + wait_s)


def on_create_failed(core: PoolCore, event: CreateFailed, now: float) -> None:
    """The create call raised: hold what the error tells to hold, and never assume too much."""
    pending = core.launches.get(event.token)
    if pending is None or pending.op_id != event.op_id:
        return
    pending.in_flight = False
    if isinstance(event.error, AmbiguousResult):
        if pending.instance_id:
            _made_after_all(core, pending, now)
            return
        pending.lost_answer_at = now
        core.review_doubt(event.token)
        core.timers.soonest(TimerKind.LIST, "", now + _LISTING_AFTER_DOUBT_S)
    else:
        worker = core.workers.get(pending.instance_id)
        if worker is None or worker.link.host_key:
            core.end_launch(event.token)
    type_, began_at = type_of(core, pending.launch), pending.launch.created_at
    core.troubles.failed(type_.name, event.error, began_at=began_at, now=now)
    core.holds.failed(
        type_,
        event.error,
        began_at=began_at,
        tally=lambda scope: tally_of(core, scope),
        now=now,
    )
    arm_hold(core, now)


def arm_hold(core: PoolCore, now: float) -> None:
    """Wake the planner at the end of the next hold, if there is one."""
    core.timers.arm(TimerKind.HOLD, core.holds.next_end(now))


def _made_after_all(core: PoolCore, pending: PendingLaunch, now: float) -> None:
    """Note that a create whose answer left a doubt made the instance that a listing shows."""
    pending.lost_answer_at = None
    core.review_doubt(pending.launch.token)
    _note_made(core, pending, now)


def _note_made(core: PoolCore, pending: PendingLaunch, now: float) -> None:
    """Note that a create succeeded: what was short is not any more."""
    type_, began_at = type_of(core, pending.launch), pending.launch.created_at
    core.holds.succeeded(type_, began_at=began_at)
    core.troubles.succeeded(type_.name, began_at=began_at)
    core.holds.quotas.made(type_, lambda scope: tally_of(core, scope), began_at=began_at, now=now)


def type_of(core: PoolCore, launch: Launch) -> InstanceType:
    """Return a launch's type; one that is not configured (any more) has no room."""
    return core.types.get(launch.type_name) or without_room(launch.type_name)


def types_in_flight(core: PoolCore) -> list[InstanceType]:
    """Return the type of each create call that is under way."""
    return [
        type_of(core, pending.launch) for pending in core.launches.values() if pending.in_flight
    ]


def creates_left(core: PoolCore) -> int:
    """Return how many create calls more may be under way, holds and tokens aside."""
    return max(0, core.settings.max_concurrent_creates - len(types_in_flight(core)))


def tally_of(core: PoolCore, scope: Scope) -> InstanceCounts:
    """Return how many instances there are of the types that a scope covers, and are coming."""
    covers = core.holds.covers
    there = [worker for worker in core.workers.values() if covers(scope, worker.type)]
    going = [worker for worker in there if worker.state is WorkerState.SHUTDOWN]
    types = (type_of(core, pending.launch) for pending in core.expected_launches())
    coming = [type_ for type_ in types if covers(scope, type_)]
    return InstanceCounts(
        there=len(there),
        going=len(going),
        coming=len(coming),
        there_cpu_millis=sum(worker.type.resources.cpu_millis for worker in there),
        going_cpu_millis=sum(worker.type.resources.cpu_millis for worker in going),
        coming_cpu_millis=sum(type_.resources.cpu_millis for type_ in coming),
    )


def told_quotas(core: PoolCore, now: float) -> tuple[QuotaBound, ...]:
    """Return what errors have told of quotas, and what they leave."""
    return core.holds.quotas.bounds(lambda scope: tally_of(core, scope), now=now)


def known_quotas(core: PoolCore, now: float) -> list[tuple[frozenset[str], int]]:
    """Return, for each quota that errors told of, its types and how many more are known to be
    allowed.

    The number is below 0 while one more is tried. Quotas that refused one though none was there are
    left out: nothing of theirs could be used up.
    """
    found = []
    for known in core.holds.quotas.known(now):
        counted = tally_of(core, known.scope)
        left = max(known.most, counted.standing) - counted.taken
        covers = {
            name for name, type_ in core.types.items() if core.holds.covers(known.scope, type_)
        }
        found += [] if known.alone else [(frozenset(covers), left)]
    return found


def may_be_refused(core: PoolCore, type_: InstanceType, now: float) -> bool:
    """Return whether one more of a type would be the last that a quota allows, or one too many."""
    return core.holds.may_be_refused(type_, lambda scope: tally_of(core, scope), now)


def at_quota(core: PoolCore, now: float) -> bool:
    """Return whether a quota of the cloud's holds creates, all or some."""
    return core.holds.at_quota(lambda scope: tally_of(core, scope), now)


def tries_quota(core: PoolCore, now: float) -> bool:
    """Return whether a create is under way that tells if a quota of the cloud's still holds."""
    return core.holds.tries_quota(lambda scope: tally_of(core, scope), now)


def on_token(core: PoolCore, now: float) -> bool:
    """Send what waited for a token; return whether there is one for creates, which need a pass."""
    core.release_cloud(now)
    turn_of_creates = core.cloud_gate.is_turn_of_creates(now)
    if turn_of_creates:
        # The pass arms the timer again.
        core.timers.clear(TimerKind.CLOUD, "")
    return turn_of_creates


def after_pass(core: PoolCore, *, wait: bool, served: bool, now: float) -> None:
    """Wake the planner for the next token if creates `wait` for one; `served`: some had theirs."""
    core.cloud_gate.creates_wait(wait=wait, served=served, now=now)
    core.release_cloud(now)


def restore(core: PoolCore, launch: Launch) -> None:
    """Take up a launch that an earlier process journalled: nobody knows what came of it."""
    core.launches[launch.token] = PendingLaunch(
        launch=launch, in_flight=False, counted=True, lost_answer_at=launch.created_at
    )
    core.review_doubt(launch.token)


def begin(core: PoolCore, now: float) -> None:
    """Let the doubt about restored launches begin now, whatever the clock was when they were made.

    The first listing may lack an instance that is new, however long ago the launch seems to be; and
    one that seems to lie in the future would count as an instance to come until the clock has
    caught up.
    """
    for pending in core.launches.values():
        created_at = min(pending.launch.created_at, now)
        pending.launch = replace(pending.launch, created_at=created_at)
        pending.lost_answer_at = now


def after_listing(core: PoolCore, began_at: float, now: float) -> None:
    """Stop hoping for launches that listings do not show; forget them after boot_timeout.

    The journal is kept for that long so that an instance that shows late can prove its key.
    """
    for token in sorted(core.launches):
        pending = core.launches[token]
        if pending.in_flight or pending.lost_answer_at is None:
            continue
        if pending.instance_id:
            _made_after_all(core, pending, now)
            continue
        if began_at - pending.lost_answer_at >= _DOUBT_S:
            pending.counted = False
        if now - pending.lost_answer_at >= core.settings.boot_timeout_s:
            core.end_launch(token)
