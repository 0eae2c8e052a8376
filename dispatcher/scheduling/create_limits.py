"""What the pool lets a pass create, whoever plans it; pure."""

from __future__ import annotations

from dispatcher.planner.limits import Budget, Limits
from pool import launching, stillborn
from pool.core import PoolCore


def create_limits(
    pool: PoolCore, *, instances: int, max_instances: int, budget: Budget | None, now: float
) -> Limits:
    """Return what may be created; `instances` is how many there are, with those on their way."""
    in_flight = launching.types_in_flight(pool)
    unproven = pool.stillborn > 0 and stillborn.unproven(pool)
    creates_left = launching.creates_left(pool)
    return Limits(
        instances=instances,
        max_instances=max_instances,
        creates_left=creates_left,
        tokens_left=pool.cloud_gate.creates_left(now, creates_left),
        hindrance=lambda type_: pool.holds.hindrance(
            type_, in_flight=in_flight, unproven=unproven, now=now
        ),
        trials=lambda type_: pool.holds.trials(type_, now),
        quotas=launching.told_quotas(pool, now),
        budget=budget,
    )
