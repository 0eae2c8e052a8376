"""The collector: one process for all attempts, which moves what they write into their logs.

An attempt writes into two named pipes in the spool, not into files: a pipe can be opened again as
`/dev/stderr`, by `tee` say, without losing what is in it, and belongs to the user of the job, so
that it can be opened with `run_as` too. Whoever reads it must be there for as long as the attempt,
whatever becomes of sessions: so it is a process of its own, which a session, a watcher or a listing
leaves behind where there is none (`ensure`). A lock on the fifo of its words says whether there is
one.

Nothing is lost when it is killed. The supervisor holds both ends of the pipes open, so that the job
is never told that nobody reads, but waits once they are full, until the next collector opens them
by their names. And what is in a pipe leaves it only by having been written (`splice`).

Its words are names of attempts: one that was started, or one that has an exit record. The second
comes from the supervisor. Then what is in the pipes belongs to the job, as much as they can hold:
that is moved too, the supervisor is told and ends, the pipes are removed, and only now the session
is told. An attempt has ended for all others when it has a record and no pipes (`Spool.ended`); what
it left running writes to nobody.

What fails for one attempt is tried again, and ends the collecting of no other; its last such word
is in `collector.log` of the runner's directory.

A log has a bound here (`backlog`). What cannot be written, on a full disk, is read all the same and
becomes a gap, so that no job ever waits for room.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import resource
import select
import signal
import time
from typing import Iterator

from pool.runner.backlog import HEAD_BYTES, STEP_BYTES, TAIL_BYTES, floor, punch
from pool.runner.kept import Gap, read_gap, read_start, write_gap
from pool.runner.spawning import LIBRARY
from pool.runner.spool import STREAMS, Spool, write_whole

PIPE_BYTES = 1 << 20  # what an unprivileged user may have by default
F_SETPIPE_SZ = 1031
F_GETPIPE_SZ = 1032
SPLICE_F_NONBLOCK = 2
LOOK_AGAIN_S = 5.0  # for what no word told of
LINGER_S = 2.0
SETTLE_S = 2.0
SETTLE_POLL_S = 0.005
FEW_BYTES = 16_384
REST_S = 0.005  # after few bytes: a chatty job wakes us no more often
WORDS_BYTES = 65_536
READ_BYTES = 65_536
TROUBLE_REST_S = 0.1
#: After these a log cannot take the bytes: they are lost. Others pass, and the pipe keeps them.
LOSSES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ENOENT})


class Stream:
    """One pipe and its log; OSError when it cannot be opened now."""

    def __init__(self, spool: Spool, attempt_id: str, stream: str, limits: tuple[int, int]) -> None:
        self._log = spool.log(attempt_id, stream)
        self._start_record = spool.kept(attempt_id, stream)
        self._gap_record = spool.gap(attempt_id, stream)
        self._head_bytes, self._tail_bytes = limits
        self._gap = read_gap(self._gap_record)
        self._size = max(self._gap.end, _size(self._log))
        self._bound_at = self._size
        self.pipe = os.open(spool.pipe(attempt_id, stream), os.O_RDONLY | os.O_NONBLOCK)
        if os.geteuid() == 0:  # those of another user count against the pipes of his jobs, too
            with contextlib.suppress(OSError):  # it stays as large as it is
                fcntl.fcntl(self.pipe, F_SETPIPE_SZ, PIPE_BYTES)

    def collect(self) -> int:
        """Move what is in the pipe, but no more than it can hold, and return how much that was.

        OSError for what may pass, as a lack of descriptors: the pipe keeps what was not moved.
        """
        most = fcntl.fcntl(self.pipe, F_GETPIPE_SZ)
        began = self._size
        try:
            # Never kept open: one descriptor for each pipe is enough where there are many.
            log = os.open(self._log, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                while self._size < began + most and self._move(log, most):
                    pass
                self._bound(log)
            finally:
                os.close(log)
        except OSError as error:
            if error.errno not in LOSSES:
                raise
            self._drop(began + most)
        return self._size - began

    def _has_bytes(self) -> bool:
        poll = select.poll()
        poll.register(self.pipe, select.POLLIN)
        return any(event & select.POLLIN for _, event in poll.poll(0))

    def _move(self, log: int, most: int) -> int:
        """Move some bytes and return how many, 0 when there are none; OSError: nothing moved."""
        if self._gap.end > os.fstat(log).st_size:
            write_gap(self._gap_record, self._gap)  # before zeros can be read there
        place = ctypes.c_int64(self._size)
        moved = _splice(self.pipe, log, place, most)
        if moved < 0:
            number = ctypes.get_errno()
            if number == errno.EAGAIN:
                return 0
            if number != errno.EINVAL:
                raise OSError(number, os.strerror(number))
            moved = self._copy(log)
        self._size += moved
        return moved

    def _copy(self, log: int) -> int:
        """Do as `_move` on a file system that cannot splice; what is written in part is a loss."""
        try:
            data = os.read(self.pipe, READ_BYTES)
        except BlockingIOError:
            return 0
        moved = 0
        try:
            while moved < len(data):
                moved += os.pwrite(log, data[moved:], self._size + moved)
        except OSError:
            self._size += moved
            self._lose(len(data) - moved)
            return 0
        return moved

    def _drop(self, end: int) -> None:
        """Read what cannot be written, up to `end` of the stream, and forget it."""
        with contextlib.suppress(BlockingIOError):
            while self._size < end:
                lost = len(os.read(self.pipe, READ_BYTES))
                if not lost:
                    return
                self._lose(lost)

    def _lose(self, lost: int) -> None:
        """Make the next bytes of the stream a part of its gap.

        There is one: what was written since the one before, and is not sent, is given up with it.
        """
        before, begin, end = self._gap, self._size, self._size + lost
        joined = before.end > read_start(self._start_record)
        self._gap, self._size = Gap(before.start if joined else begin, end), end
        # Where there is no room for that either, it is written before anything behind it is.
        with contextlib.suppress(OSError):
            write_gap(self._gap_record, self._gap)
            if joined and before.end < begin:
                log = os.open(self._log, os.O_WRONLY)
                try:
                    punch(log, before.end, begin - before.end)
                finally:
                    os.close(log)

    def _bound(self, log: int) -> None:
        """Give up the middle of a log of which too much lies here."""
        if self._size < self._bound_at + STEP_BYTES:
            return
        self._bound_at = self._size
        start, gap = read_start(self._start_record), self._gap
        if gap.end > start:
            limit, gap_start, hole = gap.end, gap.start, gap.end
        else:
            limit = gap_start = hole = start + self._head_bytes
        gap_end = floor(self._size - self._tail_bytes)
        if self._size > limit + 2 * self._tail_bytes and gap_end > hole:
            new = Gap(gap_start, gap_end)
            # Where the spool is full there is no hole before it can be told, and nothing is lost.
            with contextlib.suppress(OSError):
                write_gap(self._gap_record, new)
                if punch(log, hole, gap_end - hole):
                    self._gap = new
                else:
                    write_gap(self._gap_record, gap)

    def finish(self) -> None:
        """Take the rest, and have the log reach as far as the stream does."""
        if self._has_bytes():  # else there need not even be a log
            self.collect()
        if self._gap.end and self._gap.end == self._size:
            with contextlib.suppress(OSError):  # then the stream ends before the gap
                write_gap(self._gap_record, self._gap._replace(last=True))
                os.close(os.open(self._log, os.O_WRONLY | os.O_CREAT, 0o600))
                os.truncate(self._log, self._size)


class Collector:
    """All streams of one spool; `limits` are the bytes of a log's head and tail, whole steps."""

    def __init__(self, spool: Spool, limits: tuple[int, int] = (HEAD_BYTES, TAIL_BYTES)) -> None:
        self._spool = spool
        self._limits = limits
        self._trouble = os.path.join(spool.places.runner, "collector.log")
        self._attempts: dict[str, dict[str, Stream]] = {}
        self._streams: dict[int, Stream] = {}
        # Opened for both directions, so that it never ends.
        self._words = os.open(spool.words, os.O_RDWR | os.O_NONBLOCK)
        self._hearing = select.poll()
        self._hearing.register(self._words, select.POLLIN)
        self._poll = select.poll()
        self._poll.register(self._words, select.POLLIN)

    def run(self) -> None:
        """Collect until there has been nothing to collect for a while, or no spool any more."""
        self.look_at_all()
        looked_at = needed_at = time.monotonic()
        while True:
            wait_s = LOOK_AGAIN_S if self._attempts else LINGER_S
            self.turn(wait_s)
            now = time.monotonic()
            if self._attempts:
                needed_at = now
            elif now >= needed_at + LINGER_S and not self._find_any():
                return
            if now >= looked_at + LOOK_AGAIN_S:
                if not self._has_spool():
                    return
                self.look_at_all()
                looked_at = now

    def close(self) -> None:
        """Give back what is open; what is in the pipes stays there for the next."""
        for attempt_id in sorted(self._attempts):
            self._close(attempt_id)
        os.close(self._words)

    def turn(self, wait_s: float) -> None:
        """Wait for bytes or words at most so long, take those that there are, and rest if few."""
        moved = 0
        for descriptor, event in self._poll.poll(wait_s * 1000):
            stream = self._streams.get(descriptor)
            if stream is None:
                continue
            amount = 0
            with self._tolerating():
                amount = stream.collect()
            moved += amount
            if not amount and event & (select.POLLHUP | select.POLLERR | select.POLLNVAL):
                # Nobody can write to it any more; its end is told by another.
                self._poll.unregister(descriptor)
        self._hear()
        if 0 < moved < FEW_BYTES and self._hearing.poll(REST_S * 1000):
            self._hear()

    def _hear(self) -> None:
        try:
            words = os.read(self._words, WORDS_BYTES)
        except BlockingIOError:
            return
        if len(words) == WORDS_BYTES:  # there may have been more than it could hold
            self.look_at_all()
        for name in sorted(set(words.decode("utf-8", "replace").split("\n"))):
            if name:
                with self._tolerating():
                    self._look(name)

    def look_at_all(self) -> None:
        """Find what there is to collect, whatever was told."""
        for name in self._find_all():
            with self._tolerating():
                self._look(name)
        for name in sorted(self._attempts):
            if not os.path.exists(self._spool.path(name)):
                self._close(name)

    @contextlib.contextmanager
    def _tolerating(self) -> Iterator[None]:
        """Let what fails for one attempt pass: it is tried again, and all others go on."""
        try:
            yield
        except OSError as error:
            with contextlib.suppress(OSError):  # there is nobody else to tell
                write_whole(self._trouble, f"{error}\n".encode())
            time.sleep(TROUBLE_REST_S)

    def _has_spool(self) -> bool:
        """Return whether the spool is still ours: one made anew has a collector of its own."""
        try:
            return os.path.samestat(os.stat(self._spool.words), os.fstat(self._words))
        except FileNotFoundError:
            return False

    def _find_all(self) -> list[str]:
        try:
            return sorted(os.listdir(self._spool.attempts_dir))
        except FileNotFoundError:
            return []  # the instance is destroyed, and its files are gone

    def _find_any(self) -> bool:
        return any(self._spool.is_collected(name) for name in self._find_all())

    def _look(self, attempt_id: str) -> None:
        """Open what is not open, and finish what has an exit record."""
        if not self._spool.is_collected(attempt_id):
            self._close(attempt_id)
            return
        # Before the pipes: what is in them then was written before that.
        over = self._spool.recorded(attempt_id) is not None
        streams = self._attempts.setdefault(attempt_id, {})
        wanted = [each for each in STREAMS if os.path.exists(self._spool.pipe(attempt_id, each))]
        for name in wanted:
            if name not in streams:
                with contextlib.suppress(OSError):  # no descriptor is free: it is looked at again
                    streams[name] = Stream(self._spool, attempt_id, name, self._limits)
                    self._streams[streams[name].pipe] = streams[name]
                    self._poll.register(streams[name].pipe, select.POLLIN)
        if over and streams.keys() >= set(wanted):
            self._finish(attempt_id, wanted)

    def _finish(self, attempt_id: str, wanted: list[str]) -> None:
        for name in wanted:
            self._attempts[attempt_id][name].finish()
        # Now nobody has to hold the pipes any more. Before they are removed: whoever comes after us
        # would not say it.
        self._spool.tell(self._spool.collected(attempt_id), "")
        for name in wanted:
            os.unlink(self._spool.pipe(attempt_id, name))
        self._close(attempt_id)
        self._spool.tell(self._spool.fifo, attempt_id)

    def _close(self, attempt_id: str) -> None:
        for stream in self._attempts.pop(attempt_id, {}).values():
            with contextlib.suppress(KeyError):  # nobody could write to it any more
                self._poll.unregister(stream.pipe)
            del self._streams[stream.pipe]
            os.close(stream.pipe)


