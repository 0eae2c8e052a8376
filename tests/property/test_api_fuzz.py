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
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.api.limits import ApiLimits
from tests.api_server import FULL, MINIMAL, serving
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    method: str
    target: str
    headers: tuple[tuple[str, bytes], ...] = ()
    body: bytes = b""

    def encoded(self, port: int) -> bytes:
        given = {name.lower() for name, _ in self.headers}
        usual = [("Host", f"127.0.0.1:{port}".encode()), ("Content-Type", b"application/json")]
        lines = [f"{self.method} {self.target} HTTP/1.1".encode()]
        lines += [
            name.encode() + b": " + value
            for name, value in (*usual, *self.headers)
            if (name, value) not in usual or name.lower() not in given
        ]
        lines.append(f"Content-Length: {len(self.body)}".encode())
        return b"\r\n".join(lines) + b"\r\n\r\n" + self.body


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


# ---- what is sent -------------------------------------------------------------------------------

ODD_TEXTS = (
    "",
    "\0",
    "x" * 300,
    "é\u202e",
    "\ud800",
    "4G",
    "-1",
    "NaN",
    "LONGSHORE_X",
    "a=b",
    "../..",
    "%00",
    "{}",
    "small",
    "true",
)
ODD_NUMBERS = (0, -1, 1, 1001, 2**31, 2**63, 2**64, 10**30, 0.5, 1e-9, -0.0, 1e308, 10**39)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(ODD_NUMBERS),
    st.sampled_from(ODD_TEXTS),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
)
JUNK = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=4),
    st.dictionaries(st.sampled_from(ODD_TEXTS) | st.text(max_size=5), SCALARS, max_size=4),
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=6,
    ),
)
KEYS = st.sampled_from(
    (*FULL, "time_limit_s", "after", "max", "lost", "user", "id", "nam", "A", *ODD_TEXTS)
)
BASES = (MINIMAL, FULL, [MINIMAL], [FULL, MINIMAL, FULL], {"priority": 3}, {"reason": "x"})
PATHS = (
    "/v1/containers",
    "/v1/containers/c-00000001",
    "/v1/containers/c-00000002",
    "/v1/containers/c-00000003",
    "/v1/containers/c-00000001/cancel",
    "/v1/containers/c-00000003/cancel",
    "/v1/containers/c-00000001/logs",
    "/v1/containers/c-00000002/logs",
    "/v1/instances",
    "/v1/instances/i-1",
    "/v1/instances/i-1/idle-behavior",
    "/v1/instances/i-1/kill",
    "/v1/events",
    "/health/live",
    "/health/ready",
    "/metrics",
    "/openapi.json",
    "/",
    "*",
)
METHODS = st.sampled_from(
    ("GET", "GET", "POST", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "MKCOL")
)
NAMES = ("state", "user", "project", "name", "instance", "limit", "cursor", "stream", "offset")
QUERY_VALUES = (
    *("queued", "running,failed", "stdout", "stderr", "0", "-1", "1000", "true", "before-2"),
    *("before-", "%00", "%ff", "%ed%a0%80", "%", "+", "", "9" * 30, "a&b=c", ";", "%F0%9F%98%80"),
)
HEADER_VALUES = st.one_of(
    st.sampled_from(
        [b"", b"x" * 300, b"application/json; charset=x", b"http://localhost", b"null", b"gzip"]
    ),
    st.sampled_from(
        [b"bytes=0-1", b"identity", b"close", b"5-5", b"100-continue", b"\xff\xfe", b"W/"]
    ),
    st.binary(max_size=12).map(lambda raw: bytes(b for b in raw if b >= 32 and b != 127)),
)
HEADERS = st.sampled_from(
    (
        *("Host", "Origin", "Content-Type", "Content-Encoding", "Idempotency-Key", "Accept"),
        *("Last-Event-ID", "Connection", "Cookie", "Range", "If-None-Match", "X-Forwarded-Host"),
        *("Authorization", "Accept-Encoding", "Upgrade", "If-Modified-Since", "TE", "Referer"),
    )
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict):
        for key, child in value.items():
            found += places(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            found += places(child, (*path, index))
    return found


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A valid body with one to three pieces replaced, removed or added."""
    value: Any = deepcopy(draw(st.sampled_from(BASES)))
    for _ in range(draw(st.integers(0, 3))):
        path = draw(st.sampled_from(places(value)))
        new = draw(JUNK)
        if not path:
            if isinstance(value, dict):
                value[draw(KEYS)] = new
            elif isinstance(value, list):
                value.append(new)
            continue
        parent = value
        for step in path[:-1]:
            parent = parent[step]
        if draw(st.integers(0, 3)) == 0:
            del parent[path[-1]]
        else:
            parent[path[-1]] = new
    return value


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


BODIES = st.one_of(
    mutated().map(as_json),
    mutated().map(as_json),
    JUNK.map(as_json),
    st.binary(max_size=40),
    st.builds(
        lambda value, at, raw: as_json(value)[:at] + raw + as_json(value)[at:],
        mutated(),
        st.integers(0, 400),
        st.binary(max_size=3),
    ),
    st.builds(
        lambda count, piece: piece * count, st.integers(1, 3000), st.sampled_from([b"[", b'{"a":'])
    ),
    st.builds(
        lambda size: as_json({**MINIMAL, "env": {"A": "x" * size}}),
        st.sampled_from((0, 20_000, 131_000, 140_000, 300_000)),
    ),
)
QUERIES = st.lists(
    st.tuples(st.sampled_from((*NAMES, "odd", "")), st.sampled_from(QUERY_VALUES)), max_size=3
).map(lambda pairs: "&".join(f"{name}={value}" for name, value in pairs))
SEGMENTS = st.sampled_from(
    ("v1", "containers", "c-00000001", "logs", "..", ".", "", "%2f", "%00", "%ff", "%", "x" * 300)
)
TARGETS = st.one_of(
    st.sampled_from(PATHS),
    st.builds(lambda path, query: f"{path}?{query}", st.sampled_from(PATHS), QUERIES),
    st.lists(SEGMENTS, max_size=5).map(lambda parts: "/" + "/".join(parts)),
)
SUBMISSIONS = st.builds(Sent, method=st.just("POST"), target=st.just("/v1/containers"), body=BODIES)
REQUESTS = st.one_of(
    SUBMISSIONS,
    st.builds(Sent, method=METHODS, target=TARGETS),
    st.builds(Sent, method=METHODS, target=TARGETS, body=BODIES),
    st.builds(
        Sent,
        method=METHODS,
        target=TARGETS,
        headers=st.lists(st.tuples(HEADERS, HEADER_VALUES), max_size=3).map(tuple),
        body=BODIES,
    ),
)


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
