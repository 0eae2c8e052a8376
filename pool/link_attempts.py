"""What one worker's sessions say of its attempts: exits, logs, and when a log is complete."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, assert_never

from pool.model import AttemptExit, AttemptOrder
from pool.session import RequestFailed, Session
from pool.session_wire import Exited, Heartbeat, LogChunk, Push, Reply

LogOffsets = Callable[[str], tuple[int, int]]


class LinkListener(Protocol):
    """Who hears of a worker; every call comes from a session's reader thread, one at a time."""

    def exited(self, worker_id: str, attempt_id: str, how: AttemptExit) -> None:
        """Hear how an attempt ended; repeated after each reconnection until it is released."""
        ...

    def log(self, worker_id: str, attempt_id: str, stream: str, offset: int, data: bytes) -> None:
        """Store bytes of "stdout" or "stderr" at `offset`, and return when they are stored.

        Offsets of a stream never go back; one that lies beyond what is kept is a gap.
        """
        ...

    def log_complete(self, worker_id: str, attempt_id: str) -> None:
        """Hear that the exit is known and both streams are stored; repeated as exits are."""
        ...

    def lost(self, worker_id: str, last_contact: float, reason: str) -> None:
        """Hear that the session ended; `last_contact` is by the link's clock."""
        ...

    def broken(self, worker_id: str, message: str) -> None:
        """Hear that the instance should get no more work."""
        ...


@dataclass(slots=True)
class _Attempt:
    kept: dict[str, int] = field(default_factory=lambda: {"stdout": 0, "stderr": 0})
    exit: AttemptExit | None = None
    told_complete: bool = False


class AttemptFeed:
    """The attempts of one worker; `expect` and `forget` from any thread, the rest from a reader."""

    def __init__(self, worker_id: str, listener: LinkListener, log_offsets: LogOffsets) -> None:
        self._worker_id = worker_id
        self._listener = listener
        self._log_offsets = log_offsets
        self._lock = threading.Lock()
        self._attempts: dict[str, _Attempt] = {}
        self._told_broken = ""

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
        self._told_broken = ""
        self._hear_broken(session.hello.broken)
        for report in session.hello.attempts:
            stdout, stderr = self._log_offsets(report.attempt_id)
            attempt = _Attempt({"stdout": stdout, "stderr": stderr})
            with self._lock:
                self._attempts[report.attempt_id] = attempt
            if report.exit is not None:
                self._hear_exit(report.attempt_id, attempt, report.exit)
            if not attempt.told_complete:
                fields = {"attempt_id": report.attempt_id, "stdout": stdout, "stderr": stderr}
                session.request("tail", fields, ignore_reply)

    def pushed(self, session: Session, message: Push) -> None:
        """Pass a push on; log bytes are acknowledged when the listener has stored them."""
        match message:
            case Heartbeat():
                self._hear_broken(message.broken)
            case Exited():
                attempt = self._known(message.attempt_id)
                if attempt is not None:
                    self._hear_exit(message.attempt_id, attempt, message.exit)
            case LogChunk():
                self._hear_log(session, message)
            case _:
                assert_never(message)

    def _known(self, attempt_id: str) -> _Attempt | None:
        with self._lock:
            return self._attempts.get(attempt_id)

    def _hear_exit(self, attempt_id: str, attempt: _Attempt, attempt_exit: AttemptExit) -> None:
        attempt.exit = attempt_exit
        self._listener.exited(self._worker_id, attempt_id, attempt_exit)
        self._tell_if_complete(attempt_id, attempt)

    def _hear_log(self, session: Session, chunk: LogChunk) -> None:
        end = chunk.offset + len(chunk.data)
        attempt = self._known(chunk.attempt_id)
        if attempt is None:
            # Released, or never ours: acknowledged all the same, or it would fill the window.
            session.acknowledge(chunk.attempt_id, chunk.stream, end)
            return
        kept = attempt.kept[chunk.stream]
        fresh = chunk.data[max(0, kept - chunk.offset) :]
        if fresh:
            self._listener.log(
                self._worker_id,
                chunk.attempt_id,
                chunk.stream,
                max(kept, chunk.offset),
                fresh,
            )
            attempt.kept[chunk.stream] = end
        session.acknowledge(chunk.attempt_id, chunk.stream, attempt.kept[chunk.stream])
        self._tell_if_complete(chunk.attempt_id, attempt)

    def _tell_if_complete(self, attempt_id: str, attempt: _Attempt) -> None:
        ended = attempt.exit
        if ended is None or attempt.told_complete:
            return
        stdout, stderr = attempt.kept["stdout"], attempt.kept["stderr"]
        if stdout >= ended.stdout_bytes and stderr >= ended.stderr_bytes:
            attempt.told_complete = True
            self._listener.log_complete(self._worker_id, attempt_id)

    def _hear_broken(self, message: str) -> None:
        if message and message != self._told_broken:
            self._listener.broken(self._worker_id, message)
        self._told_broken = message


def ignore_reply(_: Reply | RequestFailed) -> None:
    """Do nothing: what comes of the request shows in what the runner pushes."""
