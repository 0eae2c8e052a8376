"""What of a log stays on disk: offsets hold, nothing is made up, and the rest goes."""

from __future__ import annotations

import base64
import functools
from pathlib import Path
from typing import Any

import pytest

from pool.runner import backlog
from pool.runner.backlog import STEP_BYTES, TAKEN_BYTES, Backlog
from pool.runner.logs import WINDOW_BYTES, LogPump
from pool.runner.spool import Places, Spool, attempt_of

HEAD, TAIL = 2 * STEP_BYTES, STEP_BYTES


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    base = str(tmp_path)
    made = Spool(
        Places(
            base, f"{base}/spool", f"{base}/logs", f"{base}/c/work", "longshore-t", f"{base}/apart"
        )
    )
    assert made.claim(attempt_of("a", "c", "process", "boot", "")) is not None
    return made


def content(length: int, begin: int = 0) -> bytes:
    """Return bytes that tell where they are: no two windows of a log are alike, and no zeros."""
    return _contents()[begin : begin + length]


@functools.cache
def _contents() -> bytes:
    return b"".join(b"%07x\n" % word for word in range(48 << 17))


def write(spool: Spool, length: int, begin: int = 0) -> Path:
    log = Path(spool.log("a", "stdout"))
    with log.open("ab") as file:
        file.write(content(length, begin))
    return log


def on_disk(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_what_was_taken_long_ago_leaves_the_disk_and_offsets_stay(spool: Spool) -> None:
    log = write(spool, 40 << 20)
    files = Backlog(spool)
    files.taken("a", "stdout", 33 << 20)
    start = (33 << 20) - TAKEN_BYTES - (1 << 20)
    assert start % STEP_BYTES == 0
    assert log.stat().st_size == 40 << 20
    assert on_disk(log) <= (40 << 20) - start + 4096
    assert log.read_bytes()[start:] == content((40 << 20) - start, start)
    for again in (files, Backlog(spool)):
        assert again.readable("a", "stdout", 5) == (start, 0)
        assert again.readable("a", "stdout", start + 5) == (start + 5, 0)
        again.taken("a", "stdout", 20 << 20)
        assert again.readable("a", "stdout", 5) == (start, 0), "what is gone does not come back"


def test_a_log_that_nobody_takes_keeps_its_head_and_its_end(spool: Spool) -> None:
    files = Backlog(spool, (HEAD, TAIL))
    log = write(spool, HEAD + 2 * TAIL)
    files.bound("a", "stdout")
    assert on_disk(log) >= HEAD + 2 * TAIL, "no more than there may be"
    written = HEAD + 2 * TAIL
    for _ in range(8):
        write(spool, STEP_BYTES, written)
        written += STEP_BYTES
        files.bound("a", "stdout")
        assert on_disk(log) <= HEAD + 3 * TAIL
    data = log.read_bytes()
    place, stop = files.readable("a", "stdout", 0)
    assert (place, stop) == (0, HEAD)
    assert data[:HEAD] == content(HEAD)
    end, stop = Backlog(spool, (HEAD, TAIL)).readable("a", "stdout", HEAD)
    assert stop == 0
    assert TAIL <= written - end <= 2 * TAIL
    assert data[end:] == content(written - end, end)
    assert files.readable("a", "stdout", end + 1) == (end + 1, 0)
    # Taken up to beyond the gap, all is as at the beginning.
    files.taken("a", "stdout", HEAD + TAKEN_BYTES)
    assert files.readable("a", "stdout", 0) == (end, 0), "the head is taken"
    assert on_disk(log) <= 3 * TAIL
    files.taken("a", "stdout", end + TAKEN_BYTES)
    assert files.readable("a", "stdout", 0) == (end, 0)


def test_where_no_holes_can_be_made_everything_stays(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "_punch", lambda *_: False)
    write(spool, 6 * STEP_BYTES)
    files = Backlog(spool, (HEAD, TAIL))
    files.bound("a", "stdout")
    files.taken("a", "stdout", 6 * STEP_BYTES)
    for each in (files, Backlog(spool, (HEAD, TAIL))):
        assert each.readable("a", "stdout", HEAD) == (HEAD, 0)
        assert each.readable("a", "stdout", 0) == (0, 0)


def test_a_stream_is_sent_over_its_gap_and_never_with_made_up_bytes(spool: Spool) -> None:
    sent: list[dict[str, Any]] = []
    pump = LogPump(spool, sent.append, (HEAD, TAIL))
    pump.follow("a", {"stdout": 0, "stderr": 0})
    written = HEAD + 6 * TAIL
    write(spool, written)
    pump.grew({"a.stdout"})
    received = 0
    gaps = []
    while received < written:
        before = len(sent)
        while not pump.idle():
            pump.pump()
        assert len(sent) > before, "the window opens again, also when a gap was sent over"
        flying = 0
        for message in sent[before:]:
            data = base64.b64decode(message["data"])
            if message["offset"] != received:
                gaps.append((received, message["offset"]))
            assert data == content(len(data), message["offset"])
            received = message["offset"] + len(data)
            flying += len(data)
        assert flying <= WINDOW_BYTES
        pump.acknowledge("a", "stdout", received)
    assert gaps == [(HEAD, written - TAIL)]
    pump.follow("a", {"stdout": 10, "stderr": 0})
    pump.pump()
    first = sent[-1]
    data = base64.b64decode(first["data"])
    assert first["offset"] > 10, "what was taken long ago is a gap"
    assert data == content(len(data), first["offset"])


def test_a_released_stream_is_no_trouble(spool: Spool) -> None:
    write(spool, 30 << 20)
    files = Backlog(spool, (HEAD, TAIL))
    files.bound("a", "stdout")
    spool.forget("a")
    files.taken("a", "stdout", 30 << 20)
    files.bound("a", "stdout")
    files.forget("a")
    assert files.readable("a", "stdout", 7) == (7, 0)
