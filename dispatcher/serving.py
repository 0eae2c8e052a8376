"""Running one dispatcher: as a process until a signal, or on a thread, for a `with`."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, MutableMapping
from typing import Any

import structlog
import structlog.tracebacks
from structlog.typing import Processor

from dispatcher.config.loading import Config
from dispatcher.config.model import EngineName
from dispatcher.file_limit import raise_file_limit
from dispatcher.wiring import Server

log = structlog.get_logger(__name__)

# A start passes through several threads: none should keep the next one waiting for Python's lock.
_SWITCH_INTERVAL_S = 0.0005


def serve(config: Config) -> int:
    """Run a dispatcher until SIGTERM or SIGINT; return the exit status (0, or 1 on a failure).

    Its log goes to stderr: for people on a terminal, as JSON lines elsewhere.
    """
    _configure_log()
    raise_file_limit()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    server = Server(config)
    status = asyncio.run(_serve(server, config))
    if server.hanging:
        log.warning("leaving without waiting for a driver call that hangs")
        sys.stderr.flush()
        os._exit(status)
    return status


async def _serve(server: Server, config: Config) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            log.warning("asked twice to stop: leaving at once; the next start finds what is left")
            os._exit(1)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    await server.start()
    _warn(config)
    sys.stderr.write(f"Longshore serves at {server.url}\n")
    sys.stderr.flush()
    # What was restored lives for long: a collection that walks all of it would stop the starts.
    gc.collect()
    gc.freeze()
    failed = asyncio.create_task(server.wait_failed())
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait([failed, stopped], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    status = 0
    if failed.done():
        status = 1
        error = failed.exception()
        log.error("the engine has ended; start again", exc_info=error)
    failed.cancel()
    log.info("stopping")
    await server.stop()
    log.info("stopped")
    return 1 if server.unwritten else status


def _warn(config: Config) -> None:
    """Say what an operator should know of a configuration that is allowed and not safe."""
    bare = config.engine.name in (EngineName.AUTO, EngineName.PROCESS)
    if bare and not config.engine.run_as:
        log.warning(
            "what runs without an image runs as the runner's own user; set engine.run_as to an "
            "unprivileged one"
        )


@contextlib.contextmanager
def running_server(config: Config) -> Iterator[str]:
    """Run a whole dispatcher on a thread for the length of a `with`, and yield its URL.

    What fails at start is raised here; an engine that fails later is raised at the end.
    """
    started = threading.Event()
    box: dict[str, object] = {}

    async def run() -> None:
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        server = Server(config)
        try:
            await server.start()
        except BaseException as error:
            box["error"] = error
            raise
        finally:
            box["stop"] = lambda: loop.call_soon_threadsafe(stop.set)
            box["url"] = server.url
            started.set()
        failed = asyncio.create_task(server.wait_failed())
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait([failed, stopped], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if failed.done():
            box["error"] = failed.exception() or RuntimeError("the engine has ended")
        failed.cancel()
        await server.stop()

    def body() -> None:
        with contextlib.suppress(BaseException):  # kept in the box, raised by the caller
            asyncio.run(run())

    thread = threading.Thread(target=body, name="server")
    thread.start()
    started.wait()
    try:
        if not box["url"]:
            return_error = box["error"]
            assert isinstance(return_error, BaseException)  # noqa: S101 - narrows the type
            raise return_error
        yield str(box["url"])
    finally:
        stop_now = box["stop"]
        assert callable(stop_now)  # noqa: S101 - narrows the type
        with contextlib.suppress(RuntimeError):  # the loop has ended of itself
            stop_now()
        thread.join()
    failure = box.get("error")
    if isinstance(failure, BaseException):
        raise failure


def made_visible(
    _logger: object, _method: str, entry: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Return a line's values with what a terminal would act upon made visible.

    Clouds, instances and users put their own words into it. A traceback keeps its lines.
    """
    for name, value in entry.items():
        if isinstance(value, str) and not value.isprintable():
            kept = "\n" if name == "exception" else ""
            entry[name] = "".join(
                each if each.isprintable() or each in kept else repr(each)[1:-1] for each in value
            )
    return entry


def _configure_log() -> None:
    for_people: list[Processor] = [
        structlog.processors.format_exc_info,
        made_visible,
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
    for_programs: list[Processor] = [
        # Without the values of variables: they hold what users keep secret.
        structlog.processors.ExceptionRenderer(
            structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        ),
        structlog.processors.JSONRenderer(),
    ]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *(for_people if sys.stderr.isatty() else for_programs),
        ],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
