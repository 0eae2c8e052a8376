"""Lets plans have the event loop one after the other, and leaves most of its time to all else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dispatcher.api.backend import Unavailable
from dispatcher.jobs.plan import JobPlan

AT_ONCE = 8
_REST = 4
"""How many times as long as a plan took nobody plans after it."""


class PlanTurns:
    """Whose turn it is to plan, which takes the loop for seconds where there is much to look at."""

    def __init__(self) -> None:
        self._under_way = 0
        self._turn = asyncio.Lock()
        self._free_at = 0.0

    async def plan(self, make: Callable[[], JobPlan]) -> JobPlan:
        """Return what `make` returns, in turn; raises `Unavailable` where too many wait."""
        if self._under_way >= AT_ONCE:
            raise Unavailable(f"{AT_ONCE} plans are being made already: try again")
        self._under_way += 1
        try:
            async with self._turn:
                clock = asyncio.get_running_loop().time
                await asyncio.sleep(self._free_at - clock())
                began = clock()
                try:
                    return make()
                finally:
                    self._free_at = clock() + _REST * (clock() - began)
        finally:
            self._under_way -= 1
