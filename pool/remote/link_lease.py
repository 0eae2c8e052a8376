"""Keeps the runner of one worker told of the dead-man's lease, while there is a session."""

from __future__ import annotations

import threading
import time

import structlog

from longshore.pool.lease import LeaseTerms, renewal_interval_s
from longshore.pool.remote.link_model import LinkSettings
from longshore.pool.remote.session import Session
from longshore.pool.remote.session_requests import RequestFailed
from longshore.pool.remote.ssh_watchdog import WATCHDOG, Alarm
from longshore.pool.remote.wire import Reply

_log = structlog.get_logger(__name__)


class LeaseRenewal:
    """The lease of one worker; every method may be called from any thread, none of them blocks.

    Without a power-off command there is none, and nothing is sent.
    """

    def __init__(self, worker_id: str, settings: LinkSettings) -> None:
        self._worker_id = worker_id
        self._timeout_s = settings.orphan_timeout_s
        self._power_off = settings.power_off_command
        self._interval_s = renewal_interval_s(settings.orphan_timeout_s)
        # Held while a request is queued, too, so that the last one sent says what is so.
        self._lock = threading.Lock()
        self._suspended = False
        self._confirmed = False
        self._session: Session | None = None
        self._alarm: Alarm | None = None

    def terms(self) -> LeaseTerms | None:
        """Return what the hello of the next session says; None for no lease."""
        if not self._power_off:
            return None
        return LeaseTerms(
            orphan_timeout_s=self._timeout_s, power_off=self._power_off, suspended=self._suspended
        )

    def suspend(self, suspended: bool) -> None:
        """Note whether it is suspended, and tell the runner if there is a session."""
        with self._lock:
            self._suspended = suspended
            self._tell()

    def begin(self, session: Session) -> None:
        """Renew it in a session that has just started, until it ends."""
        if not self._power_off:
            return
        with self._lock:
            self._disarm()
            self._session = session
            # At once, since it may have changed after the hello was made.
            self._tell()
            self._alarm = WATCHDOG.arm(time.monotonic() + self._interval_s, self._renew)

    def end(self, session: Session | None) -> None:
        """Renew it no more in a session that has ended; another one is left alone."""
        with self._lock:
            if self._session is session:
                self._session = None
                self._disarm()

    def _renew(self) -> float | None:
        with self._lock:
            if self._session is None or not self._session.alive:
                return None
            self._tell()
        return time.monotonic() + self._interval_s

    def _tell(self) -> None:
        if self._session is not None:
            suspended = self._suspended
            self._session.request(
                "lease", {"suspended": suspended}, lambda reply: self._on_reply(reply, suspended)
            )

    def _on_reply(self, reply: Reply | RequestFailed, suspended: bool) -> None:
        if isinstance(reply, RequestFailed):
            return
        if reply.ok:
            if suspended is not self._confirmed:
                self._confirmed = suspended
                said = "the lease is suspended" if suspended else "the lease is in force again"
                _log.info(said, instance=self._worker_id)
        else:
            _log.warning(
                "the runner refuses the lease; it is told again",
                instance=self._worker_id,
                again_in_s=self._interval_s,
                error=reply.message,
            )

    def _disarm(self) -> None:
        if self._alarm is not None:
            WATCHDOG.disarm(self._alarm)
            self._alarm = None
