"""What waits to be sent in a session: lines in order, and the latest acknowledgements."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from longshore.pool.session_wire import MalformedMessageError, encode_line

_MAX_LINES: Final = 4096
_MAX_BYTES: Final = 16 * 1024 * 1024
_BATCH_BYTES: Final = 64 * 1024
_MAX_ACKNOWLEDGEMENTS: Final = 10_000


class Outbox:
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
