"""Logs and events over real HTTP: complete, resumable, bounded, and ended when they should be."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from longshore.dispatcher.api.validate.limits import ApiLimits
from longshore.dispatcher.config.model import AuthMode
from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.domain.principals import ANYBODY, Principal, Role
from longshore.dispatcher.service.tokens import NewToken
from tests.api_server import MINIMAL, Client, connected, serving
from tests.doors import doors_of
from tests.rigs.api import ApiRig

QUICK = ApiLimits(watch_interval_s=0.05, heartbeat_s=0.2)
ONE = "/v1/containers/c-00000001"


async def until(condition: Callable[[], bool], *, deadline_s: float = 60.0) -> None:
    """Return when `condition` holds; fail when it does not in time."""
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110 - the condition is anything that a test can see
            await asyncio.sleep(0.005)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with connected(limits=QUICK) as client:
        yield client


async def running(client: Client) -> ApiRig:
    await client.post("/v1/containers", MINIMAL)
    await client.rig.add_instance("i-1")
    await client.rig.start("c-00000001", "i-1")
    return client.rig


async def log(client: Client, query: str = "") -> bytes:
    async with client.session.get(f"{client.url}{ONE}/logs{query}") as response:
        assert response.status == 200
        assert response.content_type == "application/octet-stream"
        return await response.read()


async def test_a_log_is_its_bytes_from_an_offset(client: Client) -> None:
    rig = await running(client)
    rig.push_log("c-00000001", b"\x00\xff\r\nabc")
    rig.push_log("c-00000001", b"oops", stream="stderr")
    assert await log(client) == b"\x00\xff\r\nabc"
    assert await log(client, "?stream=stdout&offset=4&follow=false") == b"abc"
    assert await log(client, "?stream=stderr") == b"oops"
    assert await log(client, "?offset=1000") == b""


async def test_a_long_log_comes_in_pieces_and_whole() -> None:
    async with connected(limits=replace(QUICK, log_chunk_bytes=1000)) as client:
        rig = await running(client)
        data = bytes(range(256)) * 1000
        rig.push_log("c-00000001", data)
        assert await log(client) == data
        await rig.finish("c-00000001")
        assert await log(client, "?follow=true") == data


@pytest.mark.parametrize(
    ("query", "path"),
    [("stream=both", "stream"), ("offset=-1", "offset"), ("follow=x", "follow"), ("a=b", "a")],
)
async def test_a_wrong_parameter_of_a_log_is_named(client: Client, query: str, path: str) -> None:
    await running(client)
    status, answer = await client.call("GET", f"{ONE}/logs?{query}")
    assert status == 400
    assert answer["errors"][0]["path"] == path


async def test_following_gives_what_comes_and_ends_with_the_container(client: Client) -> None:
    rig = await running(client)
    rig.push_log("c-00000001", b"one ")
    async with client.session.get(f"{client.url}{ONE}/logs?follow=1") as response:
        assert await response.content.readexactly(4) == b"one "
        rig.push_log("c-00000001", b"two ")
        assert await response.content.readexactly(4) == b"two "
        rig.push_log("c-00000001", b"three")
        await rig.finish("c-00000001")
        assert await response.read() == b"three"


async def test_following_starts_again_with_another_attempt(client: Client) -> None:
    rig = await running(client)
    rig.push_log("c-00000001", b"a long first try ")
    async with client.session.get(f"{client.url}{ONE}/logs?follow=1") as response:
        assert await response.content.readexactly(17) == b"a long first try "
        await rig.lose("c-00000001")
        await rig.start("c-00000001", "i-1")
        rig.push_log("c-00000001", b"second")
        await rig.finish("c-00000001")
        assert await response.read() == b"second"


async def test_the_end_of_an_attempt_comes_before_the_next(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = await running(client)
    rig.push_log("c-00000001", b"one ")
    has_all, looks = asyncio.Event(), asyncio.Event()
    read_before = rig.services.logs.read

    async def wait(_container_id: str, *, timeout_s: float) -> None:
        del timeout_s
        await looks.wait()

    async def read(container_id: str, **which: Any) -> tuple[bytes, bool]:
        data, complete = await read_before(container_id, **which)
        if not data:
            has_all.set()
        return data, complete

    monkeypatch.setattr(rig.services.logs, "wait", wait)
    monkeypatch.setattr(rig.services.logs, "read", read)
    async with client.session.get(f"{client.url}{ONE}/logs?follow=1") as response:
        assert await response.content.readexactly(4) == b"one "
        await has_all.wait()
        # All of it between two looks of who follows.
        rig.push_log("c-00000001", b"its end ")
        await rig.lose("c-00000001")
        await rig.start("c-00000001", "i-1")
        rig.push_log("c-00000001", b"second")
        await rig.finish("c-00000001")
        looks.set()
        assert await response.read() == b"its end second"


async def test_a_follower_that_hangs_up_is_forgotten() -> None:
    async with connected(limits=replace(QUICK, concurrent_streams=1)) as client:
        await running(client)
        url = f"{client.url}{ONE}/logs?follow=1"
        async with client.session.get(url) as response:
            assert response.status == 200
            async with client.session.get(url) as second:
                assert second.status == 503
                assert second.headers["Retry-After"]
            response.close()
        status = 503

        async def again() -> int:
            async with client.session.get(f"{client.url}{ONE}/logs") as response:
                return response.status

        async with asyncio.timeout(60):
            while status == 503:
                status = await again()
        assert status == 200


async def test_a_stream_that_breaks_is_cut_not_ended(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = await running(client)
    read = rig.logs.read

    def breaking(container_id: str, attempt_id: str, stream: str, offset: int, limit: int) -> bytes:
        if offset:
            raise RuntimeError("the disk is gone")
        return read(container_id, attempt_id, stream, offset, limit)

    monkeypatch.setattr(rig.logs, "read", breaking)
    rig.push_log("c-00000001", b"some")
    with capture_logs() as logs:
        async with client.session.get(f"{client.url}{ONE}/logs?follow=1") as response:
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.read()
    assert [entry["event"] for entry in logs] == ["stream_failed"]


class Events:
    """Reads server-sent events as (kind, id, data)."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.comments: list[str] = []
        self.last_id = ""

    async def position(self, end: str) -> None:
        """Return when the last id ends with `end`; fail when an event comes before."""
        reading = asyncio.ensure_future(self.next())
        await until(lambda: self.last_id.endswith(end) or reading.done(), deadline_s=20)
        assert not reading.done(), reading.result()
        reading.cancel()

    async def next(self) -> tuple[str, str, Any]:
        fields: dict[str, str] = {}
        async with asyncio.timeout(60):
            while True:
                raw = await self.response.content.readline()
                if not raw:
                    raise EOFError
                line = raw.decode().rstrip("\n")
                if line.startswith(":"):
                    self.comments.append(line)
                elif line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                    self.last_id = fields.get("id", self.last_id)
                elif "data" in fields:
                    return fields["event"], fields.get("id", ""), json.loads(fields["data"])
                else:
                    fields = {}


