"""How much of the logs is on disk: what the dispatcher has taken goes, and the rest has a bound.

What is given up of a log becomes a hole in its file, so that offsets stay what they are. Of what
nobody has taken yet the oldest gibibyte is kept, which is what a dispatcher keeps of a stream by
default, and the newest end; what lies between is a gap, which the offsets of the chunks tell. The
job goes on. What is a hole is written down before it is made: its zeros are never taken for the
job's words. Where the file system makes no holes, there is no bound.
"""

from __future__ import annotations

import contextlib
import ctypes
import os

from pool.runner.kept import (
    MAX_STREAM_BYTES,
    TRUNCATION_MARK,
    Kept,
    kept_record,
    read_kept,
    truncated_at,
)
from pool.runner.spool import Spool, write_whole

STEP_BYTES = 4 << 20
TAKEN_BYTES = 16 << 20  # of what was taken, the newest: the taker's disk may lose it with its power
HEAD_BYTES = 1 << 30
TAIL_BYTES = 64 << 20
FALLOC_FL_KEEP_SIZE = 1
FALLOC_FL_PUNCH_HOLE = 2


class Backlog:
    """The files of the logs; `limits` are the bytes of head and tail, whole steps."""

    def __init__(self, spool: Spool, limits: tuple[int, int] = (HEAD_BYTES, TAIL_BYTES)) -> None:
        self._spool = spool
        self._head_bytes, self._tail_bytes = limits
        self._kept: dict[str, Kept] = {}
        self._holes = True

    def readable(self, attempt_id: str, stream: str, offset: int) -> tuple[int, int]:
        """Return the first offset from `offset` on that is there, and where to stop (0: never)."""
        kept = self._known(attempt_id, stream)
        offset = max(offset, kept.start)
        if offset < kept.gap_start:
            return offset, kept.gap_start
        return max(offset, kept.gap_end), 0

    def read(
        self, attempt_id: str, stream: str, descriptor: int, offset: int, length: int
    ) -> tuple[int, bytes]:
        """Return the first offset from `offset` on that is there, and what follows there."""
        place, stop = self.readable(attempt_id, stream, offset)
        length = max(0, min(length, (stop or MAX_STREAM_BYTES) - place))
        base = self._known(attempt_id, stream).base
        if place < base:
            return place, TRUNCATION_MARK[place - base :][:length]
        return place, os.pread(descriptor, length, place - base)

    def is_truncated(
        self, attempt_id: str, stream: str, descriptor: int, sent: int, head: bytes
    ) -> bool:
        """Return whether a file has lost what was sent of it, or does not begin with `head`."""
        kept = self._known(attempt_id, stream)
        if os.fstat(descriptor).st_size < sent - kept.base:
            return True
        # What begins with a hole of ours says nothing.
        return kept.start <= kept.base and os.pread(descriptor, len(head), 0) != head

    def restart(self, attempt_id: str, stream: str, sent: int) -> None:
        """Take note that the file was truncated: what is in it now comes after `sent`."""
        kept = truncated_at(sent)
        with contextlib.suppress(OSError):  # the spool is full: then only this session knows
            write_whole(self._record(attempt_id, stream), kept_record(kept))
        self._kept[f"{attempt_id}.{stream}"] = kept

    def taken(self, attempt_id: str, stream: str, offset: int) -> None:
        """Give up what is far below `offset`: whoever asks for it again gets a gap, and an end."""
        kept = self._known(attempt_id, stream)
        start = _floor(max(0, offset - TAKEN_BYTES))
        if start >= kept.gap_end:
            new = Kept(start, base=kept.base)
        else:
            new = kept._replace(start=min(start, kept.gap_start))
        begin = max(kept.start, kept.base)
        if new.start > begin:
            self._give_up(attempt_id, stream, new, begin, new.start)

    def bound(self, attempt_id: str, stream: str) -> None:
        """Give up the middle of a stream of which too much lies here."""
        try:
            size = os.stat(self._spool.log(attempt_id, stream)).st_size
        except FileNotFoundError:
            return  # released, or lost before it was made
        kept = self._known(attempt_id, stream)
        size = min(size + kept.base, MAX_STREAM_BYTES)
        if kept.gap_end:
            limit, gap_start, hole = kept.gap_end, kept.gap_start, kept.gap_end
        else:
            limit = gap_start = hole = kept.start + self._head_bytes
        gap_end = _floor(size - self._tail_bytes)
        if size > limit + 2 * self._tail_bytes and gap_end > hole:
            new = Kept(kept.start, gap_start, gap_end, kept.base)
            self._give_up(attempt_id, stream, new, hole, gap_end)

    def forget(self, attempt_id: str) -> None:
        """Forget what is known of an attempt's streams."""
        for stream in ("stdout", "stderr"):
            self._kept.pop(f"{attempt_id}.{stream}", None)

    def _known(self, attempt_id: str, stream: str) -> Kept:
        name = f"{attempt_id}.{stream}"
        if name not in self._kept:
            self._kept[name] = read_kept(self._record(attempt_id, stream))
        return self._kept[name]

    def _record(self, attempt_id: str, stream: str) -> str:
        return self._spool.kept(attempt_id, stream)

    def _give_up(self, attempt_id: str, stream: str, new: Kept, start: int, end: int) -> None:
        name = f"{attempt_id}.{stream}"
        known, record = self._kept[name], self._record(attempt_id, stream)
        if not self._holes:
            return
        # It is being released, or the spool is full: then there is no hole before it can be told.
        with contextlib.suppress(OSError):
            descriptor = os.open(self._spool.log(attempt_id, stream), os.O_WRONLY)
            try:
                write_whole(record, kept_record(new))
                self._holes = _punch(descriptor, start - new.base, end - start)
                if self._holes:
                    self._kept[name] = new
                else:
                    write_whole(record, kept_record(known))
            finally:
                os.close(descriptor)


def _floor(offset: int) -> int:
    return offset - offset % STEP_BYTES


def _punch(descriptor: int, start: int, length: int) -> bool:
    """Make a hole and return whether the file system can."""
    library = ctypes.CDLL(None, use_errno=True)
    function = library.fallocate if ctypes.sizeof(ctypes.c_long) == 8 else library.fallocate64
    mode = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
    return bool(function(descriptor, mode, ctypes.c_int64(start), ctypes.c_int64(length)) == 0)
