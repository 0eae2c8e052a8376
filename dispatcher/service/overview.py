"""What goes on, for who may see how much of it: containers, what waits, instances, holds.

Stands alone: each resource has a service of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longshore.dispatcher.domain.principals import Principal
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.explain.limit_usage import LimitUsage, all_limits
from longshore.dispatcher.explain.overview import Overview, overview
from longshore.dispatcher.service.visibility import seen_projects
from longshore.pool.holds import CreateHold


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """What keeps instances from being created."""

    #: By their end.
    holds: Sequence[CreateHold]
    limits: Sequence[LimitUsage]


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
