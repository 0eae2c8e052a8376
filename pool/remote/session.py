"""The session with a runner: requests and replies by id, pushes, and loss by missing heartbeats.

One thread reads and one writes. Nothing is sent on a caller's thread, nor on the reader's: a send
to a frozen peer blocks, and a reader that blocks cannot notice that the peer is frozen.

All sessions share one lock of Python's, so a runner may send as many lines as it likes, but they
are read at a pace: an honest one puts more into each line when it has to wait. Answers that were
asked for cost nothing. A runner that says that it lives far more often than it was told is hung
up on.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, Self

import msgspec
import structlog

from longshore.drivers.errors import CommandFailed, Unreachable
from longshore.pool.lease import LeaseTerms
from longshore.pool.remote.allowance import MessageAllowance
from longshore.pool.remote.remote_shell import ShellStream
from longshore.pool.remote.session_requests import OnReply, RequestFailed, RequestTable, SendQueue
from longshore.pool.remote.ssh_watchdog import WATCHDOG, small_stack
from longshore.pool.remote.wire import (
    MAX_LINE_BYTES,
    PROTOCOL,
    ApiBody,
    ApiGone,
    ApiRequest,
    Exited,
    Heartbeat,
    Hello,
    ImageNews,
    Interruption,
    LineSplitter,
    LogChunk,
    MalformedMessageError,
    Push,
    Refused,
    Reply,
    decode_message,
    encode_line,
)

_JOIN_S: Final = 10.0
_REASON_BYTES: Final = 1024
_LINES_AT_ONCE: Final = 4_000
_LINES_PER_SECOND: Final = 2_000
_SIGNS_AT_ONCE: Final = 500
_SIGNS_PER_INTERVAL: Final = 10
_LEAST_SIGNS_PER_SECOND: Final = 10
"""Heartbeats and interruptions: an honest runner sends one an interval, and one a session."""
_LEAST_REST_S: Final = 0.01
_LONGEST_REST_S: Final = 0.1
_ENDING: Final = {"start": "a start", "update-limits": "new limits"}
"""Requests whose lack of a reply ends the session, and how they are called then."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """What a session needs to know."""

    cluster: str
    epoch: int
    runner_sha256: str
    attach_timeout_s: float
    #: A request without a reply fails after this time; a start without one ends the session.
    request_timeout_s: float
    heartbeat_interval_s: float
    heartbeat_timeout_s: float
    #: What the hello asks for, None for none.
    lease: LeaseTerms | None = None
    #: What waits on the instance for its cloud's word that it is taken back, "" for nothing.
    interruption_watch: str = ""
    #: The id of the dispatcher's store, "" for none that it says.
    store: str = ""


class SessionListener(Protocol):
    """Who hears of a session; every call comes from its reader thread, one at a time."""

    def opened(self) -> None:
        """Hear that the reader has begun; the session's `hello` is there."""
        ...

    def pushed(self, message: Push) -> None:
        """Take a message that nobody asked for; the reader waits until this returns."""
        ...

    def heard(self) -> None:
        """Hear that any message came."""
        ...

    def ended(self, reason: str) -> None:
        """Hear, once and last, why the session ended; not called after `Session.close`."""
        ...


