"""A job that truncates its own log, as `>/dev/stderr` does: the log goes on and says so."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pool.runner.backlog import STEP_BYTES, TAKEN_BYTES
from pool.runner.kept import TRUNCATION_MARK
from pool.runner.logs import LogPump
from pool.runner.spool import Places, Spool, attempt_of
from tests.runner_harness import Runner, eventually

MARK = TRUNCATION_MARK


@pytest.fixture
def runner() -> Iterator[Runner]:
    with Runner() as each:
        yield each


def test_lines_after_a_redirect_to_dev_stderr_arrive_behind_a_mark(runner: Runner) -> None:
    session, _ = runner.attach()
    gate = Path(runner.places.work, "a", "gate")
    script = (
        "for each in 1 2 3 4 5; do echo progress $each >&2; done;"
        "until [ -e gate ]; do sleep 0.01; done;"
        "echo 'ERROR: disk is bad' > /dev/stderr; echo cause >&2; exit 3"
    )
    session.start("a", "sh", "-c", script)
    before = b"".join(b"progress %d\n" % each for each in range(1, 6))
    session.until(lambda: session.log("a", "stderr") == before)
    gate.touch()
    exit_ = session.finish("a")
    whole = before + MARK + b"ERROR: disk is bad\ncause\n"
    assert session.log("a", "stderr") == whole
    assert (exit_["code"], exit_["stderr_bytes"]) == (3, len(whole))
    session.kill()
    again, hello = runner.attach()
    assert [each["exit"] for each in hello["attempts"]] == [exit_]
    kept = len(before) + 10
    again.logs["a", "stderr"] = bytearray(whole[:kept])
    again.request("tail", attempt_id="a", stdout=0, stderr=kept)
    again.until(lambda: again.log("a", "stderr") == whole)


def test_a_log_that_was_truncated_while_nobody_looked_goes_on_behind_a_mark(
    runner: Runner,
) -> None:
    session, _ = runner.attach()
    gate, done = (Path(runner.places.work, "a", name) for name in ("gate", "done"))
    script = (
        "echo a long line; until [ -e gate ]; do sleep 0.01; done;"
        "echo short >/dev/stdout; until [ -e done ]; do sleep 0.01; done"
    )
    session.start("a", "sh", "-c", script)
    session.until(lambda: session.log("a") == b"a long line\n")
    session.kill()
    gate.touch()
    log = runner.directory / "test" / "logs" / "a.stdout"
    eventually(lambda: log.read_bytes() == b"short\n")
    again, _ = runner.attach()
    again.logs["a", "stdout"] = bytearray(b"a long line\n")
    again.request("tail", attempt_id="a", stdout=len(b"a long line\n"), stderr=0)
    again.until(lambda: again.log("a") == b"a long line\n" + MARK + b"short\n")
    done.touch()
    assert again.finish("a")["stdout_bytes"] == len(again.log("a"))


# ---- the pump alone -----------------------------------------------------------------------------


class Sent:
    """A pump over one stream, and what it sent: each piece with its offset."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self.log = Path(spool.log("a", "stdout"))
        self.pieces: list[tuple[int, bytes]] = []
        self.pump = LogPump(spool, self._take)
        self.follow(0)

    def _take(self, message: dict[str, Any]) -> None:
        self.pieces.append((message["offset"], base64.b64decode(message["data"])))

    def follow(self, offset: int) -> None:
        self.pump.follow("a", {"stdout": offset, "stderr": 0})

    def turn(self) -> bytes:
        """Return what is sent now, all of it acknowledged."""
        begin = len(self.pieces)
        self.pump.grew({"a.stdout"})
        while not self.pump.idle():
            self.pump.pump()
            offset, data = self.pieces[-1] if self.pieces else (0, b"")
            self.pump.acknowledge("a", "stdout", offset + len(data))
        return b"".join(data for _, data in self.pieces[begin:])

    def end(self) -> int:
        offset, data = self.pieces[-1]
        return offset + len(data)


@pytest.fixture
def sent(tmp_path: Path) -> Iterator[Sent]:
    base = str(tmp_path)
    spool = Spool(
        Places(base, f"{base}/spool", f"{base}/logs", f"{base}/c/work", "t", f"{base}/apart")
    )
    lock = spool.claim(attempt_of("a", "c", "process", "boot", ""))
    assert lock is not None
    yield Sent(spool)
    os.close(lock)


def test_a_file_that_outgrew_what_was_sent_of_the_one_before_is_noticed(sent: Sent) -> None:
    sent.log.write_bytes(b"start\n")
    assert sent.turn() == b"start\n"
    sent.log.write_bytes(b"more than there was before\n")
    assert sent.turn() == MARK + b"more than there was before\n"
    sent.log.write_bytes(b"less\n")
    assert sent.turn() == MARK + b"less\n"
    assert sent.end() == sent.spool._stream_bytes("a", "stdout")


def test_a_log_that_only_grows_has_no_mark(sent: Sent) -> None:
    with sent.log.open("ab") as file:
        for each in range(200):
            file.write(b"%d\n" % each)
            file.flush()
            assert sent.turn() == b"%d\n" % each


def test_an_end_is_measured_after_the_truncation_was_seen(sent: Sent) -> None:
    sent.log.write_bytes(b"five\nlines\n")
    sent.turn()
    sent.log.write_bytes(b"one\n")
    sent.pump.look("a")
    end = sent.spool._stream_bytes("a", "stdout")
    assert end == len(b"five\nlines\n" + MARK + b"one\n")
    assert sent.turn() == MARK + b"one\n"
    assert sent.end() == end


def test_a_truncated_stream_is_resumed_where_it_is_still_there(sent: Sent) -> None:
    sent.log.write_bytes(b"gone\n")
    sent.turn()
    sent.log.write_bytes(b"new\n")
    whole = b"gone\n" + sent.turn()
    for offset in (5, 10, len(whole) - 2):
        again = Sent(sent.spool)
        again.follow(offset)
        assert again.turn() == whole[offset:]
    again = Sent(sent.spool)
    assert again.turn() == MARK + b"new\n"
    assert again.pieces[0][0] == 5, "what is gone is a gap"


def test_what_was_taken_of_a_truncated_stream_leaves_the_disk_too(sent: Sent) -> None:
    sent.log.write_bytes(b"gone\n")
    sent.turn()
    content = b"".join(b"%07x\n" % each for each in range((TAKEN_BYTES + 4 * STEP_BYTES) >> 3))
    sent.log.write_bytes(content)
    assert sent.turn() == MARK + content
    assert sent.log.stat().st_blocks * 512 < len(content) - STEP_BYTES
    with sent.log.open("ab") as file:
        file.write(b"end\n")
    assert sent.turn() == b"end\n", "a hole of ours is no truncation"
    sent.log.write_bytes(b"less\n")
    assert sent.turn() == MARK + b"less\n"
