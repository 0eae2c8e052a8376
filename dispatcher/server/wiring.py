"""The only wiring: puts the parts of one dispatcher together and takes them apart."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypedDict

import msgspec
import structlog
from aiohttp import web

from longshore.dispatcher.access.issuer import Issuer
from longshore.dispatcher.api.app import make_app
from longshore.dispatcher.api.doors import Doors
from longshore.dispatcher.api.inside import ContainerDoor
from longshore.dispatcher.api.render.events import RENDERING
from longshore.dispatcher.api.server import ApiRunner
from longshore.dispatcher.api.validate.limits import ApiLimits, Defaults
from longshore.dispatcher.config import unix_socket
from longshore.dispatcher.config.budgets import budgets_of
from longshore.dispatcher.config.cost_files import biller_of
from longshore.dispatcher.config.loading import (
    Config,
    auth_mode,
    driver_parameters,
    instance_types,
    listen_address,
    price_terms,
    scheduler_settings,
)
from longshore.dispatcher.config.model import (
    AuthMode,
    CostConfig,
    EngineName,
    LimitsConfig,
    PricesFrom,
)
from longshore.dispatcher.config.policies import policies_of
from longshore.dispatcher.cost.focus import FocusContext
from longshore.dispatcher.cost.money import usd_grains
from longshore.dispatcher.domain.messages import Overloaded, Publication
from longshore.dispatcher.domain.policies import Policies
from longshore.dispatcher.domain.views import ProblemKind
from longshore.dispatcher.engine.engine import Engine
from longshore.dispatcher.engine.runtime import Runtime
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.logs.store import LogStore
from longshore.dispatcher.metrics.exposition import Metrics
from longshore.dispatcher.notifications.kept import StoredDeliveries
from longshore.dispatcher.notifications.webhooks import WebhookSender, targets_of
from longshore.dispatcher.server.certificate import Certificate
from longshore.dispatcher.server.clock import SteadyClock
from longshore.dispatcher.server.tracing import Tracing, begin_tracing
from longshore.dispatcher.service.budgets import BudgetSettings, stops_at_start
from longshore.dispatcher.service.cost_exports import CostExports
from longshore.dispatcher.service.events import (
    Broker,
    ContainerNotifier,
    log_restored,
    publish_event,
)
from longshore.dispatcher.service.export_folder import ExportFolder, ExportTerms
from longshore.dispatcher.service.health import Watched
from longshore.dispatcher.service.launching import PeriodicJobs, ServiceRuns
from longshore.dispatcher.service.prices import LiveMarket, PriceKeeper
from longshore.dispatcher.service.services import Services, make_services
from longshore.dispatcher.state.attempt_end import container_of
from longshore.dispatcher.store.store import Store
from longshore.dispatcher.store.vault import Vault, open_vault
from longshore.drivers.billing import Bills
from longshore.drivers.errors import ConfigError
from longshore.drivers.interface import (
    InstanceSet,
    InstanceType,
    PowersOff,
    QuotaGroups,
    WarnsOfInterruption,
)
from longshore.drivers.registry import DriverContext, driver
from longshore.pool.hostkey import init_fragment
from longshore.pool.lease import fault_of_command, first_contact_fragment
from longshore.pool.messages import PoolCommand
from longshore.pool.remote.cloud_calls import CloudCalls, Launching
from longshore.pool.remote.deploy import build_runner
from longshore.pool.remote.link_model import LinkSettings
from longshore.pool.remote.performer import Performer
from longshore.pool.remote.ssh_keys import load_or_create_private_key, public_key_text

log = structlog.get_logger(__name__)

_ID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_ID_LENGTH = 12
_SPARE_CLOUD_THREADS = 8
_STORE_GRACE_S = 8.0


class _AttemptLogs:
    """The log store as the performer sees it: by attempt id, which begins with the container's."""

    def __init__(self, store: LogStore) -> None:
        self._store = store

    def append(self, attempt_id: str, stream: str, offset: int, data: bytes) -> None:
        """Keep bytes of a stream."""
        self._store.append(attempt_id, container_of(attempt_id), stream, offset, data)

    def offsets(self, attempt_id: str) -> tuple[int, int]:
        """Return how many bytes of each stream are kept."""
        return self._store.sizes(attempt_id, container_of(attempt_id))

    def sync(self, attempt_id: str) -> None:
        """Return when what is kept survives a loss of power; nothing is added to it any more."""
        self._store.seal(attempt_id, container_of(attempt_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """What callers come in by from elsewhere: None where connections are plain, or no issuer is."""

    certificate: Certificate | None
    issuer: Issuer | None

    def watched(self, sender: WebhookSender) -> list[Watched]:
        found = [Watched(kind=ProblemKind.NOTIFICATIONS, problem=sender.problem)]
        if self.certificate is not None:
            problem = self.certificate.problem
            found.append(Watched(kind=ProblemKind.CERTIFICATE, problem=problem))
        if self.issuer is not None:
            found.append(Watched(kind=ProblemKind.ISSUER, problem=self.issuer.problem))
        return found


def _metrics(
    view: EngineView, performer: Performer, prices: PriceKeeper, tracing: Tracing | None
) -> Metrics:
    return Metrics(
        view,
        heard_at=performer.last_contact,
        leftovers=performer.leftovers,
        prices_told_at=lambda: prices.told_at,
        prices=prices.in_force,
        traces=None if tracing is None else tracing.export.vitals,
    )


def _watched(prices: PriceKeeper, tracing: Tracing | None) -> list[Watched]:
    found = [Watched(kind=ProblemKind.PRICES, problem=prices.problem)]
    if tracing is not None:
        found.append(Watched(kind=ProblemKind.TRACES, problem=tracing.export.problem))
    return found


class Server:
    """One dispatcher with its HTTP API; `start` and `stop` on one event loop."""

    def __init__(self, config: Config, *, accept_new_store: bool = False) -> None:
        """`accept_new_store` is for `Store.open`."""
        self._config = config
        self._accept_new_store = accept_new_store
        self._clock = SteadyClock()
        self._stack = contextlib.AsyncExitStack()
        self._engine_task: asyncio.Task[None] | None = None
        #: What else runs for ever.
        self._lasting: list[asyncio.Task[None]] = []
        #: Where it serves.
        self.url = ""
        #: After `stop`, whether a driver call has not ended, so that its thread would keep the
        #: process from ending.
        self.hanging = False
        #: After `stop`, whether the store could not write all.
        self.unwritten = False
        #: After `stop`, whether its files must not be closed (see `Store.replaced`).
        self.store_replaced = False

    async def start(self) -> None:
        """Open everything and begin; raises `ConfigError`, `StoreError` or OSError, undone."""
        async with contextlib.AsyncExitStack() as stack:
            await self._start(stack)
            self._stack = stack.pop_all()

    async def _start(self, stack: contextlib.AsyncExitStack) -> None:
        config, now = self._config, self._clock.now
        watchers, broker = ContainerNotifier(), Broker()
        vault = await self._open_store(stack)
        store, logs = vault.store, self._logs(stack, watchers)
        prices, types = await self._prices(store)
        instance_set, unowned = self._driver(stack)
        performer: Performer | None = None
        periodic: PeriodicJobs | None = None

        def perform(command: PoolCommand) -> None:
            assert performer is not None  # noqa: S101 - set before the runtime runs
            performer.perform(command)

        def publish(what: Publication) -> None:
            assert performer is not None and periodic is not None  # noqa: PT018, S101 - as above
            periodic.hear(what)
            if tracing is not None:
                tracing.hear(what)
            publish_event(
                what,
                view=view,
                broker=broker,
                watchers=watchers,
                heard_at=performer.last_contact,
                rendering=RENDERING,
                prices=prices.in_force(),
            )

        runtime = Runtime(
            engine=await self._engine(vault, instance_set, {t.name: t for t in types}),
            now=now,
            write=lambda changes: store.write(changes, wait=True),
            perform=perform,
            publish=publish,
            inbox_limit=config.limits.inbox_events,
        )
        view, inside = runtime.view, ContainerDoor(runtime.view, asyncio.get_running_loop())
        tracing = await self._tracing(stack, store, view)
        store.on_overload(lambda message: runtime.post(Overloaded(source="store", message=message)))
        make_performer = partial(self._performer, vault=vault, inside=inside)
        performer = await asyncio.to_thread(make_performer, instance_set, logs, runtime)
        stack.push_async_callback(self._close_performer, performer)
        unowned.pop_all()
        entry, sender = self._entry(stack), await self._sender(stack, store)
        metrics, wrong = _metrics(view, performer, prices, tracing), _watched(prices, tracing)
        services = make_services(
            runtime=runtime,
            vault=vault,
            logs=logs,
            broker=broker,
            watchers=watchers,
            metrics=metrics,
            types=types,
            now=now,
            new_id=_new_id,
            random_bytes=secrets.token_bytes,
            heard_at=performer.last_contact,
            leftovers=performer.leftovers,
            prices=prices.in_force,
            sender=sender,
            **_as_configured(config),
            watched=[*entry.watched(sender), *self._export_files(stack, store), *wrong],
        )
        periodic = self._periodic(runtime, services, metrics)
        stack.push_async_callback(self._stop_engine, runtime)
        # Before the engine runs: a port that is taken must not leave an instance behind.
        await self._listen(stack, services, types, entry=entry, inside=inside)
        self._run(stack, runtime, periodic, services, prices=(prices, performer))
        stack.callback(_end_followers, watchers, broker)

    def _periodic(self, runtime: Runtime, services: Services, metrics: Metrics) -> PeriodicJobs:
        return PeriodicJobs(
            jobs=runtime.view,
            runs=ServiceRuns(services.jobs),
            wall=time.time,
            now=self._clock.now,
            results=metrics.launches,
        )

    async def _prices(self, store: Store) -> tuple[PriceKeeper, tuple[InstanceType, ...]]:
        """Return what keeps prices, and the types with what they cost now."""
        keeper = PriceKeeper(
            store=store,
            types=instance_types(self._config),
            terms=price_terms(self._config),
            is_live=self._config.cost.prices is PricesFrom.LIVE,
            now=self._clock.now,
        )
        return keeper, await keeper.begin()

    def _run_prices(
        self,
        stack: contextlib.AsyncExitStack,
        runtime: Runtime,
        prices: PriceKeeper,
        performer: Performer,
    ) -> None:
        if self._config.cost.prices is PricesFrom.LIVE:
            market = LiveMarket(
                ask=performer.prices, zones=runtime.view.zones_in_use, tell=runtime.post_committed
            )
            self._begin(stack, prices.follow(market), name="prices")

    async def _open_store(self, stack: contextlib.AsyncExitStack) -> Vault:
        config = self._config
        await asyncio.to_thread(_make_private_directory, Path(config.data_dir))
        store = await asyncio.to_thread(
            Store.open,
            config.store,
            max_pending=config.limits.pending_writes,
            audit=config.audit,
            data_dir=Path(config.data_dir),
            accept_new=self._accept_new_store,
        )
        stack.callback(self._close_store, store)
        key_file = Path(config.secrets.key_file)
        return await asyncio.to_thread(open_vault, store, key_file, self._clock.now)

    def _run(
        self,
        stack: contextlib.AsyncExitStack,
        runtime: Runtime,
        periodic: PeriodicJobs,
        services: Services,
        *,
        prices: tuple[PriceKeeper, Performer],
    ) -> None:
        self._engine_task = asyncio.create_task(runtime.run(), name="engine")
        self._run_prices(stack, runtime, *prices)
        self._begin(stack, periodic.run(), name="periodic jobs")
        self._begin(stack, services.health.watch(), name="health")
        self._begin(stack, services.costs.book_for_ever(), name="ledger")
        self._begin(stack, services.budgets.look_for_ever(), name="budgets")
        self._begin(stack, services.secrets.follow_key_file(), name="key file")
        log.info(
            "serving",
            url=self.url,
            driver=self._config.driver.name,
            store=self._config.store,
            containers=len(runtime.view.containers),
            instances=len(runtime.view.instances()),
        )

    def _logs(self, stack: contextlib.AsyncExitStack, watchers: ContainerNotifier) -> LogStore:
        loop = asyncio.get_running_loop()
        logs = LogStore(
            Path(self._config.log_dir),
            max_open_files=self._config.limits.open_log_files,
            on_change=lambda container_id: _call_soon(loop, watchers.notify, container_id),
            max_log_bytes=self._config.limits.log_bytes_per_stream,
        )
        stack.callback(logs.close)
        return logs

    async def _tracing(
        self, stack: contextlib.AsyncExitStack, store: Store, view: EngineView
    ) -> Tracing | None:
        tracing = await begin_tracing(
            self._config,
            store,
            view.containers.values(),
            now=self._clock.now,
            clock=time.monotonic,
            version=_own_version(),
        )
        if tracing is not None:
            stack.push_async_callback(tracing.close)
        return tracing

    async def _sender(self, stack: contextlib.AsyncExitStack, store: Store) -> WebhookSender:
        """Return what sends notifications, which goes on with those that are on their way."""
        told = self._config.notifications
        sender = WebhookSender(
            targets_of(told),
            told.hosts,
            kept=StoredDeliveries(store),
            now=self._clock.now,
            chance=random.SystemRandom().random,
        )
        stack.push_async_callback(sender.close)
        await sender.start()
        return sender

    async def _engine(
        self, vault: Vault, instance_set: InstanceSet, types: dict[str, InstanceType]
    ) -> Engine:
        store = vault.store
        groups = instance_set if isinstance(instance_set, QuotaGroups) else None
        began = time.monotonic()
        recovered = await asyncio.to_thread(store.recover)
        settings = _budget_settings(self._config)
        stops = await asyncio.to_thread(stops_at_start, store, settings, self._clock.now())
        recovered = replace(recovered, budget_stops=stops)
        engine = Engine(
            cluster=self._config.cluster,
            types=types,
            pool_settings=self._config.pool,
            settings=scheduler_settings(self._config),
            recovered=recovered,
            new_token=lambda: secrets.token_hex(16),
            new_secret=lambda: secrets.token_hex(32),
            new_container=lambda: (f"c-{_new_id()}", store.next_sequences(1)[0]),
            dice=random.SystemRandom().random,
            store=store.id,
            store_since=store.since,
            store_accepted=self._accept_new_store,
            secrets=vault.known(),
            quota_groups={n: groups.quota_group(t) for n, t in types.items()} if groups else {},
            billing=instance_set.billing_rule() if isinstance(instance_set, Bills) else None,
        )
        log_restored(recovered, time.monotonic() - began)
        return engine

    def _performer(
        self,
        instance_set: InstanceSet,
        logs: LogStore,
        runtime: Runtime,
        *,
        vault: Vault,
        inside: ContainerDoor,
    ) -> Performer:
        config = self._config
        key = load_or_create_private_key(Path(config.ssh.private_key))
        power_off = _power_off_command(instance_set)
        link_settings = LinkSettings(
            user=config.ssh.user,
            private_key=key,
            cluster=config.cluster,
            epoch=1,
            bundle=build_runner(),
            engine_json=msgspec.json.encode(config.engine).decode(),
            handshakes=threading.Semaphore(config.ssh.max_handshakes),
            clock=self._clock.now,
            boot_probe_command=config.pool.boot_probe_command,
            connect_timeout_s=config.ssh.connect_timeout_s,
            command_timeout_s=config.ssh.command_timeout_s,
            heartbeat_interval_s=config.ssh.heartbeat_interval_s,
            heartbeat_timeout_s=config.ssh.heartbeat_timeout_s,
            orphan_timeout_s=config.pool.orphan_timeout_s,
            power_off_command=power_off,
            interruption_watch=_interruption_watch(instance_set),
            store=vault.store.id,
            api=inside,
        )
        cloud = CloudCalls(
            instance_set,
            cluster=config.cluster,
            launching=Launching(
                image=config.pool.image,
                init_command=partial(self._init_command, power_off),
                public_key=public_key_text(key),
            ),
            post=runtime.post,
            now=self._clock.now,
            threads=config.pool.max_concurrent_creates + _SPARE_CLOUD_THREADS,
            call_timeout_s=config.pool.cloud_call_timeout_s,
            default_port=config.ssh.port,
        )
        return Performer(
            cloud=cloud,
            link_settings=link_settings,
            logs=_AttemptLogs(logs),
            post=runtime.post,
            now=self._clock.now,
            secrets=vault,
        )

    def _init_command(self, power_off: str, secret: str) -> str:
        """Return an instance's first script: secret, lease, then what the operator wants."""
        pool, user = self._config.pool, self._config.ssh.user
        lease = first_contact_fragment(pool.orphan_timeout_s, power_off, user=user)
        return f"{init_fragment(secret, user=user)}\n{lease}\n{pool.init_command}"

    def _driver(self, stack: contextlib.AsyncExitStack) -> tuple[InstanceSet, contextlib.ExitStack]:
        """Return the driver, and what closes it if nobody else owns it by then."""
        config = self._config
        info = driver(config.driver.name)
        context = DriverContext(
            cluster=config.cluster,
            state_dir=Path(config.data_dir) / "drivers" / info.name.replace(":", "-"),
            clock=self._clock.now,
            ssh_user=config.ssh.user,
        )
        instance_set = info.make(driver_parameters(config), context)
        unowned = stack.enter_context(contextlib.ExitStack())
        unowned.callback(instance_set.close)
        return instance_set, unowned

    async def _listen(
        self,
        stack: contextlib.AsyncExitStack,
        services: Services,
        types: tuple[InstanceType, ...],
        *,
        entry: _Entry,
        inside: ContainerDoor,
    ) -> None:
        config = self._config
        app = make_app(
            services,
            doors=self._doors(services, entry.issuer, inside),
            now=self._clock.now,
            limits=ApiLimits(
                request_bytes=config.limits.request_bytes,
                list_items=config.limits.list_items,
                environment_bytes=config.limits.environment_bytes,
                subscribers=config.limits.event_subscribers,
            ),
            defaults=Defaults(
                cpu_millis=int(config.defaults.cpus),
                memory_bytes=int(config.defaults.memory),
                disk_bytes=int(config.defaults.disk),
                type_dimensions=tuple(sorted({name for t in types for name, _ in t.defaults})),
            ),
            instance_type_names=[type_.name for type_ in types],
            version=_own_version(),
        )
        runner = ApiRunner(app)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        inside.serve_by(runner)
        stack.push_async_callback(inside.close)
        await self._listen_locally(stack, runner)
        context = entry.certificate.context if entry.certificate is not None else None
        host, port = listen_address(config)
        site = web.TCPSite(runner, host, port, ssl_context=context)
        try:
            await site.start()
        except OSError as error:
            why = f"cannot listen on {config.listen}: {os.strerror(error.errno or 0)}"
            remedy = "stop the program that does, or set another address"
            raise ConfigError([("listen", f"{why}; {remedy}")]) from error
        bound = next(each for each in runner.addresses if isinstance(each, tuple))
        shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://{shown}:{bound[1]}"
        if auth_mode(config) is AuthMode.REQUIRED and not services.tokens.active():
            place = Path(config.data_dir) / unix_socket.NAME
            make = f"longshore token create --url unix://{place} --user NAME --project PROJECT"
            log.warning("nobody has a token yet; make one on this machine", by=make)

    def _doors(self, services: Services, issuer: Issuer | None, inside: ContainerDoor) -> Doors:
        return Doors(
            mode=auth_mode(self._config),
            config=self._config.auth,
            tokens=services.tokens,
            issuer=issuer,
            now=self._clock.now,
            clock=time.monotonic,
            inside=inside.caller,
        )

    async def _listen_locally(self, stack: contextlib.AsyncExitStack, runner: ApiRunner) -> None:
        """Listen on the Unix socket of the data directory, where that can be."""
        data_dir = Path(self._config.data_dir)
        if why := unix_socket.path_problem(self._config.data_dir):
            # Refused before where it is the only way to the first token.
            log.warning("no Unix socket for admins", why=why)
            return
        try:
            bound = unix_socket.bind(data_dir)
        except OSError as error:
            why = f"cannot have a Unix socket in {data_dir}: {error.strerror}"
            raise ConfigError([("data_dir", why)]) from error
        stack.callback(unix_socket.unlink, data_dir, unix_socket.inode_of(data_dir))
        await web.SockSite(runner, bound).start()

    def _entry(self, stack: contextlib.AsyncExitStack) -> _Entry:
        """Return what callers come in by; each follows what it is from."""
        tls, terms, now = self._config.tls, self._config.auth.issuer, self._clock.now
        certificate, issuer = None, None
        if tls.certificate:
            certificate = Certificate(tls, now=now)
            self._begin(stack, certificate.keep_current(), name="certificate")
        if terms.url:
            issuer = Issuer(terms, now=now, clock=time.monotonic)
            stack.push_async_callback(issuer.close)
            self._begin(stack, issuer.keep_fresh(), name="issuer")
        return _Entry(certificate=certificate, issuer=issuer)

    def _export_files(self, stack: contextlib.AsyncExitStack, store: Store) -> list[Watched]:
        """Have the ledger's files written where the configuration says so; return what to watch."""
        terms = _export_terms(self._config)
        if terms is None:
            return []
        exports = CostExports(store=store, now=self._clock.now, context=biller_of(self._config))
        folder = ExportFolder(terms, exports=exports, ledger=store.ledger, wall=time.time)
        self._begin(stack, folder.keep_for_ever(), name="files of cost")
        return [Watched(kind=ProblemKind.COST_EXPORT, problem=folder.problem)]

    def _begin(
        self, stack: contextlib.AsyncExitStack, work: Coroutine[None, None, None], *, name: str
    ) -> None:
        """Begin what runs until the stack is closed; `wait_failed` tells if it ends before."""
        task = asyncio.create_task(work, name=name)
        self._lasting.append(task)
        stack.push_async_callback(_ended, task)

    def _close_store(self, store: Store) -> None:
        if store.pending:
            log.info("writing what is pending", changes=store.pending, problem=store.problem)
        self.unwritten = not store.close(_STORE_GRACE_S)
        self.store_replaced = store.replaced

    async def _close_performer(self, performer: Performer) -> None:
        self.hanging = not await asyncio.to_thread(performer.close)

    async def _stop_engine(self, runtime: Runtime) -> None:
        runtime.stop()
        if self._engine_task is not None:
            await asyncio.wait([self._engine_task])

    async def wait_failed(self) -> None:
        """Return, or raise what went wrong, when what runs for ever has ended of itself."""
        tasks = [*self._lasting, *([self._engine_task] if self._engine_task is not None else [])]
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()

    async def stop(self) -> None:
        """End streams, take no more requests, commit what is pending, drop sessions, let go.

        Instances and what runs on them go on; the next start adopts them.
        """
        await self._stack.aclose()


async def _ended(task: asyncio.Task[None]) -> None:
    """Cancel a task and return when it has ended, however it did."""
    task.cancel()
    await asyncio.wait([task])


def _call_soon(
    loop: asyncio.AbstractEventLoop, function: Callable[[str], None], argument: str
) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody follows any more
        loop.call_soon_threadsafe(function, argument)


class _AsConfigured(TypedDict):
    """What the services take from the configuration as it is."""

    engine: EngineName
    limits: LimitsConfig
    policies: Policies
    cost: CostConfig
    budgets: BudgetSettings
    biller: FocusContext


def _as_configured(config: Config) -> _AsConfigured:
    return _AsConfigured(
        engine=config.engine.name,
        limits=config.limits,
        policies=policies_of(config),
        cost=config.cost,
        budgets=_budget_settings(config),
        biller=biller_of(config),
    )


def _end_followers(watchers: ContainerNotifier, broker: Broker) -> None:
    """Let nobody wait for news any more."""
    broker.close()
    watchers.notify_all()


def _budget_settings(config: Config) -> BudgetSettings:
    """Return what is looked at of what is spent."""
    unusual_usd = config.notifications.unusual_day_usd
    return BudgetSettings(
        budgets=budgets_of(config),
        labels=frozenset(config.cost.labels),
        unusual_day_grains=None if unusual_usd is None else usd_grains(Decimal(repr(unusual_usd))),
    )


def _power_off_command(instance_set: InstanceSet) -> str:
    """Return what ends an instance's billing from within, "" when the driver knows nothing."""
    command = instance_set.power_off_command() if isinstance(instance_set, PowersOff) else ""
    return _checked_command(command, "power-off command")


def _interruption_watch(instance_set: InstanceSet) -> str:
    """Return what waits on an instance for the word that it is taken back, "" for nothing."""
    command = ""
    if isinstance(instance_set, WarnsOfInterruption):
        command = instance_set.interruption_watch()
    return _checked_command(command, "watch for notices")


def _checked_command(command: str, what: str) -> str:
    """Return a driver's command for its instances; raises `ConfigError` if no runner takes it."""
    fault = fault_of_command(command)
    if fault:
        remedy = "take another version of the driver, and tell its authors"
        raise ConfigError([("driver.name", f"its {what} {fault}; {remedy}")])
    return command


def _own_version() -> str:
    try:
        return version("longshore")
    except PackageNotFoundError:
        return "0+sources"


def _export_terms(config: Config) -> ExportTerms | None:
    """Return where the ledger's files are written to, None for nowhere."""
    export = config.cost.export
    if not export.dir:
        return None
    return ExportTerms(
        directory=Path(export.dir),
        cron=export.cron,
        format=export.format,
        time_zone=export.tz,
        cluster=config.cluster,
        currency=config.cost.currency,
    )


def _make_private_directory(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def _new_id() -> str:
    return "".join(secrets.choice(_ID_ALPHABET) for _ in range(_ID_LENGTH))