class Session:
    """An attached session; its methods may be called from any thread and never wait for a send."""

    def __init__(
        self, stream: ShellStream, cut: Callable[[], None], settings: SessionSettings
    ) -> None:
        """Begin with nothing said yet; use `attach` instead."""
        self.hello: Hello
        self._stream = stream
        self._cut = cut
        self._settings = settings
        self._splitter = LineSplitter()
        self._early: list[bytes] = []
        self._listener: SessionListener
        self._outbox = SendQueue()
        self._requests = RequestTable(self._outbox, timeout_s=settings.request_timeout_s)
        self._numbers = itertools.count(1)
        self._closing = False
        self._late = False
        self._delivering = True
        self._over = threading.Event()
        self._lines = MessageAllowance(most=_LINES_AT_ONCE, per_second=_LINES_PER_SECOND)
        signs = max(_LEAST_SIGNS_PER_SECOND, _SIGNS_PER_INTERVAL / settings.heartbeat_interval_s)
        self._signs = MessageAllowance(most=_SIGNS_AT_ONCE, per_second=signs)
        self._heard_at = time.monotonic()
        self._reader = threading.Thread(target=self._read, name="session-reader", daemon=True)
        self._writer = threading.Thread(target=self._write, name="session-writer", daemon=True)

    @classmethod
    def attach(
        cls, stream: ShellStream, *, cut: Callable[[], None], settings: SessionSettings
    ) -> Self:
        """Exchange hellos on `stream` and return the session, which `start` brings to life.

        `cut` must end every call that blocks on the stream, without blocking itself. Raises
        `Unreachable` when no hello comes within `attach_timeout_s`, `CommandFailed` when the
        runner refuses or ends, and `MalformedMessageError`. The caller closes the connection then.
        """
        session = cls(stream, cut, settings)
        deadline = time.monotonic() + settings.attach_timeout_s

        def give_up() -> float:
            cut()
            return time.monotonic() + 1.0

        WATCHDOG.enlist()
        try:
            # The reads have a deadline of their own; this is for a write that blocks.
            with WATCHDOG.alarm(deadline + 1.0, give_up):
                stream.write(session._own_hello())
                session.hello = session._await_hello(deadline)
        finally:
            WATCHDOG.leave()
        return session

    def start(self, listener: SessionListener) -> None:
        """Start both threads; `listener` hears of everything from now on.

        Raises `RuntimeError` when the process can have no more threads. The session has ended
        then without a word to the listener, and the caller closes the connection.
        """
        self._listener = listener
        self._heard_at = time.monotonic()
        WATCHDOG.enlist()
        self._alarm = WATCHDOG.arm(
            self._heard_at + self._settings.heartbeat_timeout_s, self._check_lateness
        )
        try:
            with small_stack():
                self._writer.start()
                self._reader.start()
        except RuntimeError:
            self._stop()
            raise

    @property
    def alive(self) -> bool:
        """Return whether the session was started and nothing has ended it, as far as is known."""
        over = self._closing or self._late or self._requests.ended
        return self._reader.is_alive() and not over

    def request(self, kind: str, fields: Mapping[str, object], on_reply: OnReply) -> None:
        """Send a request; `on_reply` gets the reply or a `RequestFailed`, exactly once.

        It is called from the reader thread, or at once from this one when nothing can be sent.
        A request that fails for want of a reply is not sent any more. One that has been may still
        be carried out; so a "start" without a reply ends the session before it fails. So do new
        limits, since they are told again only in another session.
        """
        number = next(self._numbers)
        message = {"type": kind, "id": number, "epoch": self._settings.epoch, **fields}
        try:
            line = encode_line(message)
        except (msgspec.MsgspecError, UnicodeEncodeError) as error:
            on_reply(RequestFailed(message=f"cannot be sent: {error}", code="invalid"))
            return
        if len(line) > MAX_LINE_BYTES:
            what = f"a {kind} of {len(line)} bytes; the limit is {MAX_LINE_BYTES}"
            on_reply(RequestFailed(message=what, code="too_large"))
            return
        now = time.monotonic()
        failure, first = self._requests.add(number, kind, line, on_reply, now=now)
        if failure:
            on_reply(RequestFailed(message=failure))
        elif first:
            # The reader may be waiting without a deadline.
            self._stream.wake()

    def acknowledge(self, attempt_id: str, stream: str, offset: int) -> None:
        """Tell the runner that all below `offset` is kept; a later one replaces an unsent one."""
        self._outbox.acknowledge(attempt_id, stream, offset)

    def close(self) -> None:
        """End the session without a word to its listener; pending requests fail.

        Waits for the threads (up to 10 s for one that its listener holds up), unless it is called
        from one of them.
        """
        self._closing = True
        self.cut()
        self.join()

    def cut(self) -> None:
        """Have the session end soon, as if the connection had broken; returns at once."""
        self._cut()
        self._over.set()
        self._stream.wake()

    def join(self) -> bool:
        """Wait (up to 10 s) until the session has ended and its listener knows; return whether."""
        if self._reader.ident is not None and threading.current_thread() is not self._reader:
            self._reader.join(_JOIN_S)
        return not self._reader.is_alive()

    # ---- attaching ----------------------------------------------------------------------------

    def _own_hello(self) -> bytes:
        settings = self._settings
        hello: dict[str, object] = {
            "type": "hello",
            "protocol": PROTOCOL,
            "cluster": settings.cluster,
            "epoch": settings.epoch,
            "runner_sha256": settings.runner_sha256,
            "heartbeat_interval_s": settings.heartbeat_interval_s,
        }
        if settings.lease is not None:
            hello["lease"] = settings.lease.fields()
        if settings.store:
            hello["store"] = settings.store
        if settings.interruption_watch:
            hello["interruption_watch"] = settings.interruption_watch
        return encode_line(hello)

    def _await_hello(self, deadline: float) -> Hello:
        lines: list[bytes] = []
        while not lines:
            remaining = deadline - time.monotonic()
            data = self._stream.read(max(0.0, remaining))
            if data == b"":
                raise CommandFailed(self._how_it_ended(), exit_status=-1)
            if data:
                lines = self._splitter.feed(data)
            elif remaining <= 0:
                waited = self._settings.attach_timeout_s
                raise Unreachable(f"the runner said nothing within {waited:g} s")
        self._early = lines[1:]
        return self._checked(decode_message(lines[0]))

    def _checked(self, message: object) -> Hello:
        match message:
            case Refused():
                what = f"the runner refuses the session: {message.code}: {message.message}"
                raise CommandFailed(what, exit_status=-1)
            case Hello():
                pass
            case _:
                raise MalformedMessageError("the runner's first message is no hello")
        wanted = (PROTOCOL, self._settings.cluster, self._settings.runner_sha256)
        got = (message.protocol, message.cluster, message.runner_sha256)
        if wanted != got:
            raise MalformedMessageError(f"a hello of another runner: {got} instead of {wanted}")
        return message

    # ---- sending ------------------------------------------------------------------------------

    def _write(self) -> None:
        try:
            while batch := self._outbox.take():
                self._stream.write(batch)
        except Unreachable:
            # The reader tells of the end; it must find one.
            self._cut()

    # ---- reading ------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            self._listener.opened()
            for line in self._early:
                self._deliver(line)
            self._heard_at = time.monotonic()
            self._delivering = False
            reason = self._read_until_end()
        except (MalformedMessageError, Unreachable) as error:
            reason = self._late_reason() or str(error)
        except Exception as error:  # noqa: BLE001 - above a thread there is nobody to catch it
            _log.exception("a listener of a session failed")
            reason = f"a listener failed: {error!r}"
        self._finish(reason)

    def _read_until_end(self) -> str:
        while True:
            data = self._stream.read(self._requests.wait_s(time.monotonic()))
            if data == b"" or self._closing:
                return self._late_reason() or self._how_it_ended()
            if data:
                for line in self._splitter.feed(data):
                    self._deliver(line)
                    if reason := self._rest():
                        return reason
            reason = self._expire(idle=data is None)
            if reason:
                return reason

    def _deliver(self, line: bytes) -> None:
        message = decode_message(line)
        self._delivering = True
        try:
            self._listener.heard()
            match message:
                case Reply():
                    self._answer(message)
                case Heartbeat() | Interruption():
                    self._listener.pushed(message)
                    self._count_sign()
                case Exited() | ImageNews() | LogChunk() | ApiRequest() | ApiBody() | ApiGone():
                    self._listener.pushed(message)
                case _:
                    raise MalformedMessageError("a second hello")
        finally:
            self._heard_at = time.monotonic()
            self._delivering = False

    def _answer(self, reply: Reply) -> None:
        on_reply = self._requests.answered(reply.id)
        if on_reply is not None:
            on_reply(reply)
            self._lines.grant(1)

    def _count_sign(self) -> None:
        if self._signs.spend(1, time.monotonic()):
            what = f"its runner floods us with heartbeats: more than {_SIGNS_AT_ONCE} at once"
            raise MalformedMessageError(what)

    def _rest(self) -> str:
        """Rest after too many lines, for the others; return why the session must end, or ""."""
        owed_s = self._lines.spend(1, time.monotonic())
        if owed_s < _LEAST_REST_S:
            return ""
        if self._over.wait(min(owed_s, _LONGEST_REST_S)):
            return self._late_reason() or self._how_it_ended()
        return self._expire(idle=False)

    def _expire(self, *, idle: bool) -> str:
        """Fail the requests whose time is up; return why the session must end, or ""."""
        waited = self._settings.request_timeout_s
        while overdue := self._requests.overdue(time.monotonic(), idle=idle):
            if overdue.kind in _ENDING:
                # It may wait at the far end to be carried out, long after we have said "unknown";
                # the runner ends this session before it tells the next one what there is.
                return f"no reply to {_ENDING[overdue.kind]} within {waited:g} s"
            on_reply = self._requests.withdraw(overdue.number)
            if on_reply is not None:
                on_reply(RequestFailed(message=f"no reply within {waited:g} s"))
        return ""

    def _check_lateness(self) -> float | None:
        """Cut the session when nothing was heard for too long; a slow listener is not that."""
        timeout_s = self._settings.heartbeat_timeout_s
        now = time.monotonic()
        due = now + timeout_s if self._delivering else self._heard_at + timeout_s
        if due > now:
            return due
        self._late = True
        self._over.set()
        self._cut()
        return now + 1.0

    # ---- the end ------------------------------------------------------------------------------

    def _late_reason(self) -> str:
        return f"no message for {self._settings.heartbeat_timeout_s:g} s" if self._late else ""

    def _how_it_ended(self) -> str:
        said = self._stream.stderr_tail[-_REASON_BYTES:].decode(errors="replace").strip()
        return "the runner ended the session" + (f": {said}" if said else "")

    def _finish(self, reason: str) -> None:
        for on_reply in self._stop():
            self._tell(partial(on_reply, RequestFailed(message=reason)))
        if not self._closing:
            self._tell(partial(self._listener.ended, reason))

    def _stop(self) -> list[OnReply]:
        """End all but the reader; return who waits for a reply that will not come."""
        waiting = self._requests.end()
        WATCHDOG.disarm(self._alarm)
        self._cut()
        if self._writer.ident is not None:
            self._writer.join()
        WATCHDOG.leave()
        return waiting

    def _tell(self, call: Callable[[], None]) -> None:
        """Make a call that must not keep the others from being told."""
        try:
            call()
        except Exception:  # noqa: BLE001 - above a thread there is nobody to catch it
            _log.exception("a listener of a session failed")
