"""How much of the logs is on disk: what the dispatcher has taken goes, and the rest has a bound.

What is given up of a log becomes a hole in its file, so that offsets stay what they are. Of what
nobody has taken yet the oldest gibibyte is kept, which is what a dispatcher keeps of a stream by
default, and the newest end; what lies between is a gap, which the offsets of the chunks tell. The
job goes on. What is a hole is written down before it is made: its zeros are never taken for the
job's words. Where the file system makes no holes, there is no bound.

The gap is made by the collector, which writes the log; what was taken goes by whoever follows it.
"""

from __future__ import annotations

import contextlib
import os

from longshore.pool.runner.kept import read_gap, read_start, write_start
from longshore.pool.runner.spool import FALLOC_FL_KEEP_SIZE, STREAMS, Spool, fallocate

STEP_BYTES = 4 << 20
TAKEN_BYTES = 16 << 20  # of what was taken, the newest: the taker's disk may lose it with its power
HEAD_BYTES = 1 << 30
TAIL_BYTES = 64 << 20
END_OF_GAP = b"\n"
FALLOC_FL_PUNCH_HOLE = 2


class Backlog:
    """The files of the logs, as one reads them who follows them."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._starts: dict[str, int] = {}
        self._holes = True

    def read(
        self, attempt_id: str, stream: str, descriptor: int, offset: int, length: int
    ) -> tuple[int, bytes]:
        """Return the first offset from `offset` on that is there, and what follows there.

        Where a stream ends in a gap, a line break stands for the last byte of that, so that the
        offset of something tells of it.
        """
        record = self._spool.gap(attempt_id, stream)
        start, gap = self._start(attempt_id, stream), read_gap(record)
        while True:
            place = max(offset, start)
            if place < gap.start:
                length = min(length, gap.start - place)
            elif offset < gap.end and gap.last:
                return max(place, gap.end - 1), END_OF_GAP
            else:
                place = max(place, gap.end)
            data = os.pread(descriptor, length, place)
            before, gap = gap, read_gap(record)
            if gap == before:  # else it may have become a hole while it was read
                return place, data

    def taken(self, attempt_id: str, stream: str, offset: int) -> None:
        """Give up what is far below `offset`: whoever asks for it again gets a gap, and an end."""
        begin = self._start(attempt_id, stream)
        start = floor(max(0, offset - TAKEN_BYTES))
        if start <= begin or not self._holes:
            return
        record = self._spool.kept(attempt_id, stream)
        # It is being released, or the spool is full: then there is no hole before it can be told.
        with contextlib.suppress(OSError):
            descriptor = os.open(self._spool.log(attempt_id, stream), os.O_WRONLY)
            try:
                write_start(record, start)
                self._holes = punch(descriptor, begin, start - begin)
                if self._holes:
                    self._starts[f"{attempt_id}.{stream}"] = start
                else:
                    write_start(record, begin)
            finally:
                os.close(descriptor)

    def forget(self, attempt_id: str) -> None:
        """Forget what is known of an attempt's streams."""
        for stream in STREAMS:
            self._starts.pop(f"{attempt_id}.{stream}", None)

    def _start(self, attempt_id: str, stream: str) -> int:
        name = f"{attempt_id}.{stream}"
        if name not in self._starts:
            self._starts[name] = read_start(self._spool.kept(attempt_id, stream))
        return self._starts[name]


def floor(offset: int) -> int:
    """Return the last offset up to this one at which a hole may begin or end."""
    return offset - offset % STEP_BYTES


def punch(descriptor: int, start: int, length: int) -> bool:
    """Make a hole and return whether the file system can."""
    mode = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
    return fallocate(descriptor, mode, start, length) == 0
