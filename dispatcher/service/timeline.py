"""What was there when: instances over time, with what ran on them, as admins ask for it.

Stands alone: each resource has a service of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from longshore.dispatcher.domain.ledger import ms_of
from longshore.dispatcher.domain.timeline import INSTANCES_MOST, TimelinePage, TimelineWindow
from longshore.dispatcher.service.contracts import Unavailable
from longshore.dispatcher.store.errors import StoreBusy
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import InvalidRequest

WINDOW_MAX_S = 7 * 86_400.0
"""How long the time may be that is asked for."""
WINDOW_DEFAULT_S = 3600.0
"""How long it is where nobody says when it begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A page, and the time that it is about."""

    window: TimelineWindow
    page: TimelinePage


class TimelineService:
    """Tells what was there when; used on the loop's thread."""

    def __init__(self, *, store: Store, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now

    async def timeline(
        self,
        *,
        since: float | None,
        until: float | None,
        instance_id: str,
        cursor: str,
        limit: int,
    ) -> Timeline:
        """Return a page of the instances that were there from `since` to before `until`.

        Both are in seconds since the epoch; None is an hour before the end, and now. `instance_id`
        is the one that is asked for, "" for all. Raises `InvalidRequest` for a window that there is
        not, or is too long, and for a cursor that is not ours; `Unavailable` when the store cannot
        be read now.
        """
        end = self._now() if until is None else until
        begin = end - WINDOW_DEFAULT_S if since is None else since
        if begin >= end:
            raise InvalidRequest(
                [("from", "must be before `to`, which is now where it is left out")]
            )
        if end - begin > WINDOW_MAX_S:
            days = int(WINDOW_MAX_S // 86_400)
            raise InvalidRequest(
                [("to", f"is over {days} days after `from`: ask for a part of it")]
            )
        window = TimelineWindow(
            from_ms=max(0, ms_of(begin)), until_ms=max(0, ms_of(end)), instance_id=instance_id
        )
        try:
            page = await asyncio.to_thread(
                self._store.ledger.timeline,
                window,
                cursor=cursor,
                limit=min(limit, INSTANCES_MOST),
            )
        except StoreBusy as error:
            raise Unavailable(str(error)) from error
        return Timeline(window=window, page=page)