@asynccontextmanager
async def subscribed(client: Client, last_event_id: str = "") -> AsyncIterator[Events]:
    headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
    async with client.session.get(f"{client.url}/v1/events", headers=headers) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        yield Events(response)


async def test_events_come_from_now_on_and_resume_without_a_gap(client: Client) -> None:
    client.rig.publish("container", "c-0", {"state": "earlier"})
    async with subscribed(client) as events:
        client.rig.publish("container", "c-1", {"state": "queued"})
        kind, event_id, data = await events.next()
        assert kind == "container"
        assert data == {"number": 2, "kind": "container", "id": "c-1", "data": {"state": "queued"}}
        assert event_id.endswith("-2")
    client.rig.publish("instance", "i-1", {})
    client.rig.publish("instance", "i-2", {})
    async with subscribed(client, event_id) as events:
        assert [(await events.next())[2]["id"] for _ in range(2)] == ["i-1", "i-2"]


async def test_who_has_been_sent_nothing_yet_resumes_without_a_gap() -> None:
    # No heartbeat says it: the stream itself begins with where it is.
    async with connected(limits=replace(QUICK, heartbeat_s=600)) as client:
        client.rig.publish("container", "c-0", {"state": "earlier"})
        async with subscribed(client) as events:
            await events.position("-1")
        client.rig.publish("container", "c-1", {"state": "queued"})
        async with subscribed(client, events.last_id) as events:
            assert (await events.next())[2]["id"] == "c-1"


