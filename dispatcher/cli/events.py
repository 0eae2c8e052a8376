"""The server's events, read by a thread of its own that reconnects until it is told to stop."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from longshore.dispatcher.cli.client import CommandClient, told_to_people
from longshore.dispatcher.cli.failure import CommandFailure
from longshore.dispatcher.client.event_stream import (
    MAX_LINE_BYTES,
    SILENCE_LIMIT_S,
    FrameParser,
)

if TYPE_CHECKING:
    from urllib3.response import BaseHTTPResponse

EVENTS_PATH = "/v1/events"
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 5.0
QUEUE_LENGTH = 1000
JOIN_LIMIT_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """Events come in from now on; what happened before must be asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A container or an instance changed; `data` is as much of its JSON as the server sends."""

    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disconnected:
    """No events come in; `failure` says why. A `refused` feed is not tried again."""

    failure: CommandFailure
    refused: bool


FeedItem = Connected | Changed | Disconnected


class EventFeed:
    """A context manager; inside it, `next` tells what the server says."""

    def __init__(self, client: CommandClient) -> None:
        self._client = client
        self._items: queue.Queue[FeedItem] = queue.Queue(maxsize=QUEUE_LENGTH)
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._response: BaseHTTPResponse | None = None
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        with self._lock:
            if self._response is not None:
                shut_down(self._response)
        # Bounded, as a frozen server may hold a request; the thread ends with the process.
        self._thread.join(JOIN_LIMIT_S)

    def next(self, timeout_s: float) -> FeedItem | None:
        """Return what comes next, None when nothing came within `timeout_s`."""
        try:
            return self._items.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            return None

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._stopped.is_set():
            try:
                for item in self._connection():
                    pause_s = FIRST_PAUSE_S
                    self._put(item)
                failure = CommandFailure("the server ended the stream of events")
            except CommandFailure as caught:
                failure = caught
            refused = 400 <= failure.status < 500 and not failure.passing
            self._put(Disconnected(failure=failure, refused=refused))
            if refused:
                return
            self._stopped.wait(pause_s)
            pause_s = min(LONGEST_PAUSE_S, pause_s * 2)

    def _connection(self) -> Iterator[FeedItem]:
        response = self._client.stream(
            EVENTS_PATH, read_timeout_s=SILENCE_LIMIT_S, accept="text/event-stream"
        )
        try:
            with self._lock:
                self._response = response
            # `__exit__` has either seen the response just noted, or is seen here.
            if self._stopped.is_set():
                return
            yield Connected()
            yield from parse(self._client.chunks(response))
        finally:
            with self._lock:
                self._response = None
            response.close()

    def _put(self, item: FeedItem) -> None:
        while not self._stopped.is_set():
            try:
                self._items.put(item, timeout=0.5)
            except queue.Full:
                continue
            return


def shut_down(response: BaseHTTPResponse) -> None:
    """Make a read of `response` in another thread return; once it has ended this does nothing."""
    # ValueError: it is closed already. RuntimeError: it was read to its end a moment ago.
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        response.shutdown()


def parse(chunks: Iterable[bytes]) -> Iterator[Changed]:
    """Yield the events of a server-sent stream; what is not ours is passed over.

    Raises `CommandFailure` for a line without end.
    """
    frames = FrameParser(MAX_LINE_BYTES)
    for chunk in chunks:
        with told_to_people():
            complete = list(frames.feed(chunk))
        for frame in complete:
            if event := _event(frame.kind, frame.data):
                yield event


def _event(kind: str, data: bytes) -> Changed | None:
    try:
        content = json.loads(data) if data else None
    except ValueError:
        return None
    if not isinstance(content, dict):
        return None
    inner = content.get("data")
    if isinstance(inner, dict):
        content = {"id": content.get("id"), **inner}
    return Changed(kind=kind, data=content)
