"""The services over a real store and an engine that runs, or does not."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from longshore.dispatcher.config.model import EngineName, LimitsConfig
from longshore.dispatcher.domain.messages import Change
from longshore.dispatcher.engine.runtime import Runtime
from longshore.dispatcher.logs.store import LogStore
from longshore.dispatcher.metrics.exposition import Metrics
from longshore.dispatcher.service.budgets import BudgetSettings
from longshore.dispatcher.service.events import Broker, ContainerNotifier
from longshore.dispatcher.service.health import Watched
from longshore.dispatcher.service.instances import Prices, as_bought
from longshore.dispatcher.service.services import NO_BUDGETS, Services, make_services
from longshore.dispatcher.service.telling import Sender
from longshore.dispatcher.store.store import Store
from longshore.dispatcher.store.vault import open_vault
from longshore.pool.messages import CreateInstance
from tests.rigs.engine import Rig
from tests.samples import make_type
from tests.store_values import new_store


async def handled() -> None:
    """Return when an engine that runs has handled what it was told."""
    for _ in range(10):
        await asyncio.sleep(0)


def waiting_rig() -> Rig:
    """Return an engine whose cloud never answers a create, so that all wait."""
    made = Rig(make_type(8))
    made.silent.add(CreateInstance)
    return made


@contextmanager
def store_in(directory: Path) -> Iterator[Store]:
    """Yield a new store, and close it."""
    made = new_store(directory)
    yield made
    made.close()


def runtime_over(
    rig: Rig,
    store: Store,
    *,
    write: Callable[[Sequence[Change]], Future[None]] | None = None,
) -> Runtime:
    """Return what runs the engine of a rig, whose commands nobody carries out.

    `write` None is that of `store`.
    """
    return Runtime(
        engine=rig.engine,
        now=lambda: rig.now,
        write=write or (lambda changes: store.write(changes, wait=True)),
        perform=rig.sent.append,
        publish=rig.published.append,
        inbox_limit=100,
    )


def services_with(
    runtime: Runtime,
    rig: Rig,
    store: Store,
    tmp_path: Path,
    *,
    limits: LimitsConfig | None = None,
    engine: EngineName = EngineName.AUTO,
    watched: Sequence[Watched] = (),
    budgets: BudgetSettings = NO_BUDGETS,
    sender: Sender | None = None,
    prices: Prices = as_bought,
) -> Services:
    """Return the services of an engine that is run, or not; ids count from 0."""
    numbers = iter(range(100_000))
    return make_services(
        runtime=runtime,
        vault=open_vault(store, tmp_path / "secret_keys", lambda: rig.now),
        logs=LogStore(tmp_path / "logs"),
        broker=Broker(),
        watchers=ContainerNotifier(),
        metrics=Metrics(rig.view, heard_at=lambda _id: 0.0),
        types=tuple(rig.types.values()),
        now=lambda: rig.now,
        new_id=lambda: str(next(numbers)),
        random_bytes=secrets.token_bytes,
        heard_at=lambda _id: 0.0,
        engine=engine,
        limits=limits or LimitsConfig(),
        watched=watched,
        budgets=budgets,
        sender=sender,
        prices=prices,
    )


@asynccontextmanager
async def services_over(
    rig: Rig,
    store: Store,
    tmp_path: Path,
    *,
    limits: LimitsConfig | None = None,
    budgets: BudgetSettings = NO_BUDGETS,
    sender: Sender | None = None,
) -> AsyncIterator[Services]:
    """Serve the engine of a rig, whose commands nobody carries out; ids count from 0."""
    runtime = runtime_over(rig, store)
    running = asyncio.create_task(runtime.run())
    yield services_with(
        runtime, rig, store, tmp_path, limits=limits, budgets=budgets, sender=sender
    )
    runtime.stop()
    await running
