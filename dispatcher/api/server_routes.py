"""The routes of the server itself: events, health, metrics."""

from __future__ import annotations

import re

from aiohttp import web

from dispatcher.api.answers import json_response
from dispatcher.api.backend import Backend
from dispatcher.api.bodies import Query
from dispatcher.api.limits import ApiLimits
from dispatcher.api.streams import EventStream, StreamGate
from dispatcher.api.wire import HealthAnswer, LiveAnswer
from drivers.errors import InvalidRequest

_NUMBER = re.compile(r"[0-9]{1,18}")


class ServerRoutes:
    """Answers for `/v1/events`, `/health/…` and `/metrics`."""

    def __init__(self, backend: Backend, *, gate: StreamGate, limits: ApiLimits) -> None:
        self._backend = backend
        self._gate = gate
        self._limits = limits

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Stream events, from the one after `Last-Event-ID` or from now on."""
        Query(request, ())
        after = _last_event_id(request)
        with self._gate.admit():
            stream = EventStream(self._backend, self._gate, self._limits, after=after)
            return await stream.answer(request)

    async def live(self, _request: web.Request) -> web.Response:
        """Answer that the process answers."""
        return json_response(LiveAnswer())

    async def ready(self, _request: web.Request) -> web.Response:
        """Answer whether work is taken and placed: 200, or 503 with the problems."""
        health = self._backend.health()
        answer = HealthAnswer(ready=health.ready, problems=health.problems)
        return json_response(answer, status=200 if health.ready else 503)

    async def metrics(self, _request: web.Request) -> web.Response:
        """Answer the Prometheus text exposition."""
        return web.Response(
            body=self._backend.metrics(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )


def _last_event_id(request: web.Request) -> int | None:
    texts = request.headers.getall("Last-Event-ID", [])
    if not texts or texts == [""]:
        return None
    if len(texts) > 1 or not _NUMBER.fullmatch(texts[0]):
        raise InvalidRequest([("Last-Event-ID", "must be the id of an event, a whole number")])
    return int(texts[0])
