"""Whatever is sent to the API, it answers, and never with a failure of its own.

10,000 requests a run: valid ones with a piece replaced, JSON of no sense, bytes of no sense, odd
paths, queries and headers; over real sockets that are kept open as long as the server lets us.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.api.limits import ApiLimits
from tests.api_requests import REQUESTS, Sent
from tests.api_server import MINIMAL, serving
from tests.fake_backend import FakeBackend

BATCH = 20
BATCHES = 500
LIMITS = ApiLimits(
    request_bytes=256 * 2**10,
    large_body_bytes=16 * 2**10,
    subscribers=100_000,
    concurrent_streams=100_000,
    body_timeout_s=0.5,
)


@dataclass(slots=True)
class Server:
    port: int = 0
    _loop: asyncio.AbstractEventLoop | None = None
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _ready: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        # One thread, started now: one that starts later looks like a leak of the test under way.
        self._loop.set_default_executor(ThreadPoolExecutor(max_workers=1))
        await asyncio.to_thread(threading.get_ident)
        backend = FakeBackend()
        backend.add_instance("i-1")
        async with serving(backend, limits=LIMITS) as (_, runner):
            self.port = runner.addresses[0][1]
            await self._fill(backend)
            self._ready.set()
            await self._stop.wait()

    async def _fill(self, backend: FakeBackend) -> None:
        """Have a container of each kind: ended with a log, running, waiting."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        body = json.dumps([MINIMAL] * 3).encode()
        writer.write(Sent(method="POST", target="/v1/containers", body=body).encoded(self.port))
        assert b" 201 " in await reader.readline()
        writer.close()
        await writer.wait_closed()
        backend.start("c-00000001", "i-1")
        backend.push_log("c-00000001", b"some output\n")
        backend.finish("c-00000001", 3)
        backend.start("c-00000002", "i-1")

    def wait_until_ready(self) -> None:
        assert self._ready.wait(30)

    def stop(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)


class Wire:
    """One connection at a time, kept open while the server keeps it open."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._socket: socket.socket | None = None
        self._rest = b""

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._rest = None, b""

    def exchange(self, sent: Sent) -> tuple[int, dict[str, str], bytes]:
        """Return (status, headers, body); of a stream only what came with its head."""
        fresh = self._socket is None
        try:
            return self._exchange(sent.encoded(self.port), head_only=sent.method == "HEAD")
        except (ConnectionError, EOFError):
            self.close()
            if fresh:
                raise
        # A connection that was kept open may be closed by the server at any time.
        return self._exchange(sent.encoded(self.port), head_only=sent.method == "HEAD")

    def _exchange(self, data: bytes, *, head_only: bool) -> tuple[int, dict[str, str], bytes]:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self.port), timeout=20)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(data)
        status, headers = self._head()
        while 100 <= status < 200:
            status, headers = self._head()
        if "transfer-encoding" in headers:
            self.close()
            return status, headers, b""
        body = b"" if head_only else self._take(int(headers["content-length"]))
        if headers.get("connection", "") == "close":
            self.close()
        return status, headers, body

    def _head(self) -> tuple[int, dict[str, str]]:
        while b"\r\n\r\n" not in self._rest:
            self._more()
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return int(first.split()[1]), headers

    def _take(self, size: int) -> bytes:
        while len(self._rest) < size:
            self._more()
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def _more(self) -> None:
        assert self._socket is not None
        data = self._socket.recv(2**20)
        if not data:
            raise EOFError
        self._rest += data


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.run, name="api-under-fuzz")
    thread.start()
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()
        thread.join(30)
        assert not thread.is_alive()


def check(sent: Sent, status: int, headers: dict[str, str], body: bytes) -> None:
    assert status < 500, (sent, body)
    if status >= 400 and sent.method != "HEAD":
        assert headers["content-type"].startswith("application/problem+json"), (sent, body)
        answer = json.loads(body)
        assert answer["status"] == status
        assert answer["detail"]
        assert len(body) < 200_000
        for error in answer["errors"]:
            assert error["message"]
    elif sent.method == "POST" and sent.target == "/v1/containers":
        answer = json.loads(body)
        for made in answer.get("items", [answer]):
            assert made["state"] == "queued"


def test_no_request_makes_the_server_fail(server: Server) -> None:
    seen: Counter[int] = Counter()

    @settings(
        max_examples=BATCHES,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(batch=st.lists(REQUESTS, min_size=BATCH, max_size=BATCH))
    def exchange(batch: list[Sent]) -> None:
        wire = Wire(server.port)
        try:
            for sent in batch:
                status, headers, body = wire.exchange(sent)
                check(sent, status, headers, body)
                seen[status] += 1
        finally:
            wire.close()

    exchange()
    assert seen.total() >= BATCH * BATCHES
    # A mix that reaches none of these would prove nothing.
    assert seen.keys() >= {200, 201, 202, 400, 403, 404, 405, 409, 413, 415}


@settings(max_examples=300, deadline=None)
@given(line=st.binary(max_size=60), rest=st.binary(max_size=200))
def test_bytes_that_are_no_http_get_an_answer_or_a_closed_door(
    server: Server, line: bytes, rest: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        raw.sendall(line + b"\r\n" + rest + b"\r\n\r\n")
        raw.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while data := raw.recv(65536):
                answer += data
        except ConnectionResetError:
            answer = b""
    assert not answer.startswith((b"HTTP/1.1 5", b"HTTP/1.0 5")), answer
