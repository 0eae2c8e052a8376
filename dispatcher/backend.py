"""The API's backend: the store for what is committed, the engine's memory for what is live."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from dispatcher.api.backend import (
    Conflict,
    Health,
    InstanceView,
    LeakReport,
    NewContainer,
    NotFound,
    ServerEvent,
    Unavailable,
)
from dispatcher.broker import Broker, Watchers
from dispatcher.config_model import LimitsConfig
from dispatcher.explanation import Explanation, Standing, explain, standing
from dispatcher.health import cloud_problems
from dispatcher.logs import LogStore
from dispatcher.messages import (
    BehaviorRequested,
    CancelRequested,
    Change,
    Event,
    InsertContainers,
    InstanceKillRequested,
    PriorityRequested,
    RequestCancel,
    RequestPriority,
    Submitted,
)
from dispatcher.metrics import Metrics
from dispatcher.model import Container
from dispatcher.planner.fit import impossible
from dispatcher.queries import ContainerFilter, Page
from dispatcher.queue import ClassKey
from dispatcher.runtime import InboxFull, Runtime
from dispatcher.spec_size import spec_bytes
from dispatcher.store.errors import (
    AlreadyFinal,
    IdempotencyConflict,
    IdempotentRepeat,
    NoSuchContainer,
    StoreBusy,
    StoreClosed,
    Withdrawn,
)
from dispatcher.store.store import Store
from dispatcher.views import instance_view, leak_report
from drivers.errors import InvalidRequest
from drivers.interface import InstanceType
from pool.model import IdleBehavior, Worker, WorkerState

_WRITE_PATIENCE_S = 5.0


class DispatcherBackend:
    """Implements `dispatcher.api.backend.Backend` over one dispatcher; used on the loop's thread.

    `new_id` gives the random part of container ids, `heard_at` when a worker's session was last
    heard; `queue_limit` and `queue_limit_bytes` bound what may wait.
    """

    def __init__(
        self,
        *,
        runtime: Runtime,
        store: Store,
        logs: LogStore,
        broker: Broker,
        watchers: Watchers,
        metrics: Metrics,
        types: Sequence[InstanceType],
        now: Callable[[], float],
        new_id: Callable[[], str],
        heard_at: Callable[[str], float],
        limits: LimitsConfig,
    ) -> None:
        self._runtime = runtime
        self._engine = runtime.engine
        self._store = store
        self._logs = logs
        self._broker = broker
        self._watchers = watchers
        self._metrics = metrics
        self._types = tuple(types)
        self._now = now
        self._new_id = new_id
        self._heard_at = heard_at
        self._limits = limits
        self._arriving: Counter[ClassKey] = Counter()

    # ---- containers --------------------------------------------------------------------------

    async def submit(
        self, items: Sequence[NewContainer], *, user: str, idempotency_key: str, fingerprint: str
    ) -> Sequence[Container]:
        """Commit new containers, then tell the engine; see the protocol for the errors."""
        self._refuse_impossible(items)
        ledger = self._engine.ledger
        if len(ledger.containers) + len(items) > self._limits.queued_containers:
            raise Unavailable(f"the queue is full ({self._limits.queued_containers} containers)")
        size = sum(spec_bytes(item.spec) for item in items)
        if ledger.queued_bytes + size > self._limits.queued_bytes:
            raise Unavailable(f"the queue is full ({self._limits.queued_bytes} bytes)")
        sequences = self._store.next_sequences(len(items))
        now = self._now()
        containers = tuple(
            Container(
                id=f"c-{self._new_id()}",
                sequence=sequence,
                spec=item.spec,
                user=user,
                project=item.project,
                priority=item.priority,
                created_at=now,
            )
            for item, sequence in zip(items, sequences, strict=True)
        )
        change = InsertContainers(
            containers=containers,
            user=user,
            idempotency_key=idempotency_key,
            fingerprint=fingerprint,
        )
        try:
            with self._kinds_arrive(containers):
                await self._write(change, Submitted(containers=containers))
        except IdempotentRepeat as repeat:
            return [await self.container(container_id) for container_id in repeat.container_ids]
        except IdempotencyConflict as conflict:
            raise Conflict(str(conflict)) from conflict
        return containers

    @contextmanager
    def _kinds_arrive(self, containers: Iterable[Container]) -> Iterator[None]:
        """Let containers come to wait; raises `Unavailable` when there would be too many kinds.

        What is being committed counts too, or many requests at once would each find room.
        """
        queue = self._engine.ledger.queue
        keys = Counter({queue.key_of(each): 1 for each in containers})
        most = self._limits.queued_classes
        if keys and queue.classes_with(keys.keys() | self._arriving.keys()) > most:
            raise Unavailable(
                f"the queue is full ({most} kinds of requests);"
                " ask for the same resources and constraints as others do, or try again"
            )
        self._arriving += keys
        try:
            yield
        finally:
            self._arriving -= keys

    def _refuse_impossible(self, items: Sequence[NewContainer]) -> None:
        problems = []
        # A list is often thousands of one kind.
        known: dict[ClassKey, str] = {}
        for index, item in enumerate(items):
            spec = item.spec
            key = ClassKey(
                resources=spec.resources, constraints=spec.constraints, unnamed=spec.unnamed
            )
            if key not in known:
                known[key] = impossible(self._types, spec.resources, spec.constraints, spec.unnamed)
            if sentence := known[key]:
                problems.append((f"[{index}].resources", sentence))
        if problems:
            raise InvalidRequest(problems)

    async def _write(self, change: Change, event: Event) -> None:
        """Commit one change of the API's and tell the engine, or say why it cannot be.

        The engine hears of it before the client does, and also when the client has hung up.
        What is not committed in time is taken back, so that a client that tries again does not get
        it twice; an idempotency key covers the moment in between.
        """
        if self._store.problem:
            raise Unavailable(self._store.problem)
        try:
            self._runtime.check_room()
            future = self._store.write((change,))
        except (StoreBusy, StoreClosed, InboxFull) as error:
            raise Unavailable(str(error)) from error
        written = asyncio.wrap_future(future)
        written.add_done_callback(lambda done: self._tell_engine(done, event))
        try:
            # Shielded: a client that hangs up does not take back what it asked for.
            async with asyncio.timeout(_WRITE_PATIENCE_S):
                await asyncio.shield(written)
        except TimeoutError as error:
            self._store.withdraw(future)
            raise Unavailable("the store takes too long; nothing was taken in") from error
        except (StoreClosed, Withdrawn) as error:
            raise Unavailable(str(error)) from error

    def _tell_engine(self, written: asyncio.Future[None], event: Event) -> None:
        if not written.cancelled() and written.exception() is None:
            self._runtime.post_committed(event)

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

    def standing(self, container: Container) -> Standing:
        """Return why a container waits, with its position, or what nobody knows of it."""
        return standing(self._engine, container)

    async def explain(self, container_id: str) -> Explanation:
        """Return why a container, as it is committed, is where it is."""
        return explain(self._engine, await self.container(container_id), self._now())

    async def cancel(self, container_id: str) -> Container:
        """Commit a cancellation, then tell the engine."""
        change = RequestCancel(container_id=container_id)
        await self._request(change, CancelRequested(container_id=container_id))
        return await self.container(container_id)

    async def set_priority(self, container_id: str, priority: int) -> Container:
        """Commit a priority, then tell the engine."""
        change = RequestPriority(container_id=container_id, priority=priority)
        event = PriorityRequested(container_id=container_id, priority=priority)
        ledger = self._engine.ledger
        held = ledger.containers.get(container_id) if container_id not in ledger.queue else None
        begins = held is not None and priority > 0 and not held.has_open_attempt
        with self._kinds_arrive([held] if held is not None and begins else []):
            await self._request(change, event)
        return await self.container(container_id)

    async def _request(self, change: Change, event: Event) -> None:
        try:
            await self._write(change, event)
        except NoSuchContainer as error:
            raise NotFound(str(error)) from error
        except AlreadyFinal as error:
            raise Conflict(str(error)) from error

    # ---- instances ---------------------------------------------------------------------------

    def instances(self) -> Sequence[InstanceView]:
        """Return all instances, sorted by id."""
        workers = self._engine.pool.workers
        return [self._view(workers[instance_id]) for instance_id in sorted(workers)]

    def leaks(self) -> LeakReport:
        """Return what is billed and not wanted at this moment."""
        return leak_report(self._engine, self._now())

    async def set_idle_behavior(self, instance_id: str, behavior: IdleBehavior) -> InstanceView:
        """Tell the engine, unless the instance ends already; the answer shows what was asked."""
        worker = self._worker(instance_id)
        if worker.state is WorkerState.SHUTDOWN:
            raise Conflict(
                f"instance {instance_id} is being shut down ({worker.end_reason}), and that "
                f"cannot be undone; {behavior.value} another one"
            )
        view = self._view(worker)
        self._post(BehaviorRequested(worker_id=instance_id, behavior=behavior))
        return replace(view, idle_behavior=behavior.value)

    async def kill_instance(self, instance_id: str, reason: str) -> InstanceView:
        """Tell the engine; the answer shows the instance as it was."""
        view = self._view(self._worker(instance_id))
        self._post(InstanceKillRequested(worker_id=instance_id, reason=reason))
        return view

    def _post(self, event: BehaviorRequested | InstanceKillRequested) -> None:
        try:
            self._runtime.post_request(event)
        except InboxFull as error:
            raise Unavailable(str(error)) from error

    def _view(self, worker: Worker) -> InstanceView:
        return instance_view(self._engine, worker, heard_at=self._heard_at(worker.id))

    def _worker(self, instance_id: str) -> Worker:
        worker = self._engine.pool.workers.get(instance_id)
        if worker is None:
            raise NotFound(f"there is no instance {instance_id}")
        return worker

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
        expected = attempt.id in self._engine.ledger.unreleased
        return data, offset + len(data) >= size or not expected

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
        """Return whether work can be taken and placed."""
        problems = []
        if self._store.problem:
            problems.append(self._store.problem)
        if self._logs.problem:
            problems.append(self._logs.problem)
        problems += cloud_problems(self._engine.pool, self._now())
        if self._runtime.failure is not None:
            problems.append("the dispatcher is stopping after an error; see its log")
        return Health(ready=not problems, problems=tuple(problems))

    def metrics(self) -> bytes:
        """Return the Prometheus text exposition."""
        return self._metrics.exposition(self._now())
