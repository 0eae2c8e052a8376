"""The collector: a process which moves what all attempts write into their logs.

An attempt writes into two named pipes in the spool, not into files: a pipe can be opened again as
`/dev/stderr`, by `tee` say, without losing what is in it, and belongs to the user of the job, so
that it can be opened with `run_as` too. Whoever reads it must be there for as long as the attempt,
whatever becomes of sessions: so it is a process of its own, which a session, a watcher or a listing
leaves behind where there is none (`ensure`). A lock on the fifo of its words says whether there is
one.

A job can hold its own pipes in the kernel: while it splices from a socket that is idle into one,
whoever opens, reads or closes that hangs, deaf to every signal. So each attempt without a container
is taken by a process of its own, a fork of the collector, and no other process opens the pipes of
one that runs. The pipes of containers are held by their engine's client, and taken by the
collector itself. A fork ends when the collector does. One that hangs does not, so another is made
only by who gets the lock on the attempt's `collected`, which no job can open.

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

from longshore.pool.runner import meter
from longshore.pool.runner.backlog import HEAD_BYTES, STEP_BYTES, TAIL_BYTES, floor, punch
from longshore.pool.runner.kept import Gap, read_gap, read_start, write_gap
from longshore.pool.runner.spawning import LIBRARY
from longshore.pool.runner.spool import STREAMS, Spool, write_whole

PIPE_BYTES = 1 << 20  # what an unprivileged user may have by default
F_SETPIPE_SZ = 1031
F_GETPIPE_SZ = 1032
SPLICE_F_NONBLOCK = 2
LIMITS = (HEAD_BYTES, TAIL_BYTES)
LOOK_AGAIN_S = 5.0  # for what no word told of
SPARE_REST_S = 0.1  # after a start, which is worth more
LOOK_SOON_S = 0.5  # where one was killed: who takes an attempt ends, or is to be replaced
LINGER_S = 2.0
SETTLE_S = 2.0
SETTLE_POLL_S = 0.005
HANG_S = 0.2  # without progress, of who takes what has ended
FEW_BYTES = 16_384
REST_S = 0.005  # after few bytes: a chatty job wakes us no more often
WORDS_BYTES = 65_536
READ_BYTES = 65_536
TROUBLE_REST_S = 0.1
#: After these a log cannot take the bytes: they are lost. Others pass, and the pipe keeps them.
LOSSES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ENOENT})


class PipeStream:
    """One pipe and its log; OSError when it cannot be opened now."""

    def __init__(self, spool: Spool, attempt_id: str, stream: str, limits: tuple[int, int]) -> None:
        self.attempt_id = attempt_id
        self.is_over = False  # nobody can write to it any more, and nothing is in it
        self._log = spool.log(attempt_id, stream)
        self._start_record = spool.kept(attempt_id, stream)
        self._gap_record = spool.gap(attempt_id, stream)
        self._head_bytes, self._tail_bytes = limits
        self._gap = read_gap(self._gap_record)
        self._size = max(self._gap.end, _size(self._log))
        self._bound_at = self._size
        self.pipe = _open_pipe(spool.pipe(attempt_id, stream))
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

    def waste(self) -> int:
        """Take some of what is in the pipe to nowhere, and return how much that was."""
        try:
            return len(os.read(self.pipe, READ_BYTES))
        except BlockingIOError:
            return 0

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


class Taking:
    """One attempt whose output is taken in this process: its pipes, and who waits for the end."""

    def __init__(self, collected: int) -> None:
        self.collected = collected
        self.streams: dict[str, PipeStream] = {}
        self.is_abandoned = False

    def release(self) -> None:
        """Tell the supervisor that nobody has to hold the pipes any more."""
        os.write(self.collected, b"\n")

    def close(self) -> None:
        """Give back what is open."""
        for stream in self.streams.values():
            os.close(stream.pipe)
        os.close(self.collected)


class Takings:
    """What one process takes: the streams of attempts, until each has ended.

    `words` tells that there is something to look at. It is closed with them.
    """

    def __init__(self, spool: Spool, words: int, limits: tuple[int, int] = LIMITS) -> None:
        self._spool = spool
        self._limits = limits
        self._trouble = os.path.join(spool.places.runner, "collector.log")
        self._words = words
        self._attempts: dict[str, Taking] = {}
        self._streams: dict[int, PipeStream] = {}
        self._hearing = select.poll()
        self._hearing.register(words, select.POLLIN)
        self._poll = select.poll()
        self._poll.register(words, select.POLLIN)

    @property
    def names(self) -> list[str]:
        """Return the attempts whose output is taken here, as a copy, sorted."""
        return sorted(self._attempts)

    def has(self, attempt_id: str) -> bool:
        """Return whether the output of an attempt is taken here."""
        return attempt_id in self._attempts

    def begin(self, attempt_id: str, collected: int) -> None:
        """Take the output of an attempt; `collected` is the pipe to its supervisor, now ours."""
        self._attempts[attempt_id] = Taking(collected)

    def close(self) -> None:
        """Give back what is open; what is in the pipes stays there for the next."""
        for attempt_id in self.names:
            self._close(attempt_id)
        os.close(self._words)

    def turn(self, wait_s: float | None) -> bool:
        """Wait for bytes or words at most so long (None: for ever) and take what bytes there are.

        Rests if these were few. Returns whether there are words.
        """
        moved, told = 0, False
        for descriptor, event in self._poll.poll(None if wait_s is None else wait_s * 1000):
            stream = self._streams.get(descriptor)
            if stream is None:
                told = True
                continue
            abandoned, amount = self._attempts[stream.attempt_id].is_abandoned, 0
            with self.tolerating():
                amount = stream.waste() if abandoned else stream.collect()
            moved += amount
            if not amount and event & (select.POLLHUP | select.POLLERR | select.POLLNVAL):
                # Nobody can write to it any more; its end is told by another.
                self._poll.unregister(descriptor)
                stream.is_over = True
                self._close_if_abandoned(stream.attempt_id)
        if 0 < moved < FEW_BYTES and not told:
            told = bool(self._hearing.poll(REST_S * 1000))
        return told

    def hear_no_more(self) -> None:
        """Wait for no more words: there is nobody to say them."""
        self._poll.unregister(self._words)
        self._hearing.unregister(self._words)

    @contextlib.contextmanager
    def tolerating(self) -> Iterator[None]:
        """Let what fails for one attempt pass: it is tried again, and all others go on."""
        try:
            yield
        except OSError as error:
            with contextlib.suppress(OSError):  # there is nobody else to tell
                write_whole(self._trouble, f"{error}\n".encode())
            time.sleep(TROUBLE_REST_S)

    def look(self, attempt_id: str) -> None:
        """Open what is not open, and finish what has an exit record."""
        if not self._spool.is_collected(attempt_id):
            self._abandon(attempt_id)
            return
        # Before the pipes: what is in them then was written before that.
        over = self._spool.recorded(attempt_id) is not None
        streams = self._attempts[attempt_id].streams
        wanted = [each for each in STREAMS if os.path.exists(self._spool.pipe(attempt_id, each))]
        for name in wanted:
            if name not in streams:
                with contextlib.suppress(OSError):  # no descriptor is free: it is looked at again
                    streams[name] = PipeStream(self._spool, attempt_id, name, self._limits)
                    self._streams[streams[name].pipe] = streams[name]
                    self._poll.register(streams[name].pipe, select.POLLIN)
        if over and streams.keys() >= set(wanted):
            self._finish(attempt_id, wanted)

    def _finish(self, attempt_id: str, wanted: list[str]) -> None:
        taking = self._attempts[attempt_id]
        for name in wanted:
            taking.streams[name].finish()
        attempt = self._spool.read(attempt_id)
        if attempt is not None:
            with contextlib.suppress(OSError):  # the spool is full: what was sampled is told
                # While the supervisor is there.
                meter.finish(self._spool, attempt)
        # Before the pipes are removed: whoever comes after us would not say it.
        taking.release()
        for name in wanted:
            os.unlink(self._spool.pipe(attempt_id, name))
        self._close(attempt_id)
        self._spool.tell(self._spool.fifo, attempt_id)

    def _abandon(self, attempt_id: str) -> None:
        """Take the output of an attempt to nowhere from now on: its spool has been removed.

        Neither its supervisor nor anybody who goes on writing shall wait for us for ever.
        """
        taking = self._attempts[attempt_id]
        if not taking.is_abandoned:
            taking.is_abandoned = True
            taking.release()
            self._close_if_abandoned(attempt_id)

    def _close_if_abandoned(self, attempt_id: str) -> None:
        taking = self._attempts[attempt_id]
        if taking.is_abandoned and all(each.is_over for each in taking.streams.values()):
            self._close(attempt_id)

    def _close(self, attempt_id: str) -> None:
        taking = self._attempts.pop(attempt_id)
        for stream in taking.streams.values():
            with contextlib.suppress(KeyError):  # nobody could write to it any more
                self._poll.unregister(stream.pipe)
            del self._streams[stream.pipe]
        taking.close()


class Collector:
    """The shared process: takes what attempts in containers write, and has the others taken.

    `limits` are the bytes of a log's head and tail, whole steps.
    """

    def __init__(self, spool: Spool, limits: tuple[int, int] = LIMITS) -> None:
        self._spool = spool
        self._limits = limits
        # Opened for both directions, so that it never ends.
        self._words = os.open(spool.words, os.O_RDWR | os.O_NONBLOCK)
        self._takings = Takings(spool, self._words, limits)
        self._others: dict[str, int] = {}
        self._waits = False  # for the end of who still takes, or died over, what others should
        self._spare, self._spare_at = -1, 0.0
        self._meter = meter.Meter(spool)

    def run(self) -> None:
        """Collect until there has been nothing to collect for a while, or no spool any more."""
        self.look_at_all()
        looked_at = needed_at = time.monotonic()
        while True:
            busy = bool(self._takings.names or self._others or self._waits)
            look_again_s = LOOK_SOON_S if self._waits else LOOK_AGAIN_S
            wants_spare = bool(self._others) and self._spare < 0
            wait_s = look_again_s if busy else LINGER_S
            now = time.monotonic()
            waits = [wait_s, *([self._spare_at - now] if wants_spare else [])]
            waits += [] if self._meter.due_at is None else [self._meter.due_at - now]
            self.turn(max(0.0, min(waits)))
            now = time.monotonic()
            with self._takings.tolerating():
                self._meter.tick(now)
            if wants_spare and self._spare < 0 and now >= self._spare_at:
                self._make_spare()
            if busy:
                needed_at = now
            elif now >= needed_at + LINGER_S and not self._find_any():
                return
            if now >= looked_at + look_again_s:
                self.look_at_all()
                looked_at = now

    def close(self) -> None:
        """Give back what is open; what is in the pipes stays there for the next."""
        for attempt_id in sorted(self._others):
            self._let_go(attempt_id)
        if self._spare >= 0:
            os.close(self._spare)
        self._takings.close()

    def turn(self, wait_s: float) -> None:
        """Wait for bytes or words at most so long, and take those that there are."""
        if self._takings.turn(wait_s):
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
                self._look(name)

    def look_at_all(self) -> None:
        """Find what there is to collect, whatever was told."""
        self._waits = False
        for name in sorted({*self._find_all(), *self._takings.names, *self._others}):
            self._look(name)

    def _find_all(self) -> list[str]:
        """Return all attempts, none when the spool was removed: one made anew is another's."""
        try:
            ours = os.path.samestat(os.stat(self._spool.words), os.fstat(self._words))
            return sorted(os.listdir(self._spool.attempts_dir)) if ours else []
        except FileNotFoundError:
            return []  # the instance is destroyed, and its files are gone

    def _find_any(self) -> bool:
        return any(self._spool.is_collected(name) for name in self._find_all())

    def _look(self, attempt_id: str) -> None:
        with self._takings.tolerating():
            if attempt_id in self._others:
                self._tell(attempt_id)
            elif self._takings.has(attempt_id):
                self._takings.look(attempt_id)
            elif self._spool.is_collected(attempt_id):
                self._begin(attempt_id)

    def _begin(self, attempt_id: str) -> None:
        """Take an attempt, or have it taken by a process of its own.

        The pipes of a job without a container are its user's, who can hold them: whoever opens,
        reads or closes one then hangs in the kernel, and no signal helps. Its `collected` is in
        nobody else's reach, so the lock on that says whether somebody is still at it.
        """
        attempt = self._spool.read(attempt_id)
        if attempt is not None:
            self._meter.follow(attempt, time.monotonic())
        collected = os.open(self._spool.collected(attempt_id), os.O_RDWR | os.O_NONBLOCK)
        if attempt is not None and attempt.engine != "process":
            self._takings.begin(attempt_id, collected)
            self._takings.look(attempt_id)
            return
        locked = _is_locked(collected)
        os.close(collected)
        if locked:
            self._waits = True
            return
        telling, self._spare = self._spare, -1
        if telling < 0:
            telling = _fork_taker(self._spool, self._limits)
        self._spare_at = time.monotonic() + SPARE_REST_S
        self._others[attempt_id] = telling
        self._say(attempt_id, f"{attempt_id}\n".encode())

    def _make_spare(self) -> None:
        """Have somebody ready who takes the next attempt: a fork would slow its start down."""
        with self._takings.tolerating():
            self._spare_at = time.monotonic() + LOOK_AGAIN_S
            self._spare = _fork_taker(self._spool, self._limits)

    def _tell(self, attempt_id: str) -> None:
        """Have somebody look at an attempt of its own, and let go of who is not needed."""
        if not self._spool.is_collected(attempt_id):
            self._let_go(attempt_id)
        else:
            self._say(attempt_id, b"\n")

    def _say(self, attempt_id: str, word: bytes) -> None:
        try:
            with contextlib.suppress(BlockingIOError):  # it hangs, and looks once it goes on
                os.write(self._others[attempt_id], word)
        except BrokenPipeError:  # it was killed
            self._let_go(attempt_id)
            self._waits = True

    def _let_go(self, attempt_id: str) -> None:
        os.close(self._others.pop(attempt_id))


