"""Properties of a planning pass on generated queues and pools."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longshore.dispatcher.domain.containers import Container, Placement, Profile
from longshore.dispatcher.domain.feasibility import eligible_types
from longshore.dispatcher.scheduler.batch.plan import plan
from longshore.dispatcher.scheduler.placement.fleet import PackingPolicy, Slot, SlotKind
from longshore.dispatcher.scheduler.placement.snapshot import Plan
from longshore.dispatcher.state.queue import Queue
from longshore.drivers.interface import Resources
from tests.rigs.planner import make_limits, make_view
from tests.samples import GIB, make_container, make_type

TYPES = [make_type(n) for n in (1, 2, 3, 4, 8)]


@st.composite
def containers(draw: st.DrawFn) -> list[Container]:
    sizes = draw(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4)), max_size=25))
    return [
        make_container(number, cpus=cpus, priority=priority)
        for number, (cpus, priority) in enumerate(sizes)
    ]


@st.composite
def slots(draw: st.DrawFn) -> list[Slot]:
    found = []
    for number in range(draw(st.integers(0, 6))):
        type_ = draw(st.sampled_from(TYPES))
        used = draw(st.integers(0, type_.resources.cpu_millis // 1000))
        taken = Resources(cpu_millis=1000 * used, memory_bytes=GIB * used)
        found.append(
            Slot(
                kind=draw(st.sampled_from([SlotKind.READY, SlotKind.COMING, SlotKind.LAUNCHING])),
                id=f"w{number}",
                type=type_,
                free=type_.allocatable.minus(taken),
                count=used,
                last_busy=float(number),
                idle=used == 0,
            )
        )
    return found


def run(
    waiting: list[Container], room: list[Slot], placement: Placement, profile: Profile, quota: int
) -> Plan:
    queue = Queue(lambda k: eligible_types(TYPES, k.resources, k.constraints, max_price_factor=1.5))
    for container in waiting:
        queue.add(container)
    limits = make_limits(instances=len(room), max_instances=quota, short=("t3",))
    rules = PackingPolicy(placement=placement, profile=profile, max_containers=5)
    return plan(make_view(queue, room, limits, rules))


def fresh(room: list[Slot]) -> list[Slot]:
    return [
        Slot(
            kind=s.kind,
            id=s.id,
            type=s.type,
            free=s.free,
            count=s.count,
            last_busy=s.last_busy,
            idle=s.idle,
        )
        for s in room
    ]


@given(
    containers(),
    slots(),
    st.sampled_from(list(Placement)),
    st.sampled_from(list(Profile)),
    st.integers(1, 12),
)
def test_a_pass_keeps_every_promise(
    waiting: list[Container],
    room: list[Slot],
    placement: Placement,
    profile: Profile,
    quota: int,
) -> None:
    before = fresh(room)
    decided = run(waiting, room, placement, profile, quota)
    ids = [container_id for container_id, _ in decided.places]
    assert len(ids) == len(set(ids)), "nothing is placed twice"
    by_id = {container.id: container for container in waiting}
    _check_room(decided, by_id, before, placement)
    assert len(before) + len(decided.creates) <= max(quota, len(before))
    assert "t3" not in {slot.type.name for slot in decided.creates}
    assert all(slot.assigned for slot in decided.creates), "nothing is created for nobody"
    _check_order_within_classes(waiting, set(ids))
    again = run(waiting, before, placement, profile, quota)
    assert [(c, s.id) for c, s in again.places] == [(c, s.id) for c, s in decided.places]


def _check_room(
    decided: Plan, by_id: dict[str, Container], before: list[Slot], placement: Placement
) -> None:
    free = {slot.id: slot.free for slot in before} | {
        slot.id: slot.type.allocatable for slot in decided.creates
    }
    count = {slot.id: slot.count for slot in before}
    for container_id, slot in decided.places:
        wanted = by_id[container_id].spec.resources
        assert wanted.fits_in(free[slot.id]), "no worker is filled beyond its room"
        free[slot.id] = free[slot.id].minus(wanted)
        count[slot.id] = count.get(slot.id, 0) + 1
        assert count[slot.id] <= 5
        if placement is Placement.EXCLUSIVE:
            assert count[slot.id] == 1


def _check_order_within_classes(waiting: list[Container], ids: set[str]) -> None:
    groups: dict[Resources, list[Container]] = {}
    for container in waiting:
        groups.setdefault(container.spec.resources, []).append(container)
    for group in groups.values():
        group.sort(key=lambda c: (-c.priority, c.sequence))
        flags = [container.id in ids for container in group]
        assert flags == sorted(flags, reverse=True), "a lower one never goes before a higher"
