"""Running the API so that also what never becomes a request is answered as problem details."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from dispatcher.api.guards import ANSWER_HEADERS
from dispatcher.api.problem_details import answer_for_http, log_unexpected, problem


class ApiRunner(web.AppRunner):
    """An `AppRunner` whose errors are problem details at every level, malformed HTTP included.

    `settings` are those of `aiohttp.web.AppRunner`; unlike there, requests are not logged one by
    one unless an `access_log` is given, connections have 5 s to end on shutdown, and bodies are
    never decompressed (encoded ones are refused).
    """

    def __init__(self, app: web.Application, **settings: Any) -> None:
        ours = {"access_log": None, "shutdown_timeout": 5.0, "auto_decompress": False}
        super().__init__(app, **{**ours, **settings})

    async def _make_server(self) -> web.Server:
        plain = await super()._make_server()
        return _Server(plain, settings=self._kwargs)


class _Server(web.Server):
    def __init__(self, plain: web.Server, *, settings: dict[str, Any]) -> None:
        self._plain_handler = plain.request_handler
        super().__init__(
            self._answer,
            request_factory=plain.request_factory,
            loop=asyncio.get_running_loop(),
            **settings,
        )

    def __call__(self) -> RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Catch what aiohttp raises before any middleware runs, as for an odd `Expect`."""
        try:
            return await self._plain_handler(request)
        except web.HTTPException as error:
            return answer_for_http(error)


class _Connection(RequestHandler):
    """One connection; its errors are answered as documents and logged without noise."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no HTTP request, or failed outside of the application."""
        if request.writer.output_size > 0:
            raise ConnectionError("an answer is under way, no other can be sent")
        if status < 500:
            detail = (message or "").splitlines()[0][:200] if message else ""
            response = problem(status, f"This is not a request in HTTP/1.1. {detail}".strip())
        else:
            error = exc or RuntimeError(message)
            error_id = log_unexpected("connection_failed", error, where="outside the application")
            response = problem(status, f"The server failed; its log tells why under {error_id}.")
        response.headers.update(ANSWER_HEADERS, Server="longshore")
        response.force_close()
        return response
