"""What goes on, for who may see how much of it: containers, what waits, instances, holds.

Stands alone: each resource has a service of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from longshore.dispatcher.domain.principals import Principal
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.explain.overview import Overview, overview
from longshore.dispatcher.service.visibility import seen_projects


class OverviewService:
    """Tells what goes on, from the engine's memory; used on the loop's thread."""

    def __init__(self, *, view: EngineView, now: Callable[[], float]) -> None:
        self._view = view
        self.now = now

    def overview(self, caller: Principal) -> Overview:
        """Return what goes on in the projects that a caller sees, to admins of instances too."""
        return overview(self._view, self.now(), seen_projects(caller))
