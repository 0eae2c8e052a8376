"""Tells a worker's runner what an attempt may use of cpus from now on."""

from __future__ import annotations

import structlog

from longshore.pool.session import Session
from longshore.pool.session_requests import RequestFailed
from longshore.pool.session_wire import Reply

_log = structlog.get_logger(__name__)


def tell_limits(session: Session, worker_id: str, attempt_id: str, *, cpu_millis: int) -> None:
    """Send new limits, behind all that was requested before; never blocks.

    The session ends when they cannot arrive: whoever decides takes them for set until then.
    """

    def on_reply(reply: Reply | RequestFailed) -> None:
        if isinstance(reply, RequestFailed) and not reply.code:
            session.cut()
        elif isinstance(reply, RequestFailed) or not reply.ok:
            _log.warning(
                "the limits of an attempt cannot be changed; it keeps those that it has",
                instance=worker_id,
                attempt=attempt_id,
                cpu_millis=cpu_millis,
                code=reply.code,
                error=reply.message,
            )

    fields = {"attempt_id": attempt_id, "cpu_millis": cpu_millis}
    session.request("update-limits", fields, on_reply)
