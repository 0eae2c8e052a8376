"""Accepting connections when there is room for no more, without a stall and without noise."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from asyncio.constants import ACCEPT_RETRY_DELAY
from typing import Any

import structlog

TOLD_EVERY_S = 60.0
_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_TURNED_AWAY_AT_ONCE = 1000

_log = structlog.get_logger(__name__)


class Rarely:
    """Logs a warning at most once a minute, with the number of times that it would have been."""

    def __init__(self, event: str) -> None:
        self._event = event
        self._count = 0
        self._told_at: float | None = None

    def tell(self, **details: object) -> None:
        """Log it, unless that was done a short time ago; called on the event loop."""
        self._count += 1
        now = asyncio.get_running_loop().time()
        if self._told_at is None or now - self._told_at >= TOLD_EVERY_S:
            _log.warning(self._event, times=self._count, **details)
            self._count, self._told_at = 0, now


class AcceptGuard:
    """Turns connections away while the process has no file left for them.

    By itself asyncio logs a traceback for each of a hundred attempts to accept one connection, and
    doubles its attempts with each second. So one file is held in reserve, given up to accept and
    close all who wait, and taken again.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to handle errors of `loop`; all but those of accepting are handled as before."""
        self._loop = loop
        self._before = loop.get_exception_handler()
        self._warning = Rarely("connections_turned_away")
        self._listens_at = 0.0
        self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        loop.set_exception_handler(self._handle)

    async def settle(self) -> None:
        """Return when asyncio listens again: until then it would trip over a closed listener.

        That is within a second, unless more connections are turned away meanwhile.
        """
        await asyncio.sleep(0)  # what `_handle` left to be called soon is called
        await asyncio.sleep(max(0.0, self._listens_at - self._loop.time()))

    def close(self) -> None:
        """Handle errors no more, and let go of the reserve; doing so twice is harmless."""
        if self._loop.get_exception_handler() == self._handle:
            self._loop.set_exception_handler(self._before)
        self._give_up_reserve()

    def _handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error, listener = context.get("exception"), context.get("socket")
        accepting = isinstance(error, OSError) and error.errno in _OUT_OF_RESOURCES
        if accepting and listener is not None:
            self._warning.tell(error=str(error))
            self._turn_away(listener.fileno())
            # asyncio sets its timers when this has returned.
            self._loop.call_soon(self._await_listening)
        elif self._before is not None:
            self._before(loop, context)
        else:
            loop.default_exception_handler(context)

    def _await_listening(self) -> None:
        self._listens_at = self._loop.time() + ACCEPT_RETRY_DELAY

    def _turn_away(self, listener: int) -> None:
        self._give_up_reserve()
        accepting = socket.socket(fileno=listener)
        # It ends when nobody waits any more, or when another thread was faster to take the file.
        with contextlib.suppress(OSError):
            for _ in range(_TURNED_AWAY_AT_ONCE):
                accepting.accept()[0].close()
        accepting.detach()
        with contextlib.suppress(OSError):
            self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _give_up_reserve(self) -> None:
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1
