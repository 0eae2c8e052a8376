"""Limits for the planner as literal values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from longshore.dispatcher.scheduler.placement.fleet import Fleet, Rules, Slot
from longshore.dispatcher.scheduler.placement.snapshot import Limits, View
from longshore.dispatcher.state.queue import Queue
from longshore.drivers.interface import InstanceType
from longshore.pool.holds import Allowance, Hindrance, HindranceKind, Scope


def make_hindrance(
    kind: HindranceKind,
    message: str,
    *covers: str,
    everywhere: bool = False,
    until: float | None = 9.0,
) -> Hindrance:
    """Return a hindrance of some types, or of all."""
    return Hindrance(
        kind=kind,
        message=message,
        until=until,
        covers=frozenset(covers),
        everywhere=everywhere,
    )


def make_limits(
    *,
    instances: int,
    max_instances: int,
    creates_left: int = 100,
    tokens_left: int = 100,
    held: tuple[HindranceKind, str] | None = None,
    short: tuple[str, ...] = (),
    hindrances: Mapping[str, Hindrance] | None = None,
    trials: Mapping[str, Mapping[Scope, Hindrance]] | None = None,
) -> Limits:
    """Return limits: `held` is of all types, `short` are those at capacity, the rest by name."""
    of_all = make_hindrance(*held, everywhere=True) if held else None
    known = {name: make_hindrance(HindranceKind.CAPACITY, "none left", name) for name in short}
    known.update(hindrances or {})

    def hindrance(type_: InstanceType) -> Hindrance | None:
        return known.get(type_.name, of_all)

    return Limits(
        instances=instances,
        max_instances=max_instances,
        creates_left=creates_left,
        tokens_left=tokens_left,
        hindrance=hindrance,
        allowances=lambda type_: {
            scope: Allowance(number=1, then=then)
            for scope, then in (trials or {}).get(type_.name, {}).items()
        },
    )


def make_view(
    queue: Queue, slots: Sequence[Slot], limits: Limits, rules: Rules, **more: object
) -> View:
    """Return what a pass over a queue decides from, with these slots and no claims."""
    fleet = Fleet(rules)
    for slot in slots:
        fleet.put(slot)
    return View(
        classes=queue.classes(),
        fleet=fleet,
        limits=limits,
        **more,  # type: ignore[arg-type]  # the few optional fields of View
    )
