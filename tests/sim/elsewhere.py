"""The check that what an instance has lost, which is there, is tried on others first."""

from __future__ import annotations

from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.domain.feasibility import has_room, need
from longshore.dispatcher.engine.engine import Engine
from longshore.dispatcher.scheduler.placement.fleet import SlotKind
from longshore.pool.model import Worker
from tests.sim.losses import lost_on_each
from tests.sim.truth import expect

PATIENT_S = 600.0


def expect_elsewhere(engine: Engine, container: Container, worker: Worker, now: float) -> None:
    """Expect that who starts where it was lost has no other place, and can be given none."""
    before = container.attempts[:-1]
    lost_on = lost_on_each(before)
    if worker.id not in lost_on:
        return
    ended_at = before[-1].finished_at or before[-1].created_at
    if not ended_at <= now < ended_at + PATIENT_S:
        return
    scheduling, spec = engine.scheduling, container.spec
    types = engine.types_for(engine.table.queue.key_of(container))
    needs = {type_.name: need(type_, spec.resources, spec.unnamed) for type_ in types}
    types = tuple(t for t in types if has_room(scheduling.allocatable_left(t), needs[t.name]))
    names = {type_.name for type_ in types}
    launches = engine.pool.launches
    others = [
        slot.id
        for slot in scheduling.fleet_sync.fleet.slots.values()
        if slot.id not in lost_on
        and slot.type.name in names
        and (slot.kind < SlotKind.LAUNCHING or launches[slot.id].launch.created_at < now)
    ]
    what = f"{container.id} on {worker.id}"
    expect(not others, "what was lost is tried elsewhere first", what, "beside", others)
    limits = scheduling.view(now).limits
    full = scheduling.spend is not None or limits.instances >= limits.max_instances
    may_be_had = [] if full else [t.name for t in types if limits.create_block(t) is None]
    expect(not may_be_had, "what was lost is tried elsewhere first", what, "buys no", may_be_had)
