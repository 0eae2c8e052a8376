"""The audit log: each request that is to change something, written before it does.

The entry is queued before the request is carried out, in front of whatever that commits: changes
are committed in the order of their queueing, so nothing in the store is changed of which nothing
is written down. Neither this nor what came of it is a commit of its own, which others would wait
for: an entry without a status is one whose server ended in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from longshore.dispatcher.domain.audit import AuditEntry, AuditFilter, AuditPage
from longshore.dispatcher.domain.messages import SaveAudit
from longshore.dispatcher.domain.principals import Principal
from longshore.dispatcher.service.contracts import Unavailable
from longshore.dispatcher.store.errors import StoreBusy, StoreClosed
from longshore.dispatcher.store.store import Store

DETAIL_CHARACTERS = 500
WRITTEN_WITHIN_S = 5.0
"""How long who reads waits until all of it is written."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOutcome:
    """What came of a request."""

    status: int
    #: In a few words what was asked for, "" where the action says it all.
    detail: str = ""
    #: The id of what it made, "" for nothing.
    made: str = ""


class AuditService:
    """Writes and reads the audit log; used on the loop's thread.

    `last` is the highest number that an entry has, 0 without any.
    """

    def __init__(self, *, store: Store, last: int, now: Callable[[], float]) -> None:
        self._store = store
        self._last = last
        self._now = now

    def begin(self, caller: Principal, *, address: str, action: str) -> AuditEntry:
        """Queue an entry of what a caller is about to do; return it for `finish`.

        Raises `Unavailable` when nothing can be written: then nothing may be done.
        """
        self._last += 1
        entry = AuditEntry(
            sequence=self._last,
            at=self._now(),
            user=caller.user,
            role=caller.role.value,
            door=caller.door.value,
            token_id=caller.token_id,
            address=address,
            action=action,
        )
        try:
            self._store.write_behind([SaveAudit(entry=entry)])
        except (StoreBusy, StoreClosed) as error:
            raise Unavailable(str(error)) from error
        return entry

    def finish(self, entry: AuditEntry, outcome: AuditOutcome) -> None:
        """Queue what came of it; one that cannot be queued stays without."""
        told = replace(
            entry,
            status=outcome.status,
            detail=outcome.detail[:DETAIL_CHARACTERS],
            made=outcome.made,
        )
        try:
            self._store.write_behind([SaveAudit(entry=told)])
        except (StoreBusy, StoreClosed) as error:
            _log.warning("audit_without_status", entry=entry.sequence, why=str(error))

    async def entries(self, which: AuditFilter, *, cursor: str, limit: int) -> AuditPage:
        """Return a page, newest first; raises `InvalidRequest` for a cursor that is not ours.

        It has all that was noted before, unless the store cannot be written at present.
        """
        await self._store.committed(within_s=WRITTEN_WITHIN_S)
        try:
            return await asyncio.to_thread(self._store.audit, which, cursor=cursor, limit=limit)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error
