"""What of a log stays on disk: offsets hold, nothing is made up, and the rest goes."""

from __future__ import annotations

import base64
import functools
from pathlib import Path
from typing import Any

import pytest

from longshore.pool.runner import backlog
from longshore.pool.runner.backlog import STEP_BYTES, TAKEN_BYTES, Backlog
from longshore.pool.runner.kept import Gap, write_gap
from longshore.pool.runner.logs import WINDOW_BYTES, LogPump
from longshore.pool.runner.spool import Spool, SpoolPaths, attempt_of

HEAD, TAIL = 2 * STEP_BYTES, STEP_BYTES


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    base = str(tmp_path)
    made = Spool(
        SpoolPaths(
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
    with log.open("rb") as file:
        for again in (files, Backlog(spool)):
            for offset in (5, start, start + 5):
                place = max(start, offset)
                found = again.read("a", "stdout", file.fileno(), offset, 100)
                assert found == (place, content(100, place))
            again.taken("a", "stdout", 20 << 20)
            found = again.read("a", "stdout", file.fileno(), 5, 10)
            assert found == (start, content(10, start)), "what is gone does not come back"


def test_where_no_holes_can_be_made_everything_stays(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "punch", lambda *_: False)
    log = write(spool, 40 << 20)
    files = Backlog(spool)
    files.taken("a", "stdout", 40 << 20)
    with log.open("rb") as file:
        for each in (files, Backlog(spool)):
            assert each.read("a", "stdout", file.fileno(), 0, 10) == (0, content(10))


def test_a_stream_is_sent_over_its_gap_and_never_with_made_up_bytes(spool: Spool) -> None:
    sent: list[dict[str, Any]] = []
    pump = LogPump(spool, sent.append)
    pump.follow("a", {"stdout": 0, "stderr": 0})
    written = HEAD + 6 * TAIL
    write(spool, written)
    write_gap(spool.gap("a", "stdout"), Gap(HEAD, written - TAIL))
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
    files = Backlog(spool)
    spool.forget("a")
    files.taken("a", "stdout", 30 << 20)
    files.forget("a")
