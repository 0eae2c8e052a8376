"""A real server sends traces to a real collector, over a crash; its log tells the same."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.dispatcher_process import DispatcherProcess, wait_for
from tests.trace_collector import TraceCollector, attributes_of, trace_collector

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OF_ONE = ["container", "run", "start", "submit", "wait"]


@contextmanager
def collecting() -> Iterator[TraceCollector]:
    """Serve a collector on a thread of its own."""
    ready = threading.Event()
    box: list[tuple[TraceCollector, Callable[[], object]]] = []
    loop = asyncio.new_event_loop()

    async def run() -> None:
        stop = asyncio.Event()
        async with trace_collector() as collector:
            box.append((collector, lambda: loop.call_soon_threadsafe(stop.set)))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    assert ready.wait(30)
    collector, stop_it = box[0]
    try:
        yield collector
    finally:
        stop_it()
        thread.join()
        loop.close()


def test_traces_arrive_once_over_a_crash(tmp_path: Path) -> None:
    with collecting() as collector:
        config = {"traces": {"endpoint": collector.url, "resource": {"team": "x"}}}
        with DispatcherProcess(tmp_path, config) as server:
            made = server.call(
                "POST",
                "/v1/containers",
                {"command": ["sh", "-c", 'echo "$TRACEPARENT"']},
                traceparent=PARENT,
            )
            server.wait_final(made["id"])
            assert server.log(made["id"]).decode().strip() == PARENT
            wait_for(lambda: "container" in collector.names, "a trace")
            collector.statuses = [503] * 10_000
            second = server.submit("false")
            server.wait_final(second)
            # Lines are written by a thread of their own: a killed server may not get to it.
            wait_for(lambda: "container failed" in "".join(server.log_lines()), "it is logged")
            server.kill()
            collector.statuses = []
            server.start()
            wait_for(lambda: collector.names.count("container") == 2, "what was not sent before")
            assert "longshore_trace_spans_sent_total 5.0" in server.metrics()
            assert server.stop() == 0
            told = [json.loads(line) for line in server.log_lines() if line.startswith("{")]
    of_containers = [span for span in collector.spans if span.name in OF_ONE]
    assert sorted(span.name for span in of_containers) == sorted(OF_ONE * 2)
    roots = [span for span in collector.spans if span.name == "container"]
    assert [attributes_of(span)["longshore.container.id"] for span in roots] == [made["id"], second]
    assert roots[0].trace_id.hex() == PARENT[3:35]
    assert {"create", "boot"} <= set(collector.names)
    story = [line for line in told if line.get("container_id") == second]
    assert [line["event"] for line in story if line["event"].startswith("container ")] == [
        "container queued",
        "container locked",
        "container running",
        "container failed",
    ]
    assert {line["severity"] for line in told} <= {"INFO", "WARNING"}
