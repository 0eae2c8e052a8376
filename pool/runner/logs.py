"""Sends the logs of attempts: in turns, and never far ahead of what was acknowledged."""

from __future__ import annotations

import base64
import contextlib
import os
from typing import Any, Callable

from longshore.pool.runner.backlog import Backlog
from longshore.pool.runner.spool import STREAMS, Spool

WINDOW_BYTES = 262_144
CHUNK_BYTES = 16_384


class Follower:
    """One stream of one attempt: what is sent, and what of it is not acknowledged yet."""

    def __init__(self, attempt_id: str, stream: str, path: str, offset: int) -> None:
        self.attempt_id = attempt_id
        self.stream = stream
        self.path = path
        self.sent = offset
        # From where to where: more than one when a gap was sent over.
        self._flying: list[tuple[int, int]] = []

    def send(self, length: int) -> None:
        """Take note that so many bytes from `sent` on are under way."""
        begin, end = self.sent, self.sent + length
        if self._flying and self._flying[-1][1] == begin:
            begin = self._flying.pop()[0]
        self._flying.append((begin, end))
        self.sent = end

    def arrive(self, offset: int) -> int:
        """Take note that all below `offset` has arrived, and return how many bytes these were."""
        arrived = 0
        rest = []
        for begin, end in self._flying:
            arrived += max(0, min(end, offset) - begin)
            rest += [(max(begin, offset), end)] if end > offset else []
        self._flying = rest
        return arrived

    def flying(self) -> int:
        """Return how many bytes are under way."""
        return sum(end - begin for begin, end in self._flying)


class LogPump:
    """The streams that are followed in one session."""

    def __init__(self, spool: Spool, push: Callable[[dict[str, Any]], None]) -> None:
        self._spool = spool
        self._backlog = Backlog(spool)
        self._push = push
        self._followers: dict[str, Follower] = {}
        # In the order of their turns; those that are read to their end are not in it.
        self._ready: dict[str, Follower] = {}
        self._unacknowledged = 0

    def follow(self, attempt_id: str, offsets: dict[str, int]) -> None:
        """Send both streams of an attempt from these offsets on, whatever was sent before."""
        self.drop(attempt_id)
        for stream in STREAMS:
            path = self._spool.log(attempt_id, stream)
            follower = Follower(attempt_id, stream, path, offsets[stream])
            self._followers[os.path.basename(path)] = follower
            self._ready[os.path.basename(path)] = follower

    def follows(self, attempt_id: str) -> bool:
        """Return whether an attempt's log is followed."""
        return f"{attempt_id}.stdout" in self._followers

    def drop(self, attempt_id: str) -> None:
        """Follow an attempt no more."""
        for stream in STREAMS:
            name = f"{attempt_id}.{stream}"
            follower = self._followers.pop(name, None)
            self._ready.pop(name, None)
            if follower is not None:
                self._unacknowledged -= follower.flying()
        self._backlog.forget(attempt_id)

    def acknowledge(self, attempt_id: str, stream: str, offset: int) -> None:
        """Take note that all below `offset` is kept on the other side."""
        follower = self._followers.get(f"{attempt_id}.{stream}")
        if follower is not None:
            self._unacknowledged -= follower.arrive(offset)
            self._backlog.taken(attempt_id, stream, min(offset, follower.sent))

    def grew(self, names: set[str] | None) -> None:
        """Look again at these log files, or at all that are followed (None)."""
        for name in self._followers if names is None else sorted(names):
            if name in self._followers:
                self._ready.setdefault(name, self._followers[name])

    def idle(self) -> bool:
        """Return whether nothing could be sent now, for lack of bytes or of acknowledgements."""
        return not self._ready or self._unacknowledged >= WINDOW_BYTES

    def pump(self) -> None:
        """Send one chunk of the stream whose turn it is."""
        name = next(iter(self._ready))
        follower = self._ready.pop(name)
        data = self._read(follower, min(CHUNK_BYTES, WINDOW_BYTES - self._unacknowledged))
        if not data:
            return
        self._ready[name] = follower
        offset = follower.sent
        follower.send(len(data))
        self._push(
            {
                "type": "log",
                "attempt_id": follower.attempt_id,
                "stream": follower.stream,
                "offset": offset,
                "data": base64.b64encode(data).decode(),
            }
        )
        self._unacknowledged += len(data)

    def _read(self, follower: Follower, length: int) -> bytes:
        """Return what comes next, after a gap if need be."""
        with contextlib.suppress(FileNotFoundError):  # nothing was written yet
            descriptor = os.open(follower.path, os.O_RDONLY)
            try:
                place, data = self._backlog.read(
                    follower.attempt_id, follower.stream, descriptor, follower.sent, length
                )
            finally:
                os.close(descriptor)
            if data:  # else a gap may still grow, and be the end
                follower.sent = place
            return data
        return b""
