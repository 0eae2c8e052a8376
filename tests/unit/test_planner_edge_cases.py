"""What guards a pass and what comes of it: order, quota, room, claims, shares of the price."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from longshore.dispatcher.domain.containers import (
    Constraints,
    Placement,
    Profile,
    SchedulerSettings,
)
from longshore.dispatcher.domain.feasibility import eligible_types, impossible, rejections
from longshore.dispatcher.scheduler.batch.plan import plan
from longshore.dispatcher.scheduler.placement.fleet import PackingPolicy, Slot, SlotKind
from longshore.dispatcher.scheduler.placement.snapshot import Plan
from longshore.dispatcher.state.queue import ClassKey, Queue
from longshore.dispatcher.state.spend_limits import share_of
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.holds import CreateBlockKind
from longshore.pool.messages import CreateInstance, Probe, StartAttempt
from longshore.pool.model import PoolSettings
from tests.rigs.engine import Rig, last_commands
from tests.rigs.planner import make_limits, make_view
from tests.samples import GIB, make_container, make_type

T1, T2, T4 = make_type(1), make_type(2), make_type(4)


def slot(id_: str, type_: InstanceType, *, used: int = 0) -> Slot:
    """Return a ready worker with `used` one-cpu containers on it."""
    taken = Resources(cpu_millis=1000 * used, memory_bytes=GIB * used)
    return Slot(
        kind=SlotKind.READY,
        id=id_,
        type=type_,
        free=type_.allocatable.minus(taken),
        count=used,
        last_busy=0.0,
        idle=used == 0,
    )


def queue_of(types: list[InstanceType], *priorities_and_cpus: tuple[int, int]) -> Queue:
    """Return a queue of containers 1, 2, ... with these priorities and cpus."""
    queue = Queue(lambda k: eligible_types(types, k.resources, k.constraints, max_price_factor=10))
    for number, (priority, cpus) in enumerate(priorities_and_cpus, 1):
        queue.add(make_container(number, cpus=cpus, priority=priority))
    return queue


def decide(
    queue: Queue,
    *slots: Slot,
    max_instances: int = 100,
    held: str = "",
    at_quota: bool = False,
    max_containers: int = 256,
) -> Plan:
    limits = make_limits(
        instances=len(slots),
        max_instances=max_instances,
        held=((CreateBlockKind.QUOTA if at_quota else CreateBlockKind.OTHER), held)
        if held
        else None,
    )
    rules = PackingPolicy(
        placement=Placement.PACKED,
        profile=Profile.OPTIMIZE_UTILIZATION,
        max_containers=max_containers,
    )
    return plan(make_view(queue, slots, limits, rules))


def placed(decided: Plan) -> dict[str, str]:
    return {container_id: place.id for container_id, place in decided.places}


# ---- a pass --------------------------------------------------------------------------------------


def test_a_hold_that_is_no_quota_stops_nobody_who_finds_a_place() -> None:
    queue = queue_of([T1, T4], (9, 4), (5, 1))
    decided = decide(queue, slot("a", T1), held="slow down")
    assert placed(decided) == {"c-2": "a"}
    assert decided.next_in_line == []
    assert decided.unwanted == []
    assert [r.code for r in decided.waiting.values()] == ["creates_held"]


def test_at_quota_idle_workers_go_in_a_fixed_order_unless_something_is_mapped_to_them() -> None:
    queue = queue_of([T1, T4], (9, 1), (5, 4), (4, 4))
    slots = [slot(name, T1) for name in "cabd"]
    decided = decide(queue, *slots, slot("e", T2, used=1), held="20 at most", at_quota=True)
    assert placed(decided) == {"c-1": "a"}
    assert decided.unwanted == ["b", "c"], "one for each that needs a new instance"


def test_at_quota_everybody_below_is_told_so() -> None:
    queue = queue_of([T1, T2, T4], (9, 4), (5, 1), (3, 2))
    decided = decide(queue, held="20 at most", at_quota=True)
    assert [r.code for r in decided.waiting.values()] == ["at_quota", "behind", "behind"]


def test_a_request_that_no_type_serves_says_so_and_holds_nobody_up() -> None:
    queue = queue_of([T1], (9, 4), (5, 1))
    decided = decide(queue, max_instances=1)
    assert [s.type.name for s in decided.creates] == ["t1"]
    assert [r.code for r in decided.waiting.values()] == ["no_type"]


def test_a_smaller_request_uses_what_a_larger_one_has_created_for_it() -> None:
    queue = queue_of([T4], (9, 3), (5, 1))
    decided = decide(queue)
    assert list(placed(decided).values()) == ["new-000000", "new-000000"]


def test_no_worker_takes_more_containers_than_it_may() -> None:
    queue = queue_of([T4], (5, 1), (5, 1), (5, 1))
    decided = decide(queue, slot("a", T4, used=1), max_containers=2)
    assert list(placed(decided).values()) == ["a", "new-000000", "new-000000"]


def test_equal_prices_and_cpus_the_type_with_less_memory_comes_first() -> None:
    small = make_type(2, name="b", price="0.3")
    large = replace(small, name="a", resources=Resources(cpu_millis=2000, memory_bytes=99 * GIB))
    wanted = Resources(cpu_millis=1000)
    found = eligible_types([large, small], wanted, Constraints(), max_price_factor=1)
    assert [t.name for t in found] == ["b", "a"]


def test_a_price_at_the_ceiling_is_not_above_it() -> None:
    ceiling = Constraints(max_price_usd_per_hour=Decimal("0.123"))
    assert rejections(T1, Resources(cpu_millis=1), ceiling) == []


def test_the_nearest_type_is_the_one_with_the_fewest_reasons_against_it() -> None:
    wanted = Resources(cpu_millis=64_000)
    only_t2 = Constraints(instance_types=("t2",))
    assert "nearest is t2" in impossible([T4, T2], wanted, only_t2)


# ---- the queue -----------------------------------------------------------------------------------


def test_a_class_that_is_empty_is_forgotten() -> None:
    asked: list[Resources] = []

    def eligible(key: ClassKey) -> tuple[InstanceType, ...]:
        asked.append(key.resources)
        return ()

    queue = Queue(eligible)
    for _ in range(3):
        queue.add(make_container(1))
        queue.discard("c-1")
    assert len(asked) == 3


# ---- shares of the price -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resources", "share"),
    [
        (Resources(cpu_millis=1000, gpus=3), "0.75"),
        (Resources(cpu_millis=1000, disk_bytes=8 * GIB), "0.8"),
        (Resources(cpu_millis=1000), "0.5"),
        (Resources(cpu_millis=9000), "1"),
    ],
)
def test_the_share_is_the_largest_of_what_may_be_used_and_never_more_than_all(
    resources: Resources, share: str
) -> None:
    whole = Resources(cpu_millis=4000, memory_bytes=GIB, disk_bytes=10 * GIB, gpus=4)
    type_ = replace(make_type(4), resources=whole, reserve=Resources(cpu_millis=2000))
    assert share_of(resources, type_, Placement.PACKED) == Decimal(share)


# ---- what comes of a pass ------------------------------------------------------------------------


def test_an_instance_that_runs_one_takes_no_other_when_placement_is_exclusive() -> None:
    rig = Rig(T4, settings=SchedulerSettings(placement=Placement.EXCLUSIVE))
    rig.submit(make_container(1))
    rig.submit(make_container(2))
    assert rig.started_on() == {"c-1": "i-001", "c-2": "i-002"}


def test_of_equal_workers_the_most_recently_busy_is_taken() -> None:
    rig = Rig(settings=SchedulerSettings(placement=Placement.EXCLUSIVE))
    rig.submit(make_container(1), make_container(2))
    rig.exit("c-1-1")
    rig.advance(5)
    rig.exit("c-2-1")
    rig.submit(make_container(3))
    assert rig.started_on()["c-3"] == "i-002"


def test_the_order_to_the_runner_says_all_that_was_asked_for() -> None:
    rig = Rig(T2)
    container = make_container(1, cpus=2)
    spec = replace(container.spec, image="img", env=(("A", "1"),), command=("echo", "x"))
    rig.submit(replace(container, spec=spec))
    (start,) = last_commands(rig, StartAttempt)
    order = start.order
    assert (order.image, order.command) == ("img", ("echo", "x"))
    assert ("A", "1") in order.env
    assert (order.cpu_millis, order.memory_bytes) == (2000, 2 * GIB)
    assert rig.engine.scheduling.reason("c-1") is None, "it waits for nothing"


def test_what_asks_for_no_cpus_is_held_to_the_one_that_it_shares() -> None:
    rig = Rig(T2)
    rig.submit(make_container(1, cpus=0))
    (start,) = last_commands(rig, StartAttempt)
    assert start.order.cpu_millis == 1000


def test_the_next_in_line_keeps_its_claim_until_another_is_next() -> None:
    rig = Rig(T1, settings=SchedulerSettings(max_instances=1))
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    rig.submit(make_container(2, priority=900))
    assert rig.states() == {"c-1": "locked", "c-2": "locked"}
    rig.submit(make_container(3, priority=950))
    rig.submit(make_container(4, priority=100))
    assert rig.states() == {"c-1": "queued", "c-2": "locked", "c-3": "locked", "c-4": "queued"}
    rig.submit(make_container(5, priority=940))
    states = rig.states()
    assert (states["c-2"], states["c-3"], states["c-5"]) == ("queued", "locked", "queued")


def test_a_claim_that_becomes_a_start_is_not_taken_back() -> None:
    rig = Rig()
    rig.silent |= {Probe, StartAttempt}
    rig.submit(make_container(1))
    assert rig.states() == {"c-1": "locked"}
    rig.probe_now(last_commands(rig, Probe)[0])
    rig.settle()
    assert len(last_commands(rig, StartAttempt)) == 1
    assert rig.states() == {"c-1": "locked"}


def test_held_back_while_it_waits_or_has_a_claim_a_container_starts_nowhere() -> None:
    rig = Rig(T1, settings=SchedulerSettings(max_instances=1))
    rig.silent.add(Probe)
    rig.submit(make_container(1), make_container(2))
    assert rig.states() == {"c-1": "locked", "c-2": "queued"}
    rig.set_priority("c-1", 0)
    rig.set_priority("c-2", 0)
    assert rig.states() == {"c-1": "queued", "c-2": "queued"}
    rig.probe_now(last_commands(rig, Probe)[0])
    rig.settle()
    assert last_commands(rig, StartAttempt) == []


def test_with_a_claim_given_up_the_doubtful_create_does_not_count_for_the_limit() -> None:
    rig = Rig(pool=PoolSettings(sync_interval_s=1), settings=SchedulerSettings(max_instances=1))
    rig.silent.add(CreateInstance)
    rig.submit(make_container(1))
    rig.submit(make_container(2))
    assert len(last_commands(rig, CreateInstance)) == 1
    rig.crash()
    rig.advance(15)
    assert len(last_commands(rig, CreateInstance)) == 1
