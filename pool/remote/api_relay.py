"""What attempts ask of the API from inside, as one worker's session brings it, and the answers.

A worker says of which attempt a request is, and it may lie: whoever answers (`ApiPort`) is told
which worker it was, and believes no more than that an attempt runs there.

**The way of a request.** Its head opens an exchange; pieces of the body follow; with the last one
it is handed over, and the answer goes back in pieces, each as a request of its own that waits for
the reply to the one before: so it fills neither the queue of the session nor the instance.

**Bounds.** A runner has `OPEN_MOST` exchanges and `HELD_BYTES_MOST` of bodies under way, and counts
them before we do. One that goes beyond is no honest one: its session ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol, assert_never

from longshore.pool.remote.session import Session
from longshore.pool.remote.session_requests import RequestFailed
from longshore.pool.remote.wire import (
    ApiBody,
    ApiGone,
    ApiPush,
    ApiRequest,
    MalformedMessageError,
    Reply,
)

OPEN_MOST: Final = 32
HELD_BYTES_MOST: Final = 32 * 1024 * 1024
PIECE_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideCall:
    """A request from inside of an attempt, as a worker tells it: nothing of it is checked."""

    worker_id: str
    attempt_id: str
    method: str
    #: With its query, as it was written.
    path: str
    #: Pairs of lower-case names and values, sorted.
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiAnswer:
    """What is answered: the headers are pairs of lower-case names and values."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = field(default=b"", repr=False)


OnAnswer = Callable[[ApiAnswer], None]


class ApiPort(Protocol):
    """Who answers; called from sessions' threads, never blocks."""

    def call(self, call: InsideCall, on_answer: OnAnswer) -> None:
        """Have a request answered: `on_answer` is called once at most, from any thread."""
        ...


class NoApi:
    """Answers where there is nothing to ask."""

    def call(self, call: InsideCall, on_answer: OnAnswer) -> None:
        """Answer that there is nothing here."""
        del call
        on_answer(ApiAnswer(status=503))


NO_API = NoApi()


@dataclass(slots=True)
class _Exchange:
    head: ApiRequest
    body: bytearray = field(default_factory=bytearray)
    is_handed_over: bool = False


class ApiRelay:
    """The exchanges of one worker's session."""

    def __init__(self, worker_id: str, port: ApiPort) -> None:
        self._worker_id = worker_id
        self._port = port
        self._lock = threading.Lock()
        self._open: dict[int, _Exchange] = {}
        self._session: Session | None = None
        self._last = 0

    def begin(self, session: Session) -> None:
        """Forget what another session had under way; called on the reader's thread of this one."""
        with self._lock:
            self._open.clear()
            self._session = session
            self._last = 0

    def pushed(self, session: Session, message: ApiPush) -> None:
        """Take what a runner says; raises `MalformedMessageError` for what no honest one does."""
        match message:
            case ApiRequest():
                self._begin_exchange(message)
                self._hand_over_if_whole(session, message.exchange)
            case ApiBody():
                if self._add(message):
                    self._hand_over_if_whole(session, message.exchange)
            case ApiGone():
                with self._lock:
                    self._open.pop(message.exchange, None)
            case _:
                assert_never(message)

    def _begin_exchange(self, head: ApiRequest) -> None:
        with self._lock:
            if head.exchange <= self._last:
                raise MalformedMessageError("a request of the API comes under an old number")
            held = head.length + sum(each.head.length for each in self._open.values())
            if len(self._open) >= OPEN_MOST or held > HELD_BYTES_MOST:
                raise MalformedMessageError("more requests of the API come than a runner takes")
            self._last = head.exchange
            self._open[head.exchange] = _Exchange(head)

    def _add(self, piece: ApiBody) -> bool:
        """Add a piece of a body; return whether anybody waits for it."""
        with self._lock:
            exchange = self._open.get(piece.exchange)
            if exchange is None:
                return False
            is_over = exchange.is_handed_over or not piece.data
            if is_over or len(exchange.body) + len(piece.data) > exchange.head.length:
                raise MalformedMessageError("a body of the API is not as long as was said")
            exchange.body += piece.data
            return True

    def _hand_over_if_whole(self, session: Session, number: int) -> None:
        with self._lock:
            exchange = self._open[number]
            head = exchange.head
            if len(exchange.body) < head.length:
                return
            body, exchange.body = bytes(exchange.body), bytearray()
            exchange.is_handed_over = True
        call = InsideCall(
            worker_id=self._worker_id,
            attempt_id=head.attempt_id,
            method=head.method,
            path=head.path,
            headers=tuple(sorted(head.headers.items())),
            body=body,
        )
        self._port.call(call, partial(self._answer, session, number))

    def _answer(self, session: Session, number: int, answer: ApiAnswer) -> None:
        begins: dict[str, object] = {
            "status": answer.status,
            "headers": dict(answer.headers),
            "length": len(answer.body),
        }
        self._send(session, number, answer.body, 0, begins)

    def _send(
        self, session: Session, number: int, body: bytes, start: int, begins: dict[str, object]
    ) -> None:
        """Send a piece of an answer, and once it is taken the next one."""
        end = start + PIECE_BYTES
        last = end >= len(body)

        def on_reply(reply: Reply | RequestFailed) -> None:
            taken = isinstance(reply, Reply) and reply.ok
            if taken and not last:
                self._send(session, number, body, end, {})
            elif self._session is session:
                with self._lock:
                    self._open.pop(number, None)

        if not self._is_open(session, number):
            return
        fields = {"exchange": number, "data": body[start:end], "last": last, **begins}
        session.request("api_answer", fields, on_reply)

    def _is_open(self, session: Session, number: int) -> bool:
        with self._lock:
            return self._session is session and number in self._open
