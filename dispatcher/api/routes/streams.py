"""Answers that go on: a bounded number at a time, ended when the server stops.

Whether the client went away or the server stops is looked at between two short waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import structlog
from aiohttp import web

from longshore.dispatcher.api.render.problems import log_unexpected
from longshore.dispatcher.service.contracts import Unavailable

_END_GRACE_S = 1.0

_log = structlog.get_logger(__name__)


class StreamGate:
    """Admits at most `limit` streams at a time, and ends them all when the server stops."""

    def __init__(self, *, limit: int, what: str, each: int | None = None) -> None:
        """`each` is how many of them one caller may have, None for as many as there are."""
        self._limit, self._each = limit, each
        self._what = what
        self._tasks: dict[asyncio.Task[object], str] = {}
        self.closing = False

    @contextmanager
    def admit(self, caller: str = "") -> Iterator[None]:
        """Count the current task as a stream; raises `Unavailable` when there are too many.

        `caller` is "" for who is held to no share.
        """
        task = asyncio.current_task()
        if self.closing or task is None or len(self._tasks) >= self._limit:
            raise Unavailable(f"The server serves {self._limit} {self._what} at most: try later.")
        own = sum(other == caller for other in self._tasks.values())
        if caller and self._each is not None and own >= self._each:
            raise Unavailable(f"You have {own} of the {self._what} already: wait for its end.")
        self._tasks[task] = caller
        try:
            yield
        finally:
            del self._tasks[task]

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
        log_unexpected("stream_failed", error, where=request.path)
    if not complete and request.transport is not None:
        request.transport.close()
    return response
