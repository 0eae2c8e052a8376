"""What a complete listing means: who is new, who is gone, whose address and tags changed."""

from __future__ import annotations

from longshore.drivers.interface import CLUSTER_TAG, IDLE_BEHAVIOR_TAG, TOKEN_TAG, TYPE_TAG
from longshore.pool import absence, billing, launching, probing, shutdown, troubles
from longshore.pool.backoff import sentence
from longshore.pool.core import PoolCore
from longshore.pool.messages import Listed, ListingFailed, ListInstances, SetTags
from longshore.pool.model import InstanceSeen, Worker, WorkerState
from longshore.pool.tags import behavior_from, tags_of, type_from
from longshore.pool.timers import TimerKind

_SOON_S = 2.0
_LONG_S = 30.0
_WHILE_MISSING_S = 10.0


def request_listing(core: PoolCore, now: float) -> None:
    """List the instance set as soon as it may be, unless a listing is under way."""
    if core.listing_op:
        return
    core.timers.clear(TimerKind.LIST, "")
    core.listing_op = core.next_op()
    core.ask_cloud(ListInstances(op_id=core.listing_op), now)


def on_listed(core: PoolCore, event: Listed, now: float) -> None:
    """Reconcile the pool with a complete listing."""
    if event.op_id != core.listing_op:
        return
    core.listing_op = 0
    core.listing_failures = 0
    core.listing_problem = ""
    core.listing_trouble = None
    core.cloud_gate.listings.succeeded(now)
    core.listed_at = event.began_at
    ours = [seen for seen in event.instances if dict(seen.tags).get(CLUSTER_TAG) == core.cluster]
    before = ""
    for seen in sorted(ours, key=lambda instance: instance.id):
        _see(core, seen, event.began_at, now, repeated=seen.id == before)
        before = seen.id
    present = {seen.id for seen in ours}
    for worker in sorted(core.workers.values(), key=lambda w: w.id):
        if worker.id not in present:
            absence.note(core, worker, event.began_at, now)
    launching.after_listing(core, event.began_at, now)
    core.listed_once = True
    _take_up_missing(core, event.began_at, now)
    _schedule(core, now)


def _take_up_missing(core: PoolCore, began_at: float, now: float) -> None:
    """Take up what an earlier process knew and the first listing lacks: it may be there."""
    for instance_id in sorted(core.unlisted):
        seen = core.unlisted[instance_id]
        worker = core.add_worker(seen, type_from(dict(seen.tags), core.types), now=now)
        worker.cloud.remembered = True
        worker.cloud.listed_at = 0.0
        # Whose key is not proven may not have been shown to that process either.
        worker.cloud.listed = bool(worker.link.host_key)
        absence.note(core, worker, began_at, now)
        probing.ensure(core, worker, now)


def on_listing_failed(core: PoolCore, event: ListingFailed, now: float) -> None:
    """Try again when the cloud says, or after 1 s, 2 s, 4 s … 60 s, and not before.

    Nothing is concluded from a listing that failed.
    """
    if event.op_id != core.listing_op:
        return
    core.listing_op = 0
    core.listing_failures += 1
    core.listing_problem = sentence(event.error)
    core.listing_trouble = troubles.after(core.listing_trouble, event.error, now)
    core.cloud_gate.listings.failed(event.error, now)
    core.timers.set(TimerKind.LIST, "", core.cloud_gate.listings.until)


def _schedule(core: PoolCore, now: float) -> None:
    """Arm the next listing: sooner while something is expected to change."""
    expecting = any(_is_expected(worker, now) for worker in core.workers.values())
    expecting = expecting or any(p.counted and not p.in_flight for p in core.launches.values())
    interval_s = core.settings.sync_interval_s
    if expecting:
        interval_s = min(interval_s, _SOON_S, core.settings.shutdown_timeout_s)
    elif any(worker.cloud.absence is not None for worker in core.workers.values()):
        interval_s = min(interval_s, _WHILE_MISSING_S, core.settings.gone_after_s / 2)
    core.timers.soonest(TimerKind.LIST, "", now + interval_s)


