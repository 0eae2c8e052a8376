"""Turns at what takes the store's readers and a thread: a few at a time, one of each caller.

Stands alone: unlike a stream, which is refused where there are too many, a question waits for its
turn, so that pages which ask several at once are answered. A caller's own wait for each other, and
so nobody gets more than one turn of the few however much it asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Final

from longshore.dispatcher.service.contracts import Unavailable

_NOBODY: Final = ""


class Turns:
    """Lets callers have their turns; used on the loop's thread."""

    def __init__(self, *, at_once: int, waiting: int, what: str) -> None:
        """`at_once` have a turn; of one caller so many may be `waiting`, with the one it has."""
        self._free = asyncio.Semaphore(at_once)
        self._waiting, self._what = waiting, what
        self._asked: dict[str, int] = {}
        self._own: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def turn(self, caller: str) -> AsyncIterator[None]:
        """Wait for a turn, and have it; `caller` is "" for who is held to no share.

        Raises `Unavailable` where too many of the caller's wait already.
        """
        asked = self._asked.get(caller, 0)
        if asked >= self._waiting:
            raise Unavailable(f"{self._waiting} {self._what} of yours wait already: try later.")
        self._asked[caller] = asked + 1
        own = self._own.setdefault(caller, asyncio.Lock())
        try:
            async with own if caller != _NOBODY else nullcontext(), self._free:
                yield
        finally:
            self._asked[caller] -= 1
            if not self._asked[caller]:
                del self._asked[caller], self._own[caller]
