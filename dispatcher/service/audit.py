"""The audit log: each request that is to change something, written before it does.

The entry is queued before the request is carried out, in front of whatever that commits: changes
are committed in the order of their queueing, so nothing in the store is changed of which nothing
is written down. Neither this nor what came of it is a commit of its own, which others would wait
for: an entry without a status is one whose server ended in between.

Before it is told that something was done, the entry is on the disk. Mostly it is by then, since it
went there with what was done; only of what changed nothing in the store (what was so already, or
is so in memory alone) somebody has to see to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
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
"""How long who reads waits until all of it is written, and who is told that something is done."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOutcome:
    """What came of a request."""

    status: int
    #: In a few words what was asked for, "" where the action says it all.
    detail: str = ""
    #: The id of what it made, "" for nothing.
    made: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedRequest:
    """A request of which there is an entry."""

    entry: AuditEntry
    #: Done once the entry is committed, or never will be.
    written: Future[None]


class AuditService:
    """Writes and reads the audit log; used on the loop's thread.

    `last` is the highest number that an entry has, 0 without any.
    """

    def __init__(self, *, store: Store, last: int, now: Callable[[], float]) -> None:
        self._store = store
        self._last = last
        self._now = now

    def begin(self, caller: Principal, *, address: str, action: str) -> NotedRequest:
        """Queue an entry of what a caller is about to do; return it for `confirm` and `finish`.

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
            written = self._store.write_behind([SaveAudit(entry=entry)])
        except (StoreBusy, StoreClosed) as error:
            raise Unavailable(str(error)) from error
        return NotedRequest(entry=entry, written=written)

    async def confirm(self, noted: NotedRequest) -> None:
        """Return once the entry is committed, so that its request may be told to be done.

        Raises `Unavailable` when it is not in time: it was done all the same.
        """
        if not noted.written.done():
            await self._store.committed(within_s=WRITTEN_WITHIN_S)
        if not noted.written.done() or noted.written.exception() is not None:
            why = self._store.problem or "the store takes too long"
            raise Unavailable(f"{why}: this is done, but it is not in the audit log yet; ask again")

    def finish(self, noted: NotedRequest, outcome: AuditOutcome) -> None:
        """Queue what came of it; one that cannot be queued stays without."""
        told = replace(
            noted.entry,
            status=outcome.status,
            detail=outcome.detail[:DETAIL_CHARACTERS],
            made=outcome.made,
        )
        try:
            self._store.write_behind([SaveAudit(entry=told)])
        except (StoreBusy, StoreClosed) as error:
            _log.warning("audit_without_status", entry=noted.entry.sequence, why=str(error))

    async def entries(self, which: AuditFilter, *, cursor: str, limit: int) -> AuditPage:
        """Return a page, newest first; raises `InvalidRequest` for a cursor that is not ours.

        It has all that was noted before, unless the store cannot be written at present.
        """
        await self._store.committed(within_s=WRITTEN_WITHIN_S)
        try:
            return await asyncio.to_thread(self._store.audit, which, cursor=cursor, limit=limit)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error
