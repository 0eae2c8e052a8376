"""What work asks for against what it really takes, and what asking for less would save; pure.

Runs that ask for the same under one name are counted together. From `ENOUGH_RUNS` of them on their
95th percentile tells what the next needs: `MARGIN` more than that is what we suggest to ask for, if
it is less than what is asked now. Fewer runs suggest nothing, and a number that was measured in too
few of them neither.

Asking for less saves nothing by itself: the instance costs what it costs. So money is told only
where it would let the work go to a cheaper type that can be bought now. Then the saving is that of
the ledger's rule, the share of the instance at its price, over the time that the runs took in all.
A price of 0 is none: with such a type nothing is compared.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final, NamedTuple

from longshore.dispatcher.domain.containers import ContainerSpec, Placement
from longshore.dispatcher.domain.efficiency import MeasuredRun
from longshore.dispatcher.domain.feasibility import (
    cheapest_with_room,
    fitting_types,
    has_room,
    need,
    within_price,
)
from longshore.dispatcher.state.spend_limits import share_of
from longshore.drivers.interface import InstanceType, Resources

ENOUGH_RUNS: Final = 20
MARGIN: Final = 1.2
_PERCENTILE: Final = 0.95
_CPU_STEP_MILLIS: Final = 100
_MEMORY_STEP_BYTES: Final = 2**20
_HOUR_S: Final = 3600


class WorkKey(NamedTuple):
    """What is counted together: whose it is, its name, and what it asks for."""

    user: str
    project: str
    name: str
    task: str
    asked: Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What would have been saved with a cheaper type, over the runs that were counted."""

    usd: Decimal
    #: The type that is the cheapest for what is asked now, and the one for what is suggested.
    now: str
    instead: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """How well one kind of work asks for what it takes."""

    key: WorkKey
    runs: int
    #: How many more runs it takes until anything is suggested, 0 where there are enough.
    runs_missing: int
    #: None where it was not measured.
    peak_memory_p95_bytes: int | None
    cpus_p95: float | None
    #: What to ask for; None for what is asked now.
    suggested_memory_bytes: int | None
    suggested_cpu_millis: int | None
    #: None where asking for less would save no money now.
    saving: Saving | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """What can be bought now, and how what is bought is shared."""

    types: tuple[InstanceType, ...]
    #: Each of them as batch work finds a new instance of it, by its name.
    as_new: Mapping[str, InstanceType]
    placement: Placement


def efficiency_of(runs: Sequence[MeasuredRun], market: Market) -> list[Efficiency]:
    """Return how well each kind of work asks, what saves most first; `runs` are newest first."""
    kinds: dict[WorkKey, list[MeasuredRun]] = {}
    for run in runs:
        key = WorkKey(run.user, run.project, run.name, run.task, run.given)
        kinds.setdefault(key, []).append(run)
    found = [_efficiency(key, of_kind, market) for key, of_kind in kinds.items()]
    return sorted(found, key=_order)


def _order(found: Efficiency) -> tuple[Decimal, int, str, str, str, str, str]:
    key, saved = found.key, found.saving.usd if found.saving else Decimal(0)
    return (-saved, -found.runs, key.user, key.project, key.name, key.task, repr(key.asked))


def _efficiency(key: WorkKey, runs: Sequence[MeasuredRun], market: Market) -> Efficiency:
    peaks = [r.usage.peak_memory_bytes for r in runs if r.usage.peak_memory_bytes is not None]
    cpus = [
        r.usage.cpu_seconds / r.ran_s
        for r in runs
        if r.usage.cpu_seconds is not None and r.ran_s > 0
    ]
    memory_bytes = _less(peaks, key.asked.memory_bytes, _MEMORY_STEP_BYTES)
    cpu_millis = _less([each * 1000 for each in cpus], key.asked.cpu_millis, _CPU_STEP_MILLIS)
    hours = Decimal(str(sum(run.ran_s for run in runs))) / _HOUR_S
    return Efficiency(
        key=key,
        runs=len(runs),
        runs_missing=max(0, ENOUGH_RUNS - max(len(peaks), len(cpus))),
        peak_memory_p95_bytes=None if not peaks else int(percentile(peaks)),
        cpus_p95=None if not cpus else percentile(cpus),
        suggested_memory_bytes=memory_bytes,
        suggested_cpu_millis=cpu_millis,
        saving=_saving(runs[0].spec, cpu_millis, memory_bytes, hours, market),
    )


