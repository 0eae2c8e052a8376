"""Which instance types would do for a request, and why the others would not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from dispatcher.model import Constraints, Preemptible
from drivers.interface import InstanceType, Resources

_GIB = 2**30


def rejections(type_: InstanceType, resources: Resources, constraints: Constraints) -> list[str]:
    """Return every reason why a type cannot run the request, [] when it can."""
    reasons = [f"too small in {dimension}" for dimension in resources.shortages(type_.allocatable)]
    if constraints.instance_types and type_.name not in constraints.instance_types:
        reasons.append("not among the wanted instance_types")
    if constraints.preemptible is Preemptible.REQUIRED and not type_.preemptible:
        reasons.append("not preemptible")
    if constraints.preemptible is Preemptible.FORBIDDEN and type_.preemptible:
        reasons.append("preemptible")
    ceiling = constraints.max_price_usd_per_hour
    if ceiling is not None and type_.price_usd_per_hour > ceiling:
        reasons.append(f"${type_.price_usd_per_hour}/h is above max_price_per_hour")
    return reasons + label_rejections(type_, constraints)


def label_rejections(type_: InstanceType, constraints: Constraints) -> list[str]:
    """Return which wanted labels a type lacks."""
    labels = dict(type_.labels)
    return [
        f"label {key}={value} missing"
        for key, value in constraints.labels
        if labels.get(key) != value
    ]


def price_order(type_: InstanceType) -> tuple[Decimal, int, int, str]:
    """Return the sort key by which types are tried: cheapest, then smallest, then by name."""
    size = type_.resources
    return (type_.price_usd_per_hour, size.cpu_millis, size.memory_bytes, type_.name)


def eligible_types(
    types: Iterable[InstanceType],
    resources: Resources,
    constraints: Constraints,
    *,
    max_price_factor: float,
) -> tuple[InstanceType, ...]:
    """Return the types that would do, cheapest first, none dearer than the factor allows."""
    fitting = sorted(
        (t for t in types if not rejections(t, resources, constraints)), key=price_order
    )
    if not fitting:
        return ()
    limit = fitting[0].price_usd_per_hour * Decimal(str(max_price_factor))
    return tuple(t for t in fitting if t.price_usd_per_hour <= limit)


def impossible(
    types: Sequence[InstanceType], resources: Resources, constraints: Constraints
) -> str:
    """Return "" when some type could run the request, else one sentence that names the nearest.

    Labels never make a request impossible: an instance that has them may come.
    """
    found = [(t, _without_labels(t, resources, constraints)) for t in types]
    if not found:
        return "no instance types are configured: add some under instance_types"
    if any(not reasons for _, reasons in found):
        return ""
    found.sort(key=lambda pair: (len(pair[1]), _negated_size(pair[0]), pair[0].name))
    nearest, reasons = found[0]
    room = nearest.allocatable
    return (
        f"no instance type can ever run this; the nearest is {nearest.name} "
        f"({room.cpu_millis / 1000:g} cpus, {room.memory_bytes / _GIB:.4g} GiB of memory, "
        f"{room.disk_bytes / _GIB:.4g} GiB of disk, {room.gpus} gpus for containers): "
        f"{', '.join(reasons)}; ask for less, or have such a type configured"
    )


def _without_labels(
    type_: InstanceType, resources: Resources, constraints: Constraints
) -> list[str]:
    missing = set(label_rejections(type_, constraints))
    return [r for r in rejections(type_, resources, constraints) if r not in missing]


def _negated_size(type_: InstanceType) -> tuple[int, int, int, int]:
    room = type_.allocatable
    return (-room.cpu_millis, -room.memory_bytes, -room.disk_bytes, -room.gpus)
