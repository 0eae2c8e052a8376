"""What the pool lets a pass create, whoever plans it; pure.

Stands alone: the passes over batch and over elastic jobs have nothing else in common.
"""

from __future__ import annotations

from longshore.dispatcher.scheduler.placement.snapshot import Budget, Limits
from longshore.pool.port import PoolPort


def create_limits(
    pool: PoolPort, *, instances: int, max_instances: int, budget: Budget | None, now: float
) -> Limits:
    """Return what may be created; `instances` is how many there are, with those on their way."""
    return Limits(
        instances=instances,
        max_instances=max_instances,
        creates_left=pool.creates_left,
        tokens_left=pool.create_tokens_left(now),
        create_block=pool.create_blocks(now),
        allowances=pool.allowances(now),
        quotas=pool.told_quotas(now),
        budget=budget,
    )
