"""Lets plans have the event loop one after the other, and leaves most of its time to all else.

Stands alone: it waits and measures time, which `dry_run`, part of the pure core, may not do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import TypeVar

from longshore.dispatcher.service.contracts import Unavailable

AT_ONCE = 8
_REST = 4
"""How many times as long as a part of a plan took nobody plans after it."""

Made = TypeVar("Made")


class DryRunLimiter:
    """Whose turn it is to plan, which takes the loop for seconds where there is much to look at."""

    def __init__(self) -> None:
        self._under_way = 0
        self._turn = asyncio.Lock()
        self._free_at = 0.0

    async def plan(self, make: Callable[[], Generator[None, None, Made]]) -> Made:
        """Return what comes of `make`, in turn; raises `Unavailable` where too many wait.

        Between its parts the loop is everybody else's for some time.
        """
        if self._under_way >= AT_ONCE:
            raise Unavailable(f"{AT_ONCE} plans are being made already: try again")
        self._under_way += 1
        try:
            async with self._turn:
                await self._rest()
                parts = make()
                while True:
                    began = _clock()
                    try:
                        next(parts)
                    except StopIteration as done:
                        made: Made = done.value
                        return made
                    finally:
                        self._free_at = _clock() + _REST * (_clock() - began)
                    await self._rest()
        finally:
            self._under_way -= 1

    async def _rest(self) -> None:
        await asyncio.sleep(self._free_at - _clock())


def _clock() -> float:
    return asyncio.get_running_loop().time()
