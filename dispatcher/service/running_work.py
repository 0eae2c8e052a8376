"""What runs now, and what it costs while it does: what budgets count as committed.

Stands alone: it asks the engine on the loop's thread, what follows is reckoned in another.
"""

from __future__ import annotations

from decimal import Decimal

from longshore.dispatcher.cost.budget_use import RunningWork
from longshore.dispatcher.cost.money import nusd_of
from longshore.dispatcher.domain.containers import Container, resources_of
from longshore.dispatcher.domain.ledger import Account
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.state.spend_limits import placement_of, share_of


def running_work(view: EngineView, now: float) -> tuple[RunningWork, ...]:
    """Return the open attempts, by the id of their containers; `now` is since the epoch."""
    open_ = (each for _, each in sorted(view.containers.items()) if each.has_open_attempt)
    return tuple(_work(view, each, now) for each in open_)


def _work(view: EngineView, container: Container, now: float) -> RunningWork:
    attempt = container.attempts[-1]
    type_ = view.types().get(attempt.instance_type)
    given = resources_of(container, attempt)
    placement = placement_of(container, view.rules.placement)
    share = Decimal(1) if type_ is None else share_of(given, type_, placement)
    return RunningWork(
        account=Account(
            project=container.project, user=container.user, labels=container.spec.labels
        ),
        nusd_per_hour=nusd_of(attempt.price_usd_per_hour * share),
        ran_s=max(0.0, now - attempt.created_at),
        limit_s=container.spec.time_limit_s,
    )
