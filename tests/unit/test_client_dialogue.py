"""What the clients say to a server, step by step: no server, no clock, no event loop."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Generator, Mapping
from typing import Any

import pytest

from longshore.client import (
    AsyncClient,
    Client,
    ClientError,
    LostAnswerError,
    UnexpectedAnswerError,
    UnreachableError,
)
from longshore.dispatcher.client import calls
from longshore.dispatcher.client.dialogue import (
    AskForTls,
    Dialogue,
    Done,
    Open,
    Opened,
    Outside,
    Pause,
    Send,
    Tell,
    advanced,
)
from longshore.dispatcher.client.exchange import AnswerLost, NotReached, Received, RepeatPolicy
from longshore.dispatcher.client.log_cursor import LogCursor

LOST = AnswerLost(late=False)
QUEUED = {"id": "c-1", "state": "queued"}
ENDED = {"id": "c-1", "state": "succeeded"}


def dialogue(
    *times_s: float, policy: RepeatPolicy | None = None, url: str = "https://s"
) -> Dialogue:
    """Return what can be said while a clock tells these times, then the last for ever."""
    left = list(times_s)
    return Dialogue(
        url=url,
        policy=policy or RepeatPolicy(),
        outside=Outside(
            now_s=lambda: (left.pop(0) if len(left) > 1 else left[0]) if left else 0.0,
            dice=lambda: 0.0,
            new_key=lambda: "new",
        ),
    )


def answer(told: Mapping[str, Any], status: int = 200) -> Received:
    return Received(status=status, headers={}, body=json.dumps(told).encode())


def said(step: object) -> str:
    """Return a step as a word of the tables below."""
    match step:
        case Send(call=call):
            word = f"{call.method} {call.target}"
        case Open(call=call):
            word = f"open {call.target}"
        case Pause(after_s=after_s):
            word = f"pause {after_s:g}"
        case Tell(item=item):
            word = f"tell {getattr(item, 'id', item)}"
        case _:
            word = type(step).__name__.lower()
    return word


def course(steps: Generator[Any, Any, Any], *came: object) -> list[str]:
    """Return the steps that follow when this comes of one after another."""
    return [said(advanced(steps, each)) for each in (None, *came)]


def test_a_call_is_sent_until_its_answer_is_there() -> None:
    steps = dialogue().run(calls.container("c-1"))
    assert course(steps, LOST, None, NotReached(cause="x"), None, answer(QUEUED)) == [
        "GET /v1/containers/c-1",
        "pause 0.5",
        "GET /v1/containers/c-1",
        "pause 1",
        "GET /v1/containers/c-1",
        "done",
    ]


def test_what_is_final_is_raised() -> None:
    steps = dialogue(policy=RepeatPolicy(repeats=0)).run(calls.container("c-1"))
    advanced(steps, None)
    with pytest.raises(LostAnswerError):
        advanced(steps, LOST)


PAGE = Received(status=400, headers={}, body=b"<p>Use the HTTPS scheme</p>")
REFUSAL = answer({"title": "x"}, 400)


@pytest.mark.parametrize(
    ("url", "came", "is_asked"),
    [
        ("http://s", LOST, True),
        ("http://s", PAGE, True),
        ("http://s", AnswerLost(late=True), False),
        ("http://s", NotReached(cause="x"), False),
        ("http://s", REFUSAL, False),
        ("http://s", answer(QUEUED, 500), False),
        ("https://s", LOST, False),
        ("unix:///s.sock", LOST, False),
    ],
)
def test_a_port_is_asked_for_tls_where_it_may_speak_it(
    url: str, came: Received | NotReached | AnswerLost, *, is_asked: bool
) -> None:
    once = RepeatPolicy(repeats=0, repeats_unreached=0)
    steps = dialogue(policy=once, url=url).body(calls.container("c-1").call)
    advanced(steps, None)
    if not is_asked:
        with pytest.raises(ClientError):
            advanced(steps, came)
        return
    assert advanced(steps, came) == AskForTls()
    with pytest.raises(UnreachableError, match=r"speaks TLS.*\. Set .* to https://s;"):
        advanced(steps, True)


def test_what_speaks_no_tls_is_told_as_before_and_asked_once() -> None:
    steps = dialogue(url="http://s").body(calls.container("c-1").call)
    assert course(steps, LOST, False, None, LOST)[1:] == [
        "askfortls",
        "pause 0.5",
        "GET /v1/containers/c-1",
        "pause 1",
    ]


@pytest.mark.parametrize(("given", "key"), [(None, "new"), ("", ""), ("mine", "mine")])
def test_a_key_is_made_where_none_is_given(given: str | None, key: str) -> None:
    assert dialogue().key(given) == key


@pytest.mark.parametrize("last", [{"items": [ENDED]}, {"items": [], "next_cursor": "z"}])
def test_a_listing_ends_with_its_last_page_or_an_empty_one(last: Mapping[str, Any]) -> None:
    first = answer({"items": [QUEUED], "next_cursor": "y"})
    told = ["tell c-1"] if last["items"] else []
    steps = dialogue().items(calls.containers(state="queued"))
    came = [first, None, answer(last), *(None for _ in told)]
    assert course(steps, *came) == [
        "GET /v1/containers?state=queued&limit=500",
        "tell c-1",
        "GET /v1/containers?state=queued&limit=500&cursor=y",
        *told,
        "done",
    ]


def test_a_listing_is_returned_whole() -> None:
    steps = dialogue().whole(calls.containers())
    advanced(steps, None)
    advanced(steps, answer({"items": [QUEUED], "next_cursor": "y"}))
    whole = advanced(steps, answer({"items": [ENDED]}))
    assert isinstance(whole, Done)
    assert [each.state for each in whole.result.items] == ["queued", "succeeded"]
    assert whole.result.next_cursor is None


def test_a_log_that_breaks_is_closed_and_taken_up_where_it_broke() -> None:
    steps = dialogue().log("c-1", LogCursor(stream="stdout"), follow=False)
    running = answer({"id": "c-1", "state": "running"})
    came = [running, Opened(), b"abc", None, LOST, None, None, running, Opened(), running, b""]
    assert course(steps, *came) == [
        "GET /v1/containers/c-1",
        "open /v1/containers/c-1/logs?stream=stdout&offset=0",
        "read",
        "tell b'abc'",
        "read",
        "close",
        "pause 0.25",
        "GET /v1/containers/c-1",
        "open /v1/containers/c-1/logs?stream=stdout&offset=3",
        "GET /v1/containers/c-1",
        "read",
        "done",
    ]


def test_a_log_of_another_attempt_is_closed_and_asked_for_anew() -> None:
    attempt = {"id": "a", "outcome": "failed", "stdout_bytes": 9, "log_complete": True}
    one = answer({"id": "c-1", "state": "running", "attempts": [attempt]})
    two = answer({"id": "c-1", "state": "running", "attempts": [attempt, attempt]})
    steps = dialogue().log("c-1", LogCursor(stream="stdout", offset=3, attempts=1), follow=False)
    assert course(steps, one, Opened(), two, None)[2:] == [
        "GET /v1/containers/c-1",
        "close",
        "GET /v1/containers/c-1",
    ]


def test_events_are_asked_for_again_behind_the_last_one() -> None:
    event = b'id: 7-1\ndata: {"number": 1, "kind": "k", "id": "c-1", "at": "", "data": {}}\n\n'
    steps = dialogue().events("")
    seen = course(steps, Opened(), event, None, b"", None)
    assert seen == ["open /v1/events", "read", "tell c-1", "read", "close", "pause 0.25"]
    again = advanced(steps, None)
    assert isinstance(again, Open)
    assert again.call.last_event_id == "7-1"


def test_an_answer_that_is_no_stream_is_no_answer() -> None:
    steps = dialogue().opened(calls.events(""), 1.0)
    advanced(steps, None)
    with pytest.raises(UnexpectedAnswerError):
        advanced(steps, answer(QUEUED, 206))


def test_who_waits_looks_until_the_end_and_goes_on_without_the_server() -> None:
    known = calls.container("c-1").read(QUEUED)
    steps = dialogue().looks(calls.container("c-1"), known, None)
    gone = answer({"title": "x"}, 500)
    came = [None, gone, None, None, None, answer(QUEUED), None, None, answer(ENDED), None]
    assert course(steps, *came) == [
        "pause 0.1",
        "GET /v1/containers/c-1",
        "close",
        "pause 0.25",
        "pause 0.15",
        "GET /v1/containers/c-1",
        "tell c-1",
        "pause 0.225",
        "GET /v1/containers/c-1",
        "tell c-1",
        "done",
    ]


def test_who_waits_does_so_no_longer_than_asked() -> None:
    known = calls.container("c-1").read(QUEUED)
    steps = dialogue(100.0, 100.95, 101.0).looks(calls.container("c-1"), known, 1.0)
    assert course(steps, None, answer(QUEUED)) == [
        "pause 0.05",
        "GET /v1/containers/c-1",
        "tell c-1",
    ]
    with pytest.raises(TimeoutError, match=r"c-1 has not ended within 1 s"):
        advanced(steps, None)


@pytest.mark.parametrize("client", [Client, AsyncClient])
@pytest.mark.parametrize("make", [calls.container, calls.containers, calls.token])
def test_a_method_has_the_name_the_docstring_and_the_parameters_of_its_function(
    client: type[Any], make: Callable[..., Any]
) -> None:
    method = getattr(client, make.__name__)
    assert (method.__name__, method.__doc__) == (make.__name__, make.__doc__)
    told = list(inspect.signature(method).parameters.values())
    assert told[0].name == "self"
    assert told[1:] == list(inspect.signature(make).parameters.values())
    assert inspect.iscoroutinefunction(method) == (
        client is AsyncClient and make is not calls.containers
    )
