"""The session against a peer that the test plays itself, over a real pair of sockets."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from longshore.drivers.errors import CommandFailed, Unreachable
from longshore.pool.remote.session_requests import RequestFailed, SendQueue
from longshore.pool.remote.wire import Heartbeat, LogChunk, MalformedMessageError, Push, Reply
from tests.rigs.session import HELLO, Recorder, Rig
from tests.sshd_host import wait_until


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.close()


@pytest.fixture
def hasty() -> Iterator[Rig]:
    made = Rig(request_timeout_s=0.2, heartbeat_timeout_s=1.0)
    yield made
    made.close()


def test_hellos_are_exchanged(rig: Rig) -> None:
    rig.say(HELLO)
    session = rig.attach()
    assert session.hello.boot_id == "b"
    assert rig.hear() == {
        "type": "hello",
        "protocol": 1,
        "cluster": "c1",
        "epoch": 7,
        "runner_sha256": "abc",
        "heartbeat_interval_s": 5.0,
    }


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ({"type": "refused", "code": "epoch", "message": "old"}, CommandFailed, "epoch: old"),
        ({"type": "heartbeat"}, MalformedMessageError, "no hello"),
        (HELLO | {"cluster": "c2"}, MalformedMessageError, "c2"),
        (HELLO | {"protocol": 2}, MalformedMessageError, "another runner"),
        (HELLO | {"runner_sha256": "x"}, MalformedMessageError, "another runner"),
    ],
)
def test_no_session_without_the_right_hello(
    rig: Rig, answer: dict[str, Any], error: type[Exception], message: str
) -> None:
    rig.say(answer)
    with pytest.raises(error, match=message):
        rig.attach()


def test_a_runner_that_ends_at_once_is_told_with_its_last_words(rig: Rig) -> None:
    rig.theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(CommandFailed, match="last words"):
        rig.attach()


def test_a_runner_that_says_nothing_is_not_waited_for() -> None:
    rig = Rig(attach_timeout_s=0.2)
    began = time.monotonic()
    with pytest.raises(Unreachable):
        rig.attach()
    assert time.monotonic() - began < 9
    rig.close()


def test_replies_find_their_requests_in_any_order(rig: Rig) -> None:
    session = rig.start()
    answers: dict[str, queue.Queue[Reply | RequestFailed]] = {}
    for name in ("a", "b"):
        answers[name] = queue.Queue()
        session.request("kill", {"attempt_id": name, "signal": "TERM"}, answers[name].put)
    first, second = rig.hear(), rig.hear()
    assert first | {"id": 0} == {
        "type": "kill",
        "id": 0,
        "epoch": 7,
        "attempt_id": "a",
        "signal": "TERM",
    }
    rig.say({"type": "reply", "id": second["id"], "ok": True})
    rig.say({"type": "reply", "id": 4711, "ok": True})
    rig.say({"type": "reply", "id": first["id"], "ok": False, "code": "x", "message": "y"})
    assert answers["b"].get(timeout=60) == Reply(id=second["id"], ok=True)
    assert answers["a"].get(timeout=60) == Reply(id=first["id"], ok=False, code="x", message="y")


def test_pushes_reach_the_listener_also_those_behind_the_hello(rig: Rig) -> None:
    chunk = {"type": "log", "attempt_id": "a", "stream": "stdout", "offset": 0, "data": "aGk="}
    both = json.dumps(HELLO) + "\n" + json.dumps(chunk) + "\n"
    rig.theirs.sendall(both.encode())
    rig.attach().start(rig.listener)
    rig.say({"type": "heartbeat", "broken": "disk"})
    expected = LogChunk(attempt_id="a", stream="stdout", offset=0, data=b"hi")
    assert rig.listener.pushes.get(timeout=60) == expected
    assert rig.listener.pushes.get(timeout=60) == Heartbeat(broken="disk")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"nonsense\n", "malformed"),
        (json.dumps(HELLO).encode() + b"\n", "second hello"),
        (b"x" * (1024 * 1024 + 1), "more than"),
    ],
)
def test_a_malformed_message_ends_the_session_with_a_reason(
    rig: Rig, line: bytes, reason: str
) -> None:
    session = rig.start()
    session.request("list", {}, rig.replies.put)
    rig.theirs.sendall(line)
    failed = rig.replies.get(timeout=60)
    assert isinstance(failed, RequestFailed)
    wait_until(lambda: bool(rig.listener.ends), "the end")
    assert len(rig.listener.ends) == 1
    assert reason in rig.listener.ends[0]


def test_a_silent_peer_is_lost_once(hasty: Rig) -> None:
    session = hasty.start()
    session.join()
    assert hasty.listener.ends == ["no message for 1 s"]


def test_a_peer_that_talks_but_says_nothing_is_lost_too(hasty: Rig) -> None:
    hasty.start()
    deadline = time.monotonic() + 60
    while not hasty.listener.ends and time.monotonic() < deadline:
        try:
            hasty.theirs.sendall(b" ")
        except OSError:
            break
        hasty.listener.hold.wait(0.02)
    wait_until(lambda: bool(hasty.listener.ends), "the end")
    assert hasty.listener.ends == ["no message for 1 s"]


def test_heartbeats_keep_a_session_alive(hasty: Rig) -> None:
    hasty.start()
    began = time.monotonic()
    while time.monotonic() - began < 2.5:
        hasty.say({"type": "heartbeat"})
        hasty.listener.pushes.get(timeout=60)
        time.sleep(0.02)  # far more often than it was told, and no flood
    assert hasty.listener.ends == []


def test_a_slow_listener_is_no_loss(hasty: Rig) -> None:
    session = hasty.start()
    hasty.listener.hold.clear()
    hasty.say({"type": "heartbeat"})
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 3.0, "three timeouts")
    hasty.listener.hold.set()
    hasty.listener.pushes.get(timeout=60)
    hasty.say({"type": "heartbeat"})
    hasty.listener.pushes.get(timeout=60)
    session.close()
    assert hasty.listener.ends == []


def test_a_request_without_a_reply_fails_and_the_session_goes_on(hasty: Rig) -> None:
    session = hasty.start()
    session.request("list", {}, hasty.replies.put)
    number = hasty.hear()["id"]
    failed = None
    while failed is None:
        hasty.say({"type": "heartbeat"})
        hasty.listener.pushes.get(timeout=60)
        try:
            failed = hasty.replies.get(timeout=0.02)
        except queue.Empty:
            continue
    assert failed == RequestFailed(message="no reply within 0.2 s")
    hasty.say({"type": "reply", "id": number, "ok": True})
    hasty.say({"type": "heartbeat"})
    hasty.listener.pushes.get(timeout=60)
    assert hasty.replies.empty()
    assert hasty.listener.ends == []


def test_a_request_fails_in_time_also_when_the_far_side_is_silent() -> None:
    rig = Rig(request_timeout_s=0.2)
    rig.start().request("list", {}, rig.replies.put)
    assert rig.replies.get(timeout=60) == RequestFailed(message="no reply within 0.2 s")
    rig.close()


@pytest.mark.parametrize(
    ("value", "code"), [("x" * (1024 * 1024), "too_large"), ("\ud800", "invalid")]
)
def test_what_cannot_be_sent_is_refused_at_once(rig: Rig, value: str, code: str) -> None:
    rig.start().request("start", {"attempt": value}, rig.replies.put)
    failed = rig.replies.get_nowait()
    assert isinstance(failed, RequestFailed)
    assert failed.code == code


def test_a_peer_that_reads_nothing_blocks_nobody(rig: Rig) -> None:
    session = rig.start()
    refused: list[RequestFailed] = []
    full = threading.Event()

    def on_reply(reply: Reply | RequestFailed) -> None:
        assert isinstance(reply, RequestFailed)
        refused.append(reply)
        full.set()

    began = time.monotonic()
    sent = 0
    while not full.is_set():
        session.request("start", {"attempt": "x" * 100_000}, on_reply)
        sent += 1
    assert time.monotonic() - began < 9
    assert refused == [RequestFailed(message="too much waits to be sent")]
    session.close()
    assert len(refused) == sent


def test_every_request_gets_exactly_one_answer_when_the_session_dies_under_them(rig: Rig) -> None:
    session = rig.start()
    counts = [0] * 2000
    lock = threading.Lock()

    def ask(first: int) -> None:
        for number in range(first, 2000, 4):

            def on_reply(_: Reply | RequestFailed, number: int = number) -> None:
                with lock:
                    counts[number] += 1

            session.request("list", {}, on_reply)

    def answer() -> None:
        for _ in range(300):
            rig.say({"type": "reply", "id": rig.hear()["id"], "ok": True})
        rig.theirs.shutdown(socket.SHUT_RDWR)

    threads = [threading.Thread(target=ask, args=(first,)) for first in range(4)]
    threads.append(threading.Thread(target=answer))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=15)
    assert not any(thread.is_alive() for thread in threads)
    session.join()
    assert counts == [1] * 2000
    assert len(rig.listener.ends) == 1


def test_nobody_hears_of_a_session_that_was_closed(rig: Rig) -> None:
    session = rig.start()
    session.request("list", {}, rig.replies.put)
    session.close()
    assert isinstance(rig.replies.get_nowait(), RequestFailed)
    session.request("list", {}, rig.replies.put)
    assert rig.replies.get_nowait() == RequestFailed(message="the session has ended")
    assert rig.listener.ends == []


def test_a_listener_that_fails_ends_the_session_and_not_the_thread(
    rig: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    session = rig.start()
    rig.listener.fault = OSError("disk full")
    rig.say({"type": "heartbeat"})
    session.join()
    assert rig.listener.ends == ["a listener failed: OSError('disk full')"]
    assert "disk full" in capsys.readouterr().out


def test_a_listener_may_close_its_session(rig: Rig) -> None:
    session = rig.start()
    session.request("list", {}, lambda _: session.close())
    rig.say({"type": "reply", "id": rig.hear()["id"], "ok": True})
    session.join()
    assert rig.listener.ends == []


def test_acknowledgements_are_sent_and_a_later_one_replaces_an_unsent_one() -> None:
    outbox = SendQueue()
    outbox.acknowledge("a", "stdout", 10)
    outbox.acknowledge("a", "stderr", 3)
    outbox.acknowledge("a", "stdout", 20)
    outbox.put(1, b"first\n")
    lines = outbox.take().splitlines()
    assert lines[0] == b"first"
    assert [json.loads(line) for line in lines[1:]] == [
        {"type": "log_ack", "attempt_id": "a", "stream": "stdout", "offset": 20},
        {"type": "log_ack", "attempt_id": "a", "stream": "stderr", "offset": 3},
    ]
    outbox.close()
    assert outbox.take() == b""
    assert outbox.put(2, b"late\n") == "the session has ended"


def test_an_outbox_takes_no_more_than_its_limit_and_loses_no_line() -> None:
    outbox = SendQueue()
    put = 0
    while not outbox.put(put, b"%d\n" % put):
        put += 1
    assert put == 4096
    taken = b""
    while taken.count(b"\n") < put:
        taken += outbox.take()
    assert taken == b"".join(b"%d\n" % number for number in range(put))
    assert outbox.put(put, b"room again\n") == ""


def test_a_peer_that_takes_no_acknowledgements_fills_no_memory(rig: Rig) -> None:
    """Found by an attacker's reading: logs of attempts that it made up were all acknowledged."""
    outbox = SendQueue()
    for number in range(10_000):
        outbox.acknowledge(f"a{number}", "stdout", 1)
    outbox.acknowledge("a1", "stdout", 2)
    with pytest.raises(MalformedMessageError, match="acknowledgements are not taken"):
        outbox.acknowledge("a", "stderr", 1)

    class Acknowledging(Recorder):
        def pushed(self, message: Push) -> None:
            assert isinstance(message, LogChunk)
            session.acknowledge(message.attempt_id, message.stream, 0)

    listener = Acknowledging()
    session = rig.start(listener=listener)
    chunk = {"type": "log", "stream": "stdout", "offset": 0, "data": ""}
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for number in range(60_000):
            rig.say(chunk | {"attempt_id": f"{number:0120}"})
    wait_until(lambda: bool(listener.ends), "the end of the session")
    assert listener.ends == ["more than 10000 acknowledgements are not taken"]


def test_what_an_outbox_has_sent_makes_room_again_in_bytes_too() -> None:
    outbox, mebibyte = SendQueue(), b"x" * 2**20
    for number in range(0, 60, 15):
        for place in range(15):
            assert outbox.put(number + place, mebibyte) == ""
        assert outbox.put(99, 2 * mebibyte) == "too much waits to be sent"
        sent = 0
        while sent < 15 * len(mebibyte):
            sent += len(outbox.take())


def test_a_runner_that_floods_us_with_heartbeats_is_cut_off(rig: Rig) -> None:
    rig.start()
    with contextlib.suppress(OSError):  # it is cut off on the way
        for _ in range(1000):
            rig.say({"type": "heartbeat"})
    wait_until(lambda: len(rig.listener.ends) == 1, "the end of the session")
    assert "floods us with heartbeats" in rig.listener.ends[0]
