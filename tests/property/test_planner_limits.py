"""Properties of a planning pass under limits and holds, in every dimension of resources."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from longshore.dispatcher.domain.containers import Container, Placement, Profile
from longshore.dispatcher.domain.feasibility import eligible_types
from longshore.dispatcher.scheduler.batch.plan import plan
from longshore.dispatcher.scheduler.placement.fleet import PackingPolicy, Slot, SlotKind, empty_slot
from longshore.dispatcher.scheduler.placement.snapshot import Limits, Plan
from longshore.dispatcher.state.queue import Queue
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.charging import charge, shares_a_cpu
from longshore.pool.holds import CreateBlockKind
from tests.rigs.planner import make_limits, make_view
from tests.samples import GIB, make_container, make_type


def rich(cpus: int) -> InstanceType:
    """Return type tN with a disk, GPUs and licences."""
    type_ = make_type(cpus)
    amounts = replace(
        type_.resources,
        disk_bytes=10 * cpus * GIB,
        gpus=cpus // 2,
        custom=(("licence", cpus),),
    )
    return replace(type_, resources=amounts)


TYPES = [rich(n) for n in (1, 2, 4, 8)]


@st.composite
def containers(draw: st.DrawFn) -> list[Container]:
    kinds = st.tuples(
        st.integers(0, 4), st.integers(0, 9), st.integers(0, 2), st.integers(0, 3), st.booleans()
    )
    made = []
    few = draw(st.lists(kinds, min_size=1, max_size=4))
    for number in range(draw(st.integers(0, 25))):
        cpus, disk, gpus, licences, supervisor = draw(st.sampled_from(few))
        each = make_container(
            number, cpus=cpus, priority=draw(st.integers(1, 4)), supervisor=supervisor
        )
        wanted = replace(
            each.spec.resources,
            disk_bytes=disk * GIB,
            gpus=gpus,
            custom=(("licence", licences),) if licences else (),
        )
        made.append(replace(each, spec=replace(each.spec, resources=wanted)))
    return made


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    held = draw(st.sampled_from([None, *CreateBlockKind]))
    made = make_limits(
        instances=6,
        max_instances=6 + draw(st.integers(0, 6)),
        creates_left=draw(st.integers(0, 6)),
        tokens_left=draw(st.integers(0, 6)),
        held=None if held is None else (held, "not now"),
    )
    return replace(
        made,
        containers_left=draw(st.none() | st.integers(0, 20)),
        supervisors_left=draw(st.none() | st.integers(0, 5)),
    )


def decide(waiting: list[Container], bounds: Limits, kinds: list[SlotKind]) -> Plan:
    queue = Queue(lambda k: eligible_types(TYPES, k.resources, k.constraints, max_price_factor=9))
    for container in waiting:
        queue.add(container)
    room = [empty_slot(kind, f"w{n}", TYPES[n % 4]) for n, kind in enumerate(kinds)]
    rules = PackingPolicy(
        placement=Placement.PACKED, profile=Profile.OPTIMIZE_UTILIZATION, max_containers=5
    )
    return plan(make_view(queue, room, bounds, rules))


def filled(decided: Plan, by_id: dict[str, Container]) -> dict[str, tuple[Resources, int, Slot]]:
    """Return what is left on each slot that got something, counted anew, and who shares its cpu."""
    left: dict[str, tuple[Resources, int, Slot]] = {}
    for container_id, slot in decided.places:
        free, on_shared_cpu, _ = left.get(slot.id, (slot.type.allocatable, 0, slot))
        need = by_id[container_id].spec.resources
        free = free.minus(charge(need, on_shared_cpu=on_shared_cpu))
        left[slot.id] = (free, on_shared_cpu + shares_a_cpu(need), slot)
    return left


@given(
    containers(),
    limits(),
    st.lists(st.sampled_from([SlotKind.READY, SlotKind.COMING]), max_size=6),
)
def test_limits_and_room_are_kept_in_every_dimension(
    waiting: list[Container], bounds: Limits, kinds: list[SlotKind]
) -> None:
    by_id = {container.id: container for container in waiting}
    decided = decide(waiting, bounds, kinds)
    ids = [container_id for container_id, _ in decided.places]
    assert len(ids) == len(set(ids)), "nothing is placed twice"
    for free, on_shared_cpu, slot in filled(decided, by_id).values():
        assert Resources().fits_in(free), f"{slot.id} is over its room"
        assert all(amount >= 0 for _, amount in free.custom)
        assert (slot.free, slot.on_shared_cpu) == (free, on_shared_cpu), "what the pass has counted"
    made = len(decided.creates)
    assert made <= min(bounds.creates_left, bounds.tokens_left)
    assert bounds.instances + made <= bounds.max_instances
    if bounds.create_block(TYPES[0]) is not None:
        assert decided.creates == [], "nothing is created during a hold"
    assert all(slot.assigned for slot in decided.creates), "nothing is created for nobody"
    supervisors = sum(by_id[container_id].spec.supervisor for container_id in ids)
    assert bounds.containers_left is None or len(ids) <= bounds.containers_left
    assert bounds.supervisors_left is None or supervisors <= bounds.supervisors_left
    again = decide(waiting, bounds, kinds)
    assert [(c, s.id) for c, s in again.places] == [(c, s.id) for c, s in decided.places]
    assert again.waiting == decided.waiting
    _expect_order(waiting, set(ids))


def _expect_order(waiting: list[Container], placed: set[str]) -> None:
    groups: dict[tuple[Resources, bool], list[Container]] = {}
    for each in waiting:
        groups.setdefault((each.spec.resources, each.spec.supervisor), []).append(each)
    for group in groups.values():
        group.sort(key=lambda c: (-c.priority, c.sequence))
        flags = [each.id in placed for each in group]
        assert flags == sorted(flags, reverse=True), "none waits behind a lower one of its class"
