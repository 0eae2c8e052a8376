"""`GET /v1/containers?order=queue`: what waits, in the order in which it is next."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.api_server import Client, connected

WANTED = {"command": ["true"], "cpus": 1, "memory": "1GiB"}
PATH = "/v1/containers?order=queue"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with connected() as client:
        yield client


async def submitted(client: Client, **fields: Any) -> str:
    _, made = await client.post("/v1/containers", {**WANTED, **fields})
    await client.rig.settled()
    return str(made["id"])


async def page(client: Client, query: str = "") -> tuple[list[str], str | None]:
    status, answer = await client.call("GET", f"{PATH}{query}")
    assert status == 200, answer
    return [each["id"] for each in answer["items"]], answer["next_cursor"]


async def test_the_next_in_line_comes_first_and_who_does_not_wait_is_not_there(
    client: Client,
) -> None:
    late, first = await submitted(client, priority=400), await submitted(client, priority=900)
    await submitted(client, priority=0)
    second = await submitted(client, priority=500, name="second")
    assert await page(client) == ([first, second, late], None)
    assert await page(client, "&name=second") == ([second], None)


async def test_a_page_goes_on_though_the_last_one_waits_no_more(client: Client) -> None:
    ids = [await submitted(client) for _ in range(5)]
    shown, cursor = await page(client, "&limit=2")
    assert shown == ids[:2]
    assert (await client.post(f"/v1/containers/{ids[1]}/cancel", {}))[0] == 202
    before = await submitted(client, priority=1000)
    await client.rig.settled()
    assert await page(client, f"&cursor={cursor}") == (ids[2:], None)
    assert (await page(client))[0] == [before, ids[0], *ids[2:]]


async def test_what_no_queue_can_tell_is_refused_at_once(client: Client) -> None:
    status, answer = await client.call("GET", f"{PATH}&state=running&instance=i-1&parent=c-1")
    assert status == 400
    assert [each["path"] for each in answer["errors"]] == ["state", "instance", "parent"]
    for bad in ("&cursor=YWZ0ZXIgaS0x", "&cursor=cXVldWUgeA=="):
        assert (await client.call("GET", f"{PATH}{bad}"))[0] == 400
    assert (await client.call("GET", "/v1/containers?order=oldest"))[0] == 400
