"""Instances with what holds resources there, for tests of preemption."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from longshore.dispatcher.scheduler.placement.fleet import SlotKind, empty_slot
from longshore.dispatcher.scheduler.placement.preemption import (
    Eviction,
    NodeUsage,
    NoEviction,
    RunningAttempt,
)
from longshore.drivers.interface import InstanceType, Resources


def amounts(cpus: int = 0, memory: int = 0, disk: int = 0, gpus: int = 0, **more: int) -> Resources:
    """Return resources; cpus in thousandths, `more` are custom ones."""
    return Resources(
        cpu_millis=cpus,
        memory_bytes=memory,
        disk_bytes=disk,
        gpus=gpus,
        custom=tuple(sorted(more.items())),
    )


def running(
    name: str,
    priority: int,
    resources: Resources,
    *,
    began_at: float | None = 0.0,
    ending: bool = False,
    protected: bool = False,
) -> RunningAttempt:
    """Return an attempt that began at 0 and may be evicted."""
    return RunningAttempt(
        attempt_id=name,
        priority=priority,
        resources=resources,
        began_at=began_at,
        is_ending=ending,
        may_be_evicted=not protected,
    )


def occupied(
    has: Resources,
    attempts: Sequence[RunningAttempt],
    *,
    most: int = 256,
    price: str = "1",
    id_: str = "i-1",
) -> NodeUsage:
    """Return an instance that has so much, less what its attempts hold."""
    type_ = InstanceType(
        name="t", provider_type="p", resources=has, price_usd_per_hour=Decimal(price)
    )
    slot = empty_slot(SlotKind.READY, id_, type_)
    for each in attempts:
        slot.assign(each.resources)
    return NodeUsage(slot=slot, attempts=tuple(attempts), most_containers=most)


def evicted(found: Eviction | NoEviction) -> list[str]:
    """Return the ids of those who are evicted, in their order; there must be an eviction."""
    assert isinstance(found, Eviction), found
    return [victim.attempt_id for victim in found.victims]
