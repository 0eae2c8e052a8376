"""What a session of the runner promises whoever comes after it: epochs, locks, kills that wait."""

from __future__ import annotations

import base64
import fcntl
import os
from pathlib import Path
from typing import Any, cast

import pytest

from longshore.pool.runner.attach import Session
from longshore.pool.runner.engines import Engine
from longshore.pool.runner.handshake import Hello, idle_lock, read_hello, take_over
from longshore.pool.runner.launch import Launcher
from longshore.pool.runner.lease import Lease
from longshore.pool.runner.logs import WINDOW_BYTES, LogPump
from longshore.pool.runner.output import PACE_BYTES, Output
from longshore.pool.runner.spool import (
    MESSAGE_CHARACTERS,
    Attempt,
    Places,
    Spool,
    SpoolError,
    attempt_of,
    last_words,
    own_directory,
    write_whole,
)
from longshore.pool.runner.wire import PROTOCOL, ProtocolError, Refusal, encode, seconds_field
from tests.synced_files import write_half

NAME = "longshore-0-0123456789abcdef"


def places_in(directory: Path) -> Places:
    base = str(directory)
    return Places(base, f"{base}/spool", f"{base}/logs", f"{base}/c/work", NAME, f"{base}/apart")


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(places_in(tmp_path))


class OvertakenSpool(Spool):
    """One in which a later leader begins and ends between a look at the epoch and the lock."""

    def epoch(self) -> int:
        found = super().epoch()
        self.remember_epoch(5)
        return found


def test_a_later_leader_that_came_while_we_waited_for_the_lock_is_noticed(tmp_path: Path) -> None:
    spool = OvertakenSpool(places_in(tmp_path))
    with pytest.raises(Refusal, match="epoch 3 is over, 5 leads"):
        take_over(spool, 3)
    lock = idle_lock(spool)
    assert lock is not None, "who is refused keeps nobody out"
    os.close(lock)
    assert spool.epoch() == 5


def test_the_lock_and_the_epoch_of_a_session_outlive_no_doubt(spool: Spool) -> None:
    lock = take_over(spool, 3)
    assert spool.epoch() == 3
    assert idle_lock(spool) is None
    os.close(lock)
    with pytest.raises(Refusal, match="epoch 2 is over, 3 leads"):
        take_over(spool, 2)
    os.close(take_over(spool, 3))


class DeafLauncher:
    """A launcher that cannot signal yet, as before the pid is recorded."""

    def __init__(self) -> None:
        self.deaf = True
        self.asked: list[str] = []

    def signal(self, attempt: Attempt, name: str, _grace_s: float) -> bool:
        self.asked.append(f"{name} {attempt.attempt_id}")
        return not self.deaf


def session_of(spool: Spool, launcher: DeafLauncher) -> Session:
    return Session(
        spool=spool,
        engine=Engine("process"),
        launcher=cast(Launcher, launcher),
        lease=cast(Lease, None),
        output=Output(os.open(os.devnull, os.O_WRONLY)),
        epoch=1,
    )


def test_a_kill_that_waits_is_not_taken_back_by_a_later_term(spool: Spool) -> None:
    launcher = DeafLauncher()
    session = session_of(spool, launcher)
    attempt, lock = claimed(spool)
    session._live = {"a": attempt}
    for name in ("TERM", "KILL", "TERM"):
        assert session._kill({"attempt_id": "a", "signal": name}) == {"signalled": True}
    launcher.deaf = False
    session._retry_kills()
    session._retry_kills()
    assert launcher.asked == ["TERM a", "KILL a", "TERM a", "KILL a"]
    os.close(lock)


@pytest.mark.parametrize("grace_s", [float("inf"), float("nan"), 1e10, -1, True, "1"])
def test_a_grace_is_a_time_that_ends(grace_s: object) -> None:
    with pytest.raises(Refusal, match="grace_s must be seconds"):
        seconds_field({"grace_s": grace_s}, "grace_s", missing=1.0)


def told(**fields: object) -> Hello:
    """Read a hello with these fields."""
    hello = {
        "type": "hello",
        "protocol": PROTOCOL,
        "cluster": "c",
        "runner_sha256": "a",
        "epoch": 1,
    }
    reading, writing = os.pipe()
    try:
        os.write(writing, encode({**hello, **fields}))
        return read_hello(reading, cluster="c", runner_sha256="a")
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize(("asked_s", "beats_s"), [(0, 0.05), (-1, 0.05), (2.5, 2.5), (1e9, 3600.0)])
def test_heartbeats_come_at_a_pace_that_both_sides_can_bear(asked_s: float, beats_s: float) -> None:
    assert told(heartbeat_interval_s=asked_s).heartbeat_interval_s == beats_s


@pytest.mark.parametrize("store", [1, None, "x" * 129])
def test_the_name_of_a_store_is_bounded_text(store: object) -> None:
    assert told(store="x" * 128).store == "x" * 128
    with pytest.raises(Refusal, match="store must be text of at most 128"):
        told(store=store)


def test_who_says_nothing_keeps_no_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longshore.pool.runner.handshake.HELLO_TIMEOUT_S", 0.05)
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with pytest.raises(ProtocolError, match="no hello within"):
        read_hello(reading, cluster="c", runner_sha256="a")
    os.close(reading)
    os.close(writing)


