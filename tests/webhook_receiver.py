"""A receiver of webhooks under the control of a test, on addresses of this machine."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from longshore.dispatcher.domain.deliveries import Delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request that came."""

    path: str
    headers: dict[str, str]
    body: bytes


class WebhookReceiver:
    """What it was sent, and what it answers."""

    def __init__(self) -> None:
        self.port = 0
        self.received: list[Received] = []
        #: What it answers in turn; 204 when these are used up.
        self.statuses: list[int] = []
        #: Whether it answers nothing at all, or a body without an end.
        self.hangs = False
        self.babbles = False

    async def take(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = await request.read()
        self.received.append(Received(path=request.path, headers=headers, body=body))
        if self.hangs:
            await asyncio.Event().wait()
        status = self.statuses.pop(0) if self.statuses else 204
        if self.babbles:
            response = web.StreamResponse(status=200)
            await response.prepare(request)
            while True:
                await response.write(b"x" * 65_536)
        elsewhere = {"Location": f"{request.scheme}://{request.host}/elsewhere"}
        return web.Response(status=status, headers=elsewhere if status == 307 else None)


@asynccontextmanager
async def webhook_receiver(
    *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[WebhookReceiver]:
    """Serve a receiver for the length of a `with`."""
    receiver = WebhookReceiver()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", receiver.take)
    runner = web.AppRunner(app, shutdown_timeout=0.05, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, 0, ssl_context=tls).start()
        receiver.port = runner.addresses[0][1]
        yield receiver
    finally:
        await runner.cleanup()


class KeptDeliveries:
    """Keeps deliveries in memory, as the store does on the disk."""

    def __init__(self, deliveries: Sequence[Delivery] = ()) -> None:
        self.kept = {each.key: each for each in deliveries}
        #: All that was saved, in order.
        self.saved: list[Delivery] = []

    async def load(self) -> Sequence[Delivery]:
        """Return all."""
        return list(self.kept.values())

    async def save(self, delivery: Delivery) -> None:
        """Keep one."""
        self.saved.append(delivery)
        self.kept[delivery.key] = delivery

    async def forget(self, delivery: Delivery) -> None:
        """Keep it no more."""
        self.kept.pop(delivery.key, None)


async def until(condition: Callable[[], bool], *, deadline_s: float = 10.0) -> None:
    """Wait until something is so; raises `TimeoutError` when it is not in time."""
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110 - what others do sets no event here
            await asyncio.sleep(0.002)
