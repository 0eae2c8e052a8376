"""What the pool lets a pass create, whoever plans it; pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from longshore.dispatcher.scheduler.placement.snapshot import Budget, Limits
from longshore.drivers.interface import InstanceType
from longshore.pool import boot_failures, launching
from longshore.pool.core import PoolCore
from longshore.pool.holds import CreateBlock, InstanceCounts, Scope


def create_limits(
    pool: PoolCore, *, instances: int, max_instances: int, budget: Budget | None, now: float
) -> Limits:
    """Return what may be created; `instances` is how many there are, with those on their way."""
    tally = _tally(pool)
    creates_left = launching.creates_left(pool)
    return Limits(
        instances=instances,
        max_instances=max_instances,
        creates_left=creates_left,
        tokens_left=pool.cloud_gate.creates_left(now, creates_left),
        hindrance=_hindrances(pool, tally, now),
        allowances=lambda type_: pool.holds.allowances(type_, tally=tally, now=now),
        quotas=launching.told_quotas(pool, now),
        budget=budget,
    )


def hindrances(pool: PoolCore, now: float) -> Callable[[InstanceType], CreateBlock | None]:
    """Return what tells what keeps a type from being created now, None for nothing."""
    return _hindrances(pool, _tally(pool), now)


def _hindrances(
    pool: PoolCore, tally: Callable[[Scope], InstanceCounts], now: float
) -> Callable[[InstanceType], CreateBlock | None]:
    in_flight = launching.types_in_flight(pool)
    unproven = pool.stillborn > 0 and boot_failures.unproven(pool)
    return lambda type_: pool.holds.hindrance(
        type_, in_flight=in_flight, unproven=unproven, tally=tally, now=now
    )


def _tally(pool: PoolCore) -> Callable[[Scope], InstanceCounts]:
    """Return what counts the instances of a scope, each scope once."""
    return cache(lambda scope: launching.tally_of(pool, scope))
