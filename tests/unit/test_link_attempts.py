"""What a feed does while nothing can be stored: it acknowledges nothing, and asks again."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from longshore.pool.model import AttemptImage
from longshore.pool.remote.link_attempts import AttemptFeed
from longshore.pool.remote.session import Session
from longshore.pool.remote.ssh import SshConnection
from longshore.pool.remote.ssh_keys import load_or_create_private_key
from longshore.pool.remote.wire import ApiBody, ApiGone, ApiRequest, Push
from tests.rigs.link import Recorder, link_settings, make_link, order
from tests.rigs.session import HELLO, Rig
from tests.sshd_host import wait_until

EXIT = {"kind": "exited", "code": 0, "message": "", "started_at": 1.0, "finished_at": 2.0}
HEARTBEAT = {"type": "heartbeat"}


class Disk(Recorder):
    """A log store whose disk may be full."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False
        self.blind = False
        self.refused = 0

    def log(self, worker_id: str, attempt_id: str, stream: str, offset: int, data: bytes) -> None:
        self._write()
        super().log(worker_id, attempt_id, stream, offset, data)

    def log_complete(self, worker_id: str, attempt_id: str) -> None:
        self._write()
        super().log_complete(worker_id, attempt_id)

    def offsets(self, attempt_id: str) -> tuple[int, int]:
        if self.blind:
            self.refused += 1
            raise OSError(5, "Input/output error")
        return super().offsets(attempt_id)

    def _write(self) -> None:
        if self.full:
            self.refused += 1
            raise OSError(28, "No space left on device")


class FedRig(Rig):
    """A session whose pushes go to a feed; the test plays the runner."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = Disk()
        self.clock = 1000.0
        self.feed = AttemptFeed("w-1", self.disk, self.disk.offsets, lambda: self.clock)

    def begin(self, *attempts: dict[str, Any], broken: str = "") -> None:
        """Start the session, with these attempts in the runner's hello."""
        self.start(HELLO | {"attempts": attempts, "broken": broken}, self)

    def beat(self, broken: str) -> list[str]:
        """Send a heartbeat; return all that was told of being broken."""
        self.say(HEARTBEAT | {"broken": broken})
        self.ask()
        return self.disk.faults

    def opened(self) -> None:
        self.feed.opened(self._attached())

    def pushed(self, message: Push) -> None:
        assert not isinstance(message, ApiRequest | ApiBody | ApiGone)
        self.feed.pushed(self._attached(), message)

    def heard(self) -> None:
        return

    def ended(self, reason: str) -> None:
        self.listener.ended(reason)

    def push(self, stream: str, offset: int, data: bytes) -> None:
        """Send log bytes of a1."""
        text = base64.b64encode(data).decode()
        place = {"attempt_id": "a1", "stream": stream, "offset": offset}
        self.say({"type": "log", **place, "data": text})

    def end(self, *, stdout: int) -> None:
        """Tell the exit of a1."""
        self.say({"type": "exited", **report(stdout=stdout)})

    def refused(self, times: int) -> None:
        """Wait until the disk has refused so many times."""
        wait_until(lambda: self.disk.refused >= times, "the refusal of the disk")
        assert self.disk.refused == times

    def reply(self, request: dict[str, Any], *, ok: bool = True) -> None:
        self.say({"type": "reply", "id": request["id"], "ok": ok})

    def hear_tail(self, stdout: int, stderr: int) -> dict[str, Any]:
        """Hear one request, which must be for the log of a1 from there on."""
        request: dict[str, Any] = self.hear()
        told = {name: request[name] for name in ("type", "attempt_id", "stdout", "stderr")}
        assert told == {"type": "tail", "attempt_id": "a1", "stdout": stdout, "stderr": stderr}
        return request

    def hear_ack(self, stream: str, offset: int) -> None:
        expected = {"type": "log_ack", "attempt_id": "a1", "stream": stream, "offset": offset}
        assert self.hear() == expected

    def ask(self) -> None:
        """Have a request answered that comes behind all that was sent to the runner so far."""
        self._attached().request("list", {}, self.replies.put)
        request = self.hear()
        assert request["type"] == "list", "nothing else was sent meanwhile"
        self.reply(request)
        self.replies.get(timeout=60)

    def _attached(self) -> Session:
        assert self.session is not None
        return self.session


