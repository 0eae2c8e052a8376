"""Both clients of the library behind one way to call them: tests of what is the same of both."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from typing import Any, Protocol

from longshore.client import AsyncClient, Client, RepeatPolicy

QUICK = RepeatPolicy(first_pause_s=0.0, longest_pause_s=0.0)
"""As often as usual, and without a pause."""


class Caller(Protocol):
    """Calls a method of a new client; returns what it gives, a list of what it yields."""

    def __call__(self, method: str, *given: Any, most: int | None = None, **fields: Any) -> Any:
        """Call it; `most` is how many of what it yields are taken, None for all."""


def sync_caller(url: str, **settings: Any) -> Caller:
    """Return what calls the sync client's methods."""

    def call(method: str, *given: Any, most: int | None = None, **fields: Any) -> Any:
        with Client(url, **{"policy": QUICK, **settings}) as client:
            got = getattr(client, method)(*given, **fields)
            return list(islice(got, most)) if isinstance(got, Iterator) else got

    return call


def async_caller(url: str, **settings: Any) -> Caller:
    """Return what calls the async client's methods, each in an event loop of its own."""

    async def run(method: str, given: Any, most: int | None, fields: Any) -> Any:
        async with AsyncClient(url, **{"policy": QUICK, **settings}) as client:
            got = getattr(client, method)(*given, **fields)
            if not inspect.isasyncgen(got):
                return await got
            found = []
            async for each in got:
                found.append(each)
                if len(found) == most:
                    break
            await got.aclose()
            return found

    def call(method: str, *given: Any, most: int | None = None, **fields: Any) -> Any:
        return asyncio.run(run(method, given, most, fields))

    return call


CALLERS: dict[str, Callable[..., Caller]] = {"sync": sync_caller, "async": async_caller}


def waited(handle: Any, method: str, *given: Any) -> Awaitable[Any]:
    """Return what a method of a handle gives, to be awaited, whichever client's it is."""

    async def run() -> Any:
        got = getattr(handle, method)(*given)
        return await got if inspect.isawaitable(got) else got

    return run()
