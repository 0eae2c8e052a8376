"""What admins ask of instances: which there are and were, what leaks, and how they are steered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from longshore.dispatcher.cost.prices import AS_BOUGHT, PriceBook, PricesInForce
from longshore.dispatcher.domain.containers import InstanceRecord
from longshore.dispatcher.domain.ledger import ms_of
from longshore.dispatcher.domain.messages import (
    BehaviorRequested,
    InstanceKillRequested,
    StraysDecided,
)
from longshore.dispatcher.domain.views import (
    InstanceReport,
    InstanceView,
    LeakReport,
    StrayPage,
    StrayView,
)
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.explain.health import unlisted
from longshore.dispatcher.explain.instance_views import (
    gone_report,
    gone_view,
    instance_report,
    leak_report,
    packed_view,
    stray_page,
    stray_views,
)
from longshore.dispatcher.service.admission import AdmissionController
from longshore.dispatcher.service.contracts import Conflict, NotFound, Unavailable
from longshore.dispatcher.store.errors import StoreBusy
from longshore.dispatcher.store.store import Store
from longshore.pool.leaks import NO_LEFTOVERS, LeftoverReport
from longshore.pool.model import BehaviorNote, IdleBehavior, Worker, WorkerState

WRITTEN_WITHIN_S = 2.0
"""How long who asks for an instance that went just now waits until that is written."""

Leftovers = Callable[[], LeftoverReport]
"""Tells what stays of instances that are gone."""


Prices = Callable[[], PricesInForce]
"""Tells the prices of now."""


def as_bought() -> PricesInForce:
    """Return that instances cost what they did when they were bought, where nobody tells more."""
    return AS_BOUGHT


def no_leftovers() -> LeftoverReport:
    """Return that nothing stays, where nobody tells of it."""
    return NO_LEFTOVERS


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceTellers:
    """Who tells of instances what the engine is not told of."""

    #: When a worker's session was last heard, in seconds since the epoch; 0.0 for never.
    heard_at: Callable[[str], float]
    #: What stays of instances that are gone.
    leftovers: Leftovers
    #: The prices of now.
    prices: Prices


class InstanceService:
    """Instances as admins see and steer them; used on the loop's thread."""

    def __init__(
        self,
        *,
        view: EngineView,
        admission: AdmissionController,
        store: Store,
        now: Callable[[], float],
        told: InstanceTellers,
    ) -> None:
        self._view = view
        self._admission = admission
        self._store = store
        self._now = now
        self._told = told

    def instances(self, *, cursor: str, limit: int) -> InstanceReport:
        """Return one page of the instances that are known, by id.

        Raises `InvalidRequest` for a cursor that is not ours.
        """
        return instance_report(
            self._view,
            self._now(),
            heard_at=self._told.heard_at,
            cursor=cursor,
            limit=limit,
            prices=self._told.prices(),
        )

    async def gone_instances(self, *, cursor: str, limit: int) -> InstanceReport:
        """Return one page of those that are gone, from the store, the last gone first.

        Raises `InvalidRequest` for a cursor that is not ours.
        """
        try:
            page = await asyncio.to_thread(self._store.gone_instances, cursor=cursor, limit=limit)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error
        return gone_report(self._view, self._now(), page)

    async def instance(self, instance_id: str) -> InstanceView:
        """Return one instance, from the store if it is gone.

        Raises `NotFound`; `Unavailable` before the first listing of the cloud, when nobody knows
        whether there is one, and while nobody knows whether it is gone.
        """
        workers = self._view.pool.workers
        if instance_id in workers:
            return self._shown(workers[instance_id])
        record = await self._record(instance_id)
        if record is not None and record.gone_at is None and instance_id not in workers:
            # It went just now: the engine has queued that, and then it is written.
            await self._store.committed(within_s=WRITTEN_WITHIN_S)
            record = await self._record(instance_id)
        if record is not None and record.gone_at is not None and instance_id not in workers:
            return gone_view(record)
        return self._shown(self._worker(instance_id, is_kept=record is not None))

    async def _record(self, instance_id: str) -> InstanceRecord | None:
        try:
            return await asyncio.to_thread(self._store.instance, instance_id)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error

    async def leaks(self, *, cursor: str, limit: int) -> LeakReport:
        """Return one page of what is billed and not wanted at this moment.

        Where the store cannot be read, earlier prices are taken to have been those of now: this is
        told whatever else is wrong. Raises `InvalidRequest` for a cursor that is not ours.
        """
        since = min((leak.since for leak in self._view.pool.leaks(self._now())), default=None)
        prices = self._told.prices() if since is None else await self._prices_since(since)
        return leak_report(
            self._view,
            self._now(),
            store_problem=self._store.problem,
            leftovers=self._told.leftovers(),
            prices=prices,
            cursor=cursor,
            limit=limit,
        )

    async def _prices_since(self, since: float) -> PricesInForce:
        """Return the prices of now, with those from a time on, in seconds since the epoch."""
        from_ms, until_ms = ms_of(since), ms_of(max(since, self._now())) + 1
        try:
            rows = await asyncio.to_thread(self._store.ledger.prices_between, from_ms, until_ms)
        except StoreBusy:
            return self._told.prices()
        return replace(self._told.prices(), book=PriceBook(rows))

    def strays(self, *, cursor: str, limit: int) -> StrayPage:
        """Return one page of the strays that are kept, by instance and attempt.

        Raises `InvalidRequest` for a cursor that is not ours.
        """
        return stray_page(stray_views(self._view), cursor=cursor, limit=limit)

    async def decide_strays(
        self, instance_id: str, attempts: Sequence[str], *, adopt: bool
    ) -> Sequence[StrayView]:
        """End strays that are kept on an instance, or leave them to their own end; return them.

        No `attempts` are all of them. Raises `NotFound` for what is not there or not kept,
        `Unavailable` as `set_idle_behavior` does.
        """
        await self._expect_there(instance_id)
        there = [each.attempt for each in stray_views(self._view) if each.instance == instance_id]
        missing = [each for each in attempts if each not in there]
        if missing:
            raise NotFound(f"no stray {missing[0]} is kept on {instance_id}")
        if not there:
            raise NotFound(f"no strays are kept on {instance_id}")
        named = tuple(attempts or there)
        await self._admission.control_instance(
            StraysDecided(worker_id=instance_id, attempt_ids=named, adopt=adopt)
        )
        kept = [each for each in stray_views(self._view) if each.instance == instance_id]
        return [each for each in kept if each.attempt in named]

    async def set_idle_behavior(
        self,
        instance_id: str,
        behavior: IdleBehavior,
        *,
        reason: str = "",
        user: str = "",
        until: float | None = None,
    ) -> InstanceView:
        """Set an instance's idle behavior; return what came of it once a restart would know of it.

        `reason` is why, "" for no word of it, and `user` who wants it. A hold ends at `until`
        (seconds since the epoch), None for never.

        Raises `NotFound` for one that is gone too, `Unavailable` as `instance` does; `Conflict`
        when it shuts down, but for what that wish led to; `Unavailable` while nothing is taken in,
        or when the store takes too long: it may be done all the same.
        """
        worker = await self._expect_there(instance_id)
        if _is_ending(worker):
            raise _ends(worker, behavior)
        note = BehaviorNote(behavior=behavior, reason=reason, by=user, at=self._now(), until=until)
        await self._admission.control_instance(
            BehaviorRequested(worker_id=instance_id, behavior=behavior, note=note)
        )
        # An event before it may have ended the instance. To run or to drain may lead to its end.
        worker = self._worker(instance_id)
        may_end = behavior is not IdleBehavior.HOLD and worker.behavior is behavior
        if _is_ending(worker) and not may_end:
            raise _ends(worker, behavior)
        return self._shown(worker)

    async def kill(self, instance_id: str, reason: str) -> InstanceView:
        """Destroy an instance now, whatever runs on it; return it as it was.

        Returns once a restart would know of it. Raises as `instance` does, `Unavailable` as
        `set_idle_behavior` does.
        """
        worker = await self._expect_there(instance_id)
        view = self._shown(worker)
        await self._admission.control_instance(
            InstanceKillRequested(worker_id=instance_id, reason=reason)
        )
        if worker.shutdown.killed is None:
            # An event before it took the instance away: nothing was noted that would outlast that.
            self._worker(instance_id)
        return view

    def _shown(self, worker: Worker) -> InstanceView:
        return packed_view(
            self._view,
            worker,
            heard_at=self._told.heard_at(worker.id),
            prices=self._told.prices(),
        )

    async def _expect_there(self, instance_id: str) -> Worker:
        """Return a worker that can be steered; raises as `instance` does, also for a gone one."""
        if instance_id not in self._view.pool.workers:
            view = await self.instance(instance_id)
            # It may have come while the store was read.
            if view.gone_at:
                raise NotFound(f"instance {instance_id} is gone: {view.last_error}")
        return self._worker(instance_id)

    def _worker(self, instance_id: str, *, is_kept: bool = False) -> Worker:
        pool = self._view.pool
        worker = pool.workers.get(instance_id)
        if worker is not None:
            return worker
        if not pool.listed_once:
            raise Unavailable(
                f"{unlisted(pool)}; until it is, nobody knows whether there is an instance "
                f"{instance_id}"
            )
        if is_kept:
            # It was not listed since this process began, or the commit that it is gone is to come.
            raise Unavailable(
                f"the cloud does not list instance {instance_id}, which is not known to be gone yet"
            )
        raise NotFound(f"there is no instance {instance_id}")


def _is_ending(worker: Worker) -> bool:
    return worker.state is WorkerState.SHUTDOWN


def _ends(worker: Worker, behavior: IdleBehavior) -> Conflict:
    return Conflict(
        f"instance {worker.id} is being shut down ({worker.shutdown.reason}), and that "
        f"cannot be undone; {behavior.value} another one"
    )
