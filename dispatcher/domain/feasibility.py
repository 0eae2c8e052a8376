"""Which instance types would do for a request, and why the others would not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal

from longshore.dispatcher.domain.containers import Constraints, Container, Preemptible
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.charging import charge

_GIB = 2**30


def need(type_: InstanceType, resources: Resources, unnamed: tuple[str, ...] = ()) -> Resources:
    """Return what a container asks for on a type: the type's defaults for what it did not name.

    `unnamed` are the dimensions of `resources` that hold the configuration's defaults only.
    """
    if not unnamed or not type_.defaults:
        return resources
    return resources.having(pair for pair in type_.defaults if pair[0] in unnamed)


def given_on(type_: InstanceType, container: Container) -> Resources | None:
    """Return what an attempt on a type is given, None where its container asks for just that."""
    spec = container.spec
    given = need(type_, spec.resources, spec.unnamed)
    return None if given == spec.resources else given


def rejections(
    type_: InstanceType,
    resources: Resources,
    constraints: Constraints,
    unnamed: tuple[str, ...] = (),
) -> list[str]:
    """Return every reason why a type cannot run the request, [] when it can.

    A request of no cpus needs one that it can share, also where it is the only one.
    """
    wanted = charge(need(type_, resources, unnamed), on_shared_cpu=0)
    reasons = [_too_small(type_, dimension) for dimension in wanted.shortages(type_.allocatable)]
    reasons += _gpu_rejections(type_, constraints)
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


def _too_small(type_: InstanceType, dimension: str) -> str:
    has_none = not _amounts(type_.allocatable).get(dimension, 0)
    return f"has no {dimension}" if has_none else f"too small in {dimension}"


def _amounts(resources: Resources) -> dict[str, int]:
    return {
        "cpus": resources.cpu_millis,
        "memory": resources.memory_bytes,
        "disk": resources.disk_bytes,
        "gpus": resources.gpus,
        **dict(resources.custom),
    }


def _gpu_rejections(type_: InstanceType, constraints: Constraints) -> list[str]:
    """Return what the GPUs of a type lack; nobody minds how a model's letters are written."""
    reasons = []
    model = constraints.gpu_model
    if model and model.casefold() != type_.gpu_model.casefold():
        reasons.append(f"gpu model {model} missing")
    if constraints.gpu_memory_bytes > type_.gpu_memory_bytes:
        reasons.append("too small in gpu memory")
    return reasons


def label_rejections(type_: InstanceType, constraints: Constraints) -> list[str]:
    """Return which wanted labels a type lacks."""
    if not constraints.labels:
        return []
    labels = dict(type_.labels)
    return [
        f"label {key}={value} missing"
        for key, value in constraints.labels
        if labels.get(key) != value
    ]


def price_order(type_: InstanceType) -> tuple[Decimal, int, int, str]:
    """Return the sort key by which types are tried: cheapest, then smallest, then by name.

    What of a type's use was wasted lately makes it dearer.
    """
    size = type_.resources
    return (type_.effective_usd_per_hour, size.cpu_millis, size.memory_bytes, type_.name)


def eligible_types(
    types: Iterable[InstanceType],
    resources: Resources,
    constraints: Constraints,
    unnamed: tuple[str, ...] = (),
    *,
    max_price_factor: float,
) -> tuple[InstanceType, ...]:
    """Return the types that would do, cheapest first, none dearer than the factor allows."""
    fitting = fitting_types(types, resources, constraints, unnamed)
    return within_price(fitting, resources, unnamed, max_price_factor=max_price_factor)


def fitting_types(
    types: Iterable[InstanceType],
    resources: Resources,
    constraints: Constraints,
    unnamed: tuple[str, ...] = (),
    *,
    lasting: bool = False,
) -> tuple[InstanceType, ...]:
    """Return the types that can run the request, cheapest first, whatever they cost.

    With `lasting` they are those that are not preemptible; where none of these would do, all.
    """
    found = (t for t in types if not rejections(t, resources, constraints, unnamed))
    fitting = tuple(sorted(found, key=price_order))
    return (lasting and tuple(t for t in fitting if not t.preemptible)) or fitting


def whole(type_: InstanceType) -> InstanceType:
    """Return a type as it is: nobody takes anything of new instances."""
    return type_


def has_room(type_: InstanceType, wanted: Resources) -> bool:
    """Return whether an empty instance of a type has room for one request."""
    return charge(wanted, on_shared_cpu=0).fits_in(type_.allocatable)


def cheapest_with_room(
    fitting: Iterable[InstanceType],
    resources: Resources,
    unnamed: tuple[str, ...] = (),
    *,
    as_new: Callable[[InstanceType], InstanceType],
) -> InstanceType | None:
    """Return the first of some types of which a new instance has room, None when none has.

    `as_new` tells a type without what others take of each new instance.
    """
    having = (t for t in fitting if has_room(as_new(t), need(t, resources, unnamed)))
    return next(having, None)


