"""The door inside of containers: who asks there, and how its requests get to the routes.

A runner relays requests from inside of attempts over the session of its worker. Such a request
brings nothing that vouches for it; what does is the engine's memory: the attempt is open, runs on
the very worker whose session it came by, and its container was promised the API. So it asks as that
container's user in that container's project, for as long as that attempt is open, and an instance
that lies can speak for what runs on itself and for nobody else.

Each request has a connection of its own, a pair of sockets within this process: one end is served
like any client's, with all limits and checks; the other is ours, and is written to only after the
server's end is noted here with whose it is. `Doors` asks here first. A connection of this kind that
is not noted is nobody's: never is one taken for the admin's Unix socket.

**Who has a place.** So many are answered at once, and one counts until it has ended, also when
nobody waits for its answer any more. An instance takes another place while it has fewer than are
free: so one alone has half of them, several leave some to who comes, and none shuts the others out.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from http import HTTPStatus

import aiohttp
import structlog
from aiohttp import web
from aiohttp.client_proto import ResponseHandler
from aiohttp.tracing import Trace
from yarl import URL

from longshore.dispatcher.api.render.problems import RETRY_AFTER_S, problem
from longshore.dispatcher.domain.principals import Door, Principal, Role
from longshore.dispatcher.engine.view import EngineView
from longshore.pool.remote.api_relay import ApiAnswer, InsideCall, OnAnswer, OnEnd

ANSWER_BYTES_MOST = 16 * 2**20
AT_ONCE_MOST = 128
"""How many requests from inside of containers are answered at once; each has a connection."""
ANSWER_PATIENCE_S = 60.0
_READ_BYTES = 64 * 2**10
_TOLD_HEADERS = ("content-type", "location", "retry-after")

_log = structlog.get_logger(__name__)


class ContainerDoor:
    """Answers what attempts ask from inside; `call` from any thread, the rest on the loop's.

    `view` tells which attempts are open.
    """

    def __init__(self, view: EngineView, loop: asyncio.AbstractEventLoop) -> None:
        self._view = view
        self._loop = loop
        self._server: web.Server | None = None
        self._callers: dict[asyncio.BaseTransport, Principal] = {}
        #: What is under way, and for which worker.
        self._tasks: dict[asyncio.Task[None], str] = {}

    def serve_by(self, runner: web.AppRunner) -> None:
        """Let requests be answered by an application from now on."""
        self._server = runner.server

    def caller(self, transport: asyncio.BaseTransport | None) -> Principal | None:
        """Return who asks on the server's end of a connection, None where it is none of ours."""
        return None if transport is None else self._callers.get(transport)

    async def close(self) -> None:
        """Answer nobody any more: what is under way is given up."""
        self._server = None
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def call(self, call: InsideCall, on_answer: OnAnswer, on_end: OnEnd) -> None:
        """Have a request answered; once the loop is closed nobody is."""
        if self._loop.is_closed():
            on_end()
        else:
            self._loop.call_soon_threadsafe(self._begin, call, on_answer, on_end)

    def _begin(self, call: InsideCall, on_answer: OnAnswer, on_end: OnEnd) -> None:
        own = sum(each == call.worker_id for each in self._tasks.values())
        if self._server is None or own >= AT_ONCE_MOST - len(self._tasks):
            on_answer(_refusal(503, "The server is busy: ask again."))
            on_end()
            return

        def ended(task: asyncio.Task[None]) -> None:
            del self._tasks[task]
            on_end()

        task = self._loop.create_task(self._carry(call, self._server, on_answer))
        self._tasks[task] = call.worker_id
        task.add_done_callback(ended)

    async def _carry(self, call: InsideCall, server: web.Server, on_answer: OnAnswer) -> None:
        caller = self.principal(call)
        if caller is None:
            _log.warning(
                "a request from inside of a container is refused",
                instance=call.worker_id,
                attempt=call.attempt_id,
            )
            on_answer(_refusal(401, "This attempt has ended here, or has no API inside."))
            return
        asking = self._loop.create_task(self._ask(call, caller, server))
        try:
            done, _ = await asyncio.wait({asking}, timeout=ANSWER_PATIENCE_S)
            late = _refusal(503, "The server took too long: ask again.")
            on_answer(asking.result() if done else late)
            # It is carried out all the same, and has its body until then.
            await asyncio.wait({asking})
        finally:
            asking.cancel()
            await asyncio.wait({asking})

    def principal(self, call: InsideCall) -> Principal | None:
        """Return who asks, None where that is nobody whom the worker may speak for."""
        found = self._view.of_attempt(call.attempt_id)
        if found is None:
            return None
        container, attempt = found
        if attempt.instance_id != call.worker_id or not container.spec.has_api:
            return None
        return Principal(
            user=container.user,
            role=Role.USER,
            door=Door.CONTAINER,
            projects=(container.project,),
            default_project=container.project,
            container_id=container.id,
            attempt_id=attempt.id,
        )

    async def _ask(self, call: InsideCall, caller: Principal, server: web.Server) -> ApiAnswer:
        try:
            return await self._exchanged(call, caller, server)
        except (OSError, aiohttp.ClientError) as error:
            _log.warning("a request from inside of a container failed", error=str(error))
            return _refusal(503, "The server could not answer: ask again.")

    async def _exchanged(
        self, call: InsideCall, caller: Principal, server: web.Server
    ) -> ApiAnswer:
        theirs, ours = socket.socketpair()
        for each in (theirs, ours):
            each.setblocking(False)
        try:
            transport, _ = await self._loop.connect_accepted_socket(server, sock=theirs)
        except BaseException:
            theirs.close()
            ours.close()
            raise
        self._callers[transport] = caller
        try:
            return await _asked(call, ours)
        finally:
            del self._callers[transport]
            transport.close()
            ours.close()


async def _asked(call: InsideCall, connection: socket.socket) -> ApiAnswer:
    """Return what a server at the other end of a connection answers; raises as aiohttp does."""
    async with (
        aiohttp.ClientSession(
            connector=_Connected(connection),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            skip_auto_headers=("Accept-Encoding", "User-Agent", "Content-Type"),
        ) as session,
        session.request(
            call.method,
            # As it was written: the server judges it.
            URL(f"http://localhost{call.path}", encoded=True),
            data=call.body or None,
            headers=dict(call.headers),
            allow_redirects=False,
        ) as response,
    ):
        body = bytearray()
        async for piece in response.content.iter_chunked(_READ_BYTES):
            body += piece
            if len(body) > ANSWER_BYTES_MOST:
                return _refusal(
                    413, f"The answer is longer than {ANSWER_BYTES_MOST} bytes: ask for less."
                )
        told = {name: response.headers[name] for name in _TOLD_HEADERS if name in response.headers}
        return ApiAnswer(
            status=response.status, headers=tuple(sorted(told.items())), body=bytes(body)
        )


class _Connected(aiohttp.BaseConnector):
    """Has one connection, which is there already."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(force_close=True, limit=1)
        self._connection = connection

    async def _create_connection(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp calls it so
    ) -> ResponseHandler:
        del req, traces, timeout
        make: Callable[[], ResponseHandler] = self._factory
        _, protocol = await self._loop.create_unix_connection(make, sock=self._connection)
        return protocol


def _refusal(status: int, detail: str) -> ApiAnswer:
    response = problem(status, detail)
    headers = [("content-type", response.content_type)]
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers.append(("retry-after", str(RETRY_AFTER_S)))
    body = response.body if isinstance(response.body, bytes) else b""
    return ApiAnswer(status=status, headers=tuple(headers), body=body)
