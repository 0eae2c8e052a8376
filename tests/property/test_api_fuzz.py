"""Whatever is sent to the API, it answers, and never with a failure of its own.

2,000 requests a run (the real dispatcher gets 10,000 in `tests/e2e/test_bad_input.py`): valid ones
with a piece replaced, JSON of no sense, bytes of no sense, odd paths, queries and headers; over
real sockets that are kept open as long as the server lets us.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from longshore.dispatcher.api.validate.limits import ApiLimits
from tests.api_requests import (
    DISPATCHES,
    ELASTIC,
    JOB,
    ONE_OF_EACH,
    REQUESTS,
    SYSTEM,
    TEMPLATE,
    Sent,
    as_json,
)
from tests.api_server import MINIMAL, serving
from tests.api_wire import Wire, check
from tests.rigs.api import ApiRig

BATCH = 20
BATCHES = 100
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
        rig = ApiRig()
        async with serving(rig, limits=LIMITS) as (_, runner):
            self.port = runner.addresses[0][1]
            await self._fill(rig)
            self._ready.set()
            await self._stop.wait()

    async def _fill(self, rig: ApiRig) -> None:
        """Have a container of each kind, ended with a log, running, waiting, and some jobs."""
        await self._post("/v1/containers", [MINIMAL] * 3)
        for job in (SYSTEM, TEMPLATE, JOB):
            await self._post("/v1/jobs", job)
        await rig.add_instance("i-1")
        await rig.start("c-00000001", "i-1")
        rig.push_log("c-00000001", b"some output\n")
        await rig.finish("c-00000001", 3)
        await rig.start("c-00000002", "i-1")

    async def _post(self, target: str, body: object) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(Sent(method="POST", target=target, body=as_json(body)).encoded(self.port))
        assert b" 201 " in await reader.readline()
        writer.close()
        await writer.wait_closed()

    def wait_until_ready(self) -> None:
        assert self._ready.wait(60)

    def stop(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)


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
        thread.join(60)
        assert not thread.is_alive()


def of_jobs(method: str, target: str, body: object) -> Sent:
    return Sent(method=method, target=target, body=as_json(body))


TEMPLATE_RUN = "/v1/jobs/j-00000005/dispatch"
WELL_AND_ILL = [
    *(of_jobs("POST", "/v1/jobs", body) for body in (JOB, SYSTEM, ELASTIC, TEMPLATE, {})),
    *(of_jobs("PUT", "/v1/jobs/j-00000004", body) for body in ({**SYSTEM, "name": "b"}, {})),
    *(of_jobs("POST", "/v1/jobs/plan", body) for body in (ELASTIC, {})),
    *(of_jobs("POST", TEMPLATE_RUN, body) for body in (*DISPATCHES, {})),
]


def test_no_request_makes_the_server_fail(server: Server) -> None:
    seen: Counter[int] = Counter()
    seen_of_jobs: dict[tuple[str, str], set[int]] = {
        (sent.method, sent.target): set() for sent in WELL_AND_ILL
    }

    @settings(
        max_examples=BATCHES,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(batch=st.lists(REQUESTS, min_size=BATCH, max_size=BATCH))
    @example(batch=[*ONE_OF_EACH.values(), *WELL_AND_ILL])
    def exchange(batch: list[Sent]) -> None:
        wire = Wire(server.port)
        try:
            for sent in batch:
                status, headers, body = wire.exchange(sent)
                check(sent, status, headers, body)
                seen[status] += 1
                seen_of_jobs.get((sent.method, sent.target), set()).add(status)
        finally:
            wire.close()

    exchange()
    assert seen.total() >= BATCH * BATCHES
    assert seen.keys() >= ONE_OF_EACH.keys()
    for (method, target), statuses in seen_of_jobs.items():
        made = 201 if target in {"/v1/jobs", TEMPLATE_RUN} else 200
        assert statuses >= {made, 400}, (method, target)


@settings(max_examples=300, deadline=None)
@given(line=st.binary(max_size=60), rest=st.binary(max_size=200))
def test_bytes_that_are_no_http_get_an_answer_or_a_closed_door(
    server: Server, line: bytes, rest: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as raw:
        raw.sendall(line + b"\r\n" + rest + b"\r\n\r\n")
        raw.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while data := raw.recv(65536):
                answer += data
        except ConnectionResetError:
            answer = b""
    assert not answer.startswith((b"HTTP/1.1 5", b"HTTP/1.0 5")), answer
