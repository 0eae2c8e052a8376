"""The routes of the server itself: events, health, metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

from longshore.dispatcher.api.render.containers import json_response, rfc3339
from longshore.dispatcher.api.routes.events import EventEncoder, EventStream
from longshore.dispatcher.api.routes.streams import StreamGate
from longshore.dispatcher.api.schemas.containers import LiveAnswer
from longshore.dispatcher.api.schemas.health import (
    HealthAnswer,
    LogsAnswer,
    ProblemAnswer,
    ReadyAnswer,
    StoreAnswer,
)
from longshore.dispatcher.api.validate.bodies import QueryString
from longshore.dispatcher.api.validate.limits import ApiLimits
from longshore.dispatcher.domain.views import Health
from longshore.dispatcher.service.events import Broker
from longshore.dispatcher.service.health import HealthService


class ServerRoutes:
    """Answers for `/v1/events`, `/v1/health`, `/health/…` and `/metrics`."""

    def __init__(
        self,
        *,
        events: Broker,
        health: HealthService,
        metrics: Callable[[], bytes],
        gate: StreamGate,
        limits: ApiLimits,
    ) -> None:
        self._events = events
        self._health = health
        self._metrics = metrics
        self._gate = gate
        self._limits = limits
        self._encoder: EventEncoder | None = None

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Stream events, from the one after `Last-Event-ID` or from now on."""
        QueryString(request, ())
        stream = EventStream(
            self._events,
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
        """Answer whether requests can be served: 200, or 503; with all problems in either case."""
        health = self._health.health()
        answer = ReadyAnswer(
            ready=health.ready,
            degraded=bool(health.problems),
            problems=_problems(health),
            advice=list(health.advice),
        )
        return json_response(answer, status=200 if health.ready else 503)

    async def health(self, request: web.Request) -> web.Response:
        """Answer how the server does."""
        QueryString(request, ())
        health, vitals = self._health.health(), self._health.vitals()
        store = vitals.store
        return json_response(
            HealthAnswer(
                ready=health.ready,
                degraded=bool(health.problems),
                problems=_problems(health),
                advice=list(health.advice),
                store=StoreAnswer(
                    database_bytes=store.database_bytes,
                    wal_bytes=store.wal_bytes,
                    pending_writes=store.pending,
                    free_bytes=store.room.free_bytes,
                    free_inodes=store.room.free_inodes,
                ),
                logs=LogsAnswer(
                    free_bytes=vitals.logs.free_bytes, free_inodes=vitals.logs.free_inodes
                ),
            )
        )

    async def metrics(self, _request: web.Request) -> web.Response:
        """Answer the Prometheus text exposition."""
        return web.Response(
            body=self._metrics(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )


def _problems(health: Health) -> list[ProblemAnswer]:
    return [
        ProblemAnswer(kind=each.kind.value, since=rfc3339(each.since), message=each.message)
        for each in health.problems
    ]
