"""The routes of the server itself: events, health, metrics."""

from __future__ import annotations

import asyncio

import msgspec
from aiohttp import web

from longshore.dispatcher.api.render.health import health_answer, ready_answer
from longshore.dispatcher.api.render.values import json_response
from longshore.dispatcher.api.routes.callers import (
    Access,
    allows,
    caller_of,
    known_caller,
)
from longshore.dispatcher.api.routes.events import EventEncoder, EventStream
from longshore.dispatcher.api.routes.openapi import Route
from longshore.dispatcher.api.routes.streams import StreamGate
from longshore.dispatcher.api.schemas.containers import EventAnswer, StreamNotice
from longshore.dispatcher.api.schemas.health import HealthAnswer, LiveAnswer, ReadyAnswer
from longshore.dispatcher.api.validate.bodies import QueryString
from longshore.dispatcher.api.validate.limits import ApiLimits
from longshore.dispatcher.service.containers import ContainerService
from longshore.dispatcher.service.events import Broker
from longshore.dispatcher.service.health import HealthService
from longshore.dispatcher.service.measuring import Measuring


class ServerRoutes:
    """Answers for `/v1/events`, `/v1/health`, `/health/…` and `/metrics`."""

    def __init__(
        self,
        *,
        events: Broker,
        health: HealthService,
        measuring: Measuring,
        containers: ContainerService,
        tells_everybody: bool,
        gate: StreamGate,
        limits: ApiLimits,
    ) -> None:
        self._events = events
        self._health = health
        self._measuring = measuring
        self._containers = containers
        self._tells_everybody = tells_everybody
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
            caller=caller_of(request),
            project_of=self._containers.project_of,
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

    async def ready(self, request: web.Request) -> web.Response:
        """Answer whether requests can be served: 200, or 503.

        With all problems in either case, for those who may know: they name instances and files.
        """
        health = self._health.health()
        caller = known_caller(request)
        told = self._tells_everybody or (
            caller is not None and allows(Access.MONITORING, caller.role)
        )
        answer = ready_answer(health)
        if not told:
            answer = msgspec.structs.replace(answer, problems=[], advice=[])
        return json_response(answer, status=200 if health.ready else 503)

    async def health(self, request: web.Request) -> web.Response:
        """Answer how the server does."""
        QueryString(request, ())
        return json_response(health_answer(self._health.health(), self._health.vitals()))

    async def metrics(self, _request: web.Request) -> web.Response:
        """Answer the Prometheus text exposition."""
        return web.Response(
            body=self._measuring.exposition(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )


# ---- the table of the routes of the server itself ------------------------------------------------


def server_routes(server: ServerRoutes) -> list[Route]:
    """Return the routes of the server itself."""
    return [
        Route(
            method="GET",
            path="/v1/events",
            handler=server.events,
            operation_id="follow_events",
            summary="Follow what happens, as server-sent events",
            description="Each event has an id, which `Last-Event-ID` takes up again. Where events "
            "in between are no longer kept, or the server began anew, a `gap` comes "
            "first: list again what you need to know. Before the server stops it says "
            "`stopped`. The data of `container`, `job` and `instance` events is that of"
            " their answers; `budget` and `unusual_day` events tell of what was spent.",
            answer=(EventAnswer, StreamNotice),
            media_type="text/event-stream",
            headers=("Last-Event-ID",),
            streams=True,
        ),
        Route(
            method="GET",
            path="/health/live",
            handler=server.live,
            operation_id="check_liveness",
            summary="Tell that the process answers",
            description="It says nothing of the store or the cloud.",
            access=Access.PUBLIC,
            answer=(LiveAnswer,),
        ),
        Route(
            method="GET",
            path="/health/ready",
            handler=server.ready,
            operation_id="check_readiness",
            summary="Tell whether requests can be served, and what is wrong",
            description="The answer is the same with 503, when requests cannot be served.",
            access=Access.PUBLIC,
            answer=(ReadyAnswer,),
            also=(503,),
        ),
        Route(
            method="GET",
            path="/v1/health",
            handler=server.health,
            operation_id="show_health",
            summary="Tell how the server is doing: what is wrong, since when, and its disks",
            description="Each problem has a sentence that says what to do about it.",
            access=Access.MONITORING,
            answer=(HealthAnswer,),
        ),
        Route(
            method="GET",
            path="/metrics",
            handler=server.metrics,
            operation_id="read_metrics",
            summary="The Prometheus text exposition",
            description="In base units; docs/operations.md says which are worth an alert.",
            access=Access.MONITORING,
            media_type="text/plain",
        ),
    ]