async def test_who_sees_none_of_the_events_is_told_how_far_it_is() -> None:
    """Else it would be told of a gap once what it does not see is no longer kept."""
    rig = ApiRig()
    new = NewToken(
        name="", user="ann", role=Role.USER, projects=("a",), default_project="a", expires_at=None
    )
    async with rig.served() as services:
        _, text = await services.tokens.create(new, caller=ANYBODY)
        doors = doors_of(services, mode=AuthMode.REQUIRED)
        async with (
            serving(services, limits=QUICK, doors=doors) as (url, _),
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {text}"}) as session,
            subscribed(Client(session, url, rig)) as events,
        ):
            for number in range(3):
                rig.publish("container", "c-1", {"project": "b", "padding": str(number)})
            await events.position("-3")


async def test_a_restart_between_two_events_is_told_as_a_gap() -> None:
    rig = ApiRig()
    async with connected(rig, limits=QUICK) as client, subscribed(client) as events:
        rig.publish("container", "c-1", {"state": "queued"})
        _, before, _ = await events.next()
    async with connected(rig, limits=QUICK) as client:
        for number in range(3):
            rig.publish("container", f"c-{number}", {"state": "queued"})
        async with subscribed(client, before) as events:
            kind, after, told = await events.next()
            assert kind == "gap"
            assert told == {"message": "Events are missing here: list again what you need to know."}
        rig.publish("container", "c-4", {"state": "queued"})
        async with subscribed(client, after) as events:
            assert (await events.next())[2]["id"] == "c-4"


@pytest.mark.parametrize("last", ["1-999", "1-1"])
async def test_an_id_of_an_earlier_server_is_told_as_a_gap(client: Client, last: str) -> None:
    for _ in range(5):
        client.rig.publish("container", "c-1", {})
    async with subscribed(client, last) as events:
        kind, event_id, _ = await events.next()
        assert kind == "gap"
        assert event_id.endswith("-5")
        client.rig.publish("container", "c-2", {})
        assert (await events.next())[2]["number"] == 6


async def test_events_that_are_no_longer_kept_are_told_as_a_gap(client: Client) -> None:
    for _ in range(10_005):
        client.rig.publish("container", "c-1", {})
    async with subscribed(client) as events:
        await events.position("-10005")
        epoch, _, _ = events.last_id.partition("-")
    async with subscribed(client, f"{epoch}-2") as events:
        kind, event_id, _ = await events.next()
        assert kind == "gap"
        with pytest.raises(EOFError):
            await events.next()
    async with subscribed(client, event_id) as events:
        client.rig.publish("container", "c-2", {})
        assert (await events.next())[2]["number"] == 10_006


async def test_a_wrong_last_event_id_is_refused(client: Client) -> None:
    for bad in ("x", "-1", "1-", "7", "9" * 30):
        headers = {"Last-Event-ID": bad}
        status, answer = await client.call("GET", "/v1/events", headers=headers)
        assert status == 400
        assert answer["errors"][0]["path"] == "Last-Event-ID"


async def test_a_quiet_stream_has_a_heartbeat(client: Client) -> None:
    async with subscribed(client) as events:
        reading = asyncio.ensure_future(events.next())
        await until(lambda: events.comments.count(": heartbeat") >= 2)
        client.rig.publish("container", "c-1", {})
        assert (await reading)[2]["id"] == "c-1"


async def test_subscribers_are_few_and_hanging_up_makes_room() -> None:
    async with connected(limits=replace(QUICK, subscribers=1)) as client:
        async with subscribed(client):
            status, answer = await client.call("GET", "/v1/events")
            assert status == 503
            assert "1 event subscribers at most" in answer["detail"]
        async with asyncio.timeout(60):
            while True:
                async with client.session.get(f"{client.url}/v1/events") as response:
                    if response.status == 200:
                        break


async def test_a_burst_reaches_a_reader_whole(client: Client) -> None:
    async with subscribed(client) as events:
        for number in range(5000):
            client.rig.publish("container", f"c-{number}", {})
        got = [(await events.next())[2]["id"] for _ in range(5000)]
        assert got == [f"c-{number}" for number in range(5000)]