def dearest_usd_per_hour_of(
    spec: ContainerSpec, market: Market, *, there: Collection[str], max_price_factor: float
) -> Decimal | None:
    """Return what an hour of a container costs on the dearest type that it may go to as things are.

    Those are the types that may be bought for it, by price or since they are prepaid, and, whatever
    they cost, those of instances that are `there`, by name. 0 where one of them has no price, None
    where there is none.
    """
    wanted, unnamed = spec.resources, spec.unnamed
    fitting = fitting_types(market.types, wanted, spec.constraints, unnamed)
    bought = within_price(
        [t for t in fitting if has_room(market.as_new[t.name], need(t, wanted, unnamed))],
        wanted,
        unnamed,
        max_price_factor=max_price_factor,
        as_new=lambda type_: market.as_new[type_.name],
    )
    reached = {type_.name for type_ in bought} | set(there)
    costs = [
        _usd_per_hour(type_, need(type_, wanted, unnamed), market)
        for type_ in fitting
        if type_.name in reached
    ]
    return None if not costs else max(costs) if min(costs) > 0 else Decimal(0)


def percentile(values: Sequence[float]) -> float:
    """Return the 95th percentile: the least of the values that so many of them do not exceed."""
    return sorted(values)[math.ceil(_PERCENTILE * len(values)) - 1]


def _less(used: Sequence[float], asked: int, step: int) -> int | None:
    """Return what to ask for in place of `asked`, in whole steps; None where it is no less."""
    if len(used) < ENOUGH_RUNS:
        return None
    enough = max(step, math.ceil(percentile(used) * MARGIN / step) * step)
    return enough if enough < asked else None


def _saving(
    spec: ContainerSpec,
    cpu_millis: int | None,
    memory_bytes: int | None,
    hours: Decimal,
    market: Market,
) -> Saving | None:
    if cpu_millis is None and memory_bytes is None:
        return None
    less, named = spec.resources, set[str]()
    if cpu_millis is not None:
        less, named = replace(less, cpu_millis=cpu_millis), {*named, "cpus"}
    if memory_bytes is not None:
        less, named = replace(less, memory_bytes=memory_bytes), {*named, "memory"}
    unnamed = tuple(each for each in spec.unnamed if each not in named)
    now = _cheapest(spec, spec.resources, spec.unnamed, market)
    instead = _cheapest(spec, less, unnamed, market)
    if now is None or instead is None:
        return None
    if not 0 < instead.price_usd_per_hour < now.price_usd_per_hour:
        return None
    before = _usd_per_hour(now, need(now, spec.resources, spec.unnamed), market)
    after = _usd_per_hour(instead, need(instead, less, unnamed), market)
    if after >= before:
        return None
    return Saving(usd=(before - after) * hours, now=now.name, instead=instead.name)


def _cheapest(
    spec: ContainerSpec, wanted: Resources, unnamed: tuple[str, ...], market: Market
) -> InstanceType | None:
    fitting = fitting_types(market.types, wanted, spec.constraints, unnamed)
    return cheapest_with_room(
        fitting, wanted, unnamed, as_new=lambda type_: market.as_new[type_.name]
    )


def _usd_per_hour(type_: InstanceType, wanted: Resources, market: Market) -> Decimal:
    return type_.price_usd_per_hour * share_of(wanted, type_, market.placement)
