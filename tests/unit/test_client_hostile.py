"""Both clients against servers that hang up, refuse, lie or are something else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from longshore.client import (
    AsyncClient,
    Client,
    ClientError,
    EventAnswer,
    EventGap,
    InvalidSettingsError,
    LostAnswerError,
    NotFoundError,
    OutcomeUnknownError,
    RateLimitedError,
    UnavailableError,
    UnexpectedAnswerError,
    UnreachableError,
)
from longshore.dispatcher.client.errors import IN_DOUBT_TYPE
from longshore.dispatcher.client.exchange import RepeatPolicy
from tests.both_clients import CALLERS, Caller
from tests.stranger_server import Behaviour, Stranger, answering, stranger_server

CREATED = answering(201, b'{"id": "c-1", "state": "queued"}')
FOUND = answering(200, b'{"id": "c-1", "state": "queued"}')
IN_DOUBT = answering(
    503, json.dumps({"type": IN_DOUBT_TYPE, "title": "x", "detail": "Who knows."}).encode()
)
REPEATS = RepeatPolicy().repeats


def hanging_up(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    handler.connection.close()


def refusing(status: int, *, retry_after: str = "") -> Behaviour:
    """Return what refuses with a problem document."""
    body = json.dumps({"title": "x", "detail": "Not now."}).encode()

    def behave(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        if retry_after:
            handler.send_header("Retry-After", retry_after)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return behave


def streaming(*chunks: bytes, whole: bool = False) -> Behaviour:
    """Return what sends chunks of a stream, and breaks off unless that is the `whole` of it."""

    def behave(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for chunk in (*chunks, b"") if whole else chunks:
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        handler.close_connection = True

    return behave


def container(*sizes: int, running: bool = True) -> Behaviour:
    """Return what answers with a container whose attempts wrote so much; the last may run."""
    attempts = [
        {"id": "a", "outcome": "failed", "stdout_bytes": size, "log_complete": True}
        for size in sizes
    ]
    if running:
        attempts.append({"id": "a", "outcome": None, "stdout_bytes": 0, "log_complete": False})
    told = {
        "id": "c-1",
        "state": "running",
        "attempts": attempts,
        "attempt_count": len(attempts),
    }
    return answering(200, json.dumps(told).encode())


@pytest.fixture
def stranger() -> Iterator[tuple[str, type[Stranger]]]:
    with stranger_server() as served:
        yield served


@pytest.fixture(params=list(CALLERS))
def way(request: pytest.FixtureRequest) -> Callable[..., Caller]:
    return CALLERS[request.param]


@pytest.fixture
def call(
    stranger: tuple[str, type[Stranger]],
    way: Callable[..., Caller],
    monkeypatch: pytest.MonkeyPatch,
) -> Caller:
    monkeypatch.setattr("longshore.dispatcher.client.waiting.LONGEST_PAUSE_S", 0.0)
    return way(stranger[0], token="s3cret")


Seen = list[tuple[str, str, dict[str, str], bytes]]


@pytest.fixture
def seen(stranger: tuple[str, type[Stranger]]) -> Seen:
    return stranger[1].seen


@pytest.fixture
def behaves(stranger: tuple[str, type[Stranger]]) -> Callable[..., None]:
    def set_(*behaviours: Behaviour) -> None:
        stranger[1].behaviours[:] = behaviours

    return set_


# ---- repeating -----------------------------------------------------------------------------------


def test_a_create_is_sent_again_under_the_same_key(
    call: Caller, seen: Seen, behaves: Callable[..., None]
) -> None:
    behaves(hanging_up, IN_DOUBT, refusing(503, retry_after="1"), CREATED)
    assert call("submit", ["x"]).id == "c-1"
    assert len(seen) == 4
    assert len({headers["Idempotency-Key"] for _, _, headers, _ in seen}) == 1
    assert len({body for *_, body in seen}) == 1
    seen.clear()
    assert call("submit", ["x"], idempotency_key="mine").id == "c-1"
    assert seen[0][2]["Idempotency-Key"] == "mine"


@pytest.mark.parametrize(
    ("behaviour", "kind"), [(hanging_up, LostAnswerError), (IN_DOUBT, OutcomeUnknownError)]
)
def test_what_remains_in_doubt_is_told_with_its_key(
    call: Caller,
    seen: Seen,
    behaves: Callable[..., None],
    behaviour: Behaviour,
    kind: type[ClientError],
) -> None:
    behaves(behaviour)
    with pytest.raises(kind) as doubtful:
        call("submit", ["x"])
    assert doubtful.value.in_doubt
    assert len(seen) == 1 + REPEATS
    assert {headers["Idempotency-Key"] for _, _, headers, _ in seen} == {
        doubtful.value.idempotency_key
    }


@pytest.mark.parametrize("behaviour", [hanging_up, IN_DOUBT])
def test_what_has_no_key_and_changes_something_is_sent_once(
    call: Caller, seen: Seen, behaves: Callable[..., None], behaviour: Behaviour
) -> None:
    behaves(behaviour)
    with pytest.raises(ClientError):
        call("cancel_container", "c-1")
    assert len(seen) == 1


def test_a_rate_limit_is_waited_for_by_every_call(
    call: Caller, seen: Seen, behaves: Callable[..., None]
) -> None:
    behaves(refusing(429, retry_after="3"), FOUND)
    assert call("cancel_container", "c-1").id == "c-1"
    assert len(seen) == 2
    seen.clear()
    behaves(refusing(429, retry_after="3"))
    with pytest.raises(RateLimitedError) as limited:
        call("container", "c-1")
    assert (limited.value.retry_after_s, len(seen)) == (3.0, 1 + REPEATS)


def test_a_refusal_that_names_no_time_is_final(
    call: Caller, seen: Seen, behaves: Callable[..., None]
) -> None:
    behaves(refusing(503))
    with pytest.raises(UnavailableError):
        call("submit", ["x"])
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("behaviour", "sentence"),
    [
        (answering(200, b"<html>", "text/html"), "is not a Longshore server"),
        (answering(404, b"<html>", "text/html"), "is not a Longshore server"),
        (answering(302, b""), r"\(status 302\)"),
        (answering(502, b"Bad Gateway", "text/plain"), r"\(status 502\)"),
        (answering(200, b'{"id": 5, "state": {}}'), "cannot read what the server says"),
        (answering(200, b"[]"), "cannot read what the server says"),
    ],
)
def test_what_is_no_answer_is_told(
    call: Caller, behaves: Callable[..., None], behaviour: Behaviour, sentence: str
) -> None:
    behaves(behaviour)
    with pytest.raises(UnexpectedAnswerError, match=sentence):
        call("container", "c-1")


def test_half_an_answer_is_none(call: Caller, seen: Seen, behaves: Callable[..., None]) -> None:
    def half(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"id": "c-1"')
        handler.close_connection = True

    behaves(half, FOUND)
    assert call("container", "c-1").id == "c-1"
    assert len(seen) == 2


def test_an_answer_that_is_too_large_is_none_and_harms_no_other(
    stranger: tuple[str, type[Stranger]],
    behaves: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, _ = stranger
    for rim in ("blocking_transport", "async_transport"):
        monkeypatch.setattr(f"longshore.dispatcher.client.{rim}.MAX_BODY_BYTES", 100)
    behaves(answering(200, b'{"id": "c-1"}' + b" " * 10_000 + b"{"), FOUND)
    with Client(url) as client:
        with pytest.raises(UnexpectedAnswerError):
            client.job("j-1")
        # Not repeated, so that a connection that is spoilt would show.
        assert client.cancel_container("c-1").id == "c-1"

    async def of_async() -> str:
        async with AsyncClient(url) as client:
            with pytest.raises(UnexpectedAnswerError):
                await client.job("j-1")
            return (await client.container("c-1")).id

    behaves(answering(200, b"[" + b" " * 10_000), FOUND)
    assert asyncio.run(of_async()) == "c-1"


@pytest.mark.parametrize("method", ["logs", "events"])
def test_an_answer_that_is_no_stream_is_told(
    call: Caller, behaves: Callable[..., None], method: str
) -> None:
    behaves(FOUND, answering(206, b"?")) if method == "logs" else behaves(answering(206, b"?"))
    with pytest.raises(UnexpectedAnswerError):
        call(method, *(["c-1"] if method == "logs" else []), most=1)


def test_a_redirect_never_carries_the_token_elsewhere(
    call: Caller, seen: Seen, behaves: Callable[..., None]
) -> None:
    behaves(answering(302, b""))
    with pytest.raises(UnexpectedAnswerError):
        call("container", "c-1")
    assert [headers["Authorization"] for _, _, headers, _ in seen] == ["Bearer s3cret"]


def test_ids_are_quoted_and_never_another_path(
    call: Caller, seen: Seen, behaves: Callable[..., None]
) -> None:
    behaves(FOUND)
    call("container", "../../x?y#z é")
    assert seen[0][1] == "/v1/containers/..%2F..%2Fx%3Fy%23z%20%C3%A9"


@pytest.mark.parametrize("url", ["http://a..b", "http://" + "x" * 70])
def test_a_name_that_can_be_no_servers(way: Callable[..., Caller], url: str) -> None:
    with pytest.raises((InvalidSettingsError, UnreachableError)):
        way(url)("live")


def test_a_name_that_does_not_resolve(way: Callable[..., Caller]) -> None:
    with pytest.raises(UnreachableError, match="its name does not resolve"):
        way("http://nowhere.invalid")("live")


# ---- logs ----------------------------------------------------------------------------------------


def offsets(seen: Seen) -> list[str]:
    return [path.partition("?")[2] for _, path, _, _ in seen if "/logs" in path]


def test_a_log_is_taken_up_where_it_broke(
    call: Caller, seen: Seen, behaves: Callable[..., None]
) -> None:
    behaves(
        container(),
        streaming(b"one ", b"two "),
        hanging_up,
        container(),
        streaming(),  # before the look that proves its attempt
        container(),
        container(),
        streaming(b"three", whole=True),
        container(),
    )
    assert b"".join(call("logs", "c-1", follow=True)) == b"one two three"
    assert offsets(seen) == [f"stream=stdout&offset={n}&follow=true" for n in (0, 8, 8)]


def test_another_attempt_is_read_from_its_beginning_or_from_what_surely_came(
    call: Caller, seen: Seen, behaves: Callable[..., None]
) -> None:
    behaves(
        container(),
        streaming(b"12345", b"abc"),
        container(5),
        streaming(b"def", whole=True),
        container(5),
    )
    assert b"".join(call("logs", "c-1", follow=True)) == b"12345abcdef"
    assert [each.split("&")[1] for each in offsets(seen)] == ["offset=0", "offset=3"]


def test_an_attempt_that_begins_between_the_look_and_the_answer_is_not_read_from_the_middle(
    call: Caller, seen: Seen, behaves: Callable[..., None]
) -> None:
    behaves(
        container(),
        streaming(b"12345"),
        container(),  # the look: still the same attempt
        streaming(b"WRONG", whole=True),  # of another one, from an offset that is not its own
        container(9),  # the look that tells
        container(9),
        streaming(b"abc", whole=True),
        container(9),
    )
    assert b"".join(call("logs", "c-1", follow=True)) == b"12345abc"
    assert [each.split("&")[1] for each in offsets(seen)] == ["offset=0", "offset=5", "offset=0"]


def test_a_log_of_nobody_ends_at_once(call: Caller, behaves: Callable[..., None]) -> None:
    behaves(refusing(404))
    with pytest.raises(NotFoundError):
        call("logs", "c-1", follow=True)


# ---- events --------------------------------------------------------------------------------------


def event(number: int, epoch: int = 7) -> bytes:
    told = {"number": number, "kind": "container", "id": f"c-{number}", "data": {}}
    return f"id: {epoch}-{number}\nevent: container\ndata: {json.dumps(told)}\n\n".encode()


def last_ids(seen: Seen) -> list[str | None]:
    return [headers.get("Last-Event-ID") for _, path, headers, _ in seen if "events" in path]


def summary(told: list[Any]) -> list[object]:
    return [each.number if isinstance(each, EventAnswer) else type(each) for each in told]


def test_events_go_on_behind_the_last_that_came(
    call: Caller, seen: Seen, behaves: Callable[..., None]
) -> None:
    behaves(
        streaming(b": hello\n\n" + event(1), event(2)[:20]),
        hanging_up,
        streaming(event(2), b"event: stopped\ndata: {}\n\n", whole=True),
        streaming(event(3)),
    )
    assert summary(call("events", most=3)) == [1, 2, 3]
    assert last_ids(seen) == [None, "7-1", "7-1", "7-2"]


def test_a_gap_stands_where_events_are_missing(
    call: Caller, seen: Seen, behaves: Callable[..., None]
) -> None:
    gap = b'id: 8-40\nevent: gap\ndata: {"message": "missing"}\n\n'
    behaves(
        streaming(b": hello\n\n"),
        streaming(event(1)),
        streaming(gap),
        streaming(event(41, 8)),
    )
    assert summary(call("events", most=4)) == [EventGap, 1, EventGap, 41]
    assert last_ids(seen) == [None, None, "7-1", "8-40"]


def test_an_event_without_end_ends_the_reading(
    call: Caller, behaves: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "longshore.dispatcher.client.event_stream.FrameParser.__init__.__defaults__", (1000,)
    )
    behaves(streaming(*[b"x" * 600] * 3))
    with pytest.raises(UnexpectedAnswerError, match="without end"):
        call("events", most=1)


def test_events_that_are_refused_end(call: Caller, behaves: Callable[..., None]) -> None:
    behaves(refusing(403))
    with pytest.raises(ClientError, match="Not now"):
        call("events", most=1)
