"""Instances, leaks and strays as admins see them, read from the engine's memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from decimal import Decimal

from longshore.dispatcher.cost.money import in_dollars, usd_per_hour
from longshore.dispatcher.cost.prices import AS_BOUGHT, PricesInForce
from longshore.dispatcher.cost.shares import dominant_share
from longshore.dispatcher.cost.spent import cost_since
from longshore.dispatcher.domain.containers import InstanceRecord
from longshore.dispatcher.domain.cursors import slice_of
from longshore.dispatcher.domain.ledger import launch_id, ms_of
from longshore.dispatcher.domain.queries import InstancePage
from longshore.dispatcher.domain.views import (
    InstanceReport,
    InstanceView,
    LeakReport,
    PlaceView,
    StrayPage,
    StrayView,
)
from longshore.dispatcher.engine.view import EngineView
from longshore.pool.charging import shortfall
from longshore.pool.leaks import (
    NO_LEFTOVERS,
    Leak,
    LeakKind,
    LeftoverReport,
)
from longshore.pool.model import Worker

_UNKNOWN = Decimal(0)
_AFTER = "after"
_LEAKS_AFTER = "leaks"
_STRAYS_AFTER = "strays"


def price_now(view: EngineView, instance_id: str, prices: PricesInForce) -> Decimal:
    """Return what an hour of an instance, or of a launch in doubt, costs by the prices of now.

    That is 0 where nobody knows it.
    """
    bill = view.bill_of(instance_id)
    if bill is None:
        return _UNKNOWN
    return usd_per_hour(prices.of(bill).nusd_per_hour)


def instance_view(
    view: EngineView, worker: Worker, *, heard_at: float, prices: PricesInForce = AS_BOUGHT
) -> InstanceView:
    """Return a worker as admins see it; the value is a copy.

    `heard_at` is when its session was last heard, which the engine is not told of; 0.0 for never.
    `prices` are those of now.
    """
    record = view.instances().get(worker.id)
    return InstanceView(
        id=worker.id,
        address=worker.cloud.address,
        state=worker.state.value,
        idle_behavior=worker.behavior.value,
        instance_type=worker.type.name,
        provider_type=worker.type.provider_type,
        price_usd_per_hour=price_now(view, worker.id, prices),
        running=tuple(view.running_on(worker.load.attempts)),
        last_container=worker.load.last_container,
        created_at=record.created_at if record is not None else worker.appeared_at,
        last_busy_at=worker.load.last_busy,
        last_contact_at=max(worker.link.last_contact, heard_at),
        broken=worker.health.broken,
        last_error=worker.health.last_error,
        taken_back_at=worker.health.interruption,
        missing_since=worker.cloud.missing_since or 0.0,
        cloud_says=worker.cloud.says,
        advice=worker.health.advice,
        machine=worker.load.machine,
        shortfall=shortfall(worker.type, worker.load.machine),
        note=worker.note,
        allocatable=worker.type.allocatable,
    )


def packed_view(
    view: EngineView, worker: Worker, *, heard_at: float, prices: PricesInForce
) -> InstanceView:
    """Return a worker as `instance_view` does, with who has a place there."""
    shown = instance_view(view, worker, heard_at=heard_at, prices=prices)
    return replace(shown, places=_places(view, worker))


def _places(view: EngineView, worker: Worker) -> tuple[PlaceView, ...]:
    """Return who has a place on an instance, by container."""
    found = [
        PlaceView(
            container=container,
            resources=resources,
            share=float(dominant_share(resources, worker.type.allocatable)),
        )
        for attempt_id, resources in worker.load.attempts.items()
        for container in view.running_on([attempt_id])
    ]
    return tuple(sorted(found, key=lambda each: each.container))


def gone_view(record: InstanceRecord) -> InstanceView:
    """Return an instance that is gone, as its last event shows it; its last error is why."""
    return InstanceView(
        id=record.id,
        address=record.address,
        state="gone",
        idle_behavior="run",
        instance_type=record.type_name,
        provider_type="",
        price_usd_per_hour=record.price_usd_per_hour,
        running=(),
        last_container="",
        created_at=record.created_at,
        last_busy_at=0.0,
        last_contact_at=0.0,
        broken="",
        last_error=record.gone_reason,
        gone_at=record.gone_at or 0.0,
    )


def instance_report(
    view: EngineView,
    now: float,
    *,
    heard_at: Callable[[str], float],
    cursor: str,
    limit: int,
    prices: PricesInForce = AS_BOUGHT,
) -> InstanceReport:
    """Return a page of the instances that are known, by id; the value is a copy.

    `now` is in seconds since the epoch, `heard_at` is when the session of one was last heard,
    `prices` are those of now. Raises `InvalidRequest` for a cursor that is not ours.
    """
    workers = view.pool.workers
    shown, following = slice_of(workers, lambda each: each, word=_AFTER, cursor=cursor, limit=limit)
    return _report(
        view,
        now,
        [
            packed_view(view, workers[each], heard_at=heard_at(each), prices=prices)
            for each in shown
        ],
        next_cursor=following,
    )


def gone_report(view: EngineView, now: float, page: InstancePage) -> InstanceReport:
    """Return a page of instances that are gone; `now` as for `instance_report`."""
    views = [gone_view(record) for record in page.items]
    return _report(view, now, views, next_cursor=page.next_cursor)


def _report(
    view: EngineView, now: float, views: Sequence[InstanceView], *, next_cursor: str | None
) -> InstanceReport:
    return InstanceReport(
        instances=tuple(views),
        listed_at=view.pool.listed_at,
        complete=view.pool.is_listing_current(now),
        next_cursor=next_cursor,
    )


def leak_report(
    view: EngineView,
    now: float,
    *,
    store_problem: str = "",
    leftovers: LeftoverReport = NO_LEFTOVERS,
    prices: PricesInForce = AS_BOUGHT,
    cursor: str = "",
    limit: int = sys.maxsize,
) -> LeakReport:
    """Return what is billed and not wanted; `now` in seconds since the epoch, the value is a copy.

    That is the page of up to `limit` behind `cursor`, all without them; raises `InvalidRequest` for
    a cursor that is not ours.

    `prices` are those of now; their book knows what was in force since the first of them became
    unwanted, as far as anybody does. `store_problem` is why the store cannot be written, "" when it
    can; `leftovers` is what stays of instances that are gone.
    """
    leaks = [_priced(view, leak, prices, now) for leak in view.pool.leaks(now)]
    if store_problem:
        leaks = [_behind_the_store(leak) for leak in leaks]
    leaks += [view.pool.leftover_leak(each.leftover, each.since) for each in leftovers.items]
    shown, following = slice_of(leaks, _place_of, word=_LEAKS_AFTER, cursor=cursor, limit=limit)
    return LeakReport(
        leaks=tuple(shown),
        next_cursor=following,
        listed_at=view.pool.listed_at,
        complete=view.pool.is_listing_current(now),
        store_problem=store_problem,
        leftovers_problem=leftovers.problem,
    )


def _priced(view: EngineView, leak: Leak, prices: PricesInForce, now: float) -> Leak:
    """Return a leak with what the ledger tells of it."""
    id_ = leak.instance_id or launch_id(leak.launch_token)
    bill = view.bill_of(id_)
    if bill is None:
        return leak
    cost = cost_since(bill, prices.book, since_ms=ms_of(leak.since), now_ms=ms_of(now))
    return replace(
        leak,
        price_usd_per_hour=price_now(view, id_, prices),
        cost_usd=in_dollars(cost.grains),
        uncertain_usd=in_dollars(cost.uncertain_grains),
    )


def _place_of(leak: Leak) -> str:
    """Return where a leak comes: instances by id, launches by token, then what was left, by id."""
    if leak.instance_id:
        return f"0 {leak.instance_id}"
    return f"1 {leak.launch_token}" if leak.launch_token else f"2 {leak.resource_id}"


def stray_page(views: Iterable[StrayView], *, cursor: str, limit: int) -> StrayPage:
    """Return a page of strays; raises `InvalidRequest` for a cursor that is not ours."""
    shown, following = slice_of(
        views,
        lambda each: f"{each.instance} {each.attempt}",
        word=_STRAYS_AFTER,
        cursor=cursor,
        limit=limit,
    )
    return StrayPage(items=tuple(shown), next_cursor=following)


def stray_views(view: EngineView) -> list[StrayView]:
    """Return the strays that are kept, by instance and attempt; the value is a copy."""
    return [
        StrayView(
            instance=each.worker_id,
            attempt=each.remote_id,
            container=each.container_id,
            store=each.store,
            found_at=each.found_at,
            fate="killed" if each.is_to_end else "adopted" if each.adopted else "undecided",
        )
        for each in view.pool.strays()
    ]


def _behind_the_store(leak: Leak) -> Leak:
    """Return a leak as it is told while what is asked of the cloud waits for a commit."""
    if leak.kind is not LeakKind.UNCONFIRMED:
        return leak
    return replace(
        leak,
        remedy="repair the store first: until it can be written, listings and destroy calls wait",
    )
