"""How well work asks for what it takes: whose runs a caller is told of, and what can be bought now.

Stands alone: each resource has a service of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from longshore.dispatcher.domain.efficiency import EfficiencyFilter
from longshore.dispatcher.domain.principals import Principal, Role
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.explain.efficiency import Efficiency, Market, efficiency_of
from longshore.dispatcher.service.contracts import Unavailable
from longshore.dispatcher.service.visibility import seen_projects
from longshore.dispatcher.store.errors import StoreBusy
from longshore.dispatcher.store.store import Store

MOST_KINDS = 1000
"""How many kinds of work are told, those that save most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EfficiencyReport:
    """Kinds of work, what saves most first."""

    items: tuple[Efficiency, ...]
    #: Whether nothing was left out: no older runs, and no kinds of work.
    complete: bool


class EfficiencyService:
    """Tells how well work asks; used on the loop's thread."""

    def __init__(self, *, view: EngineView, store: Store, now: Callable[[], float]) -> None:
        self._view = view
        self._store = store
        self._now = now

    async def report(self, which: EfficiencyFilter, *, caller: Principal) -> EfficiencyReport:
        """Return how well the work asks that a caller is told of.

        That is a user's own, that of a lead's projects, and everything for an admin. Raises
        `Unavailable` when the store cannot be read now.
        """
        which = replace(which, projects=seen_projects(caller))
        if caller.role is Role.USER:
            if which.user not in ("", caller.user):
                return EfficiencyReport(items=(), complete=True)
            which = replace(which, user=caller.user)
        market = self._market()

        def found() -> EfficiencyReport:
            measured = self._store.measured_runs(which)
            kinds = efficiency_of(measured.runs, market)
            return EfficiencyReport(
                items=tuple(kinds[:MOST_KINDS]),
                complete=measured.complete and len(kinds) <= MOST_KINDS,
            )

        try:
            return await asyncio.to_thread(found)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error

    def _market(self) -> Market:
        view, blocked = self._view, self._view.pool.create_blocks(self._now())
        types = [type_ for _, type_ in sorted(view.types().items()) if blocked(type_) is None]
        return Market(
            types=tuple(types),
            as_new={type_.name: view.allocatable_left(type_) for type_ in types},
            placement=view.rules.placement,
        )
