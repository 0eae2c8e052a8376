"""The runner's lines: whatever comes, it is a message, a refusal or a protocol error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.pool.runner import wire
from longshore.pool.runner.wire import (
    MAX_LINE_BYTES,
    LineBuffer,
    ProtocolError,
    Refusal,
    StartOrder,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
ORDERS = st.fixed_dictionaries(
    {},
    optional={
        "attempt_id": st.just("a") | JSON,
        "container_id": st.just("c") | JSON,
        "image": st.just("") | JSON,
        "command": st.lists(st.text()) | JSON,
        "env": st.dictionaries(st.text(), st.text()) | JSON,
        "cpu_millis": st.integers() | JSON,
        "memory_bytes": st.integers() | JSON,
    },
)


@given(
    data=st.lists(st.binary(max_size=40).map(lambda each: each.replace(b"\n", b""))), cut=st.data()
)
def test_lines_do_not_depend_on_how_they_arrive(data: list[bytes], cut: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in data)
    places = sorted(cut.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    buffer, found = LineBuffer(), []
    for begin, end in zip([0, *places], [*places, len(stream)], strict=True):
        found += buffer.feed(stream[begin:end])
    assert found == data


@pytest.mark.parametrize("end", [b"", b"\n", b"\nshort\n"])
def test_a_line_has_a_limit(end: bytes) -> None:
    assert LineBuffer().feed(b"x" * MAX_LINE_BYTES + b"\n") == [b"x" * MAX_LINE_BYTES]
    buffer = LineBuffer()
    buffer.feed(b"x" * MAX_LINE_BYTES)
    with pytest.raises(ProtocolError):
        buffer.feed(b"x" + end)


@given(line=st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_a_line_is_an_object_or_a_protocol_error(line: bytes) -> None:
    try:
        message = wire.decode(line)
    except ProtocolError:
        return
    assert isinstance(message, dict)
    encoded = wire.encode(message)
    assert encoded.count(b"\n") == 1
    assert encoded.endswith(b"\n")


@given(value=JSON | ORDERS)
def test_an_order_is_complete_or_refused(value: Any) -> None:
    order = _parsed(value)
    if order is None:
        return
    assert wire.NAME.fullmatch(order.attempt_id)
    assert min(order.cpu_millis, order.memory_bytes) >= 0
    strings = [*order.command, *(each for pair in order.env for each in pair)]
    assert not any(b"\0" in each for each in strings)
    assert all(name and b"=" not in name for name, _ in order.env)


def _parsed(value: Any) -> StartOrder | None:
    try:
        return wire.parse_order(value)
    except Refusal:
        return None


@pytest.mark.parametrize("name", ["", ".", "..", "-a", "a/b", "a b", "a\n", "ä", "a" * 129, ".a"])
def test_an_id_cannot_leave_its_directory(name: str) -> None:
    with pytest.raises(Refusal):
        wire.name_field({"attempt_id": name}, "attempt_id")
    assert wire.name_field({"attempt_id": "c-1.x_2"}, "attempt_id") == "c-1.x_2"
