"""What there is of a stream: which of its offsets lie in its log file, and how far it goes.

Offsets are the stream's. They are the file's too, until the job truncates it: `>/dev/stderr` does,
where that is a file of its own user's. From then on the file is the rest of the stream, after a
sentence that says so: what was there before may never have been read.
"""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from pool.runner import machine

# The protocol has no larger numbers. A file may: a job can make its log sparse.
MAX_STREAM_BYTES = 2**53 - 1
TRUNCATION_MARK = (
    b"\n[longshore: the job truncated this log: lines before and after may be missing]\n"
)


class Kept(NamedTuple):
    """What is there of a stream: from `start` on, but for the gap (0 to 0 for none).

    The file begins at `base`; where that is not 0, the mark lies before it.
    """

    start: int = 0
    gap_start: int = 0
    gap_end: int = 0
    base: int = 0


def truncated_at(offset: int) -> Kept:
    """Return what is there of a stream whose file was truncated when so much was sent."""
    return Kept(offset, 0, 0, offset + len(TRUNCATION_MARK))


def read_kept(record: str) -> Kept:
    """Return what is written down in a record, all of the stream when nothing is."""
    text = machine.read_text(record)
    return Kept(*json.loads(text)) if text else Kept()


def kept_record(kept: Kept) -> bytes:
    """Return what to write down; an older runner, if somebody goes back to one, reads most."""
    return json.dumps(kept if kept.base else kept[:-1]).encode()


def stream_bytes(log: str, record: str) -> int:
    """Return how far a stream goes that can be told of, 0 when it has no file."""
    try:
        return min(os.stat(log).st_size + read_kept(record).base, MAX_STREAM_BYTES)
    except FileNotFoundError:
        return 0
