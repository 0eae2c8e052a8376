"""Limits for the planner as literal values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from longshore.dispatcher.scheduler.placement.fleet import Fleet, PackingPolicy, Slot
from longshore.dispatcher.scheduler.placement.snapshot import Limits, Snapshot
from longshore.dispatcher.state.queue import Queue
from longshore.drivers.interface import InstanceType
from longshore.pool.holds import Allowance, CreateBlock, CreateBlockKind, Scope


def make_create_block(
    kind: CreateBlockKind,
    message: str,
    *covers: str,
    everywhere: bool = False,
    until: float | None = 9.0,
) -> CreateBlock:
    """Return a create block of some types, or of all."""
    return CreateBlock(
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
    held: tuple[CreateBlockKind, str] | None = None,
    short: tuple[str, ...] = (),
    create_blocks: Mapping[str, CreateBlock] | None = None,
    trials: Mapping[str, Mapping[Scope, CreateBlock]] | None = None,
) -> Limits:
    """Return limits: `held` is of all types, `short` are those at capacity, the rest by name."""
    of_all = make_create_block(*held, everywhere=True) if held else None
    known = {name: make_create_block(CreateBlockKind.CAPACITY, "none left", name) for name in short}
    known.update(create_blocks or {})

    def create_block(type_: InstanceType) -> CreateBlock | None:
        return known.get(type_.name, of_all)

    return Limits(
        instances=instances,
        max_instances=max_instances,
        creates_left=creates_left,
        tokens_left=tokens_left,
        create_block=create_block,
        allowances=lambda type_: {
            scope: Allowance(number=1, then=then)
            for scope, then in (trials or {}).get(type_.name, {}).items()
        },
    )


def make_view(
    queue: Queue, slots: Sequence[Slot], limits: Limits, rules: PackingPolicy, **more: object
) -> Snapshot:
    """Return what a pass over a queue decides from, with these slots and no claims."""
    fleet = Fleet(rules)
    for slot in slots:
        fleet.put(slot)
    return Snapshot(
        classes=queue.classes(),
        fleet=fleet,
        limits=limits,
        **more,  # type: ignore[arg-type]  # the few optional fields of View
    )