@pytest.fixture
def rig() -> Iterator[FedRig]:
    made = FedRig()
    yield made
    made.close()


def report(*, stdout: int | None = None) -> dict[str, Any]:
    """Return the report of a1, ended when its log is `stdout` bytes."""
    ended = None if stdout is None else EXIT | {"stdout_bytes": stdout, "stderr_bytes": 0}
    return {"attempt_id": "a1", "container_id": "c1", "exit": ended}


def test_a_full_disk_loses_nothing_and_nothing_is_acknowledged_that_is_not_stored(
    rig: FedRig, capsys: pytest.CaptureFixture[str]
) -> None:
    rig.begin(report())
    rig.reply(rig.hear_tail(0, 0))
    rig.push("stdout", 0, b"one ")
    rig.hear_ack("stdout", 4)
    rig.disk.full = True
    rig.push("stdout", 4, b"two ")
    rig.push("stdout", 8, b"three ")
    rig.refused(1)
    rig.end(stdout=14)
    rig.ask()
    rig.say(HEARTBEAT)
    tail = rig.hear_tail(4, 0)
    for _ in range(3):
        rig.say(HEARTBEAT)
    # What was on its way before the runner read the request lies beyond the gap.
    rig.disk.full = False
    rig.push("stdout", 14, b"stray")
    rig.ask()
    rig.disk.full = True
    rig.reply(tail)
    rig.push("stdout", 4, b"two ")
    rig.refused(2)
    rig.ask()
    rig.say(HEARTBEAT)
    tail = rig.hear_tail(4, 0)
    rig.disk.full = False
    rig.reply(tail)
    rig.push("stdout", 4, b"two three ")
    rig.hear_ack("stdout", 14)
    wait_until(lambda: rig.disk.complete == ["a1"], "the end of the log")
    assert rig.disk.logs == {("a1", "stdout"): b"one two three "}
    assert rig.disk.gaps == []
    assert rig.listener.ends == []
    assert capsys.readouterr().out.count("No space left") == 1, "once, not with every heartbeat"


def test_a_log_that_is_not_safe_yet_is_complete_later_and_once(rig: FedRig) -> None:
    rig.disk.full = True
    rig.begin(report(stdout=0))
    rig.reply(rig.hear_tail(0, 0))
    rig.refused(1)
    rig.say(HEARTBEAT)
    rig.refused(2)
    rig.ask()
    rig.refused(2)
    rig.disk.full = False
    rig.say(HEARTBEAT)
    wait_until(lambda: rig.disk.complete == ["a1"], "the end of the log")
    rig.say(HEARTBEAT)
    rig.ask()
    assert rig.disk.complete == ["a1"]
    assert rig.listener.ends == []


def test_where_a_log_ends_is_asked_again_when_the_disk_could_not_tell(rig: FedRig) -> None:
    rig.disk.logs["a1", "stdout"] = bytearray(b"one ")
    rig.disk.blind = True
    rig.begin(report())
    rig.refused(1)
    rig.ask()
    rig.say(HEARTBEAT)
    rig.refused(2)
    rig.disk.blind = False
    rig.say(HEARTBEAT)
    rig.reply(rig.hear_tail(4, 0))
    rig.push("stdout", 4, b"two")
    rig.hear_ack("stdout", 7)
    assert rig.disk.logs["a1", "stdout"] == b"one two"


def test_a_log_that_the_runner_does_not_send_is_asked_for_again(rig: FedRig) -> None:
    rig.begin(report())
    rig.reply(rig.hear_tail(0, 0), ok=False)
    rig.ask()
    rig.say(HEARTBEAT)
    rig.reply(rig.hear_tail(0, 0))
    rig.push("stderr", 0, b"e")
    rig.hear_ack("stderr", 1)
    rig.say(HEARTBEAT)
    rig.ask()


