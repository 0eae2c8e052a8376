"""The log store: offsets mean the same to everybody, and what is missing is never silent."""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.dispatcher.input.quantities import Size
from longshore.dispatcher.logs.sealed import SHORT_BYTES
from longshore.dispatcher.logs.store import LogStore
from tests.small_disk import fill, small_disk
from tests.synced_files import record_syncs, write_half

C, A = "c-1", "a-1"


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogStore]:
    store = LogStore(tmp_path / "logs")
    yield store
    store.close()


def whole(logs: LogStore, stream: str = "stdout", *, step: int = 7) -> bytes:
    """Read a stream as a follower does: from where the last read ended, until nothing comes."""
    text = b""
    while piece := logs.read(C, A, stream, len(text), step):
        assert len(piece) <= step
        text += piece
    return text


def reopened(tmp_path: Path, *, max_log_bytes: int = 2**30, max_open_files: int = 512) -> LogStore:
    return LogStore(tmp_path / "logs", max_log_bytes=max_log_bytes, max_open_files=max_open_files)


def test_streams_are_kept_apart_and_read_from_any_offset(logs: LogStore) -> None:
    assert logs.append(A, C, "stdout", 0, b"hello ") == 6
    assert logs.append(A, C, "stderr", 0, b"oh") == 2
    assert logs.append(A, C, "stdout", 6, b"world") == 11
    assert logs.sizes(A, C) == (11, 2)
    assert whole(logs) == b"hello world"
    assert logs.read(C, A, "stdout", 6, 3) == b"wor"
    assert logs.read(C, A, "stdout", 11, 3) == b""
    assert logs.read(C, A, "stderr", 0, 100) == b"oh"


def test_what_nobody_wrote_is_empty_and_makes_no_file(logs: LogStore, tmp_path: Path) -> None:
    assert logs.sizes(A, C) == (0, 0)
    assert logs.read(C, A, "stdout", 0, 10) == b""
    logs.sync(A, C)
    assert not (tmp_path / "logs").exists()


def test_repeating_and_overlapping_change_nothing(logs: LogStore) -> None:
    logs.append(A, C, "stdout", 0, b"abcdef")
    assert logs.append(A, C, "stdout", 0, b"abcdef") == 6
    assert logs.append(A, C, "stdout", 2, b"cd") == 6
    assert logs.append(A, C, "stdout", 4, b"efgh") == 8
    assert logs.append(A, C, "stdout", 3, b"") == 8
    assert whole(logs) == b"abcdefgh"


def gap_sentence(length: int) -> bytes:
    return b"\n[longshore: %d bytes of this log are missing here]\n" % length


def test_a_gap_reads_as_a_sentence_and_the_streams_offsets_stay(
    logs: LogStore, tmp_path: Path
) -> None:
    logs.append(A, C, "stdout", 0, b"abc")
    assert logs.append(A, C, "stdout", 103, b"xyz") == 106
    text = b"abc" + gap_sentence(100) + b"xyz"
    assert whole(logs) == text
    (notes,) = (tmp_path / "logs").glob("*/c-1/a-1.stdout.notes")
    assert notes.read_text().split() == ['{"gap":[3,103]}']
    logs.close()
    again = reopened(tmp_path)
    assert again.sizes(A, C) == (106, 0)
    assert again.append(A, C, "stdout", 100, b"000xyz!") == 107
    assert again.append(A, C, "stdout", 1107, b"end") == 1110
    text += b"!" + gap_sentence(1000) + b"end"
    assert whole(again) == text
    again.close()
    last = reopened(tmp_path)
    assert last.sizes(A, C) == (1110, 0)
    assert whole(last) == text
    last.close()


@pytest.mark.parametrize("length", [2**30, 2**50])
def test_a_gap_takes_no_room_however_large_it_is(
    logs: LogStore, tmp_path: Path, length: int
) -> None:
    assert logs.append(A, C, "stdout", length, b"x") == length + 1
    text = gap_sentence(length) + b"x"
    assert logs.read(C, A, "stdout", 0, 2**20) == text
    assert logs.read(C, A, "stdout", len(text), 2**20) == b""
    (path,) = (tmp_path / "logs").glob("*/c-1/a-1.stdout")
    assert path.stat().st_size == len(text)


