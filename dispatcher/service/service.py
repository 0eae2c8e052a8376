"""The API's backend: the store for what is committed, the engine's memory for what is live."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from longshore.dispatcher.config.model import LimitsConfig
from longshore.dispatcher.domain.containers import Container, Reason, WaitReason
from longshore.dispatcher.domain.jobs import Job
from longshore.dispatcher.domain.messages import (
    BehaviorRequested,
    CancelRequested,
    InsertContainers,
    InstanceKillRequested,
    PriorityRequested,
    RequestCancel,
    RequestPriority,
    StraysDecided,
    Submitted,
)
from longshore.dispatcher.domain.queries import ContainerFilter, JobFilter, JobPage, Page
from longshore.dispatcher.domain.views import (
    Health,
    InstanceReport,
    InstanceView,
    LeakReport,
    ServerEvent,
    StrayPage,
    StrayView,
)
from longshore.dispatcher.domain.vitals import Vitals
from longshore.dispatcher.engine.runtime import Runtime
from longshore.dispatcher.explain.explanation import Explanation, WaitStatus, explain, wait_status
from longshore.dispatcher.explain.health import (
    advice_of,
    failed_last,
    smaller_machines,
    unlisted,
    unreached,
)
from longshore.dispatcher.explain.instance_views import (
    gone_report,
    gone_view,
    instance_report,
    instance_view,
    leak_report,
    stray_page,
    stray_views,
)
from longshore.dispatcher.logs.store import LogStore
from longshore.dispatcher.metrics.exposition import Metrics
from longshore.dispatcher.service.admission import AdmissionController, IdempotencyKey, wanted_by
from longshore.dispatcher.service.contracts import (
    Conflict,
    NewContainer,
    NewJob,
    NotFound,
    Unavailable,
)
from longshore.dispatcher.service.dry_run import planning
from longshore.dispatcher.service.dry_run_model import JobPlan
from longshore.dispatcher.service.events import Broker, ContainerNotifier
from longshore.dispatcher.service.health import HealthService
from longshore.dispatcher.service.jobs import JobService
from longshore.dispatcher.service.launching import PeriodicJobs, ServiceRuns
from longshore.dispatcher.state.memory_limit import own_bytes, spec_bytes
from longshore.dispatcher.store.errors import (
    IdempotencyConflict,
    IdempotentRepeat,
    StoreBusy,
)
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import InvalidRequest
from longshore.drivers.interface import InstanceType
from longshore.pool.leaks import NO_LEFTOVERS, LeftoverReport
from longshore.pool.model import BehaviorNote, IdleBehavior, Worker, WorkerState


class DispatcherService:
    """Implements `service.contracts.Backend` over one dispatcher; used on the loop's thread.

    `new_id` gives the random part of container ids, `heard_at` when a worker's session was last
    heard, `leftovers` what stays of instances that are gone; `queue_limit` and `queue_limit_bytes`
    bound what may wait.
    """

    def __init__(
        self,
        *,
        runtime: Runtime,
        store: Store,
        logs: LogStore,
        broker: Broker,
        watchers: ContainerNotifier,
        metrics: Metrics,
        types: Sequence[InstanceType],
        now: Callable[[], float],
        new_id: Callable[[], str],
        heard_at: Callable[[str], float],
        limits: LimitsConfig,
        leftovers: Callable[[], LeftoverReport] = lambda: NO_LEFTOVERS,
    ) -> None:
        self._runtime = runtime
        self._engine = runtime.engine
        self._store = store
        self._logs = logs
        self._broker = broker
        self._watchers = watchers
        self._metrics = metrics
        self._now = now
        self._new_id = new_id
        self._heard_at = heard_at
        self._leftovers = leftovers
        self._health = HealthService(runtime=runtime, store=store, logs=logs, now=now)
        self._admission = AdmissionController(
            runtime=runtime, store=store, types=types, limits=limits
        )
        self._jobs = JobService(
            ending=runtime.ending,
            admission=self._admission,
            store=store,
            table=self._engine.table,
            now=now,
            new_id=new_id,
            plan=partial(planning, self._engine),
        )

    # ---- containers --------------------------------------------------------------------------

    async def submit(
        self, items: Sequence[NewContainer], *, user: str, idempotency_key: str, fingerprint: str
    ) -> Sequence[Container]:
        """Commit new containers, then tell the engine; see the protocol for the errors."""
        key = IdempotencyKey(user=user, key=idempotency_key, fingerprint=fingerprint)
        try:
            return await self._submit(items, key)
        except (Unavailable, InvalidRequest):
            made = await self._admission.made_before(key, self._now())
            if not made:
                raise
            return await self._made_before(made)

    async def _submit(
        self, items: Sequence[NewContainer], key: IdempotencyKey
    ) -> Sequence[Container]:
        self._admission.refuse_impossible((f"[{n}]", item.spec) for n, item in enumerate(items))
        size_bytes = sum(own_bytes(item.spec) + spec_bytes(item.spec) for item in items)
        self._admission.expect_room(containers=len(items), size_bytes=size_bytes)
        self._admission.expect_kinds(item.spec for item in items)
        sequences = self._store.next_sequences(len(items))
        now = self._now()
        containers = tuple(
            Container(
                id=f"c-{self._new_id()}",
                sequence=sequence,
                spec=item.spec,
                user=key.user,
                project=item.project,
                priority=item.priority,
                created_at=now,
            )
            for item, sequence in zip(items, sequences, strict=True)
        )
        change = InsertContainers(
            containers=containers,
            user=key.user,
            idempotency_key=key.key,
            fingerprint=key.fingerprint,
        )
        try:
            await self._admission.admit(
                containers,
                [
                    wanted
                    for number, each in enumerate(containers)
                    for wanted in wanted_by(each.spec, f"[{number}]", project=each.project)
                ],
                change,
                lambda ended: Submitted(containers=containers, ended=ended),
            )
        except IdempotentRepeat as repeat:
            return await self._made_before(repeat.container_ids)
        except IdempotencyConflict as conflict:
            raise Conflict(str(conflict)) from conflict
        return containers

    async def _made_before(self, ids: Sequence[str]) -> Sequence[Container]:
        """Return what an earlier request made, as it is by now; all of a list in one turn."""
        if len(ids) == 1:
            return [await self.container(ids[0])]
        try:
            return await asyncio.to_thread(self._store.containers_of, ids)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error

    async def containers(self, which: ContainerFilter, *, cursor: str, limit: int) -> Page:
        """Return one page, newest first."""
        try:
            return await asyncio.to_thread(
                self._store.containers, which, cursor=cursor, limit=limit
            )
        except StoreBusy as error:
            raise Unavailable(str(error)) from error

    async def container(self, container_id: str) -> Container:
        """Return one container as it is committed."""
        try:
            found = await asyncio.to_thread(self._store.container, container_id)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error
        if found is None:
            raise NotFound(f"there is no container {container_id}")
        return found

    def standing(self, container: Container) -> WaitStatus:
        """Return why a container waits, with its position, or what nobody knows of it."""
        found = wait_status(self._engine, container)
        if found.doubt or not container.has_open_attempt:
            return found
        unheard = self._unreached(container.attempts[-1].instance_id)
        told = f"{unheard}; until it is, nobody knows how it goes there" if unheard else ""
        return replace(found, doubt=told)

    async def explain(self, container_id: str) -> Explanation:
        """Return why a container, as it is committed, is where it is."""
        return explain(self._engine, await self.container(container_id), self._now())

    async def cancel(self, container_id: str) -> Container:
        """Commit a cancellation, then tell the engine."""
        change = RequestCancel(container_id=container_id)
        await self._admission.request(change, CancelRequested(container_id=container_id))
        return await self.container(container_id)

    async def set_priority(self, container_id: str, priority: int) -> Container:
        """Commit a priority, then tell the engine."""
        change = RequestPriority(container_id=container_id, priority=priority)
        event = PriorityRequested(container_id=container_id, priority=priority)
        with self._admission.kinds_arrive(
            self._admission.held_back([container_id]) if priority > 0 else []
        ):
            await self._admission.request(change, event)
        return await self.container(container_id)

    # ---- jobs ----------------------------------------------------------------------------------

    async def submit_job(
        self, new: NewJob, *, user: str, idempotency_key: str, fingerprint: str
    ) -> Job:
        """Commit a new job with its containers, then tell the engine."""
        return await self._jobs.submit(
            new, user=user, idempotency_key=idempotency_key, fingerprint=fingerprint
        )

    async def jobs(self, which: JobFilter, *, cursor: str, limit: int) -> JobPage:
        """Return one page, newest first."""
        return await self._jobs.jobs(which, cursor=cursor, limit=limit)

    async def job(self, job_id: str) -> Job:
        """Return one job, with today's counts."""
        return await self._jobs.job(job_id)

    def why_nowhere(self, job: Job) -> WaitReason | None:
        """Return why no instance takes anything of a per-instance job, None for all else."""
        return self._engine.per_instance.why_nowhere(job, self._now())

    def trouble(self, job: Job) -> Reason | None:
        """Return what is wrong with a per-instance job that goes on, None for all else."""
        return self._engine.per_instance.trouble(job, self._now())

    async def cancel_job(self, job_id: str) -> Job:
        """Commit a job's cancellation, then tell the engine."""
        return await self._jobs.cancel(job_id)

    async def set_job_priority(self, job_id: str, priority: int) -> Job:
        """Commit the priority of all of a job, then tell the engine."""
        return await self._jobs.set_priority(job_id, priority)

    async def hold_job(self, job_id: str, *, held: bool) -> Job:
        """Commit whether a job starts anything new, then tell the engine."""
        return await self._jobs.hold(job_id, held=held)

    async def revise_job(self, job_id: str, new: NewJob) -> Job:
        """Commit the next revision of a per-instance job, then tell the engine."""
        return await self._jobs.revise(job_id, new)

    async def plan_job(self, new: NewJob, *, job_id: str, user: str) -> JobPlan:
        """Return what a job would come to, or with `job_id` that job's next revision."""
        return await self._jobs.plan(new, job_id=job_id, user=user)

    async def dispatch_job(
        self,
        job_id: str,
        parameters: Mapping[str, str],
        *,
        user: str,
        idempotency_key: str,
        fingerprint: str,
    ) -> Job:
        """Commit a run of a parameterised job, then tell the engine."""
        key = IdempotencyKey(user=user, key=idempotency_key, fingerprint=fingerprint)
        return await self._jobs.dispatch(job_id, parameters, idempotency_key=key)

    def periodic_jobs(self, *, wall: Callable[[], float]) -> PeriodicJobs:
        """Return what launches periodic jobs by a wall clock, within the limits of users."""
        return PeriodicJobs(
            jobs=self._engine.table.jobs,
            runs=ServiceRuns(service=self._jobs, admission=self._admission),
            wall=wall,
            now=self._now,
            results=self._metrics.launches,
        )

    # ---- instances ---------------------------------------------------------------------------

    def instances(self, *, cursor: str, limit: int) -> InstanceReport:
        """Return one page of the instances that are known."""
        return instance_report(
            self._engine, self._now(), heard_at=self._heard_at, cursor=cursor, limit=limit
        )

    async def gone_instances(self, *, cursor: str, limit: int) -> InstanceReport:
        """Return one page of those that are gone, from the store."""
        try:
            page = await asyncio.to_thread(self._store.gone_instances, cursor=cursor, limit=limit)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error
        return gone_report(self._engine, self._now(), page)

    async def instance(self, instance_id: str) -> InstanceView:
        """Return one instance, from the store if it is gone."""
        workers = self._engine.pool.workers
        if instance_id in workers:
            return self._view(workers[instance_id])
        try:
            record = await asyncio.to_thread(self._store.instance, instance_id)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error
        if record is not None and record.gone_at is not None and instance_id not in workers:
            return gone_view(record)
        return self._view(self._worker(instance_id, is_kept=record is not None))

    def leaks(self, *, cursor: str, limit: int) -> LeakReport:
        """Return one page of what is billed and not wanted at this moment."""
        return leak_report(
            self._engine,
            self._now(),
            store_problem=self._store.problem,
            leftovers=self._leftovers(),
            cursor=cursor,
            limit=limit,
        )

    def strays(self, *, cursor: str, limit: int) -> StrayPage:
        """Return one page of the strays that are kept."""
        return stray_page(stray_views(self._engine), cursor=cursor, limit=limit)

    async def decide_strays(
        self, instance_id: str, attempts: Sequence[str], *, adopt: bool
    ) -> Sequence[StrayView]:
        """Tell the engine; the answer shows what came of it."""
        self._worker(instance_id)
        there = [each.attempt for each in stray_views(self._engine) if each.instance == instance_id]
        missing = [each for each in attempts if each not in there]
        if missing:
            raise NotFound(f"no stray {missing[0]} is kept on {instance_id}")
        if not there:
            raise NotFound(f"no strays are kept on {instance_id}")
        named = tuple(attempts or there)
        await self._admission.steer(
            StraysDecided(worker_id=instance_id, attempt_ids=named, adopt=adopt)
        )
        kept = [each for each in stray_views(self._engine) if each.instance == instance_id]
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
        """Tell the engine, unless the instance ends already; the answer shows what came of it."""
        worker = self._worker(instance_id)
        if _is_ending(worker):
            raise _ends(worker, behavior)
        note = BehaviorNote(behavior=behavior, reason=reason, by=user, at=self._now(), until=until)
        await self._admission.steer(
            BehaviorRequested(worker_id=instance_id, behavior=behavior, note=note)
        )
        # An event before it may have ended the instance. To run or to drain may lead to its end.
        worker = self._worker(instance_id)
        may_end = behavior is not IdleBehavior.HOLD and worker.behavior is behavior
        if _is_ending(worker) and not may_end:
            raise _ends(worker, behavior)
        return self._view(worker)

    async def kill_instance(self, instance_id: str, reason: str) -> InstanceView:
        """Tell the engine; the answer shows the instance as it was."""
        worker = self._worker(instance_id)
        view = self._view(worker)
        await self._admission.steer(InstanceKillRequested(worker_id=instance_id, reason=reason))
        if worker.killed is None:
            # An event before it took the instance away: nothing was noted that would outlast that.
            self._worker(instance_id)
        return view

    def _view(self, worker: Worker) -> InstanceView:
        return instance_view(self._engine, worker, heard_at=self._heard_at(worker.id))

    def _worker(self, instance_id: str, *, is_kept: bool = False) -> Worker:
        pool = self._engine.pool
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

    # ---- logs, events, health ----------------------------------------------------------------

    async def read_log(
        self, container_id: str, *, stream: str, offset: int, limit: int
    ) -> tuple[bytes, bool]:
        """Return bytes of the last attempt's stream, and whether nothing can follow them."""
        container = await self.container(container_id)
        if not container.attempts:
            return b"", container.state.final
        attempt = container.attempts[-1]
        data = await asyncio.to_thread(
            self._logs.read, container_id, attempt.id, stream, offset, limit
        )
        if not container.state.final or len(data) >= limit:
            return data, False
        size = attempt.stdout_bytes if stream == "stdout" else attempt.stderr_bytes
        # What is not expected any more never comes, however much was promised: the instance is
        # gone, or the log was cut at its limit.
        expected = attempt.id in self._engine.table.unreleased
        return data, offset + len(data) >= size or not expected

    def log_problem(self, container: Container) -> str:
        """Return why a container's log does not come, "" for nothing."""
        if not container.attempts:
            return ""
        attempt = container.attempts[-1]
        expected = container.has_open_attempt or attempt.id in self._engine.table.unreleased
        if not expected:
            return ""
        unheard = self._unreached(attempt.instance_id)
        return self._logs.problem or (f"{unheard}; the rest comes when it is" if unheard else "")

    def _unreached(self, instance_id: str) -> str:
        heard_at = self._heard_at(instance_id)
        return unreached(self._engine.pool, instance_id, self._now(), heard_at)

    async def wait_log(self, container_id: str, *, timeout_s: float) -> None:
        """Return on news of the container or its log, or after `timeout_s`."""
        await self._watchers.wait(container_id, timeout_s)

    def events(self, *, after: int | None) -> AsyncIterator[ServerEvent]:
        """Yield events after a number."""
        return self._broker.follow(after)

    def last_event_number(self) -> int:
        """Return the number of the newest event."""
        return self._broker.last_number

    def health(self) -> Health:
        """Return whether requests can be served, and what is wrong."""
        pool = self._engine.pool
        failed = failed_last(pool, self._now())
        advice = (*advice_of(pool), *smaller_machines(pool), *failed)
        return Health(problems=self._health.problems(), advice=advice)

    async def watch_health(self) -> None:
        """Note when problems begin and end, also while nobody asks; until it is cancelled."""
        await self._health.watch()

    def vitals(self) -> Vitals:
        """Return how store and disk do."""
        return Vitals(store=self._store.vitals(), logs=self._logs.room())

    def metrics(self) -> bytes:
        """Return the Prometheus text exposition."""
        return self._metrics.exposition(
            self._now(), problems=self._health.problems(), vitals=self.vitals()
        )


def _is_ending(worker: Worker) -> bool:
    return worker.state is WorkerState.SHUTDOWN


def _ends(worker: Worker, behavior: IdleBehavior) -> Conflict:
    return Conflict(
        f"instance {worker.id} is being shut down ({worker.end_reason}), and that "
        f"cannot be undone; {behavior.value} another one"
    )
