"""Configured instance types: as drivers and planner know them, and what makes no sense in one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from longshore.dispatcher.config.model import (
    Config,
    CostConfig,
    GpusConfig,
    MarketName,
    TypeConfig,
)
from longshore.dispatcher.cost.prices import AS_TOLD, PriceTerms
from longshore.dispatcher.input.problems import Problems, did_you_mean, element
from longshore.dispatcher.input.quantities import memory_problem
from longshore.drivers.interface import DIMENSIONS, InstanceType, Resources

_MODEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?")


def terms_of(name: str, each: TypeConfig, cost: CostConfig) -> PriceTerms:
    """Return what a price that is told of a type becomes: by its factor, with what is beside it."""
    market = MarketName.SPOT if each.preemptible else MarketName.ON_DEMAND
    factors = (
        Decimal(str(entry.factor))
        for entry in cost.factor
        if entry.type in ("", name) and entry.market in (None, market)
    )
    beside = each.price_components
    return PriceTerms(
        factor=next(factors, Decimal(1)),
        beside_usd_per_hour=Decimal(beside.root_disk + beside.scratch + beside.public_ipv4),
    )


def check_factors(config: Config, problems: Problems) -> None:
    """Add the factors that are for no configured type, or never count, to `problems`."""
    seen: set[tuple[str, MarketName | None]] = set()
    for index, entry in enumerate(config.cost.factor):
        place = element("cost.factor", index)
        if entry.type and entry.type not in config.instance_types:
            known = did_you_mean(entry.type, sorted(config.instance_types))
            problems.add(f"{place}.type", f"names no type of instance_types: {known}")
        whole = (("", None), ("", entry.market), (entry.type, None), (entry.type, entry.market))
        if seen.intersection(whole):
            problems.add(place, "never counts, since an earlier one is for the same: remove one")
        seen.add((entry.type, entry.market))


def as_instance_type(name: str, each: TypeConfig, terms: PriceTerms = AS_TOLD) -> InstanceType:
    """Return a configured type as drivers and planner know it; its price is by `terms`."""
    gpus = _gpus(each)
    return InstanceType(
        name=name,
        provider_type=each.provider_type or name,
        resources=Resources(
            cpu_millis=int(each.cpus),
            memory_bytes=int(each.memory),
            disk_bytes=int(each.disk),
            gpus=gpus.count,
            custom=tuple(sorted(each.resources.items())),
        ),
        reserve=Resources(
            cpu_millis=int(each.reserve.cpus),
            memory_bytes=int(each.reserve.memory),
            disk_bytes=int(each.reserve.disk),
            gpus=each.reserve.gpus,
            custom=tuple(sorted(each.reserve.resources.items())),
        ),
        price_usd_per_hour=terms.whole(Decimal(each.price_per_hour)),
        preemptible=each.preemptible,
        prepaid=each.prepaid,
        reservation=each.reservation,
        labels=tuple(sorted(each.labels.items())),
        gpu_model=gpus.model,
        gpu_memory_bytes=int(gpus.memory),
        defaults=tuple(sorted(_defaults(each))),
    )


def check_type(path: str, each: TypeConfig, problems: Problems) -> None:
    """Add what makes no sense in the type at `path` to `problems`."""
    for dimension, amount in (("cpus", each.cpus), ("memory", each.memory)):
        if not amount:
            problems.add(f"{path}.{dimension}", "must be more than 0: nothing could ever run there")
    if wrong := memory_problem(each.memory):
        problems.add(f"{path}.memory", wrong)
    type_ = as_instance_type(path, each)
    _check_names(path, each, problems)
    _check_prepaid(path, each, problems)
    _check_gpus(path, each, problems)
    _check_reserve(path, type_, problems)
    _check_defaults(path, type_, problems)


def _gpus(each: TypeConfig) -> GpusConfig:
    return each.gpus if isinstance(each.gpus, GpusConfig) else GpusConfig(count=each.gpus)


def _defaults(each: TypeConfig) -> Iterator[tuple[str, int]]:
    wanted = each.defaults
    amounts = (wanted.cpus, wanted.memory, wanted.disk, wanted.gpus)
    for dimension, amount in zip(DIMENSIONS, amounts, strict=True):
        if amount is not None:
            yield dimension, int(amount)
    yield from wanted.resources.items()


def _check_names(path: str, each: TypeConfig, problems: Problems) -> None:
    for part, amounts in (
        ("resources", each.resources),
        ("reserve", each.reserve.resources),
        ("defaults.resources", each.defaults.resources),
    ):
        for dimension in amounts:
            if dimension in DIMENSIONS:
                problems.add(
                    f"{path}.{part}.{dimension}", "has an option of its own: use that instead"
                )


def _check_prepaid(path: str, each: TypeConfig, problems: Problems) -> None:
    given = (("prepaid", bool(each.prepaid)), ("reservation", bool(each.reservation)))
    for option, is_given in given:
        if each.preemptible and is_given:
            problems.add(
                f"{path}.{option}",
                "is for what the cloud does not take back, and the type is preemptible: leave it"
                " out, or make it a type of its own",
            )


def _check_gpus(path: str, each: TypeConfig, problems: Problems) -> None:
    gpus = _gpus(each)
    if gpus.model and not _MODEL.fullmatch(gpus.model):
        problems.add(
            f"{path}.gpus.model",
            "is not a name: use 1 to 63 letters, digits, dots, dashes, underscores or slashes",
        )
    if not gpus.count and (gpus.model or gpus.memory):
        problems.add(f"{path}.gpus.count", "is 0, but a model or memory is named: count them")


def _check_reserve(path: str, type_: InstanceType, problems: Problems) -> None:
    whole, room = type_.resources, type_.allocatable
    left = (
        ("cpus", whole.cpu_millis, room.cpu_millis),
        ("memory", whole.memory_bytes, room.memory_bytes),
        ("disk", whole.disk_bytes, room.disk_bytes),
        ("gpus", whole.gpus, room.gpus),
    )
    for dimension, amount, free in left:
        if free < 0 or (free == 0 and amount and dimension in ("cpus", "memory")):
            problems.add(
                f"{path}.reserve.{dimension}",
                "leaves nothing of the instance for containers: reserve less",
            )
    for dimension, free in room.custom:
        if free < 0:
            problems.add(f"{path}.reserve.resources.{dimension}", "is more than the instance has")


def _check_defaults(path: str, type_: InstanceType, problems: Problems) -> None:
    """Refuse defaults with which nothing could run there that does not name the resource."""
    for dimension in Resources().having(type_.defaults).shortages(type_.allocatable):
        place = dimension if dimension in DIMENSIONS else f"resources.{dimension}"
        problems.add(
            f"{path}.defaults.{place}",
            "is more than such an instance has for containers: give them less",
        )