def _is_expected(worker: Worker, now: float) -> bool:
    """Return whether the next listings may well show something new of a worker."""
    lacking_s = 0.0 if worker.cloud.absence is None else now - worker.cloud.absence.since
    if lacking_s >= _LONG_S:
        return False
    going = worker.state is WorkerState.SHUTDOWN and not worker.link.session_up
    return going or not worker.cloud.address or not worker.cloud.listed


def _see(
    core: PoolCore, seen: InstanceSeen, began_at: float, now: float, *, repeated: bool
) -> None:
    """Take in what a listing shows of an instance, perhaps once more (`repeated`)."""
    tags = dict(seen.tags)
    worker = core.workers.get(seen.id)
    if worker is None:
        worker = core.add_worker(seen, type_from(tags, core.types), now=now)
    # A listing may show an instance earlier than its tags.
    if TYPE_TAG in tags:
        core.learn_type(worker, type_from(tags, core.types))
    token = tags.get(TOKEN_TAG, "")
    if token and not worker.token:
        core.bind_launch(worker, token)
    worker.cloud.listed = True
    worker.cloud.listed_at = max(worker.cloud.listed_at, began_at)
    absence.end(core, worker, "a listing shows it again")
    if worker.cloud.remembered:
        _recognise(core, worker, tags)
    if seen.address and seen.address != worker.cloud.address:
        worker.cloud.address = seen.address
        worker.invalidate_probe()
    _hear_condition(core, worker, seen, repeated=repeated)
    billing.hear(core, worker, seen)
    if worker.untagged and dict(seen.tags).get(IDLE_BEHAVIOR_TAG) == worker.behavior.value:
        worker.untagged = False
        core.asked_behaviors.pop(worker.id, None)
        core.note_changed(worker, f"its tags say {worker.behavior.value}")
    shutdown.resume(core, worker, now)
    if worker.state is not WorkerState.SHUTDOWN:
        probing.ensure(core, worker, now)
        _keep_tags(core, worker, tags, now)
        shutdown.review(core, worker, now)


def _hear_condition(core: PoolCore, worker: Worker, seen: InstanceSeen, *, repeated: bool) -> None:
    """Note how the cloud says that a worker's instance stands; one listing says it once."""
    before = worker.cloud.says
    if seen.power is not worker.cloud.power:
        worker.cloud.power_listings = 1
    elif not repeated:
        worker.cloud.power_listings += 1
    worker.cloud.power, worker.cloud.reason = seen.power, seen.reason
    if worker.cloud.says != before:
        core.note_changed(worker, worker.cloud.says or "the cloud says that it is on again")


def _recognise(core: PoolCore, worker: Worker, tags: dict[str, str]) -> None:
    """Take the idle behavior of a remembered worker from its tags, now that they are known."""
    worker.cloud.remembered = False
    worker.behavior = core.asked_behaviors.get(worker.id, behavior_from(tags))
    worker.invalidate_probe()
    if worker.link.session_up:
        shutdown.set_lease(core, worker)


def _keep_tags(core: PoolCore, worker: Worker, tags: dict[str, str], now: float) -> None:
    """Save the tags again when they differ from what is wanted.

    The idle behavior is remembered meanwhile, as when it was asked for: a newer process must not
    take the old tags for somebody's wish.
    """
    wanted = tags_of(core.cluster, worker)
    if any(tags.get(key) != value for key, value in wanted):
        if behavior_from(tags) is not worker.behavior and not worker.untagged:
            worker.untagged = True
            core.asked_behaviors[worker.id] = worker.behavior
            core.note_changed(worker, "its tags say another idle behavior: they are written again")
        core.ask_cloud(SetTags(op_id=core.next_op(), instance_id=worker.id, tags=wanted), now)
