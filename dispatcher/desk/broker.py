"""Hands what was decided to the API's subscribers: numbered events, with a window for resuming."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from longshore.dispatcher.api.backend import ServerEvent

KEPT_EVENTS = 10_000


class Broker:
    """Numbers events, keeps the newest, and wakes whoever follows; used on the loop's thread only.

    A follower reads at its own speed from the kept window; one that falls out of it is ended, and
    resumes from a fresh look at the whole.
    """

    def __init__(self, *, kept: int = KEPT_EVENTS) -> None:
        self._events: deque[ServerEvent] = deque(maxlen=kept)
        self._last = 0
        self._waiters: set[asyncio.Future[None]] = set()
        self._closed = False

    @property
    def last_number(self) -> int:
        """Return the number of the newest event, 0 before the first."""
        return self._last

    def publish(self, kind: str, subject: str, data: dict[str, object]) -> None:
        """Number an event, keep it and wake all followers."""
        self._last += 1
        self._events.append(ServerEvent(number=self._last, kind=kind, id=subject, data=data))
        self._wake()

    def close(self) -> None:
        """End every follower."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def follow(self, after: int | None) -> AsyncIterator[ServerEvent]:
        """Yield events after number `after` (None: from now on) until closed or left behind."""
        position = self._last if after is None else after
        while not self._closed:
            if position < self._last:
                first = self._events[0].number
                if position + 1 < first:
                    return
                fresh = [self._events[i] for i in range(position + 1 - first, len(self._events))]
                for event in fresh:
                    yield event
                position = fresh[-1].number
                continue
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)


class Watchers:
    """Wakes whoever waits for news of one container; used on the loop's thread only."""

    def __init__(self) -> None:
        self._waiters: dict[str, set[asyncio.Future[None]]] = {}

    def notify(self, container_id: str) -> None:
        """Wake everybody who waits for this container."""
        for waiter in self._waiters.pop(container_id, ()):
            if not waiter.done():
                waiter.set_result(None)

    def notify_all(self) -> None:
        """Wake everybody, as the server stops."""
        for container_id in list(self._waiters):
            self.notify(container_id)

    async def wait(self, container_id: str, timeout_s: float) -> None:
        """Return when there is news of the container, or after `timeout_s`."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(container_id, set()).add(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            return
        finally:
            waiters = self._waiters.get(container_id)
            if waiters is not None:
                waiters.discard(waiter)
                if not waiters:
                    del self._waiters[container_id]
