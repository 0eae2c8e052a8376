"""Running the API: connections have limits, and what is no request gets problem details too."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from longshore.dispatcher.api.accept_backpressure import AcceptGuard, Rarely
from longshore.dispatcher.api.guards import ANSWER_HEADERS
from longshore.dispatcher.api.render.problems import answer_for_http, log_unexpected, problem
from longshore.dispatcher.api.validate.limits import ApiLimits

LIMITS = web.AppKey("limits", ApiLimits)


class ApiRunner(web.AppRunner):
    """An `AppRunner` whose errors are problem details at every level, malformed HTTP included.

    Its connections are limited as `app[LIMITS]` says; those beyond are closed at once. Until
    `cleanup` it handles the event loop's errors of accepting.

    `settings` are those of `aiohttp.web.AppRunner`; unlike there, requests are not logged one by
    one unless an `access_log` is given, connections have 5 s to end on shutdown, and bodies are
    never decompressed (encoded ones are refused).
    """

    def __init__(self, app: web.Application, **settings: Any) -> None:
        ours = {"access_log": None, "shutdown_timeout": 5.0, "auto_decompress": False}
        self._limits = app[LIMITS]
        self._accept_guard: AcceptGuard | None = None
        ours["keepalive_timeout"] = self._limits.keep_alive_s
        super().__init__(app, **{**ours, **settings})

    async def cleanup(self) -> None:
        """End all connections and release what `setup` took."""
        try:
            if self._accept_guard is not None:
                await self._accept_guard.settle()
            await super().cleanup()
        finally:
            if self._accept_guard is not None:
                self._accept_guard.close()

    async def _make_server(self) -> web.Server:
        plain = await super()._make_server()
        self._accept_guard = AcceptGuard(asyncio.get_running_loop())
        return _Server(plain, limits=self._limits, settings=self._kwargs)


class _Server(web.Server):
    def __init__(self, plain: web.Server, *, limits: ApiLimits, settings: dict[str, Any]) -> None:
        self.limits = limits
        self.full = Rarely("connections_over_the_limit")
        self._plain_handler = plain.request_handler
        super().__init__(
            self._answer,
            request_factory=plain.request_factory,
            loop=asyncio.get_running_loop(),
            **settings,
        )

    def __call__(self) -> RequestHandler:
        return _Connection(self, self._kwargs)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Catch what aiohttp raises before any middleware runs, as for an odd `Expect`."""
        if isinstance(request.protocol, _Connection):
            request.protocol.heard = True
        try:
            return await self._plain_handler(request)
        except web.HTTPException as error:
            return answer_for_http(error)


class _Connection(RequestHandler):
    """One connection; its errors are answered as documents and logged without noise.

    `heard` tells that the head of a request came. Until then, and while it takes nothing of what it
    is sent, it is looked after by one timer.
    """

    __slots__ = ("_blocked", "_limits", "_server", "_timer", "_unsent", "_wire", "heard")

    def __init__(self, server: _Server, settings: dict[str, Any]) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **settings)
        self.heard = False
        self._server = server
        self._limits = server.limits
        self._wire: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._unsent = 0
        self._blocked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, or close it when there are too many."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - narrows the type
        # Whoever fills the places shuts nobody out of the socket by which an admin ends that.
        is_local = transport.get_extra_info("socket").family == socket.AF_UNIX
        if not is_local and len(self._server.connections) >= self._limits.connections:
            self._server.full.tell(limit=self._limits.connections)
            transport.abort()
            return
        self._wire = transport
        self._look_again(self._limits.head_timeout_s)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Look after it no more."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Note that more is to be sent than the client takes."""
        self._blocked = True
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that the client takes what it is sent."""
        self._blocked = False
        super().resume_writing()

    def _look_again(self, after_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(after_s, self._look)

    def _look(self) -> None:
        """Cut the connection off if it never asked, or has taken nothing since the last look."""
        wire = self._wire
        if wire is None:
            return
        unsent = wire.get_write_buffer_size()
        waiting = self._blocked or wire.is_closing()
        if not self.heard or (waiting and unsent > 0 and unsent == self._unsent):
            wire.abort()
            return
        self._unsent = unsent
        self._look_again(self._limits.write_timeout_s)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no HTTP request, or failed outside of the application."""
        self.heard = True
        if request.writer.output_size > 0:
            raise ConnectionError("an answer is under way, no other can be sent")
        if status < 500:
            detail = (message or "").splitlines()[0][:200] if message else ""
            response = problem(status, f"This is not a request in HTTP/1.1. {detail}".strip())
        elif isinstance(exc, ConnectionError) and _is_gone(request):
            # Who hangs up during an upload has failed, not we; the answer goes nowhere.
            response = problem(400, "The connection ended before the request did.")
        else:
            error = exc or RuntimeError(message)
            error_id = log_unexpected("connection_failed", error, where="outside the application")
            response = problem(status, f"The server failed; its log tells why under {error_id}.")
        response.headers.update(ANSWER_HEADERS, Server="longshore")
        response.force_close()
        return response


def _is_gone(request: web.BaseRequest) -> bool:
    """Return whether the client's connection has ended."""
    wire = request.transport
    return wire is None or wire.is_closing()