def test_a_gap_whose_sentence_was_torn_is_asked_for_again(tmp_path: Path) -> None:
    logs = reopened(tmp_path)
    logs.append(A, C, "stdout", 0, b"abc")
    logs.append(A, C, "stdout", 103, b"xyz")
    logs.close()
    (path,) = (tmp_path / "logs").glob("*/c-1/a-1.stdout")
    os.truncate(path, 20)
    again = reopened(tmp_path)
    assert again.sizes(A, C) == (3, 0)
    assert again.append(A, C, "stdout", 3, b"def") == 6
    again.close()
    last = reopened(tmp_path)
    assert last.sizes(A, C) == (6, 0)
    assert whole(last) == b"abcdef"
    last.close()


def test_gaps_without_end_cut_the_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longshore.dispatcher.logs.store.NOTES_LIMIT", 5)
    logs = reopened(tmp_path)
    for number in range(1, 20):
        assert logs.append(A, C, "stdout", 1000 * number, b"x") == 1000 * number + 1
    text = whole(logs)
    assert text.count(b"are missing here") == 5
    assert b"this log is cut off here" in text
    (notes,) = (tmp_path / "logs").glob("*/c-1/*.notes")
    assert len(notes.read_text().split()) == 6
    logs.close()


def test_a_gap_smaller_than_its_mark_is_marked_as_far_as_it_goes(logs: LogStore) -> None:
    logs.append(A, C, "stdout", 4, b"xyz")
    assert whole(logs) == b"\n[loxyz"


def test_a_stream_is_cut_at_the_limit_and_says_so(tmp_path: Path) -> None:
    logs = reopened(tmp_path, max_log_bytes=10)
    assert logs.append(A, C, "stdout", 0, b"0123456") == 7
    assert logs.append(A, C, "stdout", 7, b"789abc") == 13
    assert logs.append(A, C, "stdout", 13, b"def") == 16
    mark = b"\n[longshore: this log is cut off here, after 10 bytes]\n"
    assert whole(logs) == b"0123456789" + mark
    assert logs.sizes(A, C) == (16, 0)
    logs.sync(A, C)
    logs.close()
    again = reopened(tmp_path, max_log_bytes=10)
    assert again.sizes(A, C) == (16, 0)
    assert again.append(A, C, "stdout", 16, b"ghi") == 19
    assert whole(again) == b"0123456789" + mark
    again.close()


def test_exactly_the_limit_is_not_cut(tmp_path: Path) -> None:
    logs = reopened(tmp_path, max_log_bytes=4)
    logs.append(A, C, "stdout", 0, b"0123")
    assert whole(logs) == b"0123"
    logs.close()


def test_a_gap_whose_sentence_is_beyond_the_limit_cuts_the_stream(tmp_path: Path) -> None:
    logs = LogStore(tmp_path / "logs", max_log_bytes=Size(20))
    assert logs.append(A, C, "stdout", 0, b"abc") == 3
    assert logs.append(A, C, "stdout", 2**50, b"x") == 2**50 + 1
    text = b"abc\n[longshore: this log is cut off here, after 3 bytes]\n"
    assert whole(logs) == text
    logs.sync(A, C)
    logs.close()
    again = reopened(tmp_path, max_log_bytes=20)
    assert again.sizes(A, C) == (2**50 + 1, 0)
    assert whole(again) == text
    again.close()


def test_limits_may_be_sizes_of_a_configuration(tmp_path: Path) -> None:
    logs = LogStore(
        tmp_path / "logs", max_log_bytes=Size(200), max_open_files=Size(3), min_free_bytes=Size(1)
    )
    assert logs.append(A, C, "stdout", 500, b"x" * 1000) == 1500
    logs.sync(A, C)
    assert logs.sizes(A, C) == (1500, 0)
    assert whole(logs).endswith(b"after 200 bytes]\n")
    logs.close()


@pytest.mark.parametrize("beside", [0, SHORT_BYTES])
def test_a_sealed_stream_is_never_added_to(tmp_path: Path, beside: int) -> None:
    logs = reopened(tmp_path)
    logs.append(A, C, "stdout", 0, b"abc")
    logs.append(A, C, "stderr", 0, bytes(beside))
    logs.sync(A, C)
    for _ in range(2):
        logs.seal(A, C)
    for _ in range(2):
        for stream, offset in (("stdout", 3), ("stdout", 2), ("stdout", 9), ("stderr", beside)):
            with pytest.raises(ValueError, match="is complete"):
                logs.append(A, C, stream, offset, b"xyz")
        assert logs.append(A, C, "stdout", 0, b"abc") == 3, "repeating is harmless"
        assert logs.sizes(A, C) == (3, beside)
        assert whole(logs) == b"abc"
        assert logs.append("a-2", C, "stdout", 0, b"more") >= 4, "another attempt goes on"
        logs.close()
        logs = reopened(tmp_path)
    notes = [each.read_text().split() for each in (tmp_path / "logs").glob("*/c-1/a-1.*.notes")]
    assert notes == ([['{"sealed":true}']] * 2 if beside else [])
    logs.close()


