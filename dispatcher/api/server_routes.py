"""The routes of the server itself: events, health, metrics."""

from __future__ import annotations

import asyncio

from aiohttp import web

from dispatcher.api.answers import json_response
from dispatcher.api.backend import Backend
from dispatcher.api.bodies import Query
from dispatcher.api.event_stream import EventEncoder, EventStream
from dispatcher.api.limits import ApiLimits
from dispatcher.api.streams import StreamGate
from dispatcher.api.wire import HealthAnswer, LiveAnswer


class ServerRoutes:
    """Answers for `/v1/events`, `/health/…` and `/metrics`."""

    def __init__(self, backend: Backend, *, gate: StreamGate, limits: ApiLimits) -> None:
        self._backend = backend
        self._gate = gate
        self._limits = limits
        self._encoder: EventEncoder | None = None

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Stream events, from the one after `Last-Event-ID` or from now on."""
        Query(request, ())
        stream = EventStream(
            self._backend,
            self._gate,
            self._limits,
            self._shared_encoder(),
            last_event_id=request.headers.get("Last-Event-ID", ""),
        )
        with self._gate.admit():
            return await stream.answer(request)

    def _shared_encoder(self) -> EventEncoder:
        """Return the one encoder; its epoch is a number that another process gets only by a rare
        chance, from the loop's clock at the first subscription: before, nobody knows an id."""
        if self._encoder is None:
            self._encoder = EventEncoder(int(asyncio.get_running_loop().time() * 1e6))
        return self._encoder

    async def live(self, _request: web.Request) -> web.Response:
        """Answer that the process answers."""
        return json_response(LiveAnswer())

    async def ready(self, _request: web.Request) -> web.Response:
        """Answer whether work is taken and placed: 200, or 503 with the problems."""
        health = self._backend.health()
        answer = HealthAnswer(ready=health.ready, problems=health.problems, advice=health.advice)
        return json_response(answer, status=200 if health.ready else 503)

    async def metrics(self, _request: web.Request) -> web.Response:
        """Answer the Prometheus text exposition."""
        return web.Response(
            body=self._backend.metrics(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )
