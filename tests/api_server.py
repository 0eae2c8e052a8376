"""The real API server on a free port, over the real services, and what to send to it."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

from longshore.dispatcher.access.issuer_login import IssuerLogin
from longshore.dispatcher.api.app import make_app
from longshore.dispatcher.api.doors import Doors
from longshore.dispatcher.api.server import ApiRunner
from longshore.dispatcher.api.validate.limits import ApiLimits, Defaults
from longshore.dispatcher.service.services import Services
from tests.api_document import hold_to_document
from tests.doors import doors_of
from tests.rigs.api import EPOCH, ApiRig

INSTANCE_TYPES = ("large", "small")

MINIMAL: dict[str, Any] = {"command": ["true"]}
FULL: dict[str, Any] = {
    "name": "train",
    "image": "docker.io/library/debian:12",
    "entrypoint": ["env", "-i"],
    "init": False,
    "command": ["sh", "-c", "echo hi"],
    "env": {"B": "2", "A": "é"},
    "cpus": 0.5,
    "memory": "4GiB",
    "disk": "10 GB",
    "gpus": {"count": 2, "memory": "40GiB", "model": "a100"},
    "resources": {"licence": 2, "none": 0},
    "priority": 700,
    "project": "vision",
    "labels": {"team": "a"},
    "constraints": {
        "labels": {"zone": "eu"},
        "instance_types": ["small", "large", "small"],
        "preemptible": "forbidden",
        "max_price_per_hour": 0.1,
    },
    "supervisor": True,
    "api": True,
    "retries": {
        "max": 3,
        "on": ["out_of_memory", "exit_code", "out_of_memory"],
        "exit_codes": [75, 3, 3],
        "delay_s": 2.5,
        "first_delay_s": 30.0,
        "lost": False,
    },
    "not_before": "2023-11-15T00:13:20.5+02:00",
    "time_limit_s": 3600.5,
    "grace_period_s": 0,
}
NOW = EPOCH
"""When it is for the server; what it takes in is a little later each."""


STOPPING = "the server is stopping; ask again once it is back"
"""What it answers when its engine has been stopped."""


class Client:
    """Sends JSON and returns (status, decoded answer)."""

    def __init__(self, session: aiohttp.ClientSession, url: str, rig: ApiRig) -> None:
        self.session, self.url, self.rig = session, url, rig
        self.port = int(url.rsplit(":", 1)[1])

    async def call(self, method: str, path: str, **given: Any) -> tuple[int, Any]:
        async with self.session.request(method, self.url + path, **given) as response:
            body = await response.read()
            expected = "application/json" if response.status < 400 else "application/problem+json"
            if path != "/health/ready":
                assert response.content_type == expected
            answer = json.loads(body)
            if response.status >= 400 and path != "/health/ready":
                assert answer["status"] == response.status
            return response.status, answer

    async def post(self, path: str, value: object, **headers: str) -> tuple[int, Any]:
        body = io.BytesIO(json.dumps(value).encode())
        headers["Content-Type"] = "application/json"
        return await self.call("POST", path, data=body, headers=headers)


@asynccontextmanager
async def serving(
    what: ApiRig | Services,
    *,
    limits: ApiLimits | None = None,
    doors: Doors | None = None,
    login: IssuerLogin | None = None,
) -> AsyncIterator[tuple[str, ApiRunner]]:
    """Serve `what` and yield the base URL and the runner, which may be cleaned up earlier."""
    if isinstance(what, ApiRig):
        async with what.served() as services, serving(services, limits=limits) as served:
            yield served
        return
    app = make_app(
        what,
        doors=doors or doors_of(what),
        limits=limits or ApiLimits(),
        defaults=Defaults(),
        instance_type_names=INSTANCE_TYPES,
        version="0.0.1",
        now=lambda: NOW,
        login=login,
    )
    hold_to_document(app)
    runner = ApiRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", runner
    finally:
        await runner.cleanup()


@asynccontextmanager
async def connected(
    rig: ApiRig | None = None, *, limits: ApiLimits | None = None
) -> AsyncIterator[Client]:
    """Serve a rig, a new one if none is given, and yield a client of it."""
    rig = ApiRig() if rig is None else rig
    async with serving(rig, limits=limits) as (url, _), aiohttp.ClientSession() as session:
        yield Client(session, url, rig)


async def raw_exchange(port: int, data: bytes, *, timeout_s: float = 10.0) -> bytes:
    """Send `data` as it is and return all that comes until the far end closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        await writer.drain()
        async with asyncio.timeout(timeout_s):
            return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()