def test_what_nobody_waits_for_is_acknowledged_or_it_would_fill_the_window(rig: FedRig) -> None:
    rig.begin(report(stdout=0))
    wait_until(lambda: rig.disk.complete == ["a1"], "the end of the log")
    rig.push("stdout", 0, b"again")
    rig.hear_ack("stdout", 5)
    rig.feed.forget("a1")
    rig.push("stdout", 5, b"and again")
    rig.hear_ack("stdout", 14)
    rig.feed.expect(order("a1", "true"))
    rig.push("stdout", 0, b"new")
    rig.hear_ack("stdout", 3)
    assert rig.disk.logs == {("a1", "stdout"): b"new"}


def test_only_changes_of_being_broken_are_told_and_ten_seconds_apart(rig: FedRig) -> None:
    rig.begin()
    assert rig.beat("") == []
    assert rig.beat("disk") == ["disk"], "the first at once"
    assert rig.beat("disk") == ["disk"]
    rig.clock += 9.9
    assert rig.beat("") == ["disk"]
    assert rig.beat("net") == ["disk"]
    rig.clock += 0.2
    assert rig.beat("") == ["disk", ""], "the latest word, not all of them"
    rig.clock += 20
    assert rig.beat("") == ["disk", ""]


def test_what_the_hello_says_of_being_broken_is_not_told_twice(rig: FedRig) -> None:
    rig.begin(broken="disk")
    assert rig.beat("disk") == [], "the probe that attached the session reports it"
    assert rig.beat("") == [""]


def test_of_words_that_the_cloud_takes_it_back_the_first_of_a_session_counts(rig: FedRig) -> None:
    rig.begin()
    for second in range(50):
        rig.say({"type": "interruption", "at": f"2026-01-31T23:59:{second:02d}Z"})
    rig.ask()
    assert rig.disk.interruptions == ["2026-01-31T23:59:00Z"]


def test_of_words_that_an_attempt_ended_the_first_of_a_session_counts(rig: FedRig) -> None:
    """Found by an attacker's reading: each repetition of one was an event for the engine."""
    rig.begin(report())
    rig.reply(rig.hear_tail(0, 0))
    for stdout in (5, 5, 9, 0, 5):
        rig.end(stdout=stdout)
    rig.ask()
    assert rig.disk.exits_told == 1
    assert rig.disk.exits["a1"].stdout_bytes == 5
    assert rig.disk.complete == []
    rig.push("stdout", 0, b"hello")
    rig.hear_ack("stdout", 5)
    wait_until(lambda: rig.disk.complete == ["a1"], "the end of the log")


def test_news_of_an_image_are_told_before_the_exit_and_not_for_ever(rig: FedRig) -> None:
    image = {"pulling": False, "digest": "sha256:1", "warning": ""}
    rig.begin(report() | {"image": image})
    rig.reply(rig.hear_tail(0, 0))
    for _ in range(10):
        rig.say({"type": "image", "attempt_id": "a1", "container_id": "c1", "image": image})
    rig.end(stdout=0)
    wait_until(lambda: "a1" in rig.disk.exits, "the exit is told")
    assert rig.disk.images == 4 * [("a1", AttemptImage(digest="sha256:1"))]


class Connection:
    """As much of a connection as a link has to do with once a session is attached."""

    def close(self) -> None:
        return


def test_a_session_knows_of_no_attempt_of_the_session_before(tmp_path: Path) -> None:
    """What the new hello does not name is a stranger's: its bytes are stored nowhere."""
    disk = Disk()
    key = load_or_create_private_key(tmp_path / "id")
    link = make_link(link_settings(key), disk)
    connection = cast(SshConnection, Connection())
    rigs = [Rig(), Rig()]
    try:
        for rig in rigs:
            rig.say(HELLO)
            link._begin(connection, rig.attach())
            rig.hear()
            if rig is rigs[0]:
                link.start(order("a1"), "b", lambda _: None)
                assert rig.hear()["type"] == "start"
                rig.stream.cut()
                wait_until(lambda: len(disk.losses) == 1, "the end of the first session")
        text = base64.b64encode(b"abc").decode()
        place = {"attempt_id": "a1", "stream": "stdout", "offset": 0}
        rigs[1].say({"type": "log", **place, "data": text})
        assert rigs[1].hear() == {"type": "log_ack", **place, "offset": 3}
        assert disk.logs == {}
    finally:
        link.close()
        for rig in rigs:
            rig.close()
