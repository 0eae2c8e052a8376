"""What attempts ask of the API from inside, as one worker's session brings it, and the answers.

A worker says of which attempt a request is, and it may lie: whoever answers (`ApiPort`) is told
which worker it was, and believes no more than that an attempt runs there.

**The way of a request.** Its head opens an exchange; pieces of the body follow; with the last one
it is handed over, and the answer goes back in pieces, each as a request of its own that waits for
the reply to the one before: so it fills neither the queue of the session nor the instance.

**Bounds.** A runner has `OPEN_MOST` exchanges and `HELD_BYTES_MOST` of bodies under way, and counts
them before we do. One that goes beyond is no honest one: its session ends. What it does not wait
for any more (who asked hung up, or the session ended) is carried out all the same, and is held
here until it is. That counts as well, and the runner cannot know: while there is too much of it,
what comes is answered 503, and nothing of its body is kept. Answers that wait to be taken have
the same bound by themselves.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
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
RETRY_AFTER_S: Final = 2


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
OnEnd = Callable[[], None]


class ApiPort(Protocol):
    """Who answers; called from sessions' threads, never blocks."""

    def call(self, call: InsideCall, on_answer: OnAnswer, on_end: OnEnd) -> None:
        """Have a request answered: `on_answer` is called once at most, from any thread.

        Then, or without an answer, `on_end` is called once, when the request takes no memory here
        any more.
        """
        ...


class NoApi:
    """Answers where there is nothing to ask."""

    def call(self, call: InsideCall, on_answer: OnAnswer, on_end: OnEnd) -> None:
        """Answer that there is nothing here."""
        del call
        on_answer(ApiAnswer(status=503))
        on_end()


NO_API = NoApi()


def _too_busy() -> ApiAnswer:
    """Return what is answered where there is no room."""
    detail = "Too much that was asked from this instance is under way: ask again."
    said = {"type": "about:blank", "title": "Service Unavailable", "status": 503, "detail": detail}
    headers = (("content-type", "application/problem+json"), ("retry-after", str(RETRY_AFTER_S)))
    return ApiAnswer(status=503, headers=headers, body=json.dumps(said).encode())


class _Holder(Enum):
    """Who still has something of an exchange."""

    RUNNER = "waits for the answer"
    PORT = "carries the request out"
    SESSION = "sends the answer"


@dataclass(slots=True, eq=False)
class _Exchange:
    head: ApiRequest
    #: Whether nobody is asked, since there is no room: nothing of its body is kept.
    is_refused: bool
    holders: set[_Holder] = field(default_factory=lambda: {_Holder.RUNNER})
    received_bytes: int = 0
    body: bytearray = field(default_factory=bytearray)
    #: How much memory its body takes, or will.
    body_bytes: int = 0
    answer_bytes: int = 0


