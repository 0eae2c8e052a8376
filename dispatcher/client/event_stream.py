"""Server-sent events: from bytes to events, and where to go on after a broken connection.

Theory of operation. The stream is lines; an empty one ends an event. What is not ours is passed
over. Each event has an id, and so has a gap that the server tells at the beginning of a stream. The
last id that came is sent as `Last-Event-ID` when the stream is asked for again, and the server
sends what came since, or tells that it no longer has it. A stream that broke before any id came
cannot be taken up: whatever happened meanwhile is missing. Only this side can know, so it says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from longshore.dispatcher.api.schemas.containers import EventAnswer
from longshore.dispatcher.client.errors import UnexpectedAnswerError, read_as

MAX_LINE_BYTES = 8 * 1024 * 1024
SILENCE_LIMIT_S = 45.0
"""The server says something every 15 s; a stream that is silent for this long is broken."""

_MISSING = "Events are missing here."
_NOT_RESUMED = "The connection broke before any event came: what happened until now is missing."


@dataclass(frozen=True, slots=True, kw_only=True)
class EventGap:
    """Events are missing here: ask again for what you need to know."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One event as it was sent; `id` is "" where it has none."""

    id: str
    kind: str
    data: bytes


class FrameParser:
    """Makes frames of the bytes of one connection."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._pending = b""
        self._id = self._kind = ""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """Yield the frames that `chunk` completes.

        Raises `UnexpectedAnswerError` for a line without end.
        """
        *complete, self._pending = (self._pending + chunk).split(b"\n")
        for line in complete:
            if frame := self._line(line.removesuffix(b"\r")):
                yield frame
        if len(self._pending) > self._max_line_bytes:
            raise UnexpectedAnswerError("the server sends an event without end")

    def _line(self, line: bytes) -> Frame | None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"event" if line:
                self._kind = value.decode(errors="replace")
            case b"id":
                self._id = value.decode(errors="replace")
            case b"data":
                self._data.append(value)
            case b"" if not line:
                frame = Frame(id=self._id, kind=self._kind, data=b"\n".join(self._data))
                self._id = self._kind = ""
                self._data = []
                return frame if frame.data else None
        return None


@dataclass(slots=True, kw_only=True)
class EventCursor:
    """Where in the server's events a reader is, over all of its connections."""

    #: What the next connection asks to go on behind, "" for from now on.
    last_id: str = ""
    _connections: int = field(default=0, init=False)

    def connected(self) -> EventGap | None:
        """Note that a connection was made; return a gap if it cannot be a continuation."""
        self._connections += 1
        if self._connections > 1 and not self.last_id:
            return EventGap(message=_NOT_RESUMED)
        return None

    def take(self, frame: Frame) -> EventAnswer | EventGap | None:
        """Note how far the reader is; return what the frame tells, None for nothing of use.

        Raises `UnexpectedAnswerError` for an event of which nothing can be made.
        """
        if frame.id:
            self.last_id = frame.id
        if frame.kind == "gap":
            return EventGap(message=str(_told(frame).get("message") or _MISSING))
        told = _told(frame)
        if "number" not in told:
            # That the server stops, or a kind of frame that this version does not know.
            return None
        return read_as(told, EventAnswer)


def _told(frame: Frame) -> dict[str, object]:
    """Return the JSON object of a frame, an empty one where it has none."""
    try:
        told = json.loads(frame.data)
    except ValueError:
        told = None
    return told if isinstance(told, dict) else {}
