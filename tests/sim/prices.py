"""The price rule, reckoned apart from the planner: what is bought and used is not too dear."""

from __future__ import annotations

from decimal import Decimal

from dispatcher.engine import Engine
from dispatcher.planner.fit import need, rejections
from dispatcher.queueing.queue import ClassKey
from drivers.interface import InstanceType
from pool.room import charge


def is_within_price(engine: Engine, key: ClassKey, type_: InstanceType) -> bool:
    """Return whether containers of a class may run on a type, by the daemons of the latest pass."""
    fitting = [
        each
        for each in engine.types.values()
        if not rejections(each, key.resources, key.constraints, key.unnamed)
    ]
    prices = [each.price_usd_per_hour for each in fitting if _has_room(engine, key, each)]
    prices = prices or [each.price_usd_per_hour for each in fitting]
    if not prices:
        return False
    limit = min(prices) * Decimal(str(engine.settings.max_price_factor))
    return type_.price_usd_per_hour <= limit


def may_be_bought(engine: Engine, key: ClassKey, type_: InstanceType) -> bool:
    """Return whether an instance of a type may be created for containers of a class."""
    return is_within_price(engine, key, type_) and _has_room(engine, key, type_)


def _has_room(engine: Engine, key: ClassKey, type_: InstanceType) -> bool:
    left = engine.placing.left_of(type_).allocatable
    return charge(need(type_, key.resources, key.unnamed), sharers=0).fits_in(left)