def test_an_attempt_gets_no_other_signal_than_term_and_kill(spool: Spool) -> None:
    for name in ("HUP", "STOP", "", "9"):
        with pytest.raises(Refusal, match="signal must be TERM or KILL"):
            session_of(spool, DeafLauncher())._kill({"attempt_id": "a", "signal": name})


def test_logs_wait_while_the_reader_is_behind() -> None:
    reading, writing = os.pipe()
    output = Output(writing)
    paced = [output.paced]
    output.push({"data": "x" * PACE_BYTES})
    paced.append(output.paced)
    while output.waiting:
        output.flush()
        os.read(reading, PACE_BYTES)
    paced.append(output.paced)
    assert paced == [False, True, False]
    os.close(reading)
    os.close(writing)


def test_who_is_followed_no_more_gives_its_share_of_the_window_back(spool: Spool) -> None:
    sent: list[dict[str, Any]] = []
    pump = LogPump(spool, sent.append)
    for name in ("a", "b"):
        Path(spool.log(name, "stdout")).write_bytes(b"x" * (2 * WINDOW_BYTES))
    pump.follow("a", {"stdout": 0, "stderr": 0})
    while not pump.idle():
        pump.pump()
    assert {each["attempt_id"] for each in sent} == {"a"}
    pump.drop("a")
    pump.follow("b", {"stdout": 0, "stderr": 0})
    while not pump.idle():
        pump.pump()
    taken = sum(len(base64.b64decode(each["data"])) for each in sent if each["attempt_id"] == "b")
    assert taken == WINDOW_BYTES


# ---- what the spool promises ---------------------------------------------------------------------


def claimed(spool: Spool) -> tuple[Attempt, int]:
    attempt = attempt_of("a", "c", "process", spool.boot_id, "")
    lock = spool.claim(attempt)
    assert lock is not None
    return attempt, lock


def test_what_must_be_written_once_an_attempt_runs_has_its_room(spool: Spool) -> None:
    _, lock = claimed(spool)
    for name in ("job", "exit", "grace"):
        found = Path(spool.path("a", name)).stat()
        assert (found.st_size, found.st_blocks > 0) == (0, True), name
    os.close(lock)


def test_nobody_buries_what_is_watched_or_has_ended(spool: Spool) -> None:
    _, lock = claimed(spool)
    assert spool.seize("a") is None, "its supervisor lives"
    os.close(lock)
    seized = spool.seize("a")
    assert seized is not None
    os.close(seized)
    spool.record_lost("a")
    assert spool.seize("a") is None
    assert spool.seize("never claimed") is None


def test_what_is_released_is_gone_with_its_logs(spool: Spool) -> None:
    _, lock = claimed(spool)
    os.close(lock)
    for stream in ("stdout", "stderr"):
        Path(spool.log("a", stream)).touch()
    spool.forget("a")
    assert spool.attempts() == []
    assert not list(Path(spool.places.logs).iterdir())


def test_a_file_that_is_replaced_is_the_old_one_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record"
    write_whole(str(path), b"old")
    with monkeypatch.context() as patch:
        write_half(patch, "write")
        with pytest.raises(OSError, match="No space left"):
            write_whole(str(path), b"something longer")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    write_whole(str(path), b"new")
    assert path.read_bytes() == b"new"


def test_a_directory_is_ours_alone_or_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, link = tmp_path / "ours", tmp_path / "link"
    ours.mkdir(mode=0o755)
    own_directory(str(ours))
    assert ours.stat().st_mode & 0o777 == 0o700
    link.symlink_to(ours)
    with pytest.raises(SpoolError, match="is not a directory of our own"):
        own_directory(str(link))
    monkeypatch.setattr(os, "geteuid", lambda: ours.stat().st_uid + 1)
    with pytest.raises(SpoolError, match="is not a directory of our own"):
        own_directory(str(ours))


def test_what_is_no_fifo_is_not_taken_for_one(tmp_path: Path) -> None:
    Path(Spool(places_in(tmp_path)).words).unlink()
    (tmp_path / "spool" / "words").touch()
    with pytest.raises(SpoolError, match="is no fifo"):
        Spool(places_in(tmp_path))


def test_nobody_waits_for_who_reads_words(spool: Spool) -> None:
    reading = os.open(spool.words, os.O_RDWR | os.O_NONBLOCK)
    fcntl.fcntl(reading, 1031, 4096)  # F_SETPIPE_SZ: a word more than it holds would block
    for _ in range(4096):
        spool.tell(spool.words, "word")
    os.close(reading)


def test_what_is_told_of_a_failure_is_bounded(spool: Spool, tmp_path: Path) -> None:
    said = "x" * (3 * MESSAGE_CHARACTERS)
    (tmp_path / "said").write_text(f"{said}\n \n")
    assert last_words(str(tmp_path / "said")) == said[:MESSAGE_CHARACTERS]
    Path(spool.places.runner, "broken").write_text(f"{said}\nmore\n")
    assert spool.broken() == said[:MESSAGE_CHARACTERS]
