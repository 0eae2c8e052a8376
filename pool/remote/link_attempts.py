"""What one worker's sessions say of its attempts: exits, logs, and when a log is complete."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, assert_never

import structlog

from longshore.pool.model import AttemptExit, AttemptImage, AttemptOrder
from longshore.pool.remote.session import Session
from longshore.pool.remote.session_requests import RequestFailed
from longshore.pool.remote.wire import (
    AttemptPush,
    Exited,
    Heartbeat,
    ImageNews,
    Interruption,
    LogChunk,
    Reply,
)

_log = structlog.get_logger(__name__)

LogOffsets = Callable[[str], tuple[int, int]]

_BROKEN_INTERVAL_S = 10.0
_MOST_IMAGES = 4
"""How often an image is believed to have news: it is pulled, and then it is there."""


class LinkListener(Protocol):
    """Who hears of a worker; every call comes from a session's reader thread, one at a time."""

    def exited(self, worker_id: str, attempt_id: str, how: AttemptExit) -> None:
        """Hear how an attempt ended; repeated after each reconnection until it is released."""
        ...

    def image(self, worker_id: str, attempt_id: str, image: AttemptImage) -> None:
        """Hear what is known of the image of an attempt, before its exit; it may be no news."""
        ...

    def log(self, worker_id: str, attempt_id: str, stream: str, offset: int, data: bytes) -> None:
        """Store bytes of "stdout" or "stderr" at `offset`, and return when they are stored.

        Offsets of a stream never go back; one that lies beyond what is kept is a gap. Raises
        `OSError` when it cannot be stored; the same comes again after a later heartbeat.
        """
        ...

    def log_complete(self, worker_id: str, attempt_id: str) -> None:
        """Hear that the exit is known and both streams are stored; repeated as exits are.

        Raises `OSError` when what is stored is not safe yet; then it is told again after a later
        heartbeat.
        """
        ...

    def lost(self, worker_id: str, last_contact: float, reason: str) -> None:
        """Hear that the session ended; `last_contact` is by the link's clock."""
        ...

    def interrupted(self, worker_id: str, at: str) -> None:
        """Hear that the instance says when its cloud takes it back; once a session at most."""
        ...

    def broken(self, worker_id: str, message: str) -> None:
        """Hear why the instance should get no more work; "" when that is over.

        Told of changes since the hello, which the probe that attached the session reports.
        """
        ...


class _Log(Enum):
    """Whether the bytes that come continue those that are stored."""

    FOLLOWED = "followed"
    ASKED = "asked"  # until the reply, what comes was sent before the runner read our request
    TO_ASK = "to_ask"  # what comes lies beyond a piece that could not be stored


@dataclass(slots=True)
class _Attempt:
    kept: dict[str, int] = field(default_factory=lambda: {"stdout": 0, "stderr": 0})
    log: _Log = _Log.FOLLOWED
    images_told: int = 0
    exit: AttemptExit | None = None
    told_complete: bool = False
    in_trouble: bool = False


