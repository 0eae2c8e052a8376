"""What the pool lets a pass create, whoever plans it; pure.

Stands alone: the passes over batch and over elastic jobs have nothing else in common.
"""

from __future__ import annotations

from longshore.dispatcher.domain.containers import SchedulerSettings
from longshore.dispatcher.scheduler.placement.snapshot import Budget, Limits
from longshore.pool.port import PoolPort


def create_limits(
    pool: PoolPort,
    settings: SchedulerSettings,
    *,
    instances: int,
    budget: Budget | None,
    now: float,
) -> Limits:
    """Return what may be created; `instances` is how many there are, with those on their way."""
    return Limits(
        instances=instances,
        max_instances=settings.max_instances,
        prepaid_left=_prepaid_left(pool),
        max_price_factor=settings.max_price_factor,
        creates_left=pool.creates_left,
        tokens_left=pool.create_tokens_left(now),
        create_block=pool.create_blocks(now),
        allowances=pool.allowances(now),
        quotas=pool.told_quotas(now),
        budget=budget,
    )


def _prepaid_left(pool: PoolPort) -> dict[str, int]:
    """Return how many more of each type are paid for already: all that there are take one each."""
    prepaid = {type_.name: type_.prepaid for type_ in pool.types.values() if type_.prepaid}
    numbers = pool.numbers_by_type() if prepaid else {}
    left = {name: number - numbers.get(name, 0) for name, number in prepaid.items()}
    return {name: number for name, number in left.items() if number > 0}
