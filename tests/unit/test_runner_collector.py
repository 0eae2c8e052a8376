"""From pipes to logs: nothing is made up, nothing waits for room, and what is missing is told."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from longshore.pool.runner import collector
from longshore.pool.runner.backlog import END_OF_GAP, STEP_BYTES, TAKEN_BYTES, Backlog
from longshore.pool.runner.collector import Collector, PipeStream
from longshore.pool.runner.kept import Gap, read_gap, write_gap
from longshore.pool.runner.logs import LogPump
from longshore.pool.runner.spool import Spool, SpoolPaths, attempt_of
from tests.small_disk import fill, small_disk

HEAD, TAIL = 2 * STEP_BYTES, STEP_BYTES
PIECE = 65_536
_WORDS = b"".join(b"%07x\n" % word for word in range(56 << 17))


def content(length: int, begin: int = 0) -> bytes:
    """Return bytes that tell where they are: no two windows of a log are alike, and no zeros."""
    return _WORDS[begin : begin + length]


class Bed:
    """One attempt that writes to its standard output, and its collector, one turn at a time."""

    def __init__(self, base: str, logs: str) -> None:
        self.base = base
        self.spool = Spool(
            SpoolPaths(
                base, f"{base}/spool", logs, f"{base}/c/work", "longshore-t", f"{base}/apart"
            )
        )
        assert self.spool.claim(attempt_of("a", "c", "podman", "boot", "")) is not None
        for path in (self.spool.collected("a"), *map(self.pipe, ("stdout", "stderr"))):
            os.mkfifo(path)
        self.job = os.open(self.pipe("stdout"), os.O_RDWR)
        self.supervisor = os.open(self.spool.collected("a"), os.O_RDWR | os.O_NONBLOCK)
        self.log = Path(self.spool.log("a", "stdout"))
        self.trouble = Path(self.spool.places.runner, "collector.log")
        self.written = 0
        self.collector = self.begin()

    def pipe(self, stream: str) -> str:
        return self.spool.pipe("a", stream)

    def begin(self) -> Collector:
        """Return a collector such as follows one that was killed."""
        made = Collector(self.spool, (HEAD, TAIL))
        made.look_at_all()
        return made

    def write(self, length: int) -> None:
        """Write what tells where it is, and have it collected."""
        while length:
            piece = content(min(PIECE, length), self.written)
            assert os.write(self.job, piece) == len(piece)
            self.collector.turn(0)
            self.written += len(piece)
            length -= len(piece)

    def end(self) -> None:
        """Let the attempt have an exit record, and the collector hear of it."""
        Path(self.spool.path("a", "exit")).write_text("0 0 ran\n")
        self.spool.tell(self.spool.words, "a")
        self.collector.turn(0)

    def read(self, offset: int = 0, files: Backlog | None = None) -> list[tuple[int, bytes]]:
        """Return the pieces that whoever follows the log gets, joined where they adjoin."""
        files, pieces = files or Backlog(self.spool), [(offset, b"")]
        descriptor = os.open(self.log, os.O_RDONLY)
        while True:
            begin, before = pieces[-1]
            place, data = files.read("a", "stdout", descriptor, begin + len(before), 1 << 20)
            if not data:
                break
            adjoins = place == begin + len(before)
            pieces[-1:] = [(begin, before + data)] if adjoins else [pieces[-1], (place, data)]
        os.close(descriptor)
        return [piece for piece in pieces if piece[1]]

    def on_disk(self) -> int:
        return self.log.stat().st_blocks * 512

    def close(self) -> None:
        self.collector.close()
        os.close(self.job)
        os.close(self.supervisor)


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    with closing(Bed(str(tmp_path), f"{tmp_path}/logs")) as made:
        yield made


@pytest.fixture
def small(tmp_path: Path) -> Iterator[tuple[Bed, Path]]:
    """A bed whose logs lie on a disk of 1 MiB."""
    with small_disk(tmp_path / "small") as disk, closing(Bed(str(tmp_path), str(disk))) as made:
        yield made, disk


def all_told(bed: Bed, pieces: list[tuple[int, bytes]]) -> bool:
    """Return whether pieces are what was written there (but for what stands for a gap's end)."""
    return all(
        data in (content(len(data), begin), END_OF_GAP) and begin + len(data) <= bed.written
        for begin, data in pieces
    )


def test_what_is_written_is_in_the_log_and_an_end_is_told_after_it(bed: Bed) -> None:
    bed.write(3 * PIECE)
    assert bed.read() == [(0, content(3 * PIECE))]
    assert os.write(bed.job, b"last words\n")
    Path(bed.spool.path("a", "exit")).write_text("0 0 ran\n")
    assert bed.spool.recorded("a") is not None
    assert bed.spool.ended("a") is None, "its log is not whole"
    with pytest.raises(BlockingIOError):
        os.read(bed.supervisor, 9)
    bed.collector.look_at_all()
    assert bed.spool.ended("a") is not None
    assert os.read(bed.supervisor, 9) == b"\n", "nobody has to hold the pipes any more"
    assert bed.read() == [(0, content(3 * PIECE) + b"last words\n")]
    assert not Path(bed.pipe("stdout")).exists()
    assert not Path(bed.pipe("stderr")).exists()


def test_the_next_collector_goes_on_where_one_was_killed(bed: Bed) -> None:
    bed.write(PIECE)
    bed.collector.close()
    os.write(bed.job, content(PIECE, PIECE))
    bed.collector = bed.begin()
    bed.collector.turn(0)
    bed.written += PIECE
    bed.write(PIECE)
    assert bed.read() == [(0, content(3 * PIECE))]


@pytest.mark.parametrize("removed", ["stdout", "stderr", ""])
def test_an_end_is_told_also_by_the_next_collector(bed: Bed, removed: str) -> None:
    bed.write(10)
    bed.collector.close()
    Path(bed.spool.path("a", "exit")).write_text("0 0 ran\n")
    if removed:
        Path(bed.pipe(removed)).unlink()
    bed.collector = bed.begin()
    assert bed.spool.ended("a") is not None
    assert os.read(bed.supervisor, 9) == b"\n"


def test_where_the_spool_vanishes_nobody_waits_and_what_comes_goes_nowhere(bed: Bed) -> None:
    bed.write(10)
    os.close(os.open(bed.pipe("stderr"), os.O_WRONLY))  # or nobody is known to have left it
    shutil.rmtree(bed.spool.places.spool)
    bed.collector.look_at_all()
    assert os.read(bed.supervisor, 9) == b"\n"
    for _ in range(40):
        assert os.write(bed.job, bytes(PIECE)) == PIECE, "more than a pipe holds"
        bed.collector.turn(0)
    bed.collector.look_at_all()
    with pytest.raises(BlockingIOError):
        os.read(bed.supervisor, 9)
    assert bed.log.read_bytes() == content(10)
    os.close(bed.job)
    bed.job = os.open(os.devnull, os.O_WRONLY)
    bed.collector.turn(0)
    assert not bed.collector._takings.names


def test_a_spool_that_is_made_anew_has_a_collector_of_its_own(bed: Bed) -> None:
    bed.write(10)
    before = bed.collector
    os.close(os.open(bed.pipe("stderr"), os.O_WRONLY))
    shutil.rmtree(bed.spool.places.spool)
    os.close(bed.job)
    os.close(bed.supervisor)
    before.turn(0)
    before.look_at_all()
    assert not before._takings.names
    again = Bed(bed.base, bed.spool.places.logs)
    with closing(again):
        before.look_at_all()
        os.write(again.job, b"said\n")
        before.turn(0)
        before.look_at_all()
        assert select.select([again.job], [], [], 0)[0], "it is not for the one before to take"
        with pytest.raises(BlockingIOError):
            os.read(again.supervisor, 9)
    before.close()
    bed.job, bed.supervisor = (os.open(os.devnull, os.O_RDWR) for _ in range(2))
    bed.collector = Collector(Spool(bed.spool.places), (HEAD, TAIL))


def test_who_goes_on_writing_is_heard_for_one_pipe_full(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    splice = collector._splice

    def never_empty(pipe: int, log: int, place: ctypes.c_int64, most: int) -> int:
        os.write(bed.job, b"y" * 4096)
        return splice(pipe, log, place, most)

    monkeypatch.setattr(collector, "_splice", never_empty)
    os.write(bed.job, b"y")
    bed.end()
    assert bed.spool.ended("a") is not None
    assert bed.log.stat().st_size <= 2 * collector.PIPE_BYTES


def test_where_the_file_system_cannot_splice_it_is_copied(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*_: object) -> int:
        ctypes.set_errno(errno.EINVAL)
        return -1

    monkeypatch.setattr(collector, "_splice", cannot)
    bed.write(5 * PIECE)
    bed.end()
    assert bed.read() == [(0, content(5 * PIECE))]


def test_a_log_that_nobody_takes_keeps_its_head_and_its_end(bed: Bed) -> None:
    bed.write(HEAD + 2 * TAIL)
    assert bed.on_disk() >= HEAD + 2 * TAIL, "no more than there may be"
    for _ in range(8):
        bed.write(STEP_BYTES)
        assert bed.on_disk() <= HEAD + 3 * TAIL + STEP_BYTES
    head, end = bed.read()
    assert head == (0, content(HEAD))
    assert TAIL <= bed.written - end[0] <= 2 * TAIL + STEP_BYTES
    assert all_told(bed, [head, end])
    files = Backlog(bed.spool)
    files.taken("a", "stdout", HEAD + TAKEN_BYTES)
    assert bed.read(0, files)[0][0] == end[0], "the head is taken"
    bed.write(STEP_BYTES)
    assert all_told(bed, bed.read(end[0], files))


def test_where_no_holes_can_be_made_everything_stays(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "punch", lambda *_: False)
    bed.write(HEAD + 5 * TAIL)
    assert bed.read() == [(0, content(bed.written))]


def test_where_a_gap_cannot_be_written_down_nothing_is_given_up_for_the_bound(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []

    def no_room(*_: object) -> None:
        if not told:  # the job goes on writing meanwhile
            told.append(os.write(bed.job, content(PIECE, bed.written + PIECE)))
        raise OSError(errno.ENOSPC, "the spool is full")

    with monkeypatch.context() as patch:
        patch.setattr(collector, "write_gap", no_room)
        while not told:
            bed.write(PIECE)
        bed.collector.turn(0)
        bed.written += PIECE
        bed.write(2 * STEP_BYTES)
        assert bed.read() == [(0, content(bed.written))]
    bed.write(2 * STEP_BYTES)
    assert bed.on_disk() <= HEAD + 3 * TAIL + STEP_BYTES
    assert all_told(bed, bed.read())


# ---- what fails ---------------------------------------------------------------------------------


def fail_with(number: int) -> Callable[..., Any]:
    def fails(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number))

    return fails


# ---- the wait for what has ended ----------------------------------------------------------------


@pytest.fixture
def ended(bed: Bed) -> Iterator[Bed]:
    """A bed whose attempt has an exit record, beside a collector (us) that does nothing."""
    Path(bed.spool.path("a", "exit")).write_text("0 0 ran\n")
    words = os.open(bed.spool.words, os.O_RDWR | os.O_NONBLOCK)
    fcntl.flock(words, fcntl.LOCK_EX)
    yield bed
    os.close(words)


def settle(bed: Bed) -> tuple[float, int]:
    """Return for how long somebody waited for what has ended, in seconds, and the words he said."""
    began = time.monotonic()
    collector.settle(bed.spool)
    waited_s = time.monotonic() - began
    words = os.open(bed.spool.words, os.O_RDWR | os.O_NONBLOCK)
    said = os.read(words, 65_536).split()
    os.close(words)
    return waited_s, len(said)


def test_nobody_waits_long_for_who_takes_what_has_ended_and_hangs(ended: Bed) -> None:
    taker = os.open(ended.spool.collected("a"), os.O_RDWR)
    fcntl.flock(taker, fcntl.LOCK_EX)
    waited_s, said = settle(ended)
    assert collector.HANG_S <= waited_s < collector.SETTLE_S / 2
    assert 1 <= said <= 10
    os.close(taker)


def test_who_is_at_it_is_waited_for_while_the_log_grows(ended: Bed) -> None:
    taker = os.open(ended.spool.collected("a"), os.O_RDWR)
    fcntl.flock(taker, fcntl.LOCK_EX)
    growing = threading.Event()

    def grow() -> None:
        with ended.log.open("ab", 0) as log:
            while not growing.wait(collector.HANG_S / 10):
                log.write(b"more")

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        assert settle(ended)[0] >= collector.SETTLE_S
    finally:
        growing.set()
        thread.join()
        os.close(taker)


def test_what_nobody_takes_yet_is_waited_for(ended: Bed) -> None:
    waited_s, said = settle(ended)
    assert waited_s >= collector.SETTLE_S
    assert 1 <= said <= 12


@pytest.mark.parametrize("name", ["ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EIO", "ENOENT"])
def test_what_a_log_cannot_take_is_lost(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(PipeStream, "_move", fail_with(getattr(errno, name)))
        bed.write(PIECE)
    bed.write(PIECE)
    assert bed.read() == [(PIECE, content(PIECE, PIECE))]
    assert not bed.trouble.exists()


@pytest.mark.parametrize("name", ["EMFILE", "ENFILE", "ENOMEM", "EACCES"])
def test_the_pipe_keeps_what_fails_for_another_cause(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    number = getattr(errno, name)
    monkeypatch.setattr(collector, "TROUBLE_REST_S", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(PipeStream, "_move", fail_with(number))
        bed.write(PIECE)
        assert bed.read() == []
    assert os.strerror(number) in bed.trouble.read_text()
    bed.collector.turn(0)
    assert bed.read() == [(0, content(PIECE))]


def test_what_fails_for_one_attempt_ends_the_collecting_of_no_other(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "TROUBLE_REST_S", 0.0)
    recorded = bed.spool.recorded

    def cannot(attempt_id: str) -> Any:
        return fail_with(errno.EIO)() if attempt_id == "0" else recorded(attempt_id)

    monkeypatch.setattr(bed.spool, "recorded", cannot)
    lock = bed.spool.claim(attempt_of("0", "c", "podman", "boot", ""))
    assert lock is not None
    os.close(lock)
    for path in (bed.spool.collected("0"), bed.spool.pipe("0", "stdout")):
        os.mkfifo(path)
    bed.collector.look_at_all()
    assert os.strerror(errno.EIO) in bed.trouble.read_text()
    bed.spool.tell(bed.spool.words, "0")
    bed.write(10)
    bed.end()
    assert bed.spool.ended("a") is not None
    assert bed.read() == [(0, content(10))]


@pytest.mark.parametrize(("user", "asked"), [(0, True), (1000, False)])
def test_only_root_makes_pipes_larger(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, user: int, asked: bool
) -> None:
    bed.collector.close()
    done: list[int] = []

    def control(descriptor: int, command: int, *argument: int) -> int:
        done.append(command)
        return fcntl.fcntl(descriptor, command, *argument)

    monkeypatch.setattr(collector, "fcntl", SimpleNamespace(fcntl=control, flock=fcntl.flock))
    monkeypatch.setattr(os, "geteuid", lambda: user)
    bed.collector = bed.begin()
    assert (collector.F_SETPIPE_SZ in done) is asked
    bed.write(PIECE)
    assert bed.read() == [(0, content(PIECE))]


# ---- gaps ---------------------------------------------------------------------------------------


def test_why_an_engine_failed_is_told_without_the_gap_at_the_end(
    small: tuple[Bed, Path],
) -> None:
    bed, disk = small
    said = "Error: manifest unknown\n".rjust(4096)  # all of a page: there is no room behind it
    Path(bed.spool.log("a", "stderr")).write_text(said)
    bed.collector.close()
    bed.collector = bed.begin()
    fill(disk)
    stderr = os.open(bed.pipe("stderr"), os.O_WRONLY)
    os.write(stderr, b"and more\n")
    os.close(stderr)
    Path(bed.spool.path("a", "exit")).write_text("125 0 never\n")
    bed.collector.look_at_all()
    attempt = bed.spool.read("a")
    assert attempt is not None
    exit_ = bed.spool.exit_of(attempt)
    assert exit_ is not None
    assert exit_["stderr_bytes"] == len(said) + 9
    assert (exit_["kind"], exit_["message"]) == ("engine_failure", said.strip())
    assert exit_["fault"] == "request"


def test_what_finds_no_room_is_a_gap_and_what_comes_later_is_there(
    small: tuple[Bed, Path],
) -> None:
    bed, disk = small
    bed.write(PIECE)
    ballast = fill(disk)
    bed.write(20 * PIECE)
    ballast.unlink()
    bed.write(2 * PIECE)
    first, second = bed.read()
    assert first[0] == 0
    assert len(first[1]) >= PIECE
    assert second[0] + len(second[1]) == bed.written
    assert len(second[1]) >= 2 * PIECE
    assert all_told(bed, [first, second])
    ballast = fill(disk)
    bed.write(40 * PIECE)
    assert all_told(bed, bed.read()), "what it gave up is no hole that looks like words"
    bed.collector.close()
    bed.collector = bed.begin()
    bed.write(PIECE)
    ballast.unlink()
    bed.write(PIECE)
    assert all_told(bed, bed.read())
    assert bed.read()[-1][0] + len(bed.read()[-1][1]) == bed.written


def test_a_gap_at_the_end_is_told_by_an_offset(small: tuple[Bed, Path]) -> None:
    bed, disk = small
    bed.write(10)
    bed.log.write_bytes(b"")  # not even a page of it is there
    bed.collector.close()
    bed.collector, bed.written = bed.begin(), 0
    fill(disk)
    bed.write(PIECE)
    bed.end()
    gap = read_gap(bed.spool.gap("a", "stdout"))
    assert gap.end == PIECE == bed.spool._stream_bytes("a", "stdout")
    assert gap.last
    assert bed.read()[-1] == (PIECE - 1, END_OF_GAP)
    assert bed.read(PIECE) == []


def test_a_gap_at_the_end_is_sent_also_to_who_looked_before_the_end(
    small: tuple[Bed, Path],
) -> None:
    bed, disk = small
    sent: list[dict[str, Any]] = []
    pump = LogPump(bed.spool, sent.append)
    pump.follow("a", {"stdout": 0, "stderr": 0})

    def look() -> None:
        pump.grew(None)
        while not pump.idle():
            pump.pump()

    bed.write(4096)
    fill(disk)
    bed.write(PIECE)
    look()
    bed.end()
    look()
    assert [each["offset"] for each in sent] == [0, bed.written - 1]


def test_a_gap_that_cannot_be_written_down_is_not_read_as_zeros(
    small: tuple[Bed, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    bed, disk = small

    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    bed.write(PIECE)
    ballast = fill(disk)
    with monkeypatch.context() as patch:
        patch.setattr(collector, "write_gap", no_room)
        bed.write(20 * PIECE)
        ballast.unlink()
        bed.write(PIECE)
        assert all_told(bed, bed.read())
    bed.write(PIECE)
    pieces = bed.read()
    assert all_told(bed, pieces)
    assert pieces[-1][0] + len(pieces[-1][1]) == bed.written


def test_a_hole_that_is_made_while_it_is_read_is_not_sent(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed.write(4 * PIECE)
    pread = os.pread

    def slow(descriptor: int, length: int, place: int) -> bytes:
        if read_gap(bed.spool.gap("a", "stdout")) == Gap():
            write_gap(bed.spool.gap("a", "stdout"), Gap(0, 2 * PIECE))
            with bed.log.open("r+b") as log:
                log.write(bytes(2 * PIECE))
        return pread(descriptor, length, place)

    monkeypatch.setattr(os, "pread", slow)
    assert bed.read() == [(2 * PIECE, content(2 * PIECE, 2 * PIECE))]
