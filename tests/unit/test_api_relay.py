"""What a worker's session brings from inside of attempts; the test plays the runner."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from longshore.pool.remote.api_relay import (
    HELD_BYTES_MOST,
    OPEN_MOST,
    RETRY_AFTER_S,
    ApiAnswer,
    ApiRelay,
    InsideCall,
    OnAnswer,
    OnEnd,
)
from longshore.pool.remote.wire import ApiBody, ApiGone, ApiRequest, Push
from tests.rigs.session import Rig
from tests.sshd_host import wait_until

MIB = 2**20


class Asked:
    """Keeps what is asked, and how to answer it."""

    def __init__(self) -> None:
        self.calls: list[tuple[InsideCall, OnAnswer]] = []
        #: What to call when a request has ended, by its number.
        self.ends: list[OnEnd] = []

    def call(self, call: InsideCall, on_answer: OnAnswer, on_end: OnEnd) -> None:
        self.ends.append(on_end)
        self.calls.append((call, on_answer))


class RelayRig(Rig):
    """A session whose pushes go to a relay."""

    def __init__(self) -> None:
        super().__init__()
        self.port = Asked()
        self.relay = ApiRelay("w-1", self.port)
        self.ends: list[str] = []

    def begin(self) -> None:
        self.start(listener=self)

    def opened(self) -> None:
        assert self.session is not None
        self.relay.begin(self.session)

    def pushed(self, message: Push) -> None:
        assert self.session is not None
        assert isinstance(message, ApiRequest | ApiBody | ApiGone)
        self.relay.pushed(self.session, message)

    def heard(self) -> None:
        return

    def ended(self, reason: str) -> None:
        self.ends.append(reason)

    def tell(self, *messages: dict[str, Any]) -> None:
        """Say these, as far as anybody listens."""
        for message in messages:
            with contextlib.suppress(ConnectionError):  # it has ended over one before
                self.say(message)

    def asked(self, number: int) -> tuple[InsideCall, OnAnswer]:
        """Return the call of this number, once it is there."""
        wait_until(lambda: len(self.port.calls) > number, "the call")
        return self.port.calls[number]

    def end_reason(self) -> str:
        """Return why the session ended, once it has."""
        wait_until(lambda: bool(self.ends), "the end of the session")
        return self.ends[0]


@pytest.fixture
def rig() -> Iterator[RelayRig]:
    made = RelayRig()
    made.begin()
    yield made
    made.close()


def head(exchange: int, *, length: int = 0, **fields: Any) -> dict[str, Any]:
    return {
        "type": "api_request",
        "exchange": exchange,
        "attempt_id": "c-1-1",
        "method": "POST",
        "path": "/v1/containers",
        "headers": {"idempotency-key": "k"},
        "length": length,
        **fields,
    }


def piece(exchange: int, data: bytes) -> dict[str, Any]:
    text = base64.b64encode(data).decode()
    return {"type": "api_body", "exchange": exchange, "data": text}


def test_a_request_is_handed_over_with_the_worker_that_brought_it(rig: RelayRig) -> None:
    rig.tell(head(1, length=5), piece(1, b"[1"), piece(1, b",2]"))
    call, _ = rig.asked(0)
    assert call == InsideCall(
        worker_id="w-1",
        attempt_id="c-1-1",
        method="POST",
        path="/v1/containers",
        headers=(("idempotency-key", "k"),),
        body=b"[1,2]",
    )


def test_an_answer_goes_back_in_pieces_each_after_the_reply_to_the_one_before(
    rig: RelayRig,
) -> None:
    rig.tell(head(1))
    _, answer = rig.asked(0)
    body = bytes(range(256)) * 600
    answer(ApiAnswer(status=200, headers=(("content-type", "x"),), body=body))
    got = b""
    for number in range(3):
        message = rig.hear()
        assert (message["type"], message["exchange"]) == ("api_answer", 1)
        assert ("status" in message) is (number == 0)
        assert message["last"] is (number == 2)
        got += base64.b64decode(message["data"])
        rig.tell({"type": "reply", "id": message["id"], "ok": True})
    assert got == body


def test_who_is_gone_is_sent_nothing_more(rig: RelayRig) -> None:
    rig.tell(head(1))
    _, answer = rig.asked(0)
    rig.tell({"type": "api_gone", "exchange": 1}, head(2))
    _, second = rig.asked(1)
    answer(ApiAnswer(status=200))
    second(ApiAnswer(status=201))
    assert rig.hear()["exchange"] == 2


@pytest.mark.parametrize(
    "messages",
    [
        [head(2), head(2)],
        [head(2), head(1)],
        [head(n + 1, length=1) for n in range(OPEN_MOST + 1)],
        [head(n + 1, length=16 * MIB) for n in range(HELD_BYTES_MOST // (16 * MIB) + 1)],
        [head(1, length=2), piece(1, b"abc")],
        [head(1, length=2), piece(1, b"")],
        [head(1, length=2), piece(1, b"ab"), piece(1, b"ab")],
        [head(1, length=17 * MIB)],
        [head(1, method="CONNECT")],
        [head(1, path="http://elsewhere/")],
        [head(1, path="/v1 HTTP/1.1\r\nX: y")],
        [head(1, headers={"authorization": "Bearer x"})],
        [head(1, headers={"accept": "a\r\nAuthorization: Bearer x"})],
        [head(0)],
    ],
)
def test_what_no_honest_runner_says_ends_the_session(
    rig: RelayRig, messages: list[dict[str, Any]]
) -> None:
    rig.tell(*messages)
    assert not rig.end_reason().startswith("no message for")
    assert len(rig.port.calls) <= 2


def test_a_piece_for_nobody_is_passed_over(rig: RelayRig) -> None:
    rig.tell(piece(7, b"x"), {"type": "api_gone", "exchange": 7}, head(8))
    assert rig.asked(0)[0].method == "POST"


def refused(rig: RelayRig) -> int:
    """Return which exchange is answered next, with a 503 of the relay's own; reply to it."""
    message = rig.hear()
    assert message["status"] == 503
    assert message["headers"] == {
        "content-type": "application/problem+json",
        "retry-after": str(RETRY_AFTER_S),
    }
    told = json.loads(base64.b64decode(message["data"]))
    assert (told["status"], "ask again" in told["detail"]) == (503, True)
    rig.tell({"type": "reply", "id": message["id"], "ok": True})
    return int(message["exchange"])