def test_a_file_that_lost_its_end_is_asked_for_again(tmp_path: Path) -> None:
    logs = reopened(tmp_path, max_log_bytes=10)
    logs.append(A, C, "stdout", 0, b"0123456789abc")
    logs.close()
    (path,) = (tmp_path / "logs").glob("*/c-1/a-1.stdout")
    os.truncate(path, 5)
    again = reopened(tmp_path, max_log_bytes=10)
    assert again.sizes(A, C) == (5, 0)
    assert again.append(A, C, "stdout", 5, b"56789abc") == 13
    assert whole(again).startswith(b"0123456789\n[longshore: this log is cut off")
    again.close()


def test_a_torn_note_is_passed_over(tmp_path: Path) -> None:
    logs = reopened(tmp_path, max_log_bytes=10)
    logs.append(A, C, "stdout", 0, b"0123456789abc")
    logs.close()
    (notes,) = (tmp_path / "logs").glob("*/c-1/*.notes")
    with notes.open("ab") as file:
        file.write(b'{"end":1')
    again = reopened(tmp_path, max_log_bytes=10)
    again.append(A, C, "stdout", 0, b"0123456789abcdef")
    again.sync(A, C)
    again.close()
    last = reopened(tmp_path, max_log_bytes=10)
    assert last.sizes(A, C) == (16, 0)
    last.close()


@pytest.mark.parametrize("bad", ["", ".", "..", "a/b", "../x", "a\0b", "a.stdout", "-a", "a" * 81])
def test_ids_are_no_paths(logs: LogStore, tmp_path: Path, bad: str) -> None:
    with pytest.raises(ValueError, match="is no id"):
        logs.append(bad, C, "stdout", 0, b"x")
    with pytest.raises(ValueError, match="is no id"):
        logs.read(bad, A, "stdout", 0, 1)
    with pytest.raises(ValueError, match="no stream"):
        logs.append(A, C, "../stdout", 0, b"x")
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize("offset", [-1, 2**53, 2**64, 10**30])
def test_offsets_that_cannot_be_are_refused(logs: LogStore, tmp_path: Path, offset: int) -> None:
    with pytest.raises(ValueError, match=f"offset {offset}"):
        logs.append(A, C, "stdout", offset, b"x")
    assert list(tmp_path.rglob("*")) == []


def test_followers_hear_of_growth_only(tmp_path: Path) -> None:
    heard: list[str] = []
    logs = LogStore(tmp_path / "logs", on_change=heard.append)
    logs.append(A, C, "stdout", 0, b"abc")
    logs.append(A, C, "stdout", 0, b"abc")
    logs.append("a-2", "c-2", "stderr", 0, b"abc")
    assert heard == ["c-1", "c-2"]
    logs.close()


def test_files_and_directories_are_private(logs: LogStore, tmp_path: Path) -> None:
    logs.append(A, C, "stdout", 3, b"abc")
    for path in (tmp_path / "logs").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def open_files(directory: Path) -> int:
    links = list(Path("/proc/self/fd").iterdir())
    return sum(str(link.resolve()).startswith(str(directory)) for link in links)


def test_few_files_stay_open(tmp_path: Path) -> None:
    logs = reopened(tmp_path, max_open_files=8)
    for number in range(40):
        logs.append(f"a-{number}", C, "stdout", 0, b"abc")
    for number in range(40):
        assert logs.append(f"a-{number}", C, "stdout", 3, b"def") == 6
        logs.sync(f"a-{number}", C)
        assert open_files(tmp_path) <= 8
    assert logs.read(C, "a-0", "stdout", 0, 10) == b"abcdef"
    logs.close()
    assert open_files(tmp_path) == 0