async def test_who_falls_out_of_the_window_is_told_and_can_go_on() -> None:
    async with connected(ApiRig(events_kept=1000), limits=QUICK) as client:
        async with subscribed(client) as events:
            for _ in range(2000):
                client.rig.publish("container", "c-1", {})
            kind, event_id, _ = await events.next()
            assert kind == "gap"
            with pytest.raises(EOFError):
                await events.next()
        async with subscribed(client, event_id) as events:
            client.rig.publish("container", "c-2", {})
            assert (await events.next())[2]["number"] == 2001


async def test_events_that_break_are_logged_and_cut(client: Client) -> None:
    with capture_logs() as logs:
        async with subscribed(client) as events:
            client.rig.publish("container", "c-1", {})
            assert (await events.next())[2]["number"] == 1
            client.rig.publish("container", "c-2", {})
            client.rig.broker._events[-1] = ("container", "c-2", b"what is no JSON")
            with pytest.raises(aiohttp.ClientPayloadError):
                await events.next()
    assert [entry["event"] for entry in logs] == ["stream_failed"]


async def test_a_subscriber_that_reads_nothing_is_cut_off() -> None:
    async with connected(limits=replace(QUICK, subscribers=1, write_timeout_s=0.2)) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port, limit=1024)
        writer.write(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.readline()
        for _ in range(500):
            client.rig.publish("container", "c-1", {"padding": "x" * 100_000})
        async with asyncio.timeout(60):
            while True:
                async with client.session.get(f"{client.url}/v1/events") as response:
                    if response.status == 200:
                        break
        writer.close()


async def test_streams_end_soon_when_the_server_stops() -> None:
    rig = ApiRig()
    async with serving(rig, limits=QUICK) as (url, runner), aiohttp.ClientSession() as session:
        client = Client(session, url, rig)
        await running(client)
        async with subscribed(client) as events:
            following = asyncio.ensure_future(log(client, "?follow=1"))
            stuck, writer = await asyncio.open_connection("127.0.0.1", client.port, limit=1024)
            writer.write(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await stuck.readline()
            await until(lambda: len(runner.server.connections if runner.server else []) >= 3)
            clock = asyncio.get_running_loop().time
            before = clock()
            await runner.cleanup()
            assert clock() - before < 10
            assert (await events.next())[0] == "stopped"
            with pytest.raises(aiohttp.ClientPayloadError):
                await following
            writer.close()


class Looks:
    """Notes at the beginning of each look at a container how often its news have been waited for.

    A look at its log begins with one at the container.
    """

    def __init__(self, rig: ApiRig, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waits, self.begun = 0, 0
        self.begun_at_looks: list[int] = []
        self._container, self._wait = rig.services.containers.container, rig.watchers.wait
        monkeypatch.setattr(rig.services.containers, "container", self.container)
        monkeypatch.setattr(rig.watchers, "wait", self.wait)

    def container(
        self, container_id: str, *, caller: Principal
    ) -> Coroutine[None, None, Container]:
        self.begun_at_looks.append(self.begun)
        return self._container(container_id, caller=caller)

    async def wait(self, container_id: str, timeout_s: float) -> None:
        self.waits += 1
        self.begun += 1
        try:
            await self._wait(container_id, timeout_s)
        finally:
            self.waits -= 1


async def test_a_follower_waits_for_news_before_it_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came between a look and the wait would be told only with the next of it."""
    async with connected(limits=replace(QUICK, log_recheck_s=3600.0)) as client:
        rig = await running(client)
        looks = Looks(rig, monkeypatch)
        async with client.session.get(f"{client.url}{ONE}/logs?follow=1") as response:
            for number in range(3):
                await until(lambda: looks.waits == 1)
                rig.push_log("c-00000001", b"%d" % number)
                assert await response.content.readexactly(1) == b"%d" % number
            await rig.finish("c-00000001")
            assert await response.read() == b""
    # First which attempt it is, then its log.
    assert looks.begun_at_looks == [number // 2 for number in range(len(looks.begun_at_looks))]
    assert looks.waits == 0
