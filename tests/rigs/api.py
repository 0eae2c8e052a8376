"""The real services over a real store, a real engine that runs and a made-up cloud, to be served.

There is no money for instances, so that none is created: they are there when a test says so
(`add_instance`). What is meant for one starts when a test says so (`start`): none is quick here.
Time stands still but for acts that need some of it. Acts return when all that follows from them is
committed and told.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import shutil
import tempfile
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TypeVar

from longshore.dispatcher.api.render.events import RENDERING
from longshore.dispatcher.config.model import EngineName, LimitsConfig
from longshore.dispatcher.domain.containers import (
    Attempt,
    Container,
    SchedulerSettings,
)
from longshore.dispatcher.domain.jobs import Job
from longshore.dispatcher.domain.messages import (
    Change,
    DeleteLaunch,
    Event,
    Publication,
    SaveAttempt,
    SaveLaunch,
    Woken,
)
from longshore.dispatcher.domain.policies import NO_POLICIES
from longshore.dispatcher.domain.queries import ContainerFilter, JobFilter, JobPage, Page
from longshore.dispatcher.engine.engine import Engine
from longshore.dispatcher.engine.runtime import Runtime
from longshore.dispatcher.input.quantities import Price
from longshore.dispatcher.logs.store import LogStore
from longshore.dispatcher.metrics.exposition import Metrics
from longshore.dispatcher.service.events import (
    KEPT_EVENTS,
    Broker,
    ContainerNotifier,
    publish_event,
)
from longshore.dispatcher.service.services import NO_BUDGETS, Services, make_services
from longshore.dispatcher.store.paging import PAGE_LIMIT
from longshore.dispatcher.store.store import Store
from longshore.dispatcher.store.vault import open_vault
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.leaks import NO_LEFTOVERS, LeftoverReport
from longshore.pool.messages import (
    AttemptExited,
    CreateInstance,
    LogComplete,
    SessionLost,
    StartAttempt,
)
from longshore.pool.model import AttemptExit, AttemptReport, ExitKind, Launch, PoolSettings, Worker
from longshore.pool.usage import AttemptUsage
from tests.rigs.cloud import CLUSTER, MadeUpCloud
from tests.rigs.engine import last_commands
from tests.samples import GIB, lost_on
from tests.store_values import empty_store, url_in

EPOCH = 1_700_000_000.0
SYNC_S = 1.0
"""How often the cloud is listed: as long as it takes to know of an instance."""
MOST_MINUTES = 20
ALL, ALL_JOBS = ContainerFilter(), JobFilter()
P = TypeVar("P", Page, JobPage)
POOL = PoolSettings(sync_interval_s=SYNC_S, idle_timeout_s=86_400.0)


def api_type(name: str, price: str) -> InstanceType:
    """Return a type that has room for all that tests ask for."""
    return InstanceType(
        name=name,
        provider_type=f"cloud.{name}",
        price_usd_per_hour=Decimal(price),
        resources=Resources(
            cpu_millis=64_000,
            memory_bytes=256 * GIB,
            disk_bytes=1000 * GIB,
            gpus=8,
            custom=(("licence", 8),),
        ),
        labels=(("zone", "eu"),),
        gpu_model="a100",
        gpu_memory_bytes=80 * GIB,
    )


TYPES = (api_type("small", "0.1"), api_type("large", "0.34"))


class ApiRig(MadeUpCloud):
    """One dispatcher and its cloud; what it has on its disk outlives `served`.

    `store` and `logs` are the real ones, for tests in which they fail.
    """

    def __init__(
        self,
        *types: InstanceType,
        now: float = EPOCH,
        limits: LimitsConfig | None = None,
        settings: SchedulerSettings | None = None,
        events_kept: int = KEPT_EVENTS,
    ) -> None:
        super().__init__()
        self.types = {type_.name: type_ for type_ in types or TYPES}
        self.now = now
        self.attempts: dict[str, Attempt] = {}
        self.launches: dict[str, Launch] = {}
        self.policies = NO_POLICIES
        self.budgets = NO_BUDGETS
        self.leftovers: LeftoverReport = NO_LEFTOVERS
        self.silent |= {CreateInstance, StartAttempt}
        self._limits = limits or LimitsConfig()
        self._settings = settings or SchedulerSettings(max_hourly_spend_usd=Price(0))
        self._events_kept = events_kept
        self._numbers = itertools.count(1)
        self._tokens = itertools.count(1)
        self._writes: set[Future[None]] = set()
        self.directory = Path(tempfile.mkdtemp(prefix="api-rig-"))
        weakref.finalize(self, shutil.rmtree, self.directory, ignore_errors=True)
        shutil.copy(empty_store(), self.directory)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[Services]:
        """Run the dispatcher, from what its store knows, as long as the context lasts."""
        loop = asyncio.get_running_loop()
        self.broker, self.watchers = Broker(kept=self._events_kept), ContainerNotifier()
        self.store = Store.open(url_in(self.directory), wall_clock=lambda: self.now)
        self.logs = LogStore(
            self.directory / "logs",
            on_change=partial(_call_soon, loop, self.watchers),
        )
        # Where no engine runs yet, its thread may be waited for.
        self.vault = open_vault(self.store, self.directory / "secret_keys", lambda: self.now)
        self.runtime = self._runtime()
        view = self.runtime.view
        self.services = make_services(
            runtime=self.runtime,
            vault=self.vault,
            logs=self.logs,
            broker=self.broker,
            watchers=self.watchers,
            metrics=Metrics(view, heard_at=self.heard_at),
            engine=EngineName.AUTO,
            types=tuple(self.types.values()),
            now=lambda: self.now,
            new_id=self._new_id,
            random_bytes=secrets.token_bytes,
            heard_at=self.heard_at,
            limits=self._limits,
            policies=self.policies,
            budgets=self.budgets,
            leftovers=lambda: self.leftovers,
        )
        running = asyncio.create_task(self.runtime.run())
        try:
            await self.settled()
            yield self.services
        finally:
            self.runtime.stop()
            await asyncio.gather(running, return_exceptions=True)
            self.end_followers()
            self.logs.close()
            self.store.close()

    def end_followers(self) -> None:
        """Let nobody wait for news any more, as a server does that stops."""
        self.watchers.notify_all()
        self.broker.close()

    def _runtime(self) -> Runtime:
        self.engine = Engine(
            cluster=CLUSTER,
            types=self.types,
            pool_settings=POOL,
            settings=self._settings,
            recovered=self.store.recover(),
            secrets=self.vault.known(),
            new_token=lambda: f"token-{next(self._tokens)}",
            new_secret=lambda: "secret",
            new_container=lambda: (f"c-{self._new_id()}", self.store.next_sequences(1)[0]),
            dice=lambda: 0.5,
            store=self.store.id,
            store_since=self.store.since,
            quota_groups={},
        )
        return Runtime(
            engine=self.engine,
            now=lambda: self.now,
            write=self._write,
            perform=self.carry_out,
            publish=self._publish,
            inbox_limit=self._limits.inbox_events,
        )

    def _new_id(self) -> str:
        return f"{next(self._numbers):08d}"

    def _write(self, changes: Sequence[Change]) -> Future[None]:
        for change in changes:
            match change:
                case SaveAttempt():
                    self.attempts[change.attempt.id] = change.attempt
                case SaveLaunch():
                    self.launches[change.launch.token] = change.launch
                case DeleteLaunch():
                    self.launches.pop(change.token, None)
                case _:
                    pass
        future = self.store.write(changes, wait=True)
        self._writes.add(future)
        return future

    def _publish(self, what: Publication) -> None:
        publish_event(
            what,
            view=self.runtime.view,
            broker=self.broker,
            watchers=self.watchers,
            heard_at=self.heard_at,
            rendering=RENDERING,
        )

    @property
    def workers(self) -> dict[str, Worker]:
        return self.engine.pool.workers

    def give(self, event: Event) -> None:
        """Post an event to the engine."""
        self.runtime.post_committed(event)

    def heard_at(self, instance_id: str) -> float:
        """Return when an instance was last heard: now."""
        del instance_id
        return self.now

    # ---- time ------------------------------------------------------------------------------

    async def settled(self) -> None:
        """Return when the engine has nothing to do at this moment, and all is committed and told.

        A store that fails keeps what is to be committed: then the rest is waited for.
        """
        while not self.runtime.stopping and (self._busy() or self._is_committing()):  # noqa: ASYNC110 - it is many things at once
            await asyncio.sleep(0 if self._busy() else 0.001)

    def _busy(self) -> bool:
        due = self.engine.next_wakeup(self.now)
        waits = self.runtime._inbox or self.runtime._unpublished
        return bool(waits) or (due is not None and due <= self.now)

    def _is_committing(self) -> bool:
        return self.runtime._outbox.pending > 0 and not self.store.problem

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, waking the engine at each of its deadlines."""
        end = self.now + seconds
        while (due := self.engine.next_wakeup(self.now)) is not None and due <= end:
            self.now = max(self.now, due)
            self.give(Woken())
            await self.settled()
        self.now = end
        self.give(Woken())
        await self.settled()

    # ---- acts ------------------------------------------------------------------------------

    async def add_instance(self, instance_id: str, *, instance_type: str = "small") -> None:
        """Let an instance be there and ready, whoever created it."""
        self.boot(instance_type, instance_id=instance_id)
        await self.pass_time(SYNC_S)

    async def lose_instance(self, instance_id: str, why: str = "") -> None:
        """Let an instance be gone; `why` is what its cloud says of it."""
        del self.cloud[instance_id], self.on_instance[instance_id]
        self.ended_because = why
        await self.pass_time(SYNC_S)

    async def cut_off(self, instance_id: str) -> None:
        """Let nothing come from an instance that is there, and nothing reach it."""
        self.unreachable.add(instance_id)
        self.give(SessionLost(worker_id=instance_id, last_contact=self.now, reason="reset"))
        await self.settled()

    async def reach_again(self, instance_id: str) -> None:
        """Let an instance be reached that was cut off."""
        self.unreachable.discard(instance_id)
        await self.pass_time(POOL.probe_interval_s)

    async def start(self, container_id: str, instance_id: str) -> None:
        """Let an instance answer the start of a container that is meant for it."""
        await self.settled()
        for _ in range(MOST_MINUTES):
            if self._starts_of(container_id):
                break
            self.now += 60.0  # it may wait for the delay of a restart
            self.give(Woken())
            await self.settled()
        asked = self._starts_of(container_id)
        assert asked, f"{container_id} was not started: {self.wait_reason(container_id)}"
        assert asked[-1].worker_id == instance_id, f"{container_id} is on {asked[-1].worker_id}"
        self.start_now(asked[-1])
        await self.settled()

    def _starts_of(self, container_id: str) -> list[StartAttempt]:
        return [
            asked
            for asked in last_commands(self, StartAttempt)
            if asked.order.container_id == container_id
            and self.attempts[asked.order.attempt_id].outcome is None
        ]

    def wait_reason(self, container_id: str) -> str:
        """Return what the engine says that a container waits for."""
        reason = self.runtime.view.wait_reason(container_id)
        return reason.message if reason is not None else "nothing"

    def push_log(self, container_id: str, data: bytes, *, stream: str = "stdout") -> None:
        """Let bytes of a stream of the last attempt arrive."""
        attempt = self._last_attempt(container_id)
        offset = self._log_sizes(attempt)[stream == "stderr"]
        self.logs.append(attempt.id, container_id, stream, offset, data)
        self._complete_log(attempt)

    async def finish(
        self,
        container_id: str,
        exit_code: int = 0,
        *,
        promised: tuple[int, int] | None = None,
        usage: AttemptUsage | None = None,
    ) -> None:
        """Let the running attempt end with an exit code.

        `promised` are the bytes of stdout and stderr when some are still on their way: push them,
        or lose the instance. `usage` is what its instance measured, None for nothing.
        """
        attempt = self._last_attempt(container_id)
        stdout_bytes, stderr_bytes = promised or self._log_sizes(attempt)
        exit_ = AttemptExit(
            kind=ExitKind.EXITED,
            code=exit_code,
            stdout_bytes=stdout_bytes,
            stderr_bytes=stderr_bytes,
            usage=usage,
        )
        await self._end(attempt, exit_)

    async def lose(self, container_id: str) -> None:
        """Let the running attempt end so that nobody knows how."""
        await self._end(
            self._last_attempt(container_id), AttemptExit(kind=ExitKind.LOST, code=None)
        )

    async def end_cancelled(self, container_id: str) -> None:
        """Let the attempt end that was started and is to end, by the signal that it gets."""
        await self.start(container_id, self._last_attempt(container_id).instance_id)
        await self.finish(container_id, 143)

    async def _end(self, attempt: Attempt, how: AttemptExit) -> None:
        report = AttemptReport(
            attempt_id=attempt.id, container_id=attempt.container_id, exit=how, store=self.store.id
        )
        self.on_instance[attempt.instance_id][attempt.id] = report
        self.give(AttemptExited(worker_id=attempt.instance_id, attempt_id=attempt.id, exit=how))
        await self.settled()
        self._complete_log(attempt)
        await self.settled()

    def _complete_log(self, attempt: Attempt) -> None:
        """Let the log of an attempt that has ended be complete, if all of it is here."""
        report = self.on_instance.get(attempt.instance_id, {}).get(attempt.id)
        if report is None or report.exit is None:
            return
        if self._log_sizes(attempt) == (report.exit.stdout_bytes, report.exit.stderr_bytes):
            self.logs.seal(attempt.id, attempt.container_id)
            self.give(LogComplete(worker_id=attempt.instance_id, attempt_id=attempt.id))

    def _log_sizes(self, attempt: Attempt) -> tuple[int, int]:
        return self.logs.sizes(attempt.id, attempt.container_id)

    def _last_attempt(self, container_id: str) -> Attempt:
        tried = [a for a in self.attempts.values() if a.container_id == container_id]
        return max(tried, key=lambda attempt: attempt.number)

    def publish(self, kind: str, identifier: str, data: dict[str, object]) -> None:
        """Publish one event."""
        self.broker.publish(kind, identifier, data)

    async def remember_lost(self, container_id: str, attempts: int) -> None:
        """Let the store know of lost attempts of a container, more than would be tried in fact."""
        (container,) = self.store.containers_of([container_id])
        past = lost_on(container, *["i-1"] * attempts).attempts
        await asyncio.wrap_future(self.store.write([SaveAttempt(attempt=each) for each in past]))

    # ---- looking ---------------------------------------------------------------------------

    def containers(self) -> list[Container]:
        """Return all containers as they are committed, the oldest first."""
        pages = _pages(lambda cursor: self.store.containers(ALL, cursor=cursor, limit=PAGE_LIMIT))
        return [one for page in pages for one in page.items][::-1]

    def jobs(self) -> list[Job]:
        """Return all jobs as they are committed, with their tasks, the oldest first."""
        pages = _pages(lambda cursor: self.store.jobs(ALL_JOBS, cursor=cursor, limit=PAGE_LIMIT))
        whole = (self.store.job(one.id) for page in pages for one in page.items)
        return [one for one in whole if one is not None][::-1]


def _pages(page_at: Callable[[str], P]) -> Iterator[P]:
    cursor: str | None = ""
    while cursor is not None:
        page = page_at(cursor)
        yield page
        cursor = page.next_cursor


def _call_soon(
    loop: asyncio.AbstractEventLoop, watchers: ContainerNotifier, container_id: str
) -> None:
    loop.call_soon_threadsafe(watchers.notify, container_id)