def within_price(
    fitting: Sequence[InstanceType],
    resources: Resources,
    unnamed: tuple[str, ...] = (),
    *,
    max_price_factor: float,
    as_new: Callable[[InstanceType], InstanceType] = whole,
) -> tuple[InstanceType, ...]:
    """Return the types, of those that fit, that the price rule allows, cheapest first.

    What is prepaid of a type costs nothing more, so that it is never too dear.

    It counts from the cheapest of which a new instance has room (`as_new` tells a type without what
    others take of each, and with what of its use is wasted). Where none has, it counts from the
    cheapest that fits. None is left out for want of room: an instance that is there already may
    have some.
    """
    if not fitting:
        return ()
    ordered = sorted(fitting, key=lambda type_: price_order(as_new(type_)))
    cheapest = cheapest_with_room(ordered, resources, unnamed, as_new=as_new) or ordered[0]
    limit = as_new(cheapest).effective_usd_per_hour * Decimal(str(max_price_factor))
    return tuple(t for t in ordered if t.prepaid or as_new(t).effective_usd_per_hour <= limit)


def what_is_left(type_: InstanceType, wanted: Resources) -> str:
    """Return what a type has in each dimension in which it is too small, "" when in none."""
    short = charge(wanted, on_shared_cpu=0).shortages(type_.allocatable)
    return amounts_told(type_.allocatable, short)


def amounts_told(of: Resources, dimensions: Iterable[str]) -> str:
    """Return how much there is in some dimensions: "0.2 cpus, 1.5 GiB of memory"."""
    amounts = _amounts(of)
    return ", ".join(_amount_told(name, amounts.get(name, 0)) for name in dimensions)


def _amount_told(dimension: str, amount: int) -> str:
    match dimension:
        case "cpus":
            return f"{amount / 1000:g} cpus"
        case "memory" | "disk":
            return f"{amount / _GIB:.4g} GiB of {dimension}"
        case _:
            return f"{amount} {dimension}"


def impossible(
    types: Sequence[InstanceType],
    resources: Resources,
    constraints: Constraints,
    unnamed: tuple[str, ...] = (),
) -> str:
    """Return "" when some type could run the request, else one sentence that names the nearest.

    Labels never make a request impossible: an instance that has them may come.
    """
    found = [(t, _without_labels(t, resources, constraints, unnamed)) for t in types]
    if not found:
        return "no instance types are configured: add some under instance_types"
    if any(not reasons for _, reasons in found):
        return ""
    found.sort(
        key=lambda pair: (
            len(pair[1]),
            _lack(need(pair[0], resources, unnamed), pair[0]),
            price_order(pair[0]),
        )
    )
    nearest, reasons = found[0]
    nobody = _that_nobody_has(types, resources)
    if nobody:
        said = {f"has no {dimension}" for dimension in nobody}
        reasons = [reason for reason in reasons if reason not in said]
        reasons.insert(0, f"no type at all has {' or '.join(nobody)}")
    return (
        f"no instance type can ever run this; the nearest is {nearest.name} "
        f"({_described(nearest)} for containers): "
        f"{', '.join(reasons)}; ask for less, or have such a type configured"
    )


def _described(type_: InstanceType) -> str:
    """Return what a type has for containers, with every custom resource that it has."""
    room = type_.allocatable
    gpus = f"{room.gpus} gpus"
    if type_.gpu_model:
        gpus += f" of model {type_.gpu_model}"
    if type_.gpu_memory_bytes:
        gpus += f" with {type_.gpu_memory_bytes / _GIB:.4g} GiB each"
    parts = [
        f"{room.cpu_millis / 1000:g} cpus",
        f"{room.memory_bytes / _GIB:.4g} GiB of memory",
        f"{room.disk_bytes / _GIB:.4g} GiB of disk",
        gpus,
        *(f"{amount} {name}" for name, amount in room.custom),
    ]
    return ", ".join(parts)


def _without_labels(
    type_: InstanceType,
    resources: Resources,
    constraints: Constraints,
    unnamed: tuple[str, ...],
) -> list[str]:
    missing = set(label_rejections(type_, constraints))
    return [r for r in rejections(type_, resources, constraints, unnamed) if r not in missing]


def _lack(wanted: Resources, type_: InstanceType) -> float:
    """Return how much of what is wanted a type lacks: the parts that are missing, added up."""
    has = _amounts(type_.allocatable)
    amounts = _amounts(charge(wanted, on_shared_cpu=0)).items()
    return sum(max(0.0, 1 - has.get(name, 0) / amount) for name, amount in amounts if amount)


def _that_nobody_has(types: Sequence[InstanceType], resources: Resources) -> list[str]:
    """Return the resources that are asked for and that not a single type has."""
    room = [_amounts(type_.allocatable) for type_ in types]
    return [
        name
        for name, amount in _amounts(resources).items()
        if amount and not any(each.get(name, 0) for each in room)
    ]
