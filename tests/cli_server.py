"""A real API server over the real services, in a thread, for tests that speak HTTP from outside."""

from __future__ import annotations

import asyncio
import inspect
import io
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, overload

import structlog
from aiohttp import web

from longshore.dispatcher.api.app import make_app
from longshore.dispatcher.api.server import ApiRunner
from longshore.dispatcher.api.validate.limits import ApiLimits, Defaults
from longshore.dispatcher.config import unix_socket
from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.domain.jobs import Job
from longshore.dispatcher.service.services import Services
from tests.api_document import hold_to_document
from tests.doors import doors_of
from tests.rigs.api import ApiRig

T = TypeVar("T")

LIMITS = replace(ApiLimits(), watch_interval_s=0.05)
DEADLINE_S = 60.0


class CliServer:
    """What a test does to the server; usable from the test's thread."""

    def __init__(
        self,
        *,
        port: int = 0,
        rig: ApiRig | None = None,
        tls: ssl.SSLContext | None = None,
        socket_dir: Path | None = None,
    ) -> None:
        self.rig = rig or ApiRig(now=time.time())
        self.port = port
        self.paths: list[str] = []
        self._tls = tls
        #: Where its Unix socket is, None for one of TCP.
        self._socket_dir = socket_dir
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cli-server")
        self._stopping: asyncio.Event | None = None
        self._logging = structlog.get_config()

    @property
    def url(self) -> str:
        if self._socket_dir is not None:
            return f"unix://{self._socket_dir}/{unix_socket.NAME}"
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}"

    def start(self) -> None:
        # Its log is another process's: on our stdout it would stand in the command's documents.
        self._logging = structlog.get_config()
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(io.StringIO()))
        self._thread.start()
        assert self._ready.wait(DEADLINE_S), "the server did not start"

    def stop(self) -> None:
        if self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        structlog.configure(**self._logging)

    @overload
    def do(self, action: Callable[[ApiRig], Awaitable[T]]) -> T: ...
    @overload
    def do(self, action: Callable[[ApiRig], T]) -> T: ...
    def do(self, action: Callable[[ApiRig], Any]) -> Any:
        """Return what `action` gives on the server's event loop."""

        async def run() -> Any:
            given = action(self.rig)
            return await given if inspect.isawaitable(given) else given

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(DEADLINE_S)

    def containers(self) -> list[Container]:
        return self.do(lambda rig: rig.containers())

    def jobs(self) -> dict[str, Job]:
        return {job.id: job for job in self.do(lambda rig: rig.jobs())}

    def await_container(self, number: int = 1) -> str:
        """Return the id of the last container once there are `number` of them."""
        await_true(lambda: len(self.containers()) >= number)
        return self.containers()[-1].id

    def await_request(self, path: str) -> None:
        """Return once the server has been asked for `path`."""
        await_true(lambda: path in self.paths)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        async with self.rig.served() as services:
            runner = ApiRunner(self._app(services))
            await runner.setup()
            if self._socket_dir is not None:
                await web.SockSite(runner, unix_socket.bind(self._socket_dir)).start()
            else:
                site = web.TCPSite(
                    runner, "127.0.0.1", self.port, reuse_address=True, ssl_context=self._tls
                )
                await site.start()
                self.port = runner.addresses[0][1]
            self._stopping = asyncio.Event()
            self._ready.set()
            await self._stopping.wait()
            self.rig.end_followers()
            await runner.cleanup()

    def _app(self, services: Services) -> web.Application:
        app = make_app(
            services,
            doors=doors_of(services),
            limits=LIMITS,
            defaults=Defaults(),
            instance_type_names=("small", "large"),
            version="0",
            now=time.time,
        )

        async def note(request: web.Request, _response: web.StreamResponse) -> None:
            self.paths.append(request.path)

        app.on_response_prepare.append(note)
        hold_to_document(app)
        return app


@contextmanager
def cli_server(
    *,
    port: int = 0,
    rig: ApiRig | None = None,
    tls: ssl.SSLContext | None = None,
    socket_dir: Path | None = None,
) -> Iterator[CliServer]:
    """Run a server; it ends with the context."""
    server = CliServer(port=port, rig=rig, tls=tls, socket_dir=socket_dir)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def await_true(condition: Callable[[], bool]) -> None:
    """Return once `condition` holds; fails after `DEADLINE_S`."""
    deadline = time.monotonic() + DEADLINE_S
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        pause.wait(0.01)


@contextmanager
def meanwhile(action: Callable[[], object]) -> Iterator[None]:
    """Run `action` in a thread while the body runs; what it raises is raised at the end."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:  # noqa: BLE001 - it is raised again in the test
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if raised:
        raise raised[0]
