"""The lines of the session: what decodes, what is refused, and how a stream is cut into lines."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.pool.model import AttemptExit, AttemptOrder, AttemptReport, ExitKind
from longshore.pool.remote.wire import (
    MAX_LINE_BYTES,
    Exited,
    Heartbeat,
    Interruption,
    LineSplitter,
    LogChunk,
    MalformedMessageError,
    Reply,
    decode_listing,
    decode_message,
    encode_line,
    order_fields,
)
from longshore.pool.usage import AttemptUsage

EXIT = {
    "kind": "out_of_memory",
    "code": 137,
    "message": "",
    "started_at": 1.5,
    "finished_at": 2,
    "stdout_bytes": 3,
    "stderr_bytes": 0,
}
DECODED_EXIT = AttemptExit(
    kind=ExitKind.OUT_OF_MEMORY, code=137, started_at=1.5, finished_at=2.0, stdout_bytes=3
)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"type": "reply", "id": 3, "ok": True, "already": False}, Reply(id=3, ok=True)),
        (
            {"type": "reply", "id": 3, "ok": False, "code": "image", "message": "none"},
            Reply(id=3, ok=False, code="image", message="none"),
        ),
        (
            {"type": "exited", "attempt_id": "a", "container_id": "c", "exit": EXIT},
            Exited(attempt_id="a", container_id="c", exit=DECODED_EXIT),
        ),
        (
            {
                "type": "exited",
                "attempt_id": "a",
                "container_id": "c",
                "exit": EXIT | {"usage": {"cpu_seconds": 2, "written_bytes": 0, "newer": 1}},
            },
            Exited(
                attempt_id="a",
                container_id="c",
                exit=replace(DECODED_EXIT, usage=AttemptUsage(cpu_seconds=2.0, written_bytes=0)),
            ),
        ),
        (
            {"type": "log", "attempt_id": "a", "stream": "stderr", "offset": 7, "data": "AP8="},
            LogChunk(attempt_id="a", stream="stderr", offset=7, data=b"\x00\xff"),
        ),
        (
            {"type": "heartbeat", "live": ["a"], "load": 0.5, "broken": "disk", "new": 1},
            Heartbeat(live=("a",), load=0.5, broken="disk"),
        ),
        (
            {"type": "interruption", "at": "2026-01-31T23:59:59Z"},
            Interruption(at="2026-01-31T23:59:59Z"),
        ),
    ],
)
def test_messages_decode(line: dict[str, object], message: object) -> None:
    assert decode_message(json.dumps(line).encode()) == message


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"type":"nonsense"}',
        b'{"type":"reply","id":"1","ok":true}',
        b'{"type":"log","attempt_id":"a","stream":"stdin","offset":0,"data":""}',
        b'{"type":"log","attempt_id":"a","stream":"stdout","offset":-1,"data":""}',
        b'{"type":"log","attempt_id":"a","stream":"stdout","offset":0,"data":"not base64!"}',
        b'{"type":"log","attempt_id":"\xff","stream":"stdout","offset":0,"data":""}',
        b'{"type":"exited","attempt_id":"a","container_id":"c","exit":null}',
        b'{"type":"exited","attempt_id":"a","container_id":"c","exit":{"kind":"odd","code":0}}',
        b'{"type":"interruption","at":"2026-01-31T23:59:59Z\\n"}',
        '{"type":"interruption","at":"٢٠٢٦-01-31T23:59:59Z"}'.encode(),
        b'{"type":"heartbeat","new":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_malformed_messages_are_refused_on_a_small_stack(line: bytes) -> None:
    refused: list[bool] = []

    def decode() -> None:
        with pytest.raises(MalformedMessageError):
            decode_message(line)
        refused.append(True)

    before = threading.stack_size(256 * 1024)
    thread = threading.Thread(target=decode)
    thread.start()
    threading.stack_size(before)
    thread.join()
    assert refused == [True]


def listing(**changes: object) -> bytes:
    fields: dict[str, object] = {
        "protocol": 1,
        "cluster": "c1",
        "boot_id": "b",
        "engine": "process",
        "attempts": [{"attempt_id": "a", "container_id": "c", "exit": None}],
        "broken": "",
    }
    return json.dumps(fields | changes).encode() + b"\n"


def test_a_listing_decodes() -> None:
    report = AttemptReport(attempt_id="a", container_id="c")
    assert decode_listing(listing(), "c1").attempts == (report,)


@pytest.mark.parametrize(
    "output", [b"", b"Traceback", listing(protocol=2), listing(cluster="c2"), listing() * 2]
)
def test_a_listing_that_is_not_ours_is_refused(output: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        decode_listing(output, "c1")


def test_an_order_becomes_the_fields_of_the_protocol() -> None:
    order = AttemptOrder(
        attempt_id="a",
        container_id="c",
        image="",
        command=("x", "y"),
        env=(("N", "v"),),
        resident=True,
    )
    assert json.loads(encode_line(order_fields(order))) == {
        "attempt_id": "a",
        "container_id": "c",
        "image": "",
        "command": ["x", "y"],
        "env": {"N": "v"},
        "cpu_millis": 0,
        "memory_bytes": 0,
        "resident": True,
        "init": True,
        "api": False,
    }


@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b""))), st.data())
def test_lines_do_not_depend_on_how_the_stream_was_cut(
    lines: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    splitter = LineSplitter()
    got: list[bytes] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        got += splitter.feed(stream[:size])
        stream = stream[size:]
    assert got == lines


def cut(stream: bytes, step: int) -> list[bytes]:
    splitter = LineSplitter()
    pieces = [stream[at : at + step] for at in range(0, len(stream), step)]
    return [line for piece in pieces for line in splitter.feed(piece)]


@pytest.mark.parametrize("step", [2 * MAX_LINE_BYTES, MAX_LINE_BYTES // 7])
def test_a_line_may_have_a_mebibyte_and_no_more(step: int) -> None:
    longest = b"x" * MAX_LINE_BYTES
    assert cut(longest + b"\n", step) == [longest]
    with pytest.raises(MalformedMessageError):
        cut(longest + b"x\n", step)
    with pytest.raises(MalformedMessageError):
        cut(b"short\n" + longest + b"x\n", step)


@pytest.mark.parametrize("step", [2 * MAX_LINE_BYTES, MAX_LINE_BYTES // 7])
def test_an_endless_line_is_refused_before_it_ends(step: int) -> None:
    with pytest.raises(MalformedMessageError):
        cut(b"x" * (MAX_LINE_BYTES + 1), step)


@pytest.mark.parametrize("offset", [-1, 2**63, 0.5, "0"])
def test_an_offset_that_cannot_be_is_malformed(offset: object) -> None:
    chunk = {"type": "log", "attempt_id": "a1", "stream": "stdout", "offset": offset, "data": ""}
    with pytest.raises(MalformedMessageError):
        decode_message(json.dumps(chunk).encode())
