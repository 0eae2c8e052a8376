"""Traces of one server, where it is configured to send any: put together, begun and ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

import structlog

from longshore.dispatcher.config.loading import Config
from longshore.dispatcher.config.traces import trace_headers, trace_url
from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.store.store import Store
from longshore.dispatcher.traces.cursor import SentCursor
from longshore.dispatcher.traces.export import TraceExport
from longshore.dispatcher.traces.news import Listener, News, missed
from longshore.dispatcher.traces.spans import SpanMaker

_FLUSH_S: Final = 5.0
"""How long the end of a server waits for the collector."""

_log = structlog.get_logger(__name__)


class Tracing:
    """What hears of what has ended, and what sends it."""

    def __init__(self, export: TraceExport, listener: Listener) -> None:
        self.export = export
        self.hear = listener.hear

    async def close(self) -> None:
        """Send what waits, for a few seconds at most."""
        if not await asyncio.to_thread(self.export.close, _FLUSH_S):
            _log.warning("the rest of the traces is sent by the next start")


async def begin_tracing(
    config: Config,
    store: Store,
    known: Collection[Container],
    *,
    now: Callable[[], float],
    clock: Callable[[], float],
    version: str,
) -> Tracing | None:
    """Begin to send traces, first those that an earlier process has not; None if none are.

    `known` are the containers that have not ended; the engine must not run yet. Raises
    `ConfigError` where the headers cannot be read any more, and `StoreBusy`.
    """
    told = config.traces
    if not told.endpoint:
        return None
    # Of the extra `otel`, which the configuration was checked for.
    from longshore.dispatcher.traces.otlp import OtlpSender, TraceTarget  # noqa: PLC0415 - need not be there

    resource = {
        "service.name": "longshore",
        "service.version": version,
        "service.instance.id": store.id,
        "longshore.cluster": config.cluster,
        **told.resource,
    }
    collector = TraceTarget(url=trace_url(told), headers=trace_headers(told), resource=resource)
    cursor = SentCursor(Path(config.data_dir), now())
    export = TraceExport(
        OtlpSender(collector),
        maker=SpanMaker(store=store.id, sample_ratio=told.sample_ratio),
        reader=store.traces,
        cursor=cursor,
        now=now,
        clock=clock,
    )
    ready = await asyncio.to_thread(store.traces.ready_instances)
    export.start(await asyncio.to_thread(_missed, store, cursor))
    return Tracing(export, Listener(known, ready, export.tell))


def _missed(store: Store, cursor: SentCursor) -> list[News]:
    since = store.traces.ended_since(round(cursor.until * 1000))
    ids = sorted({*since.containers, *since.attempts})
    found = [each for each in map(store.container, ids) if each is not None]
    return list(missed(since, found, cursor.sent))
