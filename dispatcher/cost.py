"""What an attempt costs: its time on the instance, at the share of the price that it occupies."""

from __future__ import annotations

from decimal import Decimal

from longshore.dispatcher.model import Attempt, Container, Placement
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.cost import cost_usd

_LEAST_SHARE = Decimal(1) / Decimal(256)


def placement_of(container: Container, placement: Placement) -> Placement:
    """Return how a container shares its instance: those of per-instance jobs come beside others."""
    return Placement.PACKED if container.pinned_to else placement


def share_of(resources: Resources, type_: InstanceType, placement: Placement) -> Decimal:
    """Return which part of an instance a request occupies: its largest share in any dimension.

    It is never nothing: who asks for next to nothing takes up a place for a container.
    """
    if placement is Placement.EXCLUSIVE:
        return Decimal(1)
    room = type_.allocatable
    custom = dict(room.custom)
    pairs = (
        (resources.cpu_millis, room.cpu_millis),
        (resources.memory_bytes, room.memory_bytes),
        (resources.disk_bytes, room.disk_bytes),
        (resources.gpus, room.gpus),
        *((amount, custom.get(name, 0)) for name, amount in resources.custom),
    )
    shares = [Decimal(part) / Decimal(whole) for part, whole in pairs if whole > 0]
    return min(Decimal(1), max(_LEAST_SHARE, *shares))


def attempt_cost(
    *, started_at: float, finished_at: float, price_usd_per_hour: Decimal, share: Decimal
) -> Decimal:
    """Return the cost in USD of an attempt between two times (seconds), to eight decimals."""
    return cost_usd(price_usd_per_hour, finished_at - started_at, share=share)


def cost_of(
    attempt: Attempt, given: Resources, type_: InstanceType | None, placement: Placement
) -> Decimal:
    """Return the cost in USD of an ended attempt that was given some resources of an instance.

    One that never started cost nothing; on a type that is not configured (None), it is all of it.
    """
    if attempt.started_at is None or attempt.finished_at is None:
        return Decimal(0)
    return attempt_cost(
        started_at=attempt.started_at,
        finished_at=attempt.finished_at,
        price_usd_per_hour=attempt.price_usd_per_hour,
        share=share_of(given, type_, placement) if type_ is not None else Decimal(1),
    )