def _is_locked(collected: int) -> bool:
    """Return whether another holds the lock; else it is ours, and of whom we fork."""
    try:
        fcntl.flock(collected, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _fork_taker(spool: Spool, limits: tuple[int, int]) -> int:
    """Make a process for the output of one attempt; return where it is told which, and to look.

    It ends when that is closed, since whoever comes after us would have nothing to tell it by.
    """
    words, telling = os.pipe()
    try:
        os.set_blocking(telling, False)
        if not os.fork():
            _take_one(spool, words, limits)
    except OSError:
        os.close(telling)
        raise
    finally:
        os.close(words)
    return telling


def _take_one(spool: Spool, words: int, limits: tuple[int, int]) -> None:
    """Take the output of the attempt that we are told, if any; never returns."""
    try:
        _close_others({0, 1, 2, words})
        takings = Takings(spool, words, limits)
        attempt_id = os.read(words, WORDS_BYTES).decode().partition("\n")[0]
        if not attempt_id:
            return
        collected = os.open(spool.collected(attempt_id), os.O_RDWR | os.O_NONBLOCK)
        if _is_locked(collected):
            return
        takings.begin(attempt_id, collected)
        with takings.tolerating():
            takings.look(attempt_id)
        while takings.has(attempt_id):
            if not takings.turn(None):
                continue
            with takings.tolerating():
                if not os.read(words, WORDS_BYTES):
                    if spool.is_collected(attempt_id):
                        return
                    takings.hear_no_more()
                takings.look(attempt_id)
        spool.tell(spool.words, attempt_id)
    finally:
        # Nothing of what our parent had in hand is ours to finish.
        os._exit(0)


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

    Until then, what has an exit record already has not ended for want of its whole log. When all
    that is left is taken by who makes no progress, they hang, and nobody waits for them.
    """
    names = [each for each in sorted(os.listdir(spool.attempts_dir)) if spool.is_collected(each)]
    if names:
        ensure(spool)
    moved_at = tell_at = began = time.monotonic()
    before: dict[str, list[int]] = {}
    while (now := time.monotonic()) < began + SETTLE_S:
        names = [each for each in names if spool.is_collected(each) and spool.recorded(each)]
        taken = {each: [_size(spool.log(each, stream)) for stream in STREAMS] for each in names}
        if taken != before:
            before, moved_at = taken, now
        if not names or (now >= moved_at + HANG_S and all(_is_taken(spool, n) for n in names)):
            return
        if now >= tell_at:
            tell_at = now + max(SETTLE_POLL_S, now - began)  # twice as long each time
            ensure(spool)
            for each in names:
                spool.tell(spool.words, each)
        time.sleep(SETTLE_POLL_S)


def _is_taken(spool: Spool, attempt_id: str) -> bool:
    """Return whether somebody takes the output of an attempt without a container."""
    try:
        collected = os.open(spool.collected(attempt_id), os.O_RDWR | os.O_NONBLOCK)
    except FileNotFoundError:
        return False  # it was released
    try:
        return _is_locked(collected)
    finally:
        os.close(collected)


def _become(spool: Spool, lock: int) -> None:
    """Be the collector, from a fork of whoever found that there is none; never returns."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps who takes one attempt
        os.setsid()
        os.chdir("/")
        # Most of all the lock of the session, which would outlive it, and the dispatcher's ends.
        _close_others({lock})
        for _ in range(3):
            os.open(os.devnull, os.O_RDWR)
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        with contextlib.closing(Collector(spool)) as collector:
            collector.run()
    finally:
        # Nothing of what our parent had in hand is ours to finish.
        os._exit(0)


def _open_pipe(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except PermissionError:
        os.chmod(path, 0o600)  # a job of our own user's has closed it to us
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK)


def _close_others(kept: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with contextlib.suppress(OSError):  # the one that lists them
                os.close(int(name))


def _splice(pipe: int, log: int, place: ctypes.c_int64, most: int) -> int:
    """Move bytes from a pipe to a place in a file; -1 says that errno tells why there are none."""
    length = ctypes.c_size_t(most)
    return int(LIBRARY.splice(pipe, None, log, ctypes.byref(place), length, SPLICE_F_NONBLOCK))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
