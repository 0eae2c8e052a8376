"""Which ended runs were the dearest, and how long runs waited: whose a caller is told of.

Stands alone: each question about cost has a service of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from longshore.dispatcher.domain.ended_runs import (
    EndedRun,
    EndedRunFilter,
    TypeWait,
    dearest,
    waits_by_type,
)
from longshore.dispatcher.domain.principals import Principal, Role
from longshore.dispatcher.service.contracts import Unavailable
from longshore.dispatcher.service.visibility import seen_projects
from longshore.dispatcher.store.errors import StoreBusy
from longshore.dispatcher.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What was dear in a time, and how long was waited."""

    which: EndedRunFilter
    dearest: tuple[EndedRun, ...]
    waits: tuple[TypeWait, ...]
    #: How many ended in the time, of those that were looked at, and whether all were.
    ended: int
    complete: bool
    as_of: float


class EndedRunService:
    """Tells of what has ended; used on the loop's thread."""

    def __init__(self, *, store: Store, now: Callable[[], float]) -> None:
        self._store, self.now = store, now

    async def report(self, which: EndedRunFilter, *, caller: Principal) -> RunReport:
        """Return what a caller is told of what ended in a time.

        That is a user's own, that of a lead's projects, and everything for an admin. Raises
        `Unavailable` when the store cannot be read now.
        """
        which = replace(which, projects=seen_projects(caller))
        if caller.role is Role.USER:
            if which.user not in ("", caller.user):
                which = replace(which, projects=())
            which = replace(which, user=caller.user)
        as_of = self.now()

        def found() -> RunReport:
            ended = self._store.ledger.ended_runs(which)
            return RunReport(
                which=which,
                dearest=tuple(dearest(ended.runs)),
                waits=tuple(waits_by_type(ended.runs)),
                ended=len(ended.runs),
                complete=ended.complete,
                as_of=as_of,
            )

        try:
            return await asyncio.to_thread(found)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error
