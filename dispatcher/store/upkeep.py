"""What the store throws away by itself, since nobody needs it any more.

Three things go: idempotency keys of yesterday, tokens that ended long ago, and what the audit log
has beyond what is to be kept. They go a few at a time and in transactions of their own, so that no
request waits for a million of them to go; and without anybody asking, so that what is to be kept
for a year is not kept for longer where nobody changes anything.

Stands alone: it says what goes, of every table; the writer, which asks it, says when.
"""

from __future__ import annotations

from sqlalchemy import Connection

from longshore.dispatcher.config.model import AuditConfig
from longshore.dispatcher.store.access_records import forget_audit, forget_tokens
from longshore.dispatcher.store.idempotency import forget_keys

FORGOTTEN_AT_ONCE = 500
"""How many rows go in one transaction: a few milliseconds of a disk's time."""


def forget_some(connection: Connection, *, now: float, audit: AuditConfig) -> bool:
    """Throw some rows away, `FORGOTTEN_AT_ONCE` at most; return whether there may be more.

    `now` is in seconds since the epoch, and `audit` says what is kept of the audit log.
    """
    left = FORGOTTEN_AT_ONCE
    left -= forget_keys(connection, now=now, at_once=left)
    left -= forget_tokens(connection, now=now, at_once=left)
    left -= forget_audit(connection, before=now - audit.kept_s, entries=audit.entries, at_once=left)
    return left == 0
