"""What becomes of requests whose time is up, and of sessions that cannot begin."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from longshore.pool.remote.session_requests import Overdue, RequestFailed, RequestTable, SendQueue
from longshore.pool.remote.wire import Reply
from tests.rigs.session import HELLO, Rig
from tests.sshd_host import wait_until

Make = Callable[..., Rig]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[Rig] = []

    def build(**settings: float) -> Rig:
        made.append(Rig(**settings))
        return made[-1]

    yield build
    for rig in made:
        rig.close()


def test_a_start_without_a_reply_ends_the_session_before_it_fails(make: Make) -> None:
    rig = make(request_timeout_s=0.2)
    session = rig.start()
    lives: list[bool] = []

    def on_reply(reply: Reply | RequestFailed) -> None:
        lives.append(session.alive)
        rig.replies.put(reply)

    session.request("list", {}, rig.replies.put)
    assert rig.replies.get(timeout=60) == RequestFailed(message="no reply within 0.2 s")
    assert session.alive
    session.request("start", {}, on_reply)
    reason = "no reply to a start within 0.2 s"
    assert rig.replies.get(timeout=60) == RequestFailed(message=reason)
    session.join()
    assert lives == [False]
    assert rig.listener.ends == [reason]
    session.request("kill", {}, rig.replies.put)
    assert [json.loads(line)["type"] for line in rig.input] == ["list", "start"]


def test_what_expires_unsent_is_never_sent(make: Make) -> None:
    rig = make(request_timeout_s=0.3)
    session = rig.start()
    for number in range(40):
        session.request("tail", {"number": number, "load": "x" * 100_000}, rig.replies.put)
    expired = [rig.replies.get(timeout=60) for _ in range(40)]
    assert expired == [RequestFailed(message="no reply within 0.3 s")] * 40
    assert session.alive
    # The peer has read nothing so far; now it does, up to a request that is made only now.
    session.request("list", {}, rig.replies.put)
    sent = []
    while (message := rig.hear())["type"] == "tail":
        sent.append(message["number"])
    assert sent == list(range(len(sent)))
    assert 0 < len(sent) < 20
    rig.say({"type": "reply", "id": message["id"], "ok": True})
    assert rig.replies.get(timeout=60) == Reply(id=message["id"], ok=True)


def test_a_reply_that_came_in_time_counts_though_the_listener_was_slow(make: Make) -> None:
    rig = make(request_timeout_s=2.0)
    session = rig.start()
    rig.listener.hold.clear()
    rig.say({"type": "heartbeat"})
    wait_until(lambda: session._delivering, "the heartbeat")
    asked_at = time.monotonic()
    session.request("start", {}, rig.replies.put)
    number = rig.hear()["id"]
    rig.say({"type": "reply", "id": number, "ok": True})
    wait_until(lambda: time.monotonic() > asked_at + 2.1, "the time of the request")
    rig.listener.hold.set()
    assert rig.replies.get(timeout=60) == Reply(id=number, ok=True)
    assert session.alive


def test_a_peer_that_never_stops_talking_does_not_keep_a_request_from_expiring() -> None:
    table = RequestTable(SendQueue(), timeout_s=10.0)
    assert table.wait_s(0.0) is None
    assert table.add(1, "kill", b"x\n", lambda _: None, now=100.0) == ("", True)
    assert table.add(2, "start", b"y\n", lambda _: None, now=101.0) == ("", False)
    assert table.wait_s(103.0) == 7.0
    assert table.wait_s(111.0) == 0.0
    assert table.overdue(109.0, idle=True) is None
    assert table.overdue(110.0, idle=True) == Overdue(number=1, kind="kill")
    assert table.overdue(119.0, idle=False) is None
    assert table.overdue(120.0, idle=False) == Overdue(number=1, kind="kill")


def test_an_outbox_forgets_what_is_withdrawn_and_its_bytes() -> None:
    outbox = SendQueue()
    for number in range(16):
        assert outbox.put(number, b"x" * 1024 * 1024) == ""
    assert outbox.put(16, b"y\n") == "too much waits to be sent"
    outbox.withdraw(0)
    outbox.withdraw(0)
    assert outbox.put(16, b"y\n") == ""
    for number in range(1, 16):
        outbox.withdraw(number)
    assert outbox.take() == b"y\n"


@pytest.mark.parametrize("name", ["session-reader", "session-writer"])
def test_a_session_without_its_threads_ends_and_leaves_nothing(
    make: Make, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    rig = make()
    rig.say(HELLO)
    session = rig.attach()
    genuine = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        genuine(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError):
        session.start(rig.listener)
    assert not session.alive
    names = {thread.name for thread in threading.enumerate()}
    assert names.isdisjoint({"session-reader", "session-writer", "ssh-watchdog"})
    session.request("list", {}, rig.replies.put)
    assert rig.replies.get_nowait() == RequestFailed(message="the session has ended")
    assert rig.listener.ends == []