class ApiRelay:
    """The exchanges of one worker's session, and those of sessions before that go on still."""

    def __init__(self, worker_id: str, port: ApiPort) -> None:
        self._worker_id = worker_id
        self._port = port
        self._lock = threading.Lock()
        #: Those that the runner counts, by its number of each.
        self._open: dict[int, _Exchange] = {}
        #: All of which anybody has something.
        self._held: set[_Exchange] = set()
        self._last = 0

    def begin(self, session: Session) -> None:
        """Answer nothing of another session; called on the reader's thread of this one."""
        del session
        with self._lock:
            for number in list(self._open):
                self._close(number)
            self._last = 0

    def pushed(self, session: Session, message: ApiPush) -> None:
        """Take what a runner says; raises `MalformedMessageError` for what no honest one does."""
        match message:
            case ApiRequest():
                self._hand_over_if_whole(session, self._begun(message))
            case ApiBody():
                exchange = self._added(message)
                if exchange is not None:
                    self._hand_over_if_whole(session, exchange)
            case ApiGone():
                with self._lock:
                    self._close(message.exchange)
            case _:
                assert_never(message)

    def _begun(self, head: ApiRequest) -> _Exchange:
        with self._lock:
            if head.exchange <= self._last:
                raise MalformedMessageError("a request of the API comes under an old number")
            told = head.length + sum(each.head.length for each in self._open.values())
            if len(self._open) >= OPEN_MOST or told > HELD_BYTES_MOST:
                raise MalformedMessageError("more requests of the API come than a runner takes")
            held = head.length + sum(each.body_bytes for each in self._held)
            made = _Exchange(head, len(self._held) >= OPEN_MOST or held > HELD_BYTES_MOST)
            made.body_bytes = 0 if made.is_refused else head.length
            self._last = head.exchange
            self._open[head.exchange] = made
            self._held.add(made)
            return made

    def _added(self, piece: ApiBody) -> _Exchange | None:
        """Add a piece of a body; return whose, None where nobody waits for it any more."""
        with self._lock:
            exchange = self._open.get(piece.exchange)
            if exchange is None:
                return None
            exchange.received_bytes += len(piece.data)
            if not piece.data or exchange.received_bytes > exchange.head.length:
                raise MalformedMessageError("a body of the API is not as long as was said")
            if not exchange.is_refused:
                exchange.body += piece.data
            return exchange

    def _hand_over_if_whole(self, session: Session, exchange: _Exchange) -> None:
        head = exchange.head
        with self._lock:
            if exchange.received_bytes < head.length:
                return
            body, exchange.body = bytes(exchange.body), bytearray()
            exchange.holders.add(_Holder.PORT)
        on_answer = partial(self._answer, session, exchange)
        on_end = partial(self._ended, exchange)
        if exchange.is_refused:
            on_answer(_too_busy())
            on_end()
            return
        call = InsideCall(
            worker_id=self._worker_id,
            attempt_id=head.attempt_id,
            method=head.method,
            path=head.path,
            headers=tuple(sorted(head.headers.items())),
            body=body,
        )
        self._port.call(call, on_answer, on_end)

    def _ended(self, exchange: _Exchange) -> None:
        with self._lock:
            exchange.body_bytes = 0
            self._let_go(exchange, _Holder.PORT)

    def _answer(self, session: Session, exchange: _Exchange, answer: ApiAnswer) -> None:
        with self._lock:
            waiting = len(answer.body) + sum(each.answer_bytes for each in self._held)
            told = answer if waiting <= HELD_BYTES_MOST else _too_busy()
            exchange.answer_bytes = len(told.body)
            exchange.holders.add(_Holder.SESSION)
        begins: dict[str, object] = {
            "status": told.status,
            "headers": dict(told.headers),
            "length": len(told.body),
        }
        self._send(session, exchange, told.body, 0, begins)

    def _send(
        self,
        session: Session,
        exchange: _Exchange,
        body: bytes,
        start: int,
        begins: dict[str, object],
    ) -> None:
        """Send a piece of an answer, and once it is taken the next one."""
        end = start + PIECE_BYTES
        last = end >= len(body)

        def on_reply(reply: Reply | RequestFailed) -> None:
            taken = isinstance(reply, Reply) and reply.ok
            if taken and not last:
                self._send(session, exchange, body, end, {})
            else:
                self._sent(exchange)

        if not self._is_awaited(exchange):
            self._sent(exchange)
            return
        fields = {
            "exchange": exchange.head.exchange,
            "data": body[start:end],
            "last": last,
            **begins,
        }
        session.request("api_answer", fields, on_reply)

    def _is_awaited(self, exchange: _Exchange) -> bool:
        with self._lock:
            return _Holder.RUNNER in exchange.holders

    def _sent(self, exchange: _Exchange) -> None:
        with self._lock:
            if _Holder.RUNNER in exchange.holders:
                self._close(exchange.head.exchange)
            exchange.answer_bytes = 0
            self._let_go(exchange, _Holder.SESSION)

    def _close(self, number: int) -> None:
        """Count an exchange as one that the runner waits for no more; holds the lock."""
        exchange = self._open.pop(number, None)
        if exchange is not None:
            self._let_go(exchange, _Holder.RUNNER)

    def _let_go(self, exchange: _Exchange, holder: _Holder) -> None:
        exchange.holders.discard(holder)
        if not exchange.holders:
            self._held.discard(exchange)
