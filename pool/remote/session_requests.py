"""The requests of one session that wait for their replies, and for how long they may."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from longshore.pool.remote.wire import MalformedMessageError, Reply, encode_line

# ---- what waits to be sent in a session: lines in order, and the latest acknowledgements ---------

_MAX_LINES: Final = 4096
_MAX_BYTES: Final = 16 * 1024 * 1024
_BATCH_BYTES: Final = 64 * 1024
_MAX_ACKNOWLEDGEMENTS: Final = 10_000


class SendQueue:
    """A bounded queue from many threads to the one that writes; putting never waits."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lines: OrderedDict[int, bytes] = OrderedDict()
        self._bytes = 0
        self._acknowledgements: dict[tuple[str, str], int] = {}
        self._closed = False

    def put(self, number: int, line: bytes) -> str:
        """Queue the line of a request; return "" or the reason why it will not be sent."""
        with self._changed:
            if self._closed:
                return "the session has ended"
            if len(self._lines) >= _MAX_LINES or self._bytes + len(line) > _MAX_BYTES:
                return "too much waits to be sent"
            self._lines[number] = line
            self._bytes += len(line)
            self._changed.notify_all()
        return ""

    def withdraw(self, number: int) -> None:
        """Do not send the line of a request, if it has not been taken yet."""
        with self._changed:
            self._bytes -= len(self._lines.pop(number, b""))

    def acknowledge(self, attempt_id: str, stream: str, offset: int) -> None:
        """Queue an acknowledgement in place of an older one of the same stream.

        Raises `MalformedMessageError` when too many wait: the far end sends logs of ever more
        attempts, whoever they are, and takes nothing.
        """
        with self._changed:
            if self._closed:
                return
            self._acknowledgements[attempt_id, stream] = offset
            if len(self._acknowledgements) > _MAX_ACKNOWLEDGEMENTS:
                what = f"more than {_MAX_ACKNOWLEDGEMENTS} acknowledgements are not taken"
                raise MalformedMessageError(what)
            self._changed.notify_all()

    def take(self) -> bytes:
        """Return what there is to send (64 KiB and a line at most), waiting; b"" once closed."""
        with self._changed:
            while not (self._closed or self._lines or self._acknowledgements):
                self._changed.wait()
            if self._closed:
                return b""
            batch = bytearray()
            while self._lines and len(batch) < _BATCH_BYTES:
                batch += self._lines.popitem(last=False)[1]
            self._bytes -= len(batch)
            acknowledgements, self._acknowledgements = self._acknowledgements, {}
        for (attempt_id, stream), offset in acknowledgements.items():
            fields = {"attempt_id": attempt_id, "stream": stream, "offset": offset}
            batch += encode_line({"type": "log_ack", **fields})
        return bytes(batch)

    def close(self) -> None:
        """Drop what waits; `take` returns b"" from now on."""
        with self._changed:
            self._closed = True
            self._lines.clear()
            self._changed.notify_all()


# ---- the requests of one session that wait for their replies, and for how long they may ----------


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFailed:
    """No reply came, or will.

    `code` is "" unless it was not sent and never can be: "invalid" or "too_large" then.
    """

    message: str
    code: str = ""


OnReply = Callable[[Reply | RequestFailed], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """A request whose time is up."""

    number: int
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    kind: str
    deadline: float
    on_reply: OnReply


class RequestTable:
    """Who waits for which reply; every method may be called from any thread.

    `now` is the caller's clock, in seconds.
    """

    def __init__(self, outbox: SendQueue, *, timeout_s: float) -> None:
        """Begin empty; a request is overdue `timeout_s` after it was added."""
        self._outbox = outbox
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._waiting: dict[int, _Waiting] = {}
        self._ended = False

    @property
    def ended(self) -> bool:
        """Return whether `end` was called."""
        return self._ended

    def add(
        self, number: int, kind: str, line: bytes, on_reply: OnReply, *, now: float
    ) -> tuple[str, bool]:
        """Queue a line and note who waits for its reply.

        Returns why that cannot be ("" when it is done), and whether it is the only one that waits.
        """
        with self._lock:
            if self._ended:
                return "the session has ended", False
            refused = self._outbox.put(number, line)
            if refused:
                return refused, False
            deadline = now + self._timeout_s
            self._waiting[number] = _Waiting(kind=kind, deadline=deadline, on_reply=on_reply)
            return "", len(self._waiting) == 1

    def answered(self, number: int) -> OnReply | None:
        """Take out the request that a reply is for; None when nobody waits for it any more."""
        with self._lock:
            found = self._waiting.pop(number, None)
        return None if found is None else found.on_reply

    def withdraw(self, number: int) -> OnReply | None:
        """Take out a request, and do not send it if it has not been taken for sending yet."""
        self._outbox.withdraw(number)
        return self.answered(number)

    def wait_s(self, now: float) -> float | None:
        """Return how long it is until a request is overdue; None when none waits."""
        with self._lock:
            for each in self._waiting.values():
                return max(0.0, each.deadline - now)
        return None

    def overdue(self, now: float, *, idle: bool) -> Overdue | None:
        """Return the oldest request if its time is up.

        `idle` tells that all that has come was read. Otherwise the reply may lie behind what was
        read so far, and a request gets the same time once more.
        """
        at_latest = now - (0.0 if idle else self._timeout_s)
        with self._lock:
            # All have the same time, so that the first is the oldest.
            for number, each in self._waiting.items():
                late = each.deadline <= at_latest
                return Overdue(number=number, kind=each.kind) if late else None
        return None

    def end(self) -> list[OnReply]:
        """Refuse and send nothing from now on; return those who wait, who are to be told."""
        with self._lock:
            self._ended = True
            waiting = [each.on_reply for each in self._waiting.values()]
            self._waiting.clear()
        self._outbox.close()
        return waiting
