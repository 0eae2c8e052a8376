"""The price rule, reckoned apart from the planner: what is bought and used is not too dear."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from decimal import Decimal

from longshore.dispatcher.domain.feasibility import need, rejections
from longshore.dispatcher.engine.engine import Engine
from longshore.dispatcher.state.queue import ClassKey
from longshore.drivers.interface import InstanceType
from longshore.pool.charging import charge


def is_within_price(
    engine: Engine, key: ClassKey, type_: InstanceType, scarce: Collection[str]
) -> bool:
    """Return whether containers of a class may run on a type, by the daemons of the latest pass.

    `scarce` are the preemptible types that could not be had for long: where a class would get
    nothing else that is preemptible, it counts from the cheapest of the others.
    """
    fitting = [
        each
        for each in engine.types.values()
        if not rejections(each, key.resources, key.constraints, key.unnamed)
    ]
    lasting = [each for each in fitting if not each.preemptible]
    if key.lasting and lasting:
        return type_ in lasting and _is_cheap(engine, key, type_, lasting)
    others = instead_of(engine, key, scarce)
    return type_.name in others or _is_cheap(engine, key, type_, fitting)


def instead_of(engine: Engine, key: ClassKey, scarce: Collection[str]) -> set[str]:
    """Return the types, by name, that a class may run on since all that it hopes for is scarce."""
    fitting = [
        each
        for each in engine.types.values()
        if not rejections(each, key.resources, key.constraints, key.unnamed)
    ]
    lasting = [each for each in fitting if not each.preemptible]
    cheap = [each for each in fitting if _is_cheap(engine, key, each, fitting)]
    expected_launches = [
        each.name for each in cheap if each.preemptible and may_hold(engine, key, each)
    ]
    if not expected_launches or any(name not in scarce for name in expected_launches):
        return set()
    return {each.name for each in lasting if _is_cheap(engine, key, each, lasting)}


def _is_cheap(
    engine: Engine, key: ClassKey, type_: InstanceType, among: Sequence[InstanceType]
) -> bool:
    having = [each for each in among if may_hold(engine, key, each)] or among
    prices = [_price(engine, each) for each in having]
    if not prices:
        return False
    limit = min(prices) * Decimal(str(engine.settings.max_price_factor))
    return _price(engine, type_) <= limit


def _price(engine: Engine, type_: InstanceType) -> Decimal:
    return type_.price_usd_per_hour * (1 + engine.scheduling.allocatable_left(type_).waste)


def may_be_bought(
    engine: Engine, key: ClassKey, type_: InstanceType, scarce: Collection[str]
) -> bool:
    """Return whether an instance of a type may be created for containers of a class."""
    return is_within_price(engine, key, type_, scarce) and may_hold(engine, key, type_)


def may_hold(engine: Engine, key: ClassKey, type_: InstanceType) -> bool:
    """Return whether a new instance of a type has room for one container of a class."""
    left = engine.scheduling.allocatable_left(type_).allocatable
    return charge(need(type_, key.resources, key.unnamed), on_shared_cpu=0).fits_in(left)
