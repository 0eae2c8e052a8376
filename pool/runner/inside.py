"""The API inside of attempts: a Unix socket each, whose requests go to the dispatcher and back.

**What is relayed** are requests, not bytes: a head is read strictly, a body has a length that was
told before, and of the headers only those in `HEADERS` go on. Whatever else the dispatcher is told
(whose request it is) is ours to say: an attempt's id stands for the socket that its connection came
in by. One request a connection: bytes behind its body are no second one, and end it.

**The way of a request.** While it is read nobody knows of it. When its last byte is here it waits
for its turn, and is then pushed in pieces, a piece in each turn of the session's loop, behind what
there is of logs, and only while the reader keeps up: so exits and logs never wait for a large body.
Its answer comes in `api_answer` requests, each of which we reply to at once.

**Bounds.** `CONNECTIONS_MOST` connections an attempt are taken, and `ALL_CONNECTIONS_MOST` in all;
the others wait in the kernel. Bodies that are read, and answers that no client takes, are
`HELD_BYTES_MOST` in all: a body beyond is answered 503. `OPEN_MOST` requests are with the
dispatcher at once. A connection that makes no headway for `PATIENCE_S` is closed.

**When there is no session** who asks is answered 503 with Retry-After, by whoever watches over the
attempts in between (`turn_away`). What was on its way when a session ends gets the same answer:
it may have been done, and an idempotency key makes it safe to ask again.

**Where sockets lie**: each in a directory of its own that only we may write in, so that nobody can
put anything else there while we look away. A session that begins binds another socket under the
same name, so that nobody's requests reach the one before.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import selectors
import socket
import time
from typing import Any, Callable, Iterator, NamedTuple

from longshore.pool.runner import wire

SOCKET = "api.sock"
PATH_BYTES_MOST = 107  # of a Unix socket, without the zero byte at its end
HEAD_BYTES_MOST = 16_384
BODY_BYTES_MOST = 16_777_216
HELD_BYTES_MOST = 33_554_432
PIECE_BYTES = 65_536
CONNECTIONS_MOST = 16
ALL_CONNECTIONS_MOST = 256  # descriptors, which attempts need too
WAITING_MOST = 64  # connections of an attempt that the kernel keeps until we take them
OPEN_MOST = 32
PATIENCE_S = 30.0
RETRY_AFTER_S = 2
HEADERS = ("accept", "content-type", "idempotency-key")
ANSWER_HEADERS = ("content-type", "location", "retry-after")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
NO_SESSION = "The server cannot be reached at present: ask again, with the same Idempotency-Key."

_REQUEST_LINE = re.compile(rb"([A-Z]{3,7}) (/[!-\"$-~]{0,8191}) HTTP/1\.[01]")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}):[ \t]*([\t -~]*?)[ \t]*")
_LENGTH = re.compile(r"[0-9]{1,9}")
_REASONS = {
    200: "OK",
    201: "Created",
    202: "Accepted",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    417: "Expectation Failed",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    501: "Not Implemented",
    503: "Service Unavailable",
}


class Unacceptable(Exception):  # noqa: N818 - it becomes an answer, it is no fault of the program
    """A request is answered with this status by ourselves, and goes nowhere."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class Head(NamedTuple):
    """The head of a request: what of it is relayed, and how long its body is."""

    method: str
    path: str
    headers: dict[str, str]
    length: int


def parse_head(text: bytes) -> Head:
    """Return what a head says, without the empty line at its end; Unacceptable says why not."""
    first, *lines = text.split(b"\r\n")
    found = _REQUEST_LINE.fullmatch(first)
    if found is None:
        raise Unacceptable(400, "The first line is not METHOD /path HTTP/1.1.")
    method, path = found.group(1).decode(), found.group(2).decode()
    if method not in METHODS:
        raise Unacceptable(501, f"There is nothing here for {method}.")
    headers: dict[str, str] = {}
    for line in lines:
        field = _HEADER.fullmatch(line)
        if field is None:
            raise Unacceptable(400, "A header is not NAME: VALUE in ASCII on one line.")
        name = field.group(1).decode().lower()
        if name in headers:
            raise Unacceptable(400, f"The header {name} is there twice.")
        headers[name] = field.group(2).decode()
    return Head(method, path, {n: headers[n] for n in HEADERS if n in headers}, _length(headers))


