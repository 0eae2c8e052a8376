"""Connections that ask for nothing, are too many, or take nothing: none of them stops the API."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from longshore.dispatcher.api.accept_backpressure import AcceptGuard
from longshore.dispatcher.api.server import ApiRunner
from longshore.dispatcher.api.validate.limits import ApiLimits
from tests.api_server import raw_exchange, serving
from tests.rigs.api import ApiRig

REQUEST = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST_REQUEST = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def server(
    limits: ApiLimits, rig: ApiRig | None = None
) -> AsyncIterator[tuple[int, ApiRunner]]:
    async with serving(rig or ApiRig(), limits=limits) as (url, runner):
        yield int(url.rsplit(":", 1)[1]), runner


async def ended(reader: asyncio.StreamReader, *, within_s: float = 60.0) -> bytes:
    """Return what comes until the far end closes, which it must."""
    async with asyncio.timeout(within_s):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


async def answered(streams: Streams) -> bytes:
    reader, writer = streams
    writer.write(REQUEST)
    async with asyncio.timeout(60):
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(len(b'{"live":true}'))
    return head.split(b"\r\n")[0]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - the condition is anything that a test can see
            await asyncio.sleep(0.01)


def connections(runner: ApiRunner) -> int:
    assert runner.server is not None
    return len(runner.server.connections)


@pytest.mark.parametrize("begun", [b"", b"\r\n", b"GET / HT", REQUEST[:-2], b"\r\n" * 100])
async def test_a_connection_that_never_asks_is_closed(begun: bytes) -> None:
    async with server(ApiLimits(head_timeout_s=0.2)) as (port, runner):
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        for reader, writer in opened:
            writer.write(begun)
            assert await ended(reader) == b""
            writer.close()
        await until(lambda: connections(runner) == 0)


async def test_one_that_asked_may_be_idle_for_longer_but_not_for_ever() -> None:
    async with server(ApiLimits(head_timeout_s=0.2, keep_alive_s=3.0)) as (port, runner):
        idle = await asyncio.open_connection("127.0.0.1", port)
        silent, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await answered(idle) == b"HTTP/1.1 200 OK"
        assert await ended(silent) == b""
        writer.close()
        assert await answered(idle) == b"HTTP/1.1 200 OK"
        assert await ended(idle[0]) == b""
        idle[1].close()
        await until(lambda: connections(runner) == 0)


async def test_an_answer_may_take_longer_than_the_head_may() -> None:
    async with server(ApiLimits(head_timeout_s=0.1, body_timeout_s=0.5)) as (port, _):
        head = b"POST /v1/containers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        head += b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head)
        async with asyncio.timeout(60):
            assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        writer.write(b"x" * 99)
        await ended(reader)
        writer.close()


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("framing", [b"Content-Length: 1000", b"Transfer-Encoding: chunked"])
async def test_who_hangs_up_during_an_upload_is_no_error_of_ours(
    framing: bytes, *, reset: bool
) -> None:
    part = b'5\r\n{"com\r\n' if b"chunked" in framing else b'{"com'
    head = b"POST /v1/containers HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += framing + b"\r\n\r\n"
    with capture_logs() as logs:
        async with server(ApiLimits()) as (port, runner):
            other = await asyncio.open_connection("127.0.0.1", port)
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head + part)
            await writer.drain()
            await answered(other)
            there = runner.server
            assert there is not None
            await until(lambda: len(there.connections) == 2)
            if reset:
                never_linger = struct.pack("ii", 1, 0)
                wire = writer.get_extra_info("socket")
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, never_linger)
            writer.close()
            await until(lambda: len(there.connections) == 1)
            await answered(other)
            other[1].close()
            for each in (writer, other[1]):
                with suppress(ConnectionError):
                    await each.wait_closed()
    assert [each for each in logs if each["log_level"] == "error"] == []


async def test_connections_beyond_the_limit_are_closed_at_once() -> None:
    with capture_logs() as logs:
        async with server(ApiLimits(connections=5)) as (port, runner):
            taken = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
            for each in taken:
                assert await answered(each) == b"HTTP/1.1 200 OK"
            for _ in range(50):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                assert await ended(reader) == b""
                writer.close()
            assert connections(runner) == 5
            assert await answered(taken[0]) == b"HTTP/1.1 200 OK"
            taken.pop()[1].close()
            await until(lambda: connections(runner) == 4)
            assert (await raw_exchange(port, LAST_REQUEST)).startswith(b"HTTP/1.1 200")
            for _, writer in taken:
                writer.close()
    told = [entry for entry in logs if entry["event"] == "connections_over_the_limit"]
    assert [(entry["limit"], entry["times"]) for entry in told] == [(5, 1)]


def small_client(port: int) -> socket.socket:
    """Return a connection that takes little before it is read from."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(60)
    client.connect(("127.0.0.1", port))
    return client


@asynccontextmanager
async def long_answer(limits: ApiLimits) -> AsyncIterator[tuple[int, ApiRunner]]:
    """Serve, at `/v1/containers`, an answer that is larger than what a kernel buffers."""
    async with server(limits) as (port, runner):
        items = ",".join(['{"command": ["true", "%s"]}' % ("x" * 100_000)] * 80)
        body = f"[{items}]".encode()
        head = "POST /v1/containers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        answer = await raw_exchange(port, head.encode() + body)
        assert answer.startswith(b"HTTP/1.1 201")
        yield port, runner