def ensure(spool: Spool) -> None:
    """Leave a collector behind if there is none; the next look makes up for what fails now."""
    with contextlib.suppress(OSError):
        # A file of its own might find no room.
        lock = os.open(spool.words, os.O_RDWR | os.O_NONBLOCK)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.fork():
                _become(spool, lock)
        finally:
            os.close(lock)


def settle(spool: Spool) -> None:
    """Leave a collector behind if it has work, and wait for it, but not for long.

    Until then, what has an exit record already has not ended for want of its whole log.
    """
    deadline = time.monotonic() + SETTLE_S
    names = [each for each in sorted(os.listdir(spool.attempts_dir)) if spool.is_collected(each)]
    if names:
        ensure(spool)
    while time.monotonic() < deadline:
        names = [each for each in names if spool.is_collected(each) and spool.recorded(each)]
        if not names:
            return
        ensure(spool)
        for each in names:
            spool.tell(spool.words, each)
        time.sleep(SETTLE_POLL_S)


def _become(spool: Spool, lock: int) -> None:
    """Be the collector, from a fork of whoever found that there is none; never returns."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        os.chdir("/")
        # Most of all the lock of the session, which would outlive it, and the dispatcher's ends.
        for name in os.listdir("/proc/self/fd"):
            if int(name) != lock:
                with contextlib.suppress(OSError):  # the one that lists them
                    os.close(int(name))
        for _ in range(3):
            os.open(os.devnull, os.O_RDWR)
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        with contextlib.closing(Collector(spool)) as collector:
            collector.run()
    finally:
        # Nothing of what our parent had in hand is ours to finish.
        os._exit(0)


def _splice(pipe: int, log: int, place: ctypes.c_int64, most: int) -> int:
    """Move bytes from a pipe to a place in a file; -1 says that errno tells why there are none."""
    length = ctypes.c_size_t(most)
    return int(LIBRARY.splice(pipe, None, log, ctypes.byref(place), length, SPLICE_F_NONBLOCK))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
