"""What goes on, for who may see how much of it: containers, what waits, holds, decisions.

Stands alone: each resource has a service of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longshore.dispatcher.domain.cursors import decode_cursor, encode_cursor, not_our_cursor
from longshore.dispatcher.domain.principals import Principal
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.explain.limit_usage import LimitUsage, all_limits
from longshore.dispatcher.explain.overview import Overview, overview
from longshore.dispatcher.service.visibility import seen_projects
from longshore.dispatcher.state.history import Decision, DecisionKind
from longshore.pool.holds import CreateHold

_DECISIONS = "decisions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """What keeps instances from being created."""

    #: By their end.
    holds: Sequence[CreateHold]
    limits: Sequence[LimitUsage]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionPage:
    """A page of what was decided lately, the newest first."""

    items: Sequence[Decision]
    #: Since when decisions are kept, in seconds since the epoch; None for no time yet.
    since: float | None
    #: None on the last page.
    next_cursor: str | None


class OverviewService:
    """Tells what goes on, from the engine's memory; used on the loop's thread."""

    def __init__(self, *, view: EngineView, now: Callable[[], float]) -> None:
        self._view = view
        self.now = now

    def overview(self, caller: Principal) -> Overview:
        """Return what goes on in the projects that a caller sees, to admins of instances too."""
        return overview(self._view, self.now(), seen_projects(caller))

    def holds(self) -> Holds:
        """Return the holds of creates that last, and all limits with what is used of them."""
        now = self.now()
        holds = sorted(self._view.pool.holds(now), key=lambda each: (each.until, each.reason))
        return Holds(holds=holds, limits=all_limits(self._view, now))

    def decisions(
        self, *, kinds: frozenset[DecisionKind] | None, cursor: str, limit: int
    ) -> DecisionPage:
        """Return a page of decisions of these kinds, None for all, the newest first.

        Raises `InvalidRequest` for a cursor that is not ours.
        """
        before = _number_in(cursor) if cursor else None
        found = self._view.decisions(kinds=kinds, before=before, limit=limit + 1)
        shown = found[:limit]
        more = len(found) > limit
        return DecisionPage(
            items=shown,
            since=self._view.decided_since,
            next_cursor=encode_cursor(_DECISIONS, str(shown[-1].number)) if more else None,
        )


def _number_in(cursor: str) -> int:
    """Return the number that a cursor of decisions stands for; raises `InvalidRequest`."""
    place = decode_cursor(_DECISIONS, cursor)
    if not place.isdecimal():
        raise not_our_cursor()
    return int(place)