def _length(headers: dict[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise Unacceptable(501, "Send the body with a Content-Length, not in chunks.")
    if "expect" in headers:
        raise Unacceptable(417, "Send the body without Expect.")
    text = headers.get("content-length", "0")
    if not _LENGTH.fullmatch(text):
        raise Unacceptable(400, "Content-Length is no number of bytes.")
    if int(text) > BODY_BYTES_MOST:
        raise Unacceptable(413, f"A body has {BODY_BYTES_MOST} bytes at most.")
    return int(text)


def answer(status: int, headers: dict[str, str], body: bytes) -> bytes:
    """Return an answer as it is written, after which the connection ends."""
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Answer')}"]
    lines += [f"{name}: {headers[name]}" for name in ANSWER_HEADERS if name in headers]
    lines += [f"content-length: {len(body)}", "connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def refusal(status: int, detail: str) -> bytes:
    """Return an answer of our own, with problem details; after a 503 it may be asked again."""
    title = _REASONS[status]
    body = wire.encode({"type": "about:blank", "title": title, "status": status, "detail": detail})
    headers = {"content-type": "application/problem+json"}
    if status == 503:
        headers["retry-after"] = str(RETRY_AFTER_S)
    return answer(status, headers, body)


def is_short(directory: str) -> bool:
    """Return whether a program can name a socket in a directory: its address has a limit."""
    return len(os.fsencode(os.path.join(directory, SOCKET))) <= PATH_BYTES_MOST


def bind(directory: str, *, uid: int, gid: int, mode: int) -> socket.socket:
    """Return a socket that listens in a directory of ours, in the place of the one before.

    Only `uid` (-1: we) may connect, or with the `mode` 0o666 whoever can reach it. OSError when it
    cannot be made.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # By the descriptor: the path may be longer than the address of a socket.
        new = f"/proc/self/fd/{opened}/{SOCKET}.new"
        with contextlib.suppress(FileNotFoundError):  # of a runner that died over it
            os.unlink(new)
        before = os.umask(0o177)
        try:
            listener.bind(new)
        finally:
            os.umask(before)
        if uid >= 0:
            os.chown(new, uid, gid)
        os.chmod(new, mode)
        listener.listen(WAITING_MOST)
        listener.setblocking(False)
        os.rename(new, f"/proc/self/fd/{opened}/{SOCKET}")
    except OSError:
        listener.close()
        raise
    finally:
        os.close(opened)
    return listener


def turn_away(listener: socket.socket) -> Iterator[socket.socket]:
    """Answer who waits at a socket that there is no session, and yield their connections.

    Leave each open for a while: who has yet to send the request would be told of a broken pipe in
    the place of the answer. OSError when nobody can be taken now.
    """
    for _turn in range(WAITING_MOST):
        try:
            client, _ = listener.accept()
        except BlockingIOError:
            return
        client.setblocking(False)
        with contextlib.suppress(OSError):  # it is gone
            client.send(refusal(503, NO_SESSION))
        yield client


class _Connection:
    """One client: what of its request is here, and what of the answer it has not taken."""

    def __init__(self, client: socket.socket, attempt_id: str, now: float) -> None:
        self.client = client
        self.attempt_id = attempt_id
        self.received = bytearray()
        self.head: Head | None = None
        #: The number of its request, 0 while that is not whole.
        self.exchange = 0
        #: Where the next piece of its body begins that is to be pushed, None while none is.
        self.pushed: int | None = None
        self.answer = bytearray()
        self.answered = False
        self.events = 0
        self.alive_at = now

    def is_whole(self) -> bool:
        """Return whether all of its request is here."""
        return self.head is not None and len(self.received) >= self.head.length

    @property
    def held(self) -> int:
        """Return how much memory its body and its answer take, or will."""
        length = 0 if self.head is None or self.answered else self.head.length
        return length + len(self.answer)


class InsideDoors:
    """The sockets of a session's attempts and the connections there, on the session's loop."""

    def __init__(self, push: Callable[[dict[str, Any]], None]) -> None:
        """`push` sends a message to the dispatcher."""
        self._push = push
        self._selector: selectors.BaseSelector | None = None
        self._listeners: dict[str, socket.socket] = {}
        self._listening: set[str] = set()
        self._connections: dict[int, _Connection] = {}
        self._exchanges: dict[int, _Connection] = {}
        self._ready: list[_Connection] = []
        self._number = 0
        self._rest_until = 0.0

    # ---- sockets ----

    def begin(self, selector: selectors.BaseSelector) -> None:
        """Take connections from now on."""
        self._selector = selector

    def open(self, attempt_id: str, listener: socket.socket) -> None:
        """Take the requests of an attempt."""
        self._listeners[attempt_id] = listener
        self._listen(attempt_id)

    def shut(self, attempt_id: str) -> None:
        """Take no more of an attempt, which has ended, and drop what is under way."""
        listener = self._listeners.pop(attempt_id, None)
        if listener is None:
            return
        self._deafen(attempt_id, listener)
        listener.close()
        for each in [c for c in self._connections.values() if c.attempt_id == attempt_id]:
            self._drop(each)

    def end(self) -> dict[str, socket.socket]:
        """Answer all who wait that there is no session; return the sockets, by attempt."""
        self._exchanges.clear()
        for each in list(self._connections.values()):
            if not each.answered:
                with contextlib.suppress(OSError):  # it takes nothing, or is gone
                    each.client.send(refusal(503, NO_SESSION))
            self._drop(each)
        for attempt_id, listener in self._listeners.items():
            self._deafen(attempt_id, listener)
        self._selector = None
        return self._listeners

    def _listen(self, attempt_id: str) -> None:
        number = sum(each.attempt_id == attempt_id for each in self._connections.values())
        full = number >= CONNECTIONS_MOST or len(self._connections) >= ALL_CONNECTIONS_MOST
        full = full or time.monotonic() < self._rest_until
        listener = self._listeners.get(attempt_id)
        if listener is None or self._selector is None:
            return
        if full:
            self._deafen(attempt_id, listener)
        elif attempt_id not in self._listening:
            self._listening.add(attempt_id)
            self._selector.register(
                listener, selectors.EVENT_READ, lambda _fd, now: self._accept(attempt_id, now)
            )

    def _deafen(self, attempt_id: str, listener: socket.socket) -> None:
        if attempt_id in self._listening and self._selector is not None:
            self._listening.discard(attempt_id)
            self._selector.unregister(listener)

    def _accept(self, attempt_id: str, now: float) -> None:
        try:
            client, _ = self._listeners[attempt_id].accept()
        except BlockingIOError:
            return
        except OSError:
            # No descriptor is to be had now: nobody is taken for a second.
            self._rest_until = now + 1.0
            self._listen(attempt_id)
            return
        client.setblocking(False)
        made = _Connection(client, attempt_id, now)
        self._connections[client.fileno()] = made
        self._watch(made)
        self._listen(attempt_id)

    # ---- connections ----

    def tick(self, now: float) -> float | None:
        """Close what makes no headway; return when to be called again, None for never."""
        for each in list(self._connections.values()):
            if each.is_whole() and not each.answered:
                continue  # the dispatcher has it, or will
            if now >= each.alive_at + PATIENCE_S:
                if not each.answered:
                    with contextlib.suppress(OSError):  # it takes nothing, or is gone
                        each.client.send(refusal(408, "The rest of the request did not come."))
                self._drop(each)
        for attempt_id in sorted(self._listeners.keys() - self._listening):
            self._listen(attempt_id)
        waits = self._connections or len(self._listening) < len(self._listeners)
        return now + 1.0 if waits else None

    def _room(self) -> int:
        return HELD_BYTES_MOST - sum(each.held for each in self._connections.values())

    def _watch(self, one: _Connection) -> None:
        """Wait for what comes next of a connection: bytes of it, or room for its answer."""
        if self._selector is None:
            return
        events = 0
        if one.answer:
            events = selectors.EVENT_WRITE
        elif not one.answered:
            # Also of one that has asked: that it hangs up.
            events = selectors.EVENT_READ
        if events == one.events:
            return
        descriptor = one.client.fileno()
        if not one.events:
            self._selector.register(descriptor, events, self._serve)
        elif not events:
            self._selector.unregister(descriptor)
        else:
            self._selector.modify(descriptor, events, self._serve)
        one.events = events

    def _drop(self, one: _Connection) -> None:
        if one.events and self._selector is not None:
            self._selector.unregister(one.client.fileno())
        one.events = 0
        self._connections.pop(one.client.fileno(), None)
        if self._exchanges.pop(one.exchange, None) is not None and not one.answered:
            self._push({"type": "api_gone", "exchange": one.exchange})
        if one in self._ready:
            self._ready.remove(one)
        one.client.close()
        self._listen(one.attempt_id)

    def _serve(self, descriptor: int, now: float) -> None:
        one = self._connections.get(descriptor)
        if one is None:
            return
        try:
            if one.answer:
                self._write(one, now)
            else:
                self._read(one, now)
        except BlockingIOError:
            return
        except Unacceptable as fault:
            self._answer_self(one, fault.status, str(fault))
        except OSError:
            self._drop(one)

    def _answer_self(self, one: _Connection, status: int, detail: str) -> None:
        if one in self._ready:
            self._ready.remove(one)
        one.answer += refusal(status, detail)
        one.answered = True
        self._watch(one)

    def _read(self, one: _Connection, now: float) -> None:
        data = one.client.recv(PIECE_BYTES)
        one.alive_at = now
        if not data or one.exchange:
            # It is gone, or says more while it is answered, which nothing can be said to.
            self._drop(one)
            return
        if one.is_whole():
            raise Unacceptable(400, "There is more than one request: send one a connection.")
        one.received += data
        if one.head is None:
            self._read_head(one)
        if one.head is not None and len(one.received) > one.head.length:
            raise Unacceptable(400, "There is more than the body that Content-Length tells of.")
        if one.is_whole():
            self._ready.append(one)

    def _read_head(self, one: _Connection) -> None:
        end = one.received.find(b"\r\n\r\n", 0, HEAD_BYTES_MOST)
        if end < 0 and len(one.received) >= HEAD_BYTES_MOST:
            raise Unacceptable(431, f"The head is longer than {HEAD_BYTES_MOST} bytes.")
        if end < 0:
            return
        head = parse_head(bytes(one.received[:end]))
        if head.length > self._room():
            raise Unacceptable(503, "Too many large bodies are under way: ask again.")
        del one.received[: end + 4]
        one.head = head

    def _write(self, one: _Connection, now: float) -> None:
        sent = one.client.send(one.answer[:PIECE_BYTES])
        one.alive_at = now
        del one.answer[:sent]
        if one.answered and not one.answer:
            self._drop(one)
        else:
            self._watch(one)

    # ---- to the dispatcher ----

    @property
    def idle(self) -> bool:
        """Return whether nothing is to be pushed."""
        waiting = self._ready and len(self._exchanges) < OPEN_MOST
        return not waiting and all(each.pushed is None for each in self._exchanges.values())

    def pump(self) -> None:
        """Push the next piece of what waits: of one that was begun, else the next one's head."""
        for one in self._exchanges.values():
            if one.pushed is not None:
                self._push_piece(one, one.pushed)
                return
        if self._ready and len(self._exchanges) < OPEN_MOST:
            self._push_head(self._ready.pop(0))

    def _push_head(self, one: _Connection) -> None:
        head = one.head
        if head is None:
            return
        self._number += 1
        one.exchange = self._number
        self._exchanges[one.exchange] = one
        self._push(
            {
                "type": "api_request",
                "exchange": one.exchange,
                "attempt_id": one.attempt_id,
                "method": head.method,
                "path": head.path,
                "headers": head.headers,
                "length": head.length,
            }
        )
        one.pushed = 0 if head.length else None

    def _push_piece(self, one: _Connection, start: int) -> None:
        data = bytes(one.received[start : start + PIECE_BYTES])
        text = base64.b64encode(data).decode()
        self._push({"type": "api_body", "exchange": one.exchange, "data": text})
        end = start + len(data)
        one.pushed = end if end < len(one.received) else None

    # ---- from the dispatcher ----

    def take_answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Take a piece of an answer; Refusal "unknown" where nobody waits for it any more."""
        one = self._exchanges.get(wire.count_field(message, "exchange"))
        if one is None:
            raise wire.Refusal("unknown", "nobody waits for this answer any more")
        data = _decoded(wire.text_field(message, "data"))
        if "status" in message:
            one.answer += _answer_head(message)
        if len(data) > self._room():
            self._drop(one)
            raise wire.Refusal("unknown", "no client takes its answers: this one is dropped")
        one.answer += data
        one.alive_at = time.monotonic()
        if wire.flag_field(message, "last"):
            one.answered = True
            del self._exchanges[one.exchange]
        if one.answered and not one.answer:
            self._drop(one)
        else:
            self._watch(one)
        return {}


def _answer_head(message: dict[str, Any]) -> bytes:
    headers: object = message.get("headers", {})
    if not isinstance(headers, dict):
        raise wire.Refusal("invalid", "headers must be an object")
    known = {name: wire.text_field(headers, name) for name in ANSWER_HEADERS if name in headers}
    if any(not re.fullmatch("[\t -~]*", value) for value in known.values()):
        raise wire.Refusal("invalid", "a header must be ASCII on one line")
    status, length = wire.count_field(message, "status"), wire.count_field(message, "length")
    return answer(status, known, b"").replace(
        b"content-length: 0\r\n", b"content-length: %d\r\n" % length, 1
    )


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise wire.Refusal("invalid", "data must be base64") from error