def test_many_threads_write_repeat_and_read_at_once(tmp_path: Path) -> None:
    """Sessions of many workers append with repeats, with fewer open files than streams."""
    logs = reopened(tmp_path, max_open_files=5)
    expected = {n: random.Random(n).randbytes(20_000) for n in range(12)}
    failures: list[str] = []

    def write(number: int, seed: int) -> None:
        dice = random.Random(seed)
        data, sent = expected[number], 0
        while sent < len(data):
            start = max(0, sent - dice.randrange(50))
            end = logs.append(f"a-{number}", C, "stdout", start, data[start : sent + 300])
            sent = max(sent, end)
            seen = logs.read(C, f"a-{number}", "stdout", start, 300)
            if seen != data[start : start + len(seen)]:
                failures.append(f"{number} at {start}")

    threads = [
        threading.Thread(target=write, args=(number, seed))
        for number in expected
        for seed in (1, 2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for number, data in expected.items():
        assert logs.read(C, f"a-{number}", "stdout", 0, 30_000) == data
    logs.close()


def test_a_full_disk_is_an_error_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    data = random.Random(1).randbytes(300_000)
    with small_disk(tmp_path / "small") as disk:
        logs = LogStore(disk / "logs", min_free_bytes=0)
        logs.append(A, C, "stdout", 0, b"start ")
        ballast = fill(disk)
        with pytest.raises(OSError, match="No space"):
            logs.append(A, C, "stdout", 6, data)
        assert "No space" in logs.problem
        kept, _ = logs.sizes(A, C)
        assert 6 <= kept < 300_006
        ballast.unlink()
        assert logs.append(A, C, "stdout", kept, data[kept - 6 :]) == 300_006
        assert logs.problem == ""
        assert logs.read(C, A, "stdout", 0, 400_000) == b"start " + data
        logs.close()


def test_the_last_of_a_disk_is_left_to_others(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small") as disk:
        logs = LogStore(disk / "logs", min_free_bytes=500_000)
        assert logs.problem == ""
        logs.append(A, C, "stdout", 0, b"abc")
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(600_000))
        assert "left to others" in logs.problem
        with pytest.raises(OSError, match="left to others") as caught:
            logs.append(A, C, "stdout", 3, b"def")
        assert caught.value.errno == errno.ENOSPC
        assert logs.append(A, C, "stdout", 0, b"abc") == 3, "what is known needs no room"
        with pytest.raises(OSError, match="left to others"):
            logs.append(A, C, "stderr", 100, b"def")
        logs.sync(A, C)
        logs.seal("a-2", C)
        ballast.unlink()
        assert logs.problem == ""
        assert logs.append(A, C, "stdout", 3, b"def") == 6
        assert whole(logs) == b"abcdef"
        logs.close()


def test_a_gap_that_could_not_be_marked_is_none(tmp_path: Path) -> None:
    """Its note fits into the notes' last page, its sentence finds no page."""
    with small_disk(tmp_path / "small") as disk:
        logs = LogStore(disk / "logs", min_free_bytes=0)
        logs.append(A, C, "stdout", 0, bytes(4096))
        (path,) = (disk / "logs").glob("*/c-1/a-1.stdout")
        path.with_name("a-1.stdout.notes").write_bytes(b"\n")
        ballast = fill(disk)
        with pytest.raises(OSError, match="No space"):
            logs.append(A, C, "stdout", 5000, b"late")
        assert path.with_name("a-1.stdout.notes").read_text().split() == ['{"gap":[4096,5000]}']
        ballast.unlink()
        assert logs.append(A, C, "stdout", 4096, b"early") == 4101
        logs.close()
        again = LogStore(disk / "logs", min_free_bytes=0)
        assert again.sizes(A, C) == (4101, 0)
        assert again.read(C, A, "stdout", 4090, 100) == bytes(6) + b"early"
        again.close()


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every file and directory that is synced, in the order of it."""
    return record_syncs(monkeypatch)


def test_a_log_is_safe_with_the_names_of_all_directories_on_the_way(
    tmp_path: Path, synced: list[Path]
) -> None:
    """A file that is synced is gone all the same with the name of a directory that is not."""
    logs = reopened(tmp_path)
    logs.append(A, C, "stdout", 0, b"abc")
    logs.sync(A, C)
    (text,) = tmp_path.glob("logs/*/c-1/a-1.stdout")
    assert set(synced) == {text, text.parent, text.parents[1], text.parents[2], tmp_path}
    synced.clear()
    logs.append(A, C, "stdout", 3, b"def")
    logs.sync(A, C)
    assert synced == [text, text.parent], "of what is not new, the names are safe"
    synced.clear()
    logs.sync(A, C)
    assert synced == []
    logs.close()


def test_a_gap_is_safe_before_its_sentence_is_written(tmp_path: Path, synced: list[Path]) -> None:
    logs = reopened(tmp_path)
    logs.append(A, C, "stdout", 100, b"abc")
    (notes,) = tmp_path.glob("logs/*/c-1/a-1.stdout.notes")
    assert synced == [notes, notes.parent]
    logs.close()


@pytest.mark.parametrize("length", [3, SHORT_BYTES + 1])
def test_a_sealed_log_is_for_its_owner_alone_whatever_the_umask(
    tmp_path: Path, length: int
) -> None:
    before = os.umask(0)
    try:
        logs = reopened(tmp_path)
        logs.append(A, C, "stdout", 3, b"x" * length)
        for _ in range(2):
            files = [path for path in (tmp_path / "logs").rglob("*") if path.is_file()]
            assert files
            assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
            logs.seal(A, C)
        logs.close()
    finally:
        os.umask(before)


def test_a_sealed_file_is_safe_before_the_files_that_it_replaces_go(
    tmp_path: Path, synced: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = reopened(tmp_path)
    logs.append(A, C, "stdout", 0, b"abc")
    (text,) = tmp_path.glob("logs/*/c-1/a-1.stdout")
    (sealed, shard), order = (text.parents[1] / "c-1.a-1.sealed", text.parents[1]), list[str]()
    really_unlink, really_rename = Path.unlink, Path.rename

    def unlink(path: Path, missing_ok: bool = False) -> None:
        order.append(f"{shard in synced} {path.name}")
        really_unlink(path, missing_ok=missing_ok)

    def rename(path: Path, target: Path) -> Path:
        assert synced == [path], "its bytes are safe before it has its name"
        return really_rename(path, target)

    monkeypatch.setattr(Path, "unlink", unlink)
    monkeypatch.setattr(Path, "rename", rename)
    logs.seal(A, C)
    assert order[0] == "True a-1.stdout", "the name is safe before the other file goes"
    assert sealed.exists()
    assert not text.exists()
    logs.close()


def test_notes_are_as_safe_as_the_text_that_they_explain(
    tmp_path: Path, synced: list[Path]
) -> None:
    logs = reopened(tmp_path, max_log_bytes=SHORT_BYTES + 1)
    logs.append(A, C, "stdout", 0, b"x" * (SHORT_BYTES + 2))
    (text,) = tmp_path.glob("logs/*/c-1/a-1.stdout")
    notes = text.with_name("a-1.stdout.notes")
    logs.sync(A, C)
    assert {text, notes} <= set(synced)
    logs.close()
    synced.clear()
    again = reopened(tmp_path, max_log_bytes=SHORT_BYTES + 1)
    again.seal(A, C)
    assert {text, notes} <= set(synced), "whoever wrote them before may not have done it"
    again.close()


def test_a_note_that_was_written_in_part_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = reopened(tmp_path)
    logs.append(A, C, "stdout", 0, b"abc")
    with monkeypatch.context() as patch:
        write_half(patch, "write")
        with pytest.raises(OSError, match="No space left"):
            logs.append(A, C, "stdout", 1000, b"xyz")
    assert logs.append(A, C, "stdout", 1000, b"xyz") == 1003
    assert whole(logs) == b"abc" + gap_sentence(997) + b"xyz"
    logs.close()
    again = reopened(tmp_path)
    assert whole(again) == b"abc" + gap_sentence(997) + b"xyz"
    again.close()


def test_a_sentence_that_was_written_in_part_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = reopened(tmp_path)
    logs.append(A, C, "stdout", 0, b"abc")
    (text,) = tmp_path.glob("logs/*/c-1/a-1.stdout")
    with monkeypatch.context() as patch:
        write_half(patch, "pwrite")
        with pytest.raises(OSError, match="No space left"):
            logs.append(A, C, "stdout", 1000, b"xyz")
    assert text.read_bytes() == b"abc"
    logs.close()


def test_a_log_that_cannot_be_read_leaves_no_file_open(tmp_path: Path) -> None:
    logs = reopened(tmp_path)
    logs.append(A, C, "stdout", 0, b"abc")
    logs.close()
    (text,) = tmp_path.glob("logs/*/c-1/a-1.stdout")
    text.with_name("a-1.stdout.notes").mkdir()
    for _ in range(3):
        with pytest.raises(IsADirectoryError):
            logs.read(C, A, "stdout", 0, 10)
    assert open_files(tmp_path) == 0
