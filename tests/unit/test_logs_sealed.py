"""Short logs that are sealed take one file; what is read of them is what was read before."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.dispatcher.logs.sealed import SHORT_BYTES
from longshore.dispatcher.logs.store import LogStore
from tests.small_disk import fill, small_disk

C, A = "c-1", "c-1-1"


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogStore]:
    store = LogStore(tmp_path / "logs")
    yield store
    store.close()


def files(tmp_path: Path) -> list[str]:
    """Return what there is below the directories of the shards."""
    return sorted(each.name for each in (tmp_path / "logs").glob("*/**/*"))


def text(logs: LogStore, stream: str = "stdout", attempt: str = A) -> bytes:
    found = b""
    while piece := logs.read(C, attempt, stream, len(found), 2**20):
        found += piece
    return found


@pytest.mark.parametrize(("out", "err"), [(b"hi\n", b""), (b"", b""), (b"", b"oh"), (b"a", b"b")])
def test_a_short_log_is_one_file_and_reads_as_it_did(
    logs: LogStore, tmp_path: Path, out: bytes, err: bytes
) -> None:
    logs.append(A, C, "stdout", 0, out)
    logs.append(A, C, "stderr", 0, err)
    logs.seal(A, C)
    for each in (logs, LogStore(tmp_path / "logs")):
        assert files(tmp_path) == ["c-1.c-1-1.sealed"]
        assert (text(each), text(each, "stderr")) == (out, err)
        assert each.read(C, A, "stdout", 1, 1) == out[1:2]
        assert each.sizes(A, C) == (len(out), len(err))
        with pytest.raises(ValueError, match="is complete"):
            each.append(A, C, "stderr", len(err), b"late")
        each.sync(A, C)
        each.seal(A, C)
        assert files(tmp_path) == ["c-1.c-1-1.sealed"]
        each.close()


def test_what_is_missing_and_cut_off_is_told_as_before(tmp_path: Path) -> None:
    logs = LogStore(tmp_path / "logs", max_log_bytes=100)
    logs.append(A, C, "stdout", 50, b"x")
    logs.append(A, C, "stderr", 0, bytes(300))
    told, sizes = (text(logs), text(logs, "stderr")), logs.sizes(A, C)
    assert sizes == (51, 300)
    logs.seal(A, C)
    logs.close()
    again = LogStore(tmp_path / "logs", max_log_bytes=100)
    assert files(tmp_path) == ["c-1.c-1-1.sealed"]
    assert (text(again), text(again, "stderr")) == told
    assert told[1].endswith(b"after 100 bytes]\n")
    assert again.sizes(A, C) == sizes
    again.close()


@pytest.mark.parametrize("size", [SHORT_BYTES, SHORT_BYTES + 1])
def test_a_long_log_stays_as_it_is(logs: LogStore, tmp_path: Path, size: int) -> None:
    logs.append(A, C, "stdout", 0, bytes(size))
    logs.seal(A, C)
    alone = ["c-1", "c-1-1.stderr.notes", "c-1-1.stdout", "c-1-1.stdout.notes"]
    assert files(tmp_path) == (alone if size > SHORT_BYTES else ["c-1.c-1-1.sealed"])
    assert text(logs) == bytes(size)


def test_other_attempts_keep_their_files(logs: LogStore, tmp_path: Path) -> None:
    logs.append(A, C, "stdout", 0, b"first")
    logs.append("c-1-2", C, "stdout", 0, b"second")
    logs.seal(A, C)
    assert files(tmp_path) == ["c-1", "c-1-2.stdout", "c-1.c-1-1.sealed"]
    assert logs.append("c-1-2", C, "stdout", 6, b"!") == 7
    logs.seal("c-1-2", C)
    assert files(tmp_path) == ["c-1.c-1-1.sealed", "c-1.c-1-2.sealed"]
    assert (text(logs), text(logs, attempt="c-1-2")) == (b"first", b"second!")


def test_logs_of_an_older_version_are_read(logs: LogStore, tmp_path: Path) -> None:
    logs.append(A, C, "stdout", 0, b"old")
    (path,) = (tmp_path / "logs").glob("*/c-1/c-1-1.stdout")
    for stream in ("stdout", "stderr"):
        path.with_name(f"c-1-1.{stream}.notes").write_bytes(b'\n{"sealed":true}\n')
    logs.close()
    again = LogStore(tmp_path / "logs")
    assert (text(again), again.sizes(A, C)) == (b"old", (3, 0))
    with pytest.raises(ValueError, match="is complete"):
        again.append(A, C, "stdout", 3, b"late")
    again.close()


def test_after_a_crash_between_its_name_and_the_end_of_the_others_it_counts(
    logs: LogStore, tmp_path: Path
) -> None:
    logs.append(A, C, "stdout", 0, b"abc")
    (path,) = (tmp_path / "logs").glob("*/c-1/c-1-1.stdout")
    logs.seal(A, C)
    logs.close()
    path.parent.mkdir()
    path.write_bytes(b"ab")
    torn = path.parent.with_name("c-1.c-1-1.sealed.new")
    torn.write_bytes(b"{")
    again = LogStore(tmp_path / "logs")
    assert (text(again), again.sizes(A, C)) == (b"abc", (3, 0))
    again.seal(A, C)
    assert not path.parent.exists()
    again.close()


def test_one_that_is_torn_before_it_has_its_name_is_made_anew(
    logs: LogStore, tmp_path: Path
) -> None:
    logs.append(A, C, "stdout", 0, b"abc")
    (path,) = (tmp_path / "logs").glob("*/c-1/c-1-1.stdout")
    path.parent.with_name("c-1.c-1-1.sealed.new").write_bytes(b"x" * 100)
    logs.seal(A, C)
    assert files(tmp_path) == ["c-1.c-1-1.sealed"]
    assert text(logs) == b"abc"


def test_one_that_is_damaged_is_an_error_and_not_an_empty_log(
    logs: LogStore, tmp_path: Path
) -> None:
    logs.append(A, C, "stdout", 0, b"abc")
    logs.seal(A, C)
    logs.close()
    (path,) = (tmp_path / "logs").glob("*/*.sealed")
    path.write_bytes(b"{}\nabc")
    again = LogStore(tmp_path / "logs")
    with pytest.raises(OSError, match="is damaged"):
        text(again)
    again.close()


def test_on_a_full_disk_it_is_sealed_where_it_is(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small") as disk:
        logs = LogStore(disk / "logs", min_free_bytes=0)
        logs.append(A, C, "stdout", 0, b"abc")
        logs.append(A, C, "stderr", 0, b"def")
        (path,) = (disk / "logs").glob("*/c-1/c-1-1.stdout")
        for stream in ("stdout", "stderr"):
            # Their notes have a page already.
            path.with_name(f"c-1-1.{stream}.notes").write_bytes(b"\n")
        fill(disk)
        logs.seal(A, C)
        logs.close()
        again = LogStore(disk / "logs", min_free_bytes=0)
        assert list((disk / "logs").glob("*/*.sealed*")) == []
        assert (text(again), text(again, "stderr")) == (b"abc", b"def")
        with pytest.raises(ValueError, match="is complete"):
            again.append(A, C, "stdout", 3, b"x")
        again.close()


def test_the_last_inodes_of_a_disk_are_left_to_others(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", inodes=500) as disk:
        logs = LogStore(disk / "logs", min_free_bytes=0)
        logs.append(A, C, "stdout", 0, b"abc")
        assert logs.problem == ""
        others = [disk / str(number) for number in range(492)]
        for each in others:
            each.touch()
        assert "inodes free, and the last 5 are left to others" in logs.problem
        with pytest.raises(OSError, match="inodes free"):
            logs.append(A, C, "stdout", 3, b"def")
        others[0].unlink()
        others[1].unlink()
        assert logs.append(A, C, "stdout", 3, b"def") == 6
        logs.close()


def test_those_who_read_meanwhile_read_on(tmp_path: Path) -> None:
    """Streams are sealed while others read them, with fewer open files than streams."""
    logs = LogStore(tmp_path / "logs", max_open_files=3)
    number = 60
    failures: list[str] = []
    for each in range(number):
        logs.append(f"c-1-{each}", C, "stdout", 0, b"%d" % each * 50)

    def read() -> None:
        for _ in range(4):
            for each in range(number):
                seen = text(logs, attempt=f"c-1-{each}")
                if seen != b"%d" % each * 50:
                    failures.append(f"{each}: {seen!r}")

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for each in range(number):
        logs.seal(f"c-1-{each}", C)
        logs.append(f"c-1-{each + number}", C, "stderr", 0, b"new")
    for reader in readers:
        reader.join()
    assert failures == []
    logs.close()
