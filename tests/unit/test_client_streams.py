"""Where a reader of events or of a log goes on after a broken connection: literal values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from longshore.dispatcher.api.schemas.containers import ContainerAnswer, EventAnswer
from longshore.dispatcher.client.errors import (
    ClientError,
    LostAnswerError,
    NotFoundError,
    RunCancelledError,
    RunFailedError,
    SeveralContainersError,
    UnexpectedAnswerError,
    read_as,
)
from longshore.dispatcher.client.event_stream import EventCursor, EventGap, Frame, FrameParser
from longshore.dispatcher.client.log_cursor import LogCursor
from longshore.dispatcher.client.waiting import (
    LOOK_INTERVAL_S,
    Reconnection,
    has_ended,
    look_after_s,
    only_one,
    result_of,
)

# ---- events: from bytes to frames ----------------------------------------------------------------

STREAM = (
    b"retry: 2000\n: longshore events\n\n"
    b'id: 7-1\nevent: container\ndata: {"number": 1}\n\n'
    b": heartbeat\n\n"
    b"event: gap\r\ndata: one\r\ndata:two\r\n\r\n"
    b"id: 7-2\n\n"
    b"event\ndata\n\n"
)
FRAMES = [
    Frame(id="7-1", kind="container", data=b'{"number": 1}'),
    Frame(id="", kind="gap", data=b"one\ntwo"),
]


@pytest.mark.parametrize("size", [1, 2, 7, len(STREAM)])
def test_frames_are_the_same_however_they_are_cut(size: int) -> None:
    parser = FrameParser()
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert [frame for piece in pieces for frame in parser.feed(piece)] == FRAMES


def test_half_a_frame_is_none() -> None:
    assert list(FrameParser().feed(b"id: 7-1\nevent: x\ndata: {}\n")) == []


def test_a_line_without_end_is_an_error() -> None:
    parser = FrameParser(max_line_bytes=100)
    assert list(parser.feed(b"x" * 100)) == []
    with pytest.raises(UnexpectedAnswerError, match="without end"):
        list(parser.feed(b"x"))


# ---- events: where to go on ----------------------------------------------------------------------


def frame(number: int, kind: str = "container") -> Frame:
    told = {"number": number, "kind": kind, "id": "c-1", "data": {}}
    return Frame(id=f"7-{number}", kind=kind, data=json.dumps(told).encode())


def test_a_reader_goes_on_behind_the_last_event_that_came() -> None:
    cursor = EventCursor()
    assert cursor.connected() is None
    first = cursor.take(frame(4))
    assert isinstance(first, EventAnswer)
    assert (first.number, first.id, cursor.last_id) == (4, "c-1", "7-4")
    cursor.take(frame(5))
    assert cursor.connected() is None
    assert cursor.last_id == "7-5"


def test_a_gap_that_the_server_tells_is_told_and_gone_on_behind() -> None:
    cursor = EventCursor(last_id="6-1")
    told = Frame(id="7-9", kind="gap", data=b'{"message": "Events are missing here."}')
    assert cursor.take(told) == EventGap(message="Events are missing here.")
    assert cursor.last_id == "7-9"
    between = Frame(id="", kind="gap", data=b"?")
    assert isinstance(cursor.take(between), EventGap)
    assert cursor.last_id == "7-9"


def test_a_connection_that_broke_before_any_event_leaves_a_gap() -> None:
    cursor = EventCursor()
    assert cursor.connected() is None
    gap = cursor.connected()
    assert gap is not None
    assert "missing" in gap.message
    cursor.take(frame(1))
    assert cursor.connected() is None


def test_who_begins_behind_an_event_misses_nothing_by_a_break() -> None:
    cursor = EventCursor(last_id="7-1")
    assert [cursor.connected(), cursor.connected()] == [None, None]


@pytest.mark.parametrize("data", [b'{"message": "The server is stopping."}', b"?", b"[1]"])
def test_what_is_no_event_is_passed_over_and_its_id_is_noted(data: bytes) -> None:
    cursor = EventCursor()
    assert cursor.take(Frame(id="7-3", kind="stopped", data=data)) is None
    assert cursor.last_id == "7-3"


# ---- logs ----------------------------------------------------------------------------------------


def attempt(stdout: int, *, outcome: str | None = "failed", complete: bool = True) -> Any:
    return {
        "id": "a",
        "outcome": outcome,
        "stdout_bytes": stdout,
        "stderr_bytes": 1,
        "log_complete": complete,
    }


def seen(*attempts: Any, before: int = 0, state: str = "running", **others: Any) -> ContainerAnswer:
    told = {
        "id": "c-1",
        "state": state,
        "attempts": attempts,
        "attempt_count": before + len(attempts),
        **others,
    }
    return read_as(told, ContainerAnswer)


OPEN = attempt(0, outcome=None, complete=False)


@pytest.mark.parametrize(
    ("first", "received", "second", "offset"),
    [
        # The same attempt: where we were.
        (seen(OPEN), 70, seen(OPEN), 70),
        (seen(OPEN), 70, seen(attempt(90)), 70),
        (seen(), 70, seen(OPEN), 70),
        (seen(), 0, seen(OPEN), 0),
        (seen(OPEN, before=200), 70, seen(OPEN, before=200), 70),
        # Another one: what was counted beyond all that the one before wrote is of the last.
        (seen(OPEN), 120, seen(attempt(100), OPEN), 20),
        (seen(OPEN), 100, seen(attempt(100), OPEN), 0),
        (seen(OPEN), 70, seen(attempt(100), OPEN), 0),
        (seen(attempt(5), OPEN), 120, seen(attempt(5), attempt(100), OPEN), 20),
        (seen(OPEN, before=7), 120, seen(attempt(100), OPEN, before=7), 20),
        # Several more.
        (seen(OPEN), 125, seen(attempt(100), attempt(20), OPEN), 5),
        (seen(), 125, seen(attempt(100), attempt(20), OPEN), 5),
        # Where nobody knows what it wrote: from the beginning.
        (seen(OPEN), 120, seen(attempt(0, outcome="lost", complete=False), OPEN), 0),
        (seen(OPEN), 120, seen(attempt(100, complete=False), OPEN), 0),
        (seen(OPEN), 120, seen(attempt(100, outcome=None), OPEN), 0),
        (seen(OPEN), 120, seen(OPEN, before=1), 0),
    ],
)
def test_where_a_log_is_taken_up(
    first: ContainerAnswer, received: int, second: ContainerAnswer, offset: int
) -> None:
    cursor = LogCursor(stream="stdout").seen(first).received(received)
    assert cursor.offset == received
    assert cursor.seen(second).offset == offset


def test_each_stream_has_its_own_sizes() -> None:
    cursor = LogCursor(stream="stderr").seen(seen(OPEN)).received(3)
    assert cursor.seen(seen(attempt(100), OPEN)).offset == 2


def test_an_offset_is_one_of_the_attempt_that_is_the_last() -> None:
    at_the_look = LogCursor(stream="stdout", offset=9).seen(seen(OPEN))
    assert at_the_look.is_of(seen(OPEN))
    assert not at_the_look.is_of(seen(attempt(100), OPEN))
    assert LogCursor(stream="stdout").seen(seen(OPEN)).is_of(seen(attempt(100), OPEN))


# ---- waiting -------------------------------------------------------------------------------------


def test_looks_are_soon_at_first_and_then_every_two_seconds() -> None:
    pauses = [look_after_s(looks) for looks in range(1, 2000)]
    assert pauses[0] == 0.1
    assert pauses == sorted(pauses)
    assert pauses[-1] == LOOK_INTERVAL_S == 2.0


@pytest.mark.parametrize(
    ("state", "ended"),
    [
        ("queued", False),
        ("locked", False),
        ("running", False),
        ("pending", False),
        ("succeeded", True),
        ("failed", True),
        ("cancelled", True),
    ],
)
def test_what_has_ended(state: str, ended: bool) -> None:
    assert has_ended(seen(state=state)) is ended


def test_a_result_is_what_a_future_would_give() -> None:
    good = seen(state="succeeded", exit_code=0)
    assert result_of(good) is good
    why = {"code": "exit_code", "message": "it is so"}
    with pytest.raises(RunFailedError, match="c-1 failed with exit code 3: it is so") as failed:
        result_of(seen(state="failed", exit_code=3, reason=why))
    assert failed.value.exit_code == 3
    with pytest.raises(RunFailedError, match=r"^c-1 failed$") as unknown:
        result_of(seen(state="failed"))
    assert unknown.value.exit_code is None
    with pytest.raises(RunCancelledError, match="c-1 was cancelled") as cancelled:
        result_of(seen(state="cancelled"))
    assert cancelled.value.answer is not None
    assert cancelled.value.answer.id == "c-1"


def test_one_container_is_meant_where_there_is_one() -> None:
    assert only_one("j-1", ["c-1"]) == "c-1"
    with pytest.raises(SeveralContainersError, match="several"):
        only_one("j-1", ["c-1", "c-2"])
    with pytest.raises(SeveralContainersError, match="no container yet"):
        only_one("j-1", [])


def pauses_of(going_on: Reconnection, error: ClientError, *times: float) -> list[float]:
    return [going_on.pause_s(error, now_s, 0.0) for now_s in times]


def test_who_had_contact_is_patient_and_pauses_grow() -> None:
    going_on, gone = Reconnection(patience_s=60.0, first_pause_s=0.5), LostAnswerError("gone")
    going_on.reached(100.0)
    assert pauses_of(going_on, gone, *[160.0] * 6) == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    going_on.reached(170.0)
    assert pauses_of(going_on, gone, 230.0) == [0.5]
    assert going_on.pause_s(gone, 230.0, 1.0) == 1.25
    with pytest.raises(LostAnswerError):
        going_on.pause_s(gone, 230.1, 0.0)


def test_a_refusal_is_no_absence_and_neither_is_one_that_never_was_there() -> None:
    going_on = Reconnection()
    with pytest.raises(LostAnswerError):
        going_on.pause_s(LostAnswerError("gone"), 0.0, 0.0)
    going_on.reached(0.0)
    with pytest.raises(NotFoundError):
        going_on.pause_s(NotFoundError("no", status=404), 0.0, 0.0)
