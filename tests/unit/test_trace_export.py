"""Spans on their way to a real collector: what it takes, refuses, does not answer; a restart."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from longshore.dispatcher.domain.containers import (
    Attempt,
    AttemptOutcome,
    Container,
    ContainerState,
)
from longshore.dispatcher.domain.ledger import BilledState, InstanceBill, Interval
from longshore.dispatcher.domain.messages import (
    PublishContainer,
    PublishInstance,
    SaveAttempt,
    SaveBill,
    SaveContainer,
    SaveInterval,
)
from longshore.dispatcher.domain.trace_context import within
from longshore.dispatcher.domain.vitals import TraceVitals
from longshore.dispatcher.metrics.exposition import Metrics
from longshore.dispatcher.store.store import Store
from longshore.dispatcher.traces.cursor import NAME, SentCursor
from longshore.dispatcher.traces.export import TraceExport, TracePace
from longshore.dispatcher.traces.news import ContainerNews, InstanceNews, Listener, News, missed
from longshore.dispatcher.traces.otlp import OtlpSender, TraceTarget
from longshore.dispatcher.traces.spans import SpanMaker
from longshore.drivers.billing import AS_USED
from tests.rigs.engine import Rig
from tests.samples import make_type
from tests.store_values import attempt, container, insert, instance, new_store
from tests.trace_collector import TraceCollector, attributes_of, trace_collector
from tests.webhook_receiver import until

QUICK = TracePace(gather_s=0.0, pause_s=0.01, longest_pause_s=0.05, given_up_after_s=60.0)
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OF_ONE = ["container", "run", "start", "submit", "wait"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = new_store(tmp_path)
    yield made
    made.close()


def ended(number: int = 1, at: float = 3000.0, **changes: Any) -> Container:
    """Return a container that has ended at a time, after one attempt."""
    made = container(number)
    tried = attempt(
        made,
        started_at=2001.0,
        finished_at=at - 0.5,
        outcome=AttemptOutcome.SUCCEEDED,
        exit_code=0,
    )
    over = {"state": ContainerState.SUCCEEDED, "finished_at": at, "attempts": (tried,)}
    return replace(made, **{**over, **changes})


def exporting(
    collector: TraceCollector,
    store: Store,
    directory: Path,
    *,
    pace: TracePace = QUICK,
    now: Callable[[], float] = lambda: 3000.0,
    timeout_s: float = 5.0,
) -> TraceExport:
    sender = OtlpSender(
        TraceTarget(
            url=collector.url,
            headers={"Authorization": "Bearer hush"},
            resource={"service.name": "longshore", "deployment.environment.name": "lab"},
        ),
        timeout_s=timeout_s,
    )
    return TraceExport(
        sender,
        maker=SpanMaker(store=store.id),
        reader=store.traces,
        cursor=SentCursor(directory, now()),
        now=now,
        clock=time.monotonic,
        pace=pace,
    )


async def closed(export: TraceExport, within_s: float = 10.0) -> bool:
    return await asyncio.to_thread(export.close, within_s)


def news(number: int, **changes: Any) -> ContainerNews:
    return ContainerNews(container=ended(number, **changes), after=0)


async def test_a_collector_decodes_what_was_sent(store: Store, tmp_path: Path) -> None:
    spec = within(ended().spec, PARENT)
    async with trace_collector() as collector:
        export = exporting(collector, store, tmp_path)
        export.start([news(1, spec=spec)])
        assert await closed(export)
    assert collector.names == OF_ONE
    assert collector.paths == ["/v1/traces"]
    headers = collector.headers[0]
    assert headers["authorization"] == "Bearer hush"
    assert headers["content-type"] == "application/x-protobuf"
    resource = collector.requests[0].resource_spans[0].resource
    told = {each.key: each.value.string_value for each in resource.attributes}
    assert told == {"service.name": "longshore", "deployment.environment.name": "lab"}
    by_name = {span.name: span for span in collector.spans}
    root, run = by_name["container"], by_name["run"]
    assert root.trace_id.hex() == PARENT[3:35]
    assert root.parent_span_id.hex() == PARENT[36:52]
    assert run.parent_span_id == root.span_id
    assert (run.start_time_unix_nano, run.end_time_unix_nano) == (2001 * 10**9, 29995 * 10**8)
    assert (
        run.links[0].trace_id.hex()
        == f"{SpanMaker(store=store.id).instance_root('i-1').trace_id:032x}"
    )
    assert attributes_of(run)["host.id"] == "i-1"
    assert attributes_of(root)["longshore.container.id"] == "c-00000001"
    assert export.vitals().sent == 5


async def test_an_instance_is_read_from_the_ledger(store: Store, tmp_path: Path) -> None:
    save_instance(store)
    async with trace_collector() as collector:
        export = exporting(collector, store, tmp_path)
        export.start([InstanceNews(instance_id="i-1", is_gone=each) for each in (False, True)])
        export.tell(InstanceNews(instance_id="unheard-of", is_gone=True))
        assert await closed(export)
    assert collector.names == ["boot", "create", "empty", "instance"]


def save_instance(store: Store) -> None:
    bill = InstanceBill(
        instance_id="i-1",
        type_name="t1",
        provider_type="m5.large",
        preemptible=False,
        nusd_per_hour=1,
        payer=Interval(instance_id="", holder="", from_ms=0, state=BilledState.EMPTY).account,
        created_ms=1000,
        rule=AS_USED,
        running_ms=2000,
        ready_ms=2_000_000,
        gone_ms=3_000_000,
    )
    was = Interval(
        instance_id="i-1", holder="", from_ms=2_000_000, until_ms=3_000_000, state=BilledState.EMPTY
    )
    store.write([SaveBill(bill=bill), SaveInterval(interval=was)], wait=True).result(30)


async def test_what_is_not_taken_is_sent_again_until_it_is(store: Store, tmp_path: Path) -> None:
    async with trace_collector() as collector:
        collector.statuses = [500, 401, 404]
        export = exporting(collector, store, tmp_path)
        export.start([news(1)])
        await until(lambda: bool(collector.requests))
        assert await closed(export)
    assert collector.names == OF_ONE
    assert export.problem() == ""
    assert export.vitals().dropped == 0


async def test_a_problem_is_told_while_it_lasts_and_names_no_secret(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with trace_collector() as collector:
        collector.statuses = [403] * 1000
        export = exporting(collector, store, tmp_path)
        with caplog.at_level(logging.DEBUG):
            export.start([news(1)])
            await until(lambda: bool(export.problem()))
        assert "traces do not arrive at the collector (it answered 403)" in export.problem()
        assert "hush" not in export.problem() + caplog.text
        collector.statuses = []
        await until(lambda: not export.problem())
        assert await closed(export)


async def test_nobody_is_followed_elsewhere(store: Store, tmp_path: Path) -> None:
    async with trace_collector() as collector:
        collector.statuses = [307]
        export = exporting(collector, store, tmp_path)
        export.start([news(1)])
        await until(lambda: bool(collector.requests))
        assert await closed(export)
    assert collector.paths == ["/v1/traces", "/v1/traces"]


async def test_no_proxy_is_asked(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with trace_collector() as proxy, trace_collector() as collector:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        export = exporting(collector, store, tmp_path)
        export.start([news(1)])
        assert await closed(export)
    assert (len(proxy.paths), len(collector.paths)) == (0, 1)


async def test_an_answer_without_an_end_is_not_read(store: Store, tmp_path: Path) -> None:
    async with trace_collector() as collector:
        collector.babbles = True
        export = exporting(collector, store, tmp_path)
        export.start([news(1)])
        async with asyncio.timeout(5):
            assert await closed(export)
    assert collector.names == OF_ONE


async def test_a_collector_that_hangs_keeps_nobody_and_little(store: Store, tmp_path: Path) -> None:
    async with trace_collector() as collector:
        collector.hangs = True
        pace = replace(QUICK, most_queued=3)
        export = exporting(collector, store, tmp_path, pace=pace, timeout_s=30)
        export.start()
        for number in range(10):
            export.tell(news(number))
        vitals = export.vitals()
        assert (vitals.sent, vitals.dropped, vitals.waiting) == (0, 7, 3)
        async with asyncio.timeout(5):
            assert not await closed(export, within_s=0.05)


async def test_a_collector_that_is_gone_is_no_end_and_what_waits_too_long_is_counted(
    store: Store, tmp_path: Path
) -> None:
    async with trace_collector() as collector:
        pass
    export = exporting(
        collector, store, tmp_path, pace=replace(QUICK, given_up_after_s=0.0), timeout_s=0.5
    )
    export.start([news(1), news(2)])
    await until(lambda: export.vitals().dropped == 2)
    assert "it cannot be reached" in export.problem()
    export._cursor.write()
    assert SentCursor(tmp_path, 9000.0).sent == frozenset()
    await closed(export)


# ---- what a process that starts sends ------------------------------------------------------------


def commit(store: Store, *containers: Container) -> None:
    """Put containers that have ended into the store, as the engine does."""
    for each in containers:
        insert(store, replace(each, attempts=(), state=ContainerState.QUEUED, finished_at=None))
        saved = [SaveAttempt(attempt=tried) for tried in each.attempts]
        places = [_place(tried, each) for tried in each.attempts]
        store.write([SaveContainer(container=each), *saved, *places]).result(30)


def _place(tried: Attempt, of: Container) -> SaveInterval:
    account = replace(
        Interval(instance_id="", holder="", from_ms=0, state=BilledState.EMPTY).account,
        container_id=of.id,
    )
    until_ms = None if tried.finished_at is None else round(tried.finished_at * 1000) + 400
    return SaveInterval(
        interval=Interval(
            instance_id=tried.instance_id,
            holder=tried.id,
            from_ms=round(tried.created_at * 1000),
            until_ms=until_ms,
            state=BilledState.WORK,
            account=account,
        )
    )


def missed_by(store: Store, directory: Path) -> list[News]:
    cursor = SentCursor(directory, 9000.0)
    since = store.traces.ended_since(round(cursor.until * 1000))
    ids = sorted({*since.containers, *since.attempts})
    found = [each for each in map(store.container, ids) if each is not None]
    return list(missed(since, found, cursor.sent))


async def test_a_restart_neither_loses_nor_doubles(store: Store, tmp_path: Path) -> None:
    one, two = ended(1, at=3000.0), ended(2, at=3000.2)
    commit(store, one, two)
    clock = [2990.0]
    async with trace_collector() as collector:
        first = exporting(collector, store, tmp_path, now=lambda: clock[0])
        clock[0] = 3000.5
        first.start([ContainerNews(container=one, after=0)])
        assert await closed(first)
        assert collector.names == OF_ONE
        assert missed_by(store, tmp_path) == [ContainerNews(container=two, after=0)]
        second = exporting(collector, store, tmp_path, now=lambda: 3001.0)
        second.start(missed_by(store, tmp_path))
        assert await closed(second)
    assert collector.names == sorted(OF_ONE * 2)
    ids = [(span.trace_id, span.span_id) for span in collector.spans]
    assert len(set(ids)) == len(ids)
    assert missed_by(store, tmp_path) == []


async def test_what_a_dead_collector_did_not_take_is_sent_by_the_next_process(
    store: Store, tmp_path: Path
) -> None:
    commit(store, ended(1))
    async with trace_collector() as collector:
        pass
    clock = [2990.0]
    export = exporting(collector, store, tmp_path, now=lambda: clock[0], timeout_s=0.5)
    clock[0] = 3000.5
    export.start([news(1)])
    assert not await closed(export)
    assert [each.key for each in missed_by(store, tmp_path)] == ["c-00000001/end"]


def test_attempts_that_ended_unsent_are_found_with_those_before_left_out(
    store: Store, tmp_path: Path
) -> None:
    made = container(1)
    tries = [
        attempt(made, n, id=f"a-{n}", finished_at=2000.0 * n, outcome=AttemptOutcome.LOST)
        for n in (1, 2, 3)
    ]
    goes_on = replace(made, attempts=tuple(tries))
    commit(store, goes_on)
    SentCursor(tmp_path, 3000.0).write()
    assert missed_by(store, tmp_path) == [ContainerNews(container=store_view(store), after=1)]
    cursor = SentCursor(tmp_path, 9000.0)
    cursor.advance([(4000.0, 4001.0, f"{made.id}/2")])
    assert missed_by(store, tmp_path) == [ContainerNews(container=store_view(store), after=2)]


def store_view(store: Store) -> Container:
    found = store.container("c-00000001")
    assert found is not None
    return found


def test_instances_that_ended_unsent_are_found(store: Store, tmp_path: Path) -> None:
    save_instance(store)
    SentCursor(tmp_path, 2500.0).write()
    assert [each.key for each in missed_by(store, tmp_path)] == ["i-1/gone"]
    cursor = SentCursor(tmp_path, 9000.0)
    cursor.advance([(3000.0, 3001.0, "i-1/gone")])
    assert missed_by(store, tmp_path) == []
    assert store.traces.ready_instances() == frozenset()


def test_a_cursor_that_cannot_be_read_begins_now(tmp_path: Path) -> None:
    for content in (b"", b"{}", b'{"until": "x"}', b"\xff"):
        (tmp_path / NAME).write_bytes(content)
        assert SentCursor(tmp_path, 7.0).until == 7.0, content
    SentCursor(tmp_path, 50.0).write()
    assert SentCursor(tmp_path, 7.0).until == 7.0, "a clock that was set back"


def test_keys_are_kept_as_long_as_they_may_be_asked_for(tmp_path: Path) -> None:
    cursor = SentCursor(tmp_path, 1.0)
    cursor.advance([(10.0, 11.0, "a"), (0.0, 11.5, "b")])
    assert SentCursor(tmp_path, 99.0).sent == {"a", "b"}
    cursor.advance([(20.0, 21.0, "c")])
    assert SentCursor(tmp_path, 99.0).sent == {"c"}
    cursor.advance((20.0, 22.0, f"k{n}") for n in range(10_001))
    assert len(SentCursor(tmp_path, 99.0).sent) == 10_000


# ---- what is heard -------------------------------------------------------------------------------


def test_each_end_is_told_once() -> None:
    told: list[News] = []
    before = attempt(container(1), 1, outcome=AttemptOutcome.LOST, finished_at=1.0)
    known = replace(container(1), attempts=(before,))
    listener = Listener([known], ["i-1"], told.append)

    def hear(container_: Container) -> None:
        listener.hear(PublishContainer(container=container_, released=False))

    hear(known)
    hear(container(2))
    assert told == []
    open_ = attempt(known, 2)
    placed = replace(known, attempts=(before, open_), state=ContainerState.RUNNING)
    hear(placed)
    assert told == []
    lost = replace(open_, outcome=AttemptOutcome.LOST, finished_at=2.0)
    again = replace(placed, attempts=(before, lost), state=ContainerState.QUEUED)
    hear(again)
    hear(replace(again, priority=7))
    assert told == [ContainerNews(container=again, after=1)]
    over = replace(again, state=ContainerState.FAILED, finished_at=3.0)
    hear(over)
    assert told[1:] == [ContainerNews(container=over, after=2)]


def test_an_instance_is_told_when_it_is_ready_first_and_when_it_is_gone() -> None:
    told: list[News] = []
    listener = Listener([], ["i-1"], told.append)
    for worker_id in ("i-1", "i-2"):
        for state in ("booting", "idle", "running", "idle", "shutdown"):
            listener.hear(PublishInstance(worker_id=worker_id, state=state, reason=""))
        gone = instance(worker_id, gone_at=5.0)
        listener.hear(PublishInstance(worker_id=worker_id, state="gone", reason="", gone=gone))
    assert [each.key for each in told] == ["i-1/gone", "i-2/ready", "i-2/gone"]


def test_metrics_tell_how_traces_do() -> None:
    vitals = TraceVitals(sent=5, dropped=2, waiting=7)
    view = Rig(make_type(1)).view
    text = Metrics(view, heard_at=lambda _id: 0.0, traces=lambda: vitals).exposition(1.0).decode()
    for line in (
        "longshore_trace_spans_sent_total 5.0",
        "longshore_traces_dropped_total 2.0",
        "longshore_traces_waiting 7.0",
    ):
        assert line in text
    without = Metrics(view, heard_at=lambda _id: 0.0).exposition(1.0).decode()
    assert "longshore_trace" not in without
