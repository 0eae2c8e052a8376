"""The backend of the API over a real store and an engine that runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from dispatcher.backend import DispatcherBackend
from dispatcher.broker import Broker, Watchers
from dispatcher.config_model import LimitsConfig
from dispatcher.logs import LogStore
from dispatcher.metrics import Metrics
from dispatcher.runtime import Runtime
from dispatcher.store.store import Store
from tests.engine_rig import Rig


@asynccontextmanager
async def backend_over(
    rig: Rig, store: Store, tmp_path: Path, *, limits: LimitsConfig | None = None
) -> AsyncIterator[DispatcherBackend]:
    """Serve the engine of a rig, whose commands nobody carries out; ids count from 0."""
    numbers = iter(range(100_000))
    runtime = Runtime(
        engine=rig.engine,
        now=lambda: rig.now,
        write=lambda changes: store.write(changes, wait=True),
        perform=rig.sent.append,
        publish=rig.published.append,
        inbox_limit=100,
    )
    running = asyncio.create_task(runtime.run())
    yield DispatcherBackend(
        runtime=runtime,
        store=store,
        logs=LogStore(tmp_path / "logs"),
        broker=Broker(),
        watchers=Watchers(),
        metrics=Metrics(rig.engine, heard_at=lambda _id: 0.0),
        types=tuple(rig.types.values()),
        now=lambda: rig.now,
        new_id=lambda: str(next(numbers)),
        heard_at=lambda _id: 0.0,
        limits=limits or LimitsConfig(),
    )
    runtime.stop()
    await running
