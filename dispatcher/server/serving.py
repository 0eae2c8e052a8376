"""Running one dispatcher: as a process until a signal, or on a thread, for a `with`."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import signal
import sys
import threading
from collections.abc import Iterator, MutableMapping
from typing import Any, TextIO

import structlog
import structlog.tracebacks
from structlog.typing import Processor

from longshore.dispatcher.config.loading import Config
from longshore.dispatcher.config.model import EngineName
from longshore.dispatcher.server.wiring import Server

# ---- how many files this process may have open at once -------------------------------------------


def raise_file_limit() -> int:
    """Raise the limit of open files as far as this process may, and return what it is now.

    Connections, sessions and logs each take a file, and the customary limit of 1024 is for programs
    that have none of these. What is started from now on inherits the limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        # Some sandboxes forbid even this; then it stays at what it was.
        return soft
    return hard


# ---- running one dispatcher: as a process until a signal, or on a thread, for a `with` -----------

log = structlog.get_logger(__name__)

# A start passes through several threads: none should keep the next one waiting for Python's lock.
_SWITCH_INTERVAL_S = 0.0005


def serve(config: Config, *, accept_new_store: bool = False) -> int:
    """Run a dispatcher until SIGTERM or SIGINT; return the exit status (0, or 1 on a failure).

    With `accept_new_store` it takes the store that it finds for its own, whatever it had before.
    Its log goes to stderr: for people on a terminal, as JSON lines elsewhere.
    """
    lines = _configure_log()
    raise_file_limit()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    server = Server(config, accept_new_store=accept_new_store)
    status = asyncio.run(_serve(server, config, lines))
    if server.store_replaced:
        log.warning("leaving without closing the store: another lies in its place")
        os._exit(status)
    if server.hanging:
        log.warning("leaving without waiting for a driver call that hangs")
        os._exit(status)
    return status


async def _serve(server: Server, config: Config, lines: _Lines) -> int:
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
    lines.write(f"Longshore serves at {server.url}")
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


class _Lines:
    """Writes the lines of the log to a stream, and lets those go that it does not take.

    A log that cannot be written (a full disk, a reader that is gone) must not stop the work that it
    tells of: whoever logs may hold futures and outcomes for which others wait. How many lines were
    refused is said once the stream takes them again.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._refused = 0

    def write(self, line: str) -> None:
        """Write a line, or count it as refused."""
        refused = self._try(line)
        if refused:
            # The stream may have kept the first of them in its buffer: then that one comes late.
            log.warning("this log could not be written; lines are missing", at_most=refused)

    debug = info = warning = error = critical = write

    def _try(self, line: str) -> int:
        """Write a line if that can be done; return how many were refused since the last that was.

        What a stream refused it may keep: nothing is added to that, or all of it would come late.
        """
        with self._lock:
            try:
                self._stream.flush()
                self._stream.write(f"{line}\n")
                self._stream.flush()
            except (OSError, ValueError):
                self._refused += 1
                return 0
            refused, self._refused = self._refused, 0
            return refused


def _configure_log() -> _Lines:
    """Have the log written to stderr; return what writes it there."""
    lines = _Lines(sys.stderr)
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
        logger_factory=lambda *_: lines,
        cache_logger_on_first_use=True,
    )
    return lines
