"""Answers are compressed with gzip for who accepts it, and never where it could do harm."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import hdrs
from aiohttp.test_utils import make_mocked_request

from longshore.dispatcher.api.compression import COMPRESSED_FROM_BYTES, accepts_gzip
from tests.api_server import MINIMAL, Client, serving
from tests.rigs.api import ApiRig

LIST = "/v1/containers"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """Yield a client that sees answers as they were sent."""
    rig = ApiRig()
    timeout = aiohttp.ClientTimeout(60)
    async with (
        serving(rig) as (url, _),
        aiohttp.ClientSession(
            auto_decompress=False, timeout=timeout, skip_auto_headers=[hdrs.ACCEPT_ENCODING]
        ) as session,
    ):
        yield Client(session, url, rig)


async def sent(
    client: Client, method: str, path: str, *, accepts: str = "gzip", body: object = None
) -> tuple[aiohttp.ClientResponse, bytes]:
    headers = {"Accept-Encoding": accepts} if accepts else {}
    url = client.url + path
    async with client.session.request(method, url, headers=headers, json=body) as got:
        return got, await got.read()


async def test_only_large_answers_to_a_get_are_compressed(client: Client) -> None:
    small, body = await sent(client, "GET", LIST)
    assert "Content-Encoding" not in small.headers
    assert small.headers["Vary"] == "Accept-Encoding"
    assert json.loads(body) == {"items": [], "next_cursor": None}
    await sent(client, "POST", LIST, body=[MINIMAL] * 50)
    plain, whole = await sent(client, "GET", LIST, accepts="")
    assert "Content-Encoding" not in plain.headers
    packed, body = await sent(client, "GET", LIST)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.headers["Content-Type"] == plain.headers["Content-Type"]
    assert packed.headers["Vary"] == plain.headers["Vary"] == "Accept-Encoding"
    assert int(packed.headers["Content-Length"]) == len(body) < len(whole) / 5
    assert gzip.decompress(body) == whole
    assert len(whole) >= COMPRESSED_FROM_BYTES


async def test_what_a_post_answers_is_sent_as_it_is(client: Client) -> None:
    """Some of it is secret, and the length of what is compressed tells of what is in it."""
    made, body = await sent(client, "POST", LIST, body=[MINIMAL] * 50)
    assert made.status == 201
    assert "Content-Encoding" not in made.headers
    assert len(json.loads(body)["items"]) == 50


async def test_a_log_and_a_head_are_sent_as_they_are(client: Client) -> None:
    rig = client.rig
    await sent(client, "POST", LIST, body=MINIMAL)
    await rig.add_instance("i-1")
    await rig.start("c-00000001", "i-1")
    rig.push_log("c-00000001", b"x" * 5000)
    await rig.finish("c-00000001")
    log, body = await sent(client, "GET", f"{LIST}/c-00000001/logs")
    assert (body, log.headers.get("Content-Encoding")) == (b"x" * 5000, None)
    head, body = await sent(client, "HEAD", "/openapi.json")
    assert (body, head.headers.get("Content-Encoding")) == (b"", None)
    document, body = await sent(client, "GET", "/openapi.json")
    assert document.headers["Content-Encoding"] == "gzip"
    assert len(body) < len(gzip.decompress(body)) / 3


async def test_events_come_at_once_also_for_who_accepts_gzip(client: Client) -> None:
    headers = {"Accept-Encoding": "gzip"}
    async with client.session.get(f"{client.url}/v1/events", headers=headers) as stream:
        assert "Content-Encoding" not in stream.headers
        async with asyncio.timeout(30):
            assert (await stream.content.readline()).startswith(b"retry: ")


@pytest.mark.parametrize(
    ("accepts", "accepted"),
    [
        ("gzip", True),
        ("GZIP", True),
        ("x-gzip", True),
        ("deflate, gzip;q=0.5, br", True),
        ("br;q=1.0 , gzip ; q=0.001", True),
        ("*", True),
        ("*;q=0, gzip", True),
        ("gzip;q=0", False),
        ("gzip;q=0.000, *", False),
        ("*;q=0", False),
        ("identity", False),
        ("notgzip", False),
        ("gzip;q=nonsense", False),
        ("gzip;level=9", False),
        ("", False),
    ],
)
def test_what_is_accepted(accepts: str, accepted: bool) -> None:
    request = make_mocked_request("GET", "/", headers={"Accept-Encoding": accepts})
    assert accepts_gzip(request) == accepted


def test_who_says_nothing_gets_it_as_it_is() -> None:
    assert not accepts_gzip(make_mocked_request("GET", "/"))