@pytest.mark.parametrize("by", ["hanging up", "another session"])
def test_what_nobody_waits_for_counts_until_it_has_ended(
    rig: RelayRig, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setattr("longshore.pool.remote.api_relay.HELD_BYTES_MOST", 20)
    for number in (1, 2):
        rig.tell(head(number, length=8), piece(number, b"12345678"))
        rig.asked(number - 1)
    if by == "hanging up":
        rig.tell(*({"type": "api_gone", "exchange": number} for number in (1, 2)))
    else:
        assert rig.session is not None
        rig.relay.begin(rig.session)
    rig.tell(head(3, length=8), piece(3, b"abcd"), piece(3, b"efgh"))
    assert refused(rig) == 3
    rig.tell(head(4, length=4), piece(4, b"1234"))
    assert rig.asked(2)[0].body == b"1234", "for this one there is room"
    rig.port.ends[0]()
    rig.tell(head(5, length=8), piece(5, b"abcdefgh"))
    assert rig.asked(3)[0].body == b"abcdefgh"
    assert rig.ends == []


def test_so_many_are_at_the_server_whoever_hangs_up(rig: RelayRig) -> None:
    for number in range(1, OPEN_MOST + 1):
        rig.tell(head(number), {"type": "api_gone", "exchange": number})
    rig.tell(head(100))
    assert refused(rig) == 100
    assert len(rig.port.calls) == OPEN_MOST
    # Who has been answered has not ended yet.
    rig.port.calls[0][1](ApiAnswer(status=200))
    rig.tell(head(101))
    assert refused(rig) == 101
    rig.port.ends[0]()
    rig.tell(head(102))
    rig.asked(OPEN_MOST)


def test_answers_that_nobody_takes_are_bounded_too(
    rig: RelayRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.pool.remote.api_relay.HELD_BYTES_MOST", 20)
    rig.tell(head(1), head(2), head(3))
    answers = [rig.asked(number)[1] for number in range(3)]
    answers[0](ApiAnswer(status=200, body=b"x" * 16))
    first = rig.hear()
    rig.tell({"type": "api_gone", "exchange": 1})
    answers[1](ApiAnswer(status=200, body=b"x" * 16))
    assert refused(rig) == 2
    rig.tell({"type": "reply", "id": first["id"], "ok": False, "code": "unknown", "message": ""})
    wait_until(lambda: sum(each.answer_bytes for each in rig.relay._held) == 0, "the reply")
    answers[2](ApiAnswer(status=200, body=b"x" * 16))
    assert (rig.hear()["exchange"], rig.ends) == (3, [])


def test_nothing_is_kept_of_what_has_ended(rig: RelayRig) -> None:
    rig.tell(head(1), head(2, length=4), piece(2, b"ab"), head(3))
    rig.asked(0)[1](ApiAnswer(status=200))
    rig.tell({"type": "reply", "id": rig.hear()["id"], "ok": True})
    rig.port.ends[0]()
    rig.tell({"type": "api_gone", "exchange": 2})
    rig.asked(1)
    rig.port.ends[1]()
    wait_until(lambda: len(rig.relay._held) == 1, "that of the third")
    assert list(rig.relay._open) == [3]
    assert rig.session is not None
    rig.relay.begin(rig.session)
    assert rig.relay._held == set()
