"""Answers that go on: a bounded number at a time, ended when the server stops.

What a stream needs to notice (the client went away, the server stops) is looked at between two
waits of at most `watch_interval_s`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager

import structlog
from aiohttp import web

from dispatcher.api.answers import encode
from dispatcher.api.backend import Backend, ServerEvent, Unavailable
from dispatcher.api.limits import ApiLimits
from dispatcher.api.wire import EventAnswer

_END_GRACE_S = 1.0

_log = structlog.get_logger(__name__)


class StreamGate:
    """Admits at most `limit` streams at a time, and ends them all when the server stops."""

    def __init__(self, *, limit: int, what: str) -> None:
        self._limit = limit
        self._what = what
        self._tasks: set[asyncio.Task[object]] = set()
        self.closing = False

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Count the current task as a stream; raises `Unavailable` when there are too many."""
        task = asyncio.current_task()
        if self.closing or task is None or len(self._tasks) >= self._limit:
            raise Unavailable(f"The server serves {self._limit} {self._what} at most: try later.")
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)

    async def close(self) -> None:
        """Let streams end by themselves for a second, then cancel them."""
        self.closing = True
        tasks = set(self._tasks)
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=_END_GRACE_S)
            for task in stuck:
                task.cancel()
            await asyncio.gather(*stuck, return_exceptions=True)


def gone(request: web.Request) -> bool:
    """Return whether the client has hung up."""
    return request.transport is None or request.transport.is_closing()


async def run_stream(
    request: web.Request,
    response: web.StreamResponse,
    copy: Callable[[], Awaitable[bool]],
) -> web.StreamResponse:
    """Run `copy`, which writes to the prepared `response` and returns whether it came to its end.

    A stream that did not is cut off without the mark of a proper end, so that the client can tell.
    """
    complete = False
    try:
        complete = await copy()
    except (ConnectionError, TimeoutError):
        _log.debug("stream_ended_by_client", path=request.path)
    except Exception as error:  # noqa: BLE001 - the headers are sent: no error answer is possible
        _log.error(
            "stream_failed", error_id=secrets.token_hex(8), path=request.path, exc_info=error
        )
    if not complete and request.transport is not None:
        request.transport.close()
    return response


class LogStream:
    """Copies one stream of a container's last attempt to a client."""

    def __init__(
        self,
        backend: Backend,
        gate: StreamGate,
        limits: ApiLimits,
        *,
        container_id: str,
        stream: str,
        offset: int,
        follow: bool,
    ) -> None:
        self._backend = backend
        self._gate = gate
        self._limits = limits
        self._container_id = container_id
        self._stream = stream
        self._offset = offset
        self._follow = follow
        self._attempt_id: str | None = None

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Return the answer once it is sent; raises `NotFound` and `Unavailable` before."""
        await self._note_attempt()
        first = await self._read()
        response = web.StreamResponse()
        response.content_type = "application/octet-stream"
        await response.prepare(request)

        async def copy() -> bool:
            data, complete = first
            while True:
                if data:
                    async with asyncio.timeout(self._limits.write_timeout_s):
                        await response.write(data)
                if complete or (not self._follow and len(data) < self._limits.log_chunk_bytes):
                    return True
                if self._gate.closing or gone(request):
                    return False
                if not data:
                    await self._backend.wait_log(
                        self._container_id, timeout_s=self._limits.watch_interval_s
                    )
                if self._follow:
                    await self._note_attempt()
                data, complete = await self._read()

        return await run_stream(request, response, copy)

    async def _read(self) -> tuple[bytes, bool]:
        data, complete = await self._backend.read_log(
            self._container_id,
            stream=self._stream,
            offset=self._offset,
            limit=self._limits.log_chunk_bytes,
        )
        self._offset += len(data)
        return data, complete

    async def _note_attempt(self) -> None:
        """Start from the beginning when a new attempt, with a log of its own, has begun."""
        container = await self._backend.container(self._container_id)
        last = container.attempts[-1].id if container.attempts else None
        if last != self._attempt_id and self._attempt_id is not None:
            self._offset = 0
        self._attempt_id = last


class EventStream:
    """Sends server-sent events to one subscriber."""

    def __init__(
        self, backend: Backend, gate: StreamGate, limits: ApiLimits, *, after: int | None
    ) -> None:
        self._backend = backend
        self._gate = gate
        self._limits = limits
        newest = backend.last_event_number()
        self._seen = newest if after is None else after
        self._allowed_lag = max(newest - self._seen, 0) + limits.subscriber_backlog

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Return the answer once the subscription has ended."""
        response = web.StreamResponse(headers={"X-Accel-Buffering": "no"})
        response.content_type = "text/event-stream"
        response.charset = "utf-8"
        await response.prepare(request)

        async def send(text: bytes) -> None:
            async with asyncio.timeout(self._limits.write_timeout_s):
                await response.write(text)

        async def copy() -> bool:
            await send(b"retry: 2000\n: longshore events\n\n")
            return await self._relay(request, send)

        return await run_stream(request, response, copy)

    async def _relay(self, request: web.Request, send: Callable[[bytes], Awaitable[None]]) -> bool:
        events = self._backend.events(after=self._seen)
        clock = asyncio.get_running_loop().time
        quiet_since = clock()
        following = asyncio.ensure_future(_next(events))
        try:
            while not gone(request):
                await asyncio.wait({following}, timeout=self._limits.watch_interval_s)
                if following.done():
                    event = following.result()
                    if event is None:
                        return await self._say_stopped(send)
                    following = asyncio.ensure_future(_next(events))
                    await self._send_event(event, send)
                    quiet_since = clock()
                    if self._backend.last_event_number() - event.number > self._allowed_lag:
                        what = "You read too slowly: come back with the last id that you got."
                        await send(_message("dropped", what))
                        return True
                elif self._gate.closing:
                    return await self._say_stopped(send)
                elif clock() - quiet_since >= self._limits.heartbeat_s:
                    await send(b": heartbeat\n\n")
                    quiet_since = clock()
            return False
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await _close(events)

    async def _send_event(
        self, event: ServerEvent, send: Callable[[bytes], Awaitable[None]]
    ) -> None:
        if event.number > self._seen + 1:
            missed = event.number - self._seen - 1
            what = f"{missed} events are no longer kept: list again what you need to know."
            await send(_message("gap", what))
        self._seen = event.number
        data = encode(
            EventAnswer(number=event.number, kind=event.kind, id=event.id, data=event.data)
        )
        head = f"id: {event.number}\nevent: {event.kind}\ndata: ".encode()
        await send(head + data + b"\n\n")

    async def _say_stopped(self, send: Callable[[bytes], Awaitable[None]]) -> bool:
        await send(_message("stopped", "The server stops: come back with the last id you got."))
        return True


async def _next(events: AsyncIterator[ServerEvent]) -> ServerEvent | None:
    return await anext(events, None)


async def _close(events: AsyncIterator[ServerEvent]) -> None:
    """Close what can be closed: a generator would otherwise wait for the collector."""
    close = getattr(events, "aclose", None)
    if close is not None:
        await close()


def _message(kind: str, what: str) -> bytes:
    return f"event: {kind}\ndata: ".encode() + encode({"message": what}) + b"\n\n"