@pytest.mark.parametrize("closing", [b"", b"Connection: close\r\n"])
async def test_a_client_that_takes_nothing_is_cut_off(closing: bytes) -> None:
    async with long_answer(ApiLimits(head_timeout_s=0.2, write_timeout_s=0.2)) as (port, runner):
        client = small_client(port)
        client.sendall(b"GET /v1/containers HTTP/1.1\r\nHost: localhost\r\n" + closing + b"\r\n")
        await until(lambda: connections(runner) == 1)
        await until(lambda: connections(runner) == 0)
        client.close()


async def test_nor_may_it_leave_a_rest_of_a_connection_that_was_idle() -> None:
    limits = ApiLimits(head_timeout_s=0.2, write_timeout_s=0.2, keep_alive_s=0.5)
    async with server(limits) as (port, runner):
        client = small_client(port)
        await until(lambda: connections(runner) == 1)
        assert runner.server is not None
        transport = runner.server.connections[0].transport
        assert transport is not None
        async with asyncio.timeout(60):
            while transport.get_write_buffer_size() == 0:
                client.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await asyncio.sleep(0.001)
        await until(lambda: connections(runner) == 0)
        client.close()


async def test_a_client_that_takes_it_slowly_gets_it_all() -> None:
    async with long_answer(ApiLimits(head_timeout_s=0.1, write_timeout_s=2.0)) as (port, _):
        client = small_client(port)
        client.sendall(LAST_REQUEST.replace(b"/health/live", b"/v1/containers"))

        def read_slowly() -> bytes:
            answer = bytearray()
            paused_at, pause = 0, threading.Event()
            while piece := client.recv(2**16):
                answer += piece
                if len(answer) - paused_at > 2**18:
                    paused_at = len(answer)
                    pause.wait(0.1)
            return bytes(answer)

        answer = await asyncio.to_thread(read_slowly)
        client.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}".encode() in head
        assert body.count(b'"command"') == 80


def open_files() -> set[int]:
    # The one that lists the directory is gone when its name is looked at.
    named = [int(link.name) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return set(named)


@contextmanager
def no_files_left() -> Iterator[None]:
    """Let this process open no more files within the context."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(open_files())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
    taken: list[int] = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        with pytest.raises(OSError, match="Too many open files"):
            os.dup(0)
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in taken:
            os.close(each)


async def test_without_files_connections_are_turned_away_with_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = asyncio.get_running_loop()
    clients = [socket.socket() for _ in range(60)]
    with capture_logs() as logs, caplog.at_level(logging.DEBUG, "asyncio"):
        async with server(ApiLimits()) as (port, _):
            with no_files_left():
                for client in clients:
                    client.setblocking(False)
                    await loop.sock_connect(client, ("127.0.0.1", port))
                for client in clients:
                    async with asyncio.timeout(60):
                        assert await received(client) == b""
            assert (await raw_exchange(port, LAST_REQUEST)).startswith(b"HTTP/1.1 200")
    for client in clients:
        client.close()
    told = [entry for entry in logs if entry["event"] == "connections_turned_away"]
    assert len(told) == 1
    assert "Too many open files" in told[0]["error"]
    assert [record for record in caplog.records if record.name == "asyncio"] == []


async def test_a_server_that_ends_as_soon_as_it_has_turned_some_away_leaves_no_noise() -> None:
    loop = asyncio.get_running_loop()
    heard: list[str] = []
    loop.set_exception_handler(lambda _loop, context: heard.append(context["message"]))
    client = socket.socket()
    client.setblocking(False)
    async with server(ApiLimits()) as (port, _):
        with no_files_left():
            await loop.sock_connect(client, ("127.0.0.1", port))
            async with asyncio.timeout(60):
                assert await received(client) == b""
    client.close()
    await until(lambda: not listening_later(loop))
    assert heard == []
    loop.set_exception_handler(None)


def listening_later(loop: asyncio.AbstractEventLoop) -> list[asyncio.TimerHandle]:
    """Return the timers of asyncio's that would listen again."""
    timers: list[asyncio.TimerHandle] = loop._scheduled  # type: ignore[attr-defined]  # nobody else tells
    return [each for each in timers if "_start_serving" in repr(each)]


async def received(client: socket.socket) -> bytes:
    try:
        return await asyncio.get_running_loop().sock_recv(client, 100)
    except ConnectionResetError:
        return b""


async def test_other_errors_of_the_loop_are_handled_as_before() -> None:
    loop = asyncio.get_running_loop()
    heard: list[str] = []
    loop.set_exception_handler(lambda _loop, context: heard.append(context["message"]))
    before = loop.get_exception_handler()
    guard = AcceptGuard(loop)
    loop.call_exception_handler({"message": "one", "exception": OSError("other")})
    loop.call_exception_handler({"message": "two", "exception": OSError(24, "no socket")})
    guard.close()
    guard.close()
    assert heard == ["one", "two"]
    assert loop.get_exception_handler() is before
    loop.set_exception_handler(None)


async def test_nothing_is_left_of_a_server() -> None:
    before = open_files()
    async with serving(ApiRig()) as (url, _):
        await raw_exchange(int(url.rsplit(":", 1)[1]), LAST_REQUEST)
        assert len(open_files()) > len(before)
    assert asyncio.get_running_loop().get_exception_handler() is None
    assert open_files() == before
