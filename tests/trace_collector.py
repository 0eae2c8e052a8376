"""A collector of traces under the control of a test: it takes OTLP over HTTP and decodes it."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass(slots=True, kw_only=True)
class TraceCollector:
    """What came, and what it answers."""

    port: int = 0
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)
    #: With their names in small letters.
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    #: What it answers in turn; 200 when these are used up.
    statuses: list[int] = field(default_factory=list)
    #: Whether it answers nothing, or a body without an end.
    hangs: bool = False
    babbles: bool = False

    @property
    def url(self) -> str:
        """Return where it is."""
        return f"http://127.0.0.1:{self.port}/v1/traces"

    @property
    def spans(self) -> list[Span]:
        """Return all spans that came, in order."""
        return [
            span
            for request in self.requests
            for of_resource in request.resource_spans
            for of_scope in of_resource.scope_spans
            for span in of_scope.spans
        ]

    @property
    def names(self) -> list[str]:
        """Return the names of all spans that came, sorted."""
        return sorted(span.name for span in self.spans)

    async def take(self, request: web.Request) -> web.StreamResponse:
        """Take a request, unless the answer is to be another."""
        body = await request.read()
        self.paths.append(request.path)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if self.hangs:
            await asyncio.Event().wait()
        status = self.statuses.pop(0) if self.statuses else 200
        if status != 200:
            elsewhere = {"Location": f"http://127.0.0.1:{self.port}/elsewhere"}
            return web.Response(status=status, headers=elsewhere if status == 307 else None)
        if request.headers.get("Content-Encoding") == "gzip" and body[:2] == b"\x1f\x8b":
            body = gzip.decompress(body)
        self.requests.append(ExportTraceServiceRequest.FromString(body))
        if self.babbles:
            response = web.StreamResponse(status=200)
            await response.prepare(request)
            while True:
                await response.write(b"x" * 65_536)
        return web.Response(
            body=ExportTraceServiceResponse().SerializeToString(),
            content_type="application/x-protobuf",
        )


@asynccontextmanager
async def trace_collector() -> AsyncIterator[TraceCollector]:
    """Serve a collector for the length of a `with`."""
    collector = TraceCollector()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", collector.take)
    runner = web.AppRunner(app, shutdown_timeout=0.05, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        collector.port = runner.addresses[0][1]
        yield collector
    finally:
        await runner.cleanup()


def attributes_of(span: Span) -> dict[str, str | int | bool | float]:
    """Return a span's attributes as values."""
    found: dict[str, str | int | bool | float] = {}
    for each in span.attributes:
        kind = each.value.WhichOneof("value")
        assert kind is not None
        found[each.key] = getattr(each.value, kind)
    return found
