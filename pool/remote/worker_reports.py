"""What one worker's session pushes, turned into events and kept log bytes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Protocol

import structlog

from longshore.pool.messages import (
    AttemptExited,
    AttemptImageSeen,
    BrokenReported,
    InterruptionNoticed,
    LogComplete,
    PoolEvent,
    ProbeFailed,
    ProbeSucceeded,
    SessionLost,
)
from longshore.pool.model import AttemptExit, AttemptImage

log = structlog.get_logger(__name__)

Post = Callable[[PoolEvent], None]


class LogSink(Protocol):
    """Where log bytes go; called from many threads at once."""

    def append(self, attempt_id: str, stream: str, offset: int, data: bytes) -> None:
        """Keep bytes of a stream; returns when they are kept.

        Raises OSError when they cannot be kept now, ValueError when they never can.
        """
        ...

    def offsets(self, attempt_id: str) -> tuple[int, int]:
        """Return how many bytes of stdout and of stderr are kept."""
        ...

    def sync(self, attempt_id: str) -> None:
        """Return when what is kept survives a loss of power."""
        ...


class WorkerReports:
    """Turns what one worker's session pushes into events: a `link_attempts.LinkListener`.

    A loss that is noticed while a probe is still to report is held back until it has: the engine
    must hear "ready" before "lost", or it would trust a session that is gone.
    """

    def __init__(self, post: Post, logs: LogSink) -> None:
        self._post = post
        self._logs = logs
        self._lock = threading.Lock()
        self._probing = False
        self._held_back: SessionLost | None = None
        self._allowed: frozenset[str] = frozenset()
        self._probe_failure = ""

    def allow(self, attempt_ids: Iterable[str]) -> None:
        """Keep the logs of these attempts too; an instance has no say about any others."""
        with self._lock:
            self._allowed |= frozenset(attempt_ids)

    def forget(self, attempt_id: str) -> None:
        """Keep no more of an attempt's log: it is complete."""
        with self._lock:
            self._allowed -= {attempt_id}

    def offsets(self, attempt_id: str) -> tuple[int, int]:
        """Return how many bytes of stdout and stderr are kept; (0, 0) for a stranger's."""
        return self._logs.offsets(attempt_id) if attempt_id in self._allowed else (0, 0)

    def probe_begins(self) -> None:
        """Hold losses back until `probe_ends`."""
        with self._lock:
            self._probing = True

    def note_probe(self, worker_id: str, failure: str, *, boot: bool) -> None:
        """Log how a probe went, "" for well, unless it is the same as the one before.

        While an instance boots its probes fail as a rule, which is no reason to warn.
        """
        before, self._probe_failure = self._probe_failure, failure
        if failure and failure != before:
            level = logging.INFO if boot else logging.WARNING
            log.log(level, "a probe failed", instance=worker_id, error=failure)
        elif before and not failure:
            log.info("probes succeed again", instance=worker_id)

    def probe_ends(self, outcome: ProbeSucceeded | ProbeFailed) -> None:
        """Post what came of the probe, then a loss that came meanwhile."""
        with self._lock:
            self._probing = False
            self._post(outcome)
            if self._held_back is not None:
                self._post(self._held_back)
                self._held_back = None

    def exited(self, worker_id: str, attempt_id: str, how: AttemptExit) -> None:
        self._post(AttemptExited(worker_id=worker_id, attempt_id=attempt_id, exit=how))

    def image(self, worker_id: str, attempt_id: str, image: AttemptImage) -> None:
        self._post(AttemptImageSeen(worker_id=worker_id, attempt_id=attempt_id, image=image))

    def log(self, worker_id: str, attempt_id: str, stream: str, offset: int, data: bytes) -> None:
        if attempt_id not in self._allowed:
            return
        try:
            self._logs.append(attempt_id, stream, offset, data)
        except ValueError as error:
            # No honest runner sends this; dropping it costs nobody but the one that does.
            log.warning(
                "log bytes refused", instance=worker_id, attempt=attempt_id, error=str(error)
            )
            self.forget(attempt_id)

    def log_complete(self, worker_id: str, attempt_id: str) -> None:
        if attempt_id not in self._allowed:
            return
        self._logs.sync(attempt_id)
        self._post(LogComplete(worker_id=worker_id, attempt_id=attempt_id))

    def lost(self, worker_id: str, last_contact: float, reason: str) -> None:
        event = SessionLost(worker_id=worker_id, last_contact=last_contact, reason=reason)
        with self._lock:
            if self._probing:
                self._held_back = event
            else:
                self._post(event)

    def interrupted(self, worker_id: str, at: str) -> None:
        self._post(InterruptionNoticed(worker_id=worker_id, at=at))

    def broken(self, worker_id: str, message: str) -> None:
        self._post(BrokenReported(worker_id=worker_id, message=message))
