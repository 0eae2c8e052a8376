"""A container's log as a stream of raw bytes, followed if asked to."""

from __future__ import annotations

import asyncio

from aiohttp import web

from longshore.dispatcher.api.routes.callers import caller_of
from longshore.dispatcher.api.routes.openapi import Route
from longshore.dispatcher.api.routes.streams import StreamGate, gone, run_stream
from longshore.dispatcher.api.validate.bodies import QueryString
from longshore.dispatcher.api.validate.ids import path_id
from longshore.dispatcher.api.validate.limits import ApiLimits
from longshore.dispatcher.api.validate.parameters import Choice, Whole
from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.domain.principals import Principal
from longshore.dispatcher.service.containers import ContainerService
from longshore.dispatcher.service.logs import LogService

_OFFSET_MAX = 2**53
_STREAM = Choice(
    name="stream",
    description="Which of the two it is.",
    words=("stdout", "stderr"),
    default="stdout",
)
_OFFSET = Whole(
    name="offset",
    description="How many bytes from the beginning are left out: where a follower goes on.",
    low=0,
    high=_OFFSET_MAX,
    default=0,
)
_FOLLOW = Choice(
    name="follow",
    description="Whether the answer goes on until the container ends, over all of its attempts.",
    words=("true", "false", "1", "0"),
    default="false",
)
_PARAMETERS = (_STREAM, _OFFSET, _FOLLOW)
LOG_PROBLEM = "Longshore-Log-Problem"
"""The header that says why what a container writes did not come when the answer began."""


class LogStream:
    """Copies one stream of a container's last attempt to a client.

    When another attempt begins while it follows, its log is copied from its own beginning, behind
    what was left of the one before.
    """

    def __init__(
        self,
        containers: ContainerService,
        logs: LogService,
        gate: StreamGate,
        limits: ApiLimits,
        *,
        caller: Principal,
        container_id: str,
        stream: str,
        offset: int,
        follow: bool,
    ) -> None:
        self._caller = caller
        self._containers = containers
        self._logs = logs
        self._gate = gate
        self._limits = limits
        self._container_id = container_id
        self._stream = stream
        self._offset = offset
        self._follow = follow
        self._attempt_id: str | None = None

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Return the answer once it is sent; raises `NotFound` and `Unavailable` before."""
        container = await self._note_attempt()
        data, complete = await self._read()
        response = web.StreamResponse()
        if problem := self._logs.problem(container):
            # Bytes are all that a body has: who waits for some is told here what for.
            response.headers[LOG_PROBLEM] = _as_header(problem)
        response.content_type = "application/octet-stream"
        await response.prepare(request)

        async def copy() -> bool:
            ended = await self._send(response, data, complete)
            while not ended:
                if self._gate.closing or gone(request):
                    return False
                ended = await self._step(request, response)
            return True

        return await run_stream(request, response, copy)

    async def _step(self, request: web.Request, response: web.StreamResponse) -> bool:
        """Send what there is, or wait until there may be more; return whether that was all."""
        recheck_s = self._limits.log_recheck_s
        news = asyncio.ensure_future(self._logs.wait(self._container_id, timeout_s=recheck_s))
        try:
            # It must wait before we look, or what comes in between would go unnoticed.
            await asyncio.sleep(0)
            if self._follow:
                await self._send_rest(response, before=self._attempt_id)
            data, complete = await self._read()
            if await self._send(response, data, complete):
                return True
            while not (data or news.done() or self._gate.closing or gone(request)):
                await asyncio.wait({news}, timeout=self._limits.watch_interval_s)
            return False
        finally:
            news.cancel()
            await asyncio.gather(news, return_exceptions=True)

    async def _send_rest(self, response: web.StreamResponse, *, before: str | None) -> None:
        """Note which attempt is the last; of the one before send what came in the meantime."""
        offset = self._offset
        await self._note_attempt()
        if before is None or before == self._attempt_id:
            return
        size = self._limits.log_chunk_bytes
        while data := await self._logs.rest(
            self._container_id, before, stream=self._stream, offset=offset, limit=size
        ):
            offset += len(data)
            async with asyncio.timeout(self._limits.write_timeout_s):
                await response.write(data)

    async def _send(self, response: web.StreamResponse, data: bytes, complete: bool) -> bool:
        if data:
            async with asyncio.timeout(self._limits.write_timeout_s):
                await response.write(data)
        return complete or (not self._follow and len(data) < self._limits.log_chunk_bytes)

    async def _read(self) -> tuple[bytes, bool]:
        data, complete = await self._logs.read(
            self._container_id,
            caller=self._caller,
            stream=self._stream,
            offset=self._offset,
            limit=self._limits.log_chunk_bytes,
        )
        self._offset += len(data)
        return data, complete

    async def _note_attempt(self) -> Container:
        container = await self._containers.container(self._container_id, caller=self._caller)
        last = container.attempts[-1].id if container.attempts else None
        if last != self._attempt_id and self._attempt_id is not None:
            self._offset = 0
        self._attempt_id = last
        return container


def _as_header(sentence: str) -> str:
    """Return a sentence as the value of a header: one line of ASCII."""
    return " ".join(sentence.encode("ascii", "replace").decode().split())


class LogRoutes:
    """Answers for `/v1/containers/{id}/logs`."""

    def __init__(
        self,
        containers: ContainerService,
        logs: LogService,
        *,
        gate: StreamGate,
        limits: ApiLimits,
    ) -> None:
        self._containers = containers
        self._logs = logs
        self._gate = gate
        self._limits = limits

    async def follow(self, request: web.Request) -> web.StreamResponse:
        """Stream the bytes of stdout or stderr."""
        query = QueryString(request, _PARAMETERS)
        log = LogStream(
            self._containers,
            self._logs,
            self._gate,
            self._limits,
            caller=caller_of(request),
            container_id=path_id(request, "container"),
            stream=query.choice(_STREAM),
            offset=query.whole(_OFFSET) or 0,
            follow=query.choice(_FOLLOW) in {"true", "1"},
        )
        with self._gate.admit():
            return await log.answer(request)


def log_routes(logs: LogRoutes) -> list[Route]:
    """Return the route of logs."""
    return [
        Route(
            method="GET",
            path="/v1/containers/{id}/logs",
            handler=logs.follow,
            operation_id="read_container_log",
            summary="Stream the bytes of stdout or stderr",
            description="The raw bytes of the last attempt. A stream that was cut off ends without "
            "the mark of a proper end: go on from the offset that was reached.",
            answer_headers=(LOG_PROBLEM,),
            media_type="application/octet-stream",
            parameters=_PARAMETERS,
            streams=True,
            followed_by=_FOLLOW.name,
        ),
    ]
