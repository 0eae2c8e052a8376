"""A job that makes its log as large as the file system lets it: what is told of it stays sound."""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pool.model import MOST_BYTES
from pool.runner.backlog import STEP_BYTES
from pool.runner.kept import MAX_STREAM_BYTES, TRUNCATION_MARK
from pool.runner.logs import LogPump
from pool.runner.spool import Places, Spool, attempt_of
from tests.conftest import not_tested
from tests.runner_harness import Runner

HUGE = 2**60
SPARSE = f"import os; os.ftruncate(1, {HUGE}); os.ftruncate(2, {MAX_STREAM_BYTES + 1})"


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory on a tmpfs, whose files may be as large as those of XFS or btrfs."""
    if " /dev/shm tmpfs " not in Path("/proc/mounts").read_text():
        not_tested("/dev/shm is no tmpfs")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        monkeypatch.setattr(tempfile, "tempdir", directory)
        yield Path(directory)


def test_the_size_of_a_sparse_log_is_told_as_far_as_the_protocol_goes(memory: Path) -> None:
    with Runner() as runner:
        session, _ = runner.attach(acknowledge=False)
        session.start("a", "python3", "-c", SPARSE)
        exit_ = session.exit_of("a")
        assert (exit_["kind"], exit_["code"]) == ("exited", 0), session.log("a", "stderr")
        log = memory.joinpath(runner.directory.name, "test", "logs", "a.stdout")
        assert log.stat().st_size == HUGE
        assert (exit_["stdout_bytes"], exit_["stderr_bytes"]) == (MAX_STREAM_BYTES,) * 2
        assert exit_["stdout_bytes"] <= MOST_BYTES, "what the dispatcher takes"
        assert session.request("list")["attempts"][0]["exit"] == exit_
        session.kill()
        again, hello = runner.attach(acknowledge=False)
        assert hello["attempts"][0]["exit"] == exit_
        assert again.request("release", attempt_id="a")["ok"]


@pytest.mark.parametrize("truncated", [False, True])
def test_no_offset_of_a_sparse_log_is_beyond_the_protocol(memory: Path, *, truncated: bool) -> None:
    base = str(memory)
    spool = Spool(
        Places(base, f"{base}/spool", f"{base}/logs", f"{base}/c/work", "t", f"{base}/apart")
    )
    lock = spool.claim(attempt_of("a", "c", "process", "boot", ""))
    assert lock is not None
    ends: list[int] = []

    def push(message: dict[str, Any]) -> None:
        ends.append(message["offset"] + len(base64.b64decode(message["data"])))

    def pump_all() -> None:
        pump.grew({"a.stdout"})
        while not pump.idle():
            pump.pump()
            pump.acknowledge("a", "stdout", ends[-1])

    pump = LogPump(spool, push, (STEP_BYTES, STEP_BYTES))
    pump.follow("a", {"stdout": 0, "stderr": 0})
    log = Path(spool.log("a", "stdout"))
    log.write_bytes(b"begin\n")
    pump_all()
    if truncated:
        log.write_bytes(b"")
        pump_all()
        assert ends[-1] == len(b"begin\n" + TRUNCATION_MARK)
    os.truncate(log, HUGE)
    pump_all()
    assert ends == sorted(ends)
    assert ends[-1] == MAX_STREAM_BYTES == spool._stream_bytes("a", "stdout")
    assert len(ends) < 4 * STEP_BYTES // 4096, "and it was not read through"
    os.close(lock)
