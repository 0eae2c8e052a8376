"""What runs now, and what it costs while it does: what budgets count as committed.

That is what the ledger books it for as long as nobody comes or leaves: an attempt's share of its
instance, divided by the sum of the shares there where that exceeds 1.

Stands alone: it asks the engine on the loop's thread, what follows is reckoned in another.
"""

from __future__ import annotations

from collections import Counter

from longshore.dispatcher.cost.budget_use import RunningWork
from longshore.dispatcher.cost.money import nusd_of
from longshore.dispatcher.domain.containers import Container, resources_of
from longshore.dispatcher.domain.ledger import Account
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.state.attempt_spend import part_usd_per_hour, share_units
from longshore.dispatcher.state.spend_limits import placement_of


def running_work(view: EngineView, now: float) -> tuple[RunningWork, ...]:
    """Return the open attempts, by the id of their containers; `now` is since the epoch."""
    open_ = [each for _, each in sorted(view.containers.items()) if each.has_open_attempt]
    taken = [_share(view, each) for each in open_]
    shares: Counter[str] = Counter()
    for container, share in zip(open_, taken, strict=True):
        shares[container.attempts[-1].instance_id] += share
    return tuple(
        _work(container, share, shares[container.attempts[-1].instance_id], now)
        for container, share in zip(open_, taken, strict=True)
    )


def _share(view: EngineView, container: Container) -> int:
    attempt = container.attempts[-1]
    type_ = view.types().get(attempt.instance_type)
    placement = placement_of(container, view.rules.placement)
    return share_units(resources_of(container, attempt), type_, placement)


def _work(container: Container, share: int, shares: int, now: float) -> RunningWork:
    attempt = container.attempts[-1]
    return RunningWork(
        account=Account(
            project=container.project, user=container.user, labels=container.spec.labels
        ),
        nusd_per_hour=nusd_of(part_usd_per_hour(attempt.price_usd_per_hour, share, shares)),
        ran_s=max(0.0, now - attempt.created_at),
        limit_s=container.spec.time_limit_s,
    )
