"""What one caller may take of what all share, and what is kept of what it asks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import aiohttp
import pytest_asyncio

from longshore.dispatcher.api.entrance import _ACTION_CHARACTERS
from longshore.dispatcher.api.validate.limits import ApiLimits
from longshore.dispatcher.config.model import AuthMode
from longshore.dispatcher.domain.audit import AuditFilter
from longshore.dispatcher.domain.principals import Door, Principal, Role
from longshore.dispatcher.service.services import Services
from longshore.dispatcher.service.tokens import NewToken
from tests.api_server import MINIMAL, serving
from tests.doors import doors_of
from tests.rigs.api import ApiRig

ADMIN = Principal(user="root", role=Role.ADMIN, door=Door.SOCKET)
BODY = json.dumps(MINIMAL).encode()
PLACES = 4


class Callers:
    """A server that asks who asks, and those who ask it."""

    def __init__(self, services: Services, url: str) -> None:
        self.url = url
        self.services = services

    async def token(self, user: str) -> dict[str, str]:
        """Return the headers of somebody's new token."""
        wanted = NewToken(
            name="",
            user=user,
            role=Role.USER,
            projects=("default",),
            default_project="",
            expires_at=None,
        )
        _, text = await self.services.tokens.create(wanted, caller=ADMIN)
        return {"Authorization": f"Bearer {text}", "Content-Type": "application/json"}

    async def ask(self, path: str, headers: dict[str, str]) -> tuple[int, aiohttp.ClientResponse]:
        """Send a body that comes at once; return the status, and the answer, which is read."""
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.url}{path}", data=BODY, headers=headers) as answer,
        ):
            await answer.read()
            return answer.status, answer

    @asynccontextmanager
    async def half_sent(self, headers: dict[str, str]) -> AsyncIterator[asyncio.StreamReader]:
        """Send half of a body on a connection, and yield where its answer comes; then give up."""
        address = urlsplit(self.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        head = {**headers, "Host": address.netloc, "Content-Length": str(len(BODY))}
        lines = ["POST /v1/containers HTTP/1.1", *(f"{n}: {v}" for n, v in head.items()), "", ""]
        writer.write("\r\n".join(lines).encode() + BODY[:5])
        await writer.drain()
        try:
            yield reader
        finally:
            writer.close()
            await writer.wait_closed()

    async def until_answered(self, headers: dict[str, str], status: int) -> None:
        """Ask until that is the answer."""
        async with asyncio.timeout(30):
            while (await self.ask("/v1/containers", headers))[0] != status:  # noqa: ASYNC110 - of the server
                await asyncio.sleep(0.01)


@pytest_asyncio.fixture
async def callers() -> AsyncIterator[Callers]:
    limits = ApiLimits(large_body_bytes=len(BODY) // 2, concurrent_large_bodies=PLACES)
    async with ApiRig().served() as services:
        doors = doors_of(services, mode=AuthMode.REQUIRED)
        async with serving(services, limits=limits, doors=doors) as (url, _):
            yield Callers(services, url)


async def test_one_user_has_half_of_the_places_of_large_bodies(callers: Callers) -> None:
    ann, also_ann, bob = [await callers.token(user) for user in ("ann", "ann", "bob")]
    async with AsyncExitStack() as slow:
        for headers in (ann, also_ann):
            await slow.enter_async_context(callers.half_sent(headers))
        for headers in (ann, also_ann):
            await callers.until_answered(headers, 429)
        _, refusal = await callers.ask("/v1/containers", ann)
        assert refusal.headers["Retry-After"] == "5"
        assert "the most that one user may send at a time" in (await refusal.json())["detail"]
        # Others have the other half.
        assert (await callers.ask("/v1/containers", bob))[0] == 201
    # Who gives up has no place any more.
    for headers in (ann, also_ann):
        await callers.until_answered(headers, 201)


async def test_all_users_together_have_so_many_places(callers: Callers) -> None:
    async with AsyncExitStack() as slow:
        for user in ("ann", "bob"):
            for _ in range(PLACES // 2):
                await slow.enter_async_context(callers.half_sent(await callers.token(user)))
        await callers.until_answered(await callers.token("cleo"), 503)


async def test_the_audit_log_cuts_what_is_long(callers: Callers) -> None:
    ann = await callers.token("ann")
    begin = "POST /v1/containers/c-"
    for number in (_ACTION_CHARACTERS, _ACTION_CHARACTERS + 1, 5_000):
        path = "/v1/containers/c-" + "x" * (number - len(begin))
        assert (await callers.ask(path[: -len("/cancel")] + "/cancel", ann))[0] in (400, 404)
    page = await callers.services.audit.entries(AuditFilter(user="ann"), cursor="", limit=10)
    kept = [each.action for each in page.items]
    assert [len(each) for each in kept] == [_ACTION_CHARACTERS] * 3
    assert all(each.startswith(f"{begin}xxx") for each in kept)
    assert [each.endswith("/cancel") for each in kept] == [False, False, True]
