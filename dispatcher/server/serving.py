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
from collections.abc import Iterator

import structlog

from longshore.dispatcher.config.loading import Config
from longshore.dispatcher.config.model import EngineName
from longshore.dispatcher.server.log_lines import LogLines, configure_log
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
    lines = configure_log()
    raise_file_limit()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    server = Server(config, accept_new_store=accept_new_store)
    status = asyncio.run(_serve(server, config, lines))
    if server.store_replaced:
        log.warning("leaving without closing the store: another lies in its place")
        lines.flush()
        os._exit(status)
    if server.hanging:
        log.warning("leaving without waiting for a driver call that hangs")
        lines.flush()
        os._exit(status)
    return status


async def _serve(server: Server, config: Config, lines: LogLines) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            log.warning("asked twice to stop: leaving at once; the next start finds what is left")
            lines.flush(1)
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