class AttemptFeed:
    """The attempts of one worker; `expect` and `forget` from any thread, the rest from a reader."""

    def __init__(
        self,
        worker_id: str,
        listener: LinkListener,
        log_offsets: LogOffsets,
        clock: Callable[[], float],
    ) -> None:
        """Make the feed of a worker; `clock` tells seconds, from whenever."""
        self._worker_id = worker_id
        self._listener = listener
        self._log_offsets = log_offsets
        self._lock = threading.Lock()
        self._attempts: dict[str, _Attempt] = {}
        self._clock = clock
        self._told_broken = ""
        self._told_broken_at = -math.inf
        self._told_interrupted = False

    def expect(self, order: AttemptOrder) -> None:
        """Know of an attempt before it is started, so that its first bytes are not a stranger's."""
        with self._lock:
            self._attempts.setdefault(order.attempt_id, _Attempt())

    def forget(self, attempt_id: str) -> None:
        """Forget an attempt that is released."""
        with self._lock:
            self._attempts.pop(attempt_id, None)

    def reset(self) -> None:
        """Forget all attempts, before a session begins whose hello names those that there are."""
        with self._lock:
            self._attempts.clear()

    def opened(self, session: Session) -> None:
        """Take over what the runner's hello says, and ask for the logs from where they are kept."""
        self._told_broken = session.hello.broken
        self._told_interrupted = False
        for report in session.hello.attempts:
            attempt = _Attempt(log=_Log.TO_ASK)
            with self._lock:
                self._attempts[report.attempt_id] = attempt
            recalled = self._recall(report.attempt_id, attempt)
            if report.image is not None:
                self._hear_image(report.attempt_id, attempt, report.image)
            if report.exit is not None:
                self._hear_exit(report.attempt_id, attempt, report.exit)
            if recalled and not attempt.told_complete:
                self._ask(session, report.attempt_id, attempt)

    def pushed(self, session: Session, message: AttemptPush) -> None:
        """Pass a push on; log bytes are acknowledged when the listener has stored them."""
        match message:
            case Heartbeat():
                self._hear_broken(message.broken)
                self._try_again(session)
            case Exited():
                attempt = self._known(message.attempt_id)
                if attempt is not None:
                    self._hear_exit(message.attempt_id, attempt, message.exit)
            case ImageNews():
                attempt = self._known(message.attempt_id)
                if attempt is not None:
                    self._hear_image(message.attempt_id, attempt, message.image)
            case LogChunk():
                self._hear_log(session, message)
            case Interruption():
                self._hear_interruption(message.at)
            case _:
                assert_never(message)

    def _known(self, attempt_id: str) -> _Attempt | None:
        with self._lock:
            return self._attempts.get(attempt_id)

    def _recall(self, attempt_id: str, attempt: _Attempt) -> bool:
        """Find out how much of a log is stored; return whether that could be told."""
        try:
            stdout, stderr = self._log_offsets(attempt_id)
        except OSError as error:
            self._note_trouble(attempt_id, attempt, error)
            return False
        attempt.kept = {"stdout": stdout, "stderr": stderr}
        return True

    def _ask(self, session: Session, attempt_id: str, attempt: _Attempt) -> None:
        """Have the runner send a log from where it is stored."""

        def on_reply(reply: Reply | RequestFailed) -> None:
            agreed = isinstance(reply, Reply) and reply.ok
            attempt.log = _Log.FOLLOWED if agreed else _Log.TO_ASK

        attempt.log = _Log.ASKED
        session.request("tail", {"attempt_id": attempt_id, **attempt.kept}, on_reply)

    def _try_again(self, session: Session) -> None:
        """Take up what could not be stored, or made safe, when it came."""
        with self._lock:
            attempts = sorted(self._attempts.items())
        for attempt_id, attempt in attempts:
            if attempt.told_complete:
                continue
            if attempt.log is _Log.TO_ASK and self._recall(attempt_id, attempt):
                self._ask(session, attempt_id, attempt)
            self._tell_if_complete(attempt_id, attempt)

    def _hear_image(self, attempt_id: str, attempt: _Attempt, image: AttemptImage) -> None:
        """Tell what is new, but not for ever: one instance must not keep the engine busy."""
        if attempt.exit is None and attempt.images_told < _MOST_IMAGES:
            attempt.images_told += 1
            self._listener.image(self._worker_id, attempt_id, image)

    def _hear_exit(self, attempt_id: str, attempt: _Attempt, attempt_exit: AttemptExit) -> None:
        """Tell the first word of a session: one instance must not keep the engine busy."""
        if attempt.exit is not None:
            return
        attempt.exit = attempt_exit
        self._listener.exited(self._worker_id, attempt_id, attempt_exit)
        self._tell_if_complete(attempt_id, attempt)

    def _hear_log(self, session: Session, chunk: LogChunk) -> None:
        end = chunk.offset + len(chunk.data)
        attempt = self._known(chunk.attempt_id)
        if attempt is None or attempt.told_complete:
            # Released, never ours, or stored: acknowledged all the same, or it would fill the
            # window.
            session.acknowledge(chunk.attempt_id, chunk.stream, end)
            return
        if attempt.log is not _Log.FOLLOWED:
            return
        if not self._stored(chunk, attempt):
            attempt.log = _Log.TO_ASK
            return
        session.acknowledge(chunk.attempt_id, chunk.stream, attempt.kept[chunk.stream])
        self._tell_if_complete(chunk.attempt_id, attempt)

    def _stored(self, chunk: LogChunk, attempt: _Attempt) -> bool:
        """Have the listener store what is new; return whether it did."""
        kept = attempt.kept[chunk.stream]
        fresh = chunk.data[max(0, kept - chunk.offset) :]
        if not fresh:
            return True
        offset = max(kept, chunk.offset)
        try:
            self._listener.log(self._worker_id, chunk.attempt_id, chunk.stream, offset, fresh)
        except OSError as error:
            self._note_trouble(chunk.attempt_id, attempt, error)
            return False
        attempt.kept[chunk.stream] = offset + len(fresh)
        attempt.in_trouble = False
        return True

    def _tell_if_complete(self, attempt_id: str, attempt: _Attempt) -> None:
        ended = attempt.exit
        if ended is None or attempt.told_complete:
            return
        stdout, stderr = attempt.kept["stdout"], attempt.kept["stderr"]
        if stdout < ended.stdout_bytes or stderr < ended.stderr_bytes:
            return
        try:
            self._listener.log_complete(self._worker_id, attempt_id)
        except OSError as error:
            self._note_trouble(attempt_id, attempt, error)
            return
        attempt.told_complete = True

    def _note_trouble(self, attempt_id: str, attempt: _Attempt, error: OSError) -> None:
        if not attempt.in_trouble:
            _log.warning(
                "a log cannot be kept at present; it is asked for again with each heartbeat",
                instance=self._worker_id,
                attempt=attempt_id,
                error=str(error),
            )
        attempt.in_trouble = True

    def _hear_broken(self, message: str) -> None:
        """Tell what changed, but not so often that one instance keeps the engine busy.

        A change that comes too soon is told with a later heartbeat, if it still holds.
        """
        now = self._clock()
        if message == self._told_broken or now < self._told_broken_at + _BROKEN_INTERVAL_S:
            return
        self._told_broken = message
        self._told_broken_at = now
        self._listener.broken(self._worker_id, message)

    def _hear_interruption(self, at: str) -> None:
        """Tell the first word of a session: one instance must not keep the engine busy."""
        if not self._told_interrupted:
            self._told_interrupted = True
            self._listener.interrupted(self._worker_id, at)


def ignore_reply(_: Reply | RequestFailed) -> None:
    """Do nothing: what comes of the request shows in what the runner pushes."""
