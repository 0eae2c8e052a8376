"""What a pass does at its limits: quota of all or of a group, shortages, trials, tokens."""

from __future__ import annotations

from dataclasses import replace

from longshore.dispatcher.domain.containers import Constraints, Placement, Profile
from longshore.dispatcher.domain.feasibility import eligible_types
from longshore.dispatcher.scheduler.batch.plan import plan
from longshore.dispatcher.scheduler.placement.fleet import PackingPolicy, Slot, SlotKind
from longshore.dispatcher.scheduler.placement.snapshot import Limits, Plan
from longshore.dispatcher.state.queue import Queue
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.holds import EVERYTHING, CreateBlock, CreateBlockKind, Scope
from tests.rigs.planner import make_create_block, make_limits, make_view
from tests.samples import GIB, make_container, make_type

T1, T2, T4, T8 = (make_type(n) for n in (1, 2, 4, 8))
GPU = make_type(4, name="gpu", price="0.9")
TYPES = [T1, T2, T4, GPU]
QUOTA, CAPACITY = CreateBlockKind.QUOTA, CreateBlockKind.CAPACITY


def only(*names: str) -> Constraints:
    return Constraints(instance_types=names)


def queue_of(*wanted: tuple[int, int, Constraints], types: list[InstanceType] = TYPES) -> Queue:
    """Return a queue of containers 1, 2, ... with these priorities, cpus and constraints."""
    queue = Queue(lambda k: eligible_types(types, k.resources, k.constraints, max_price_factor=10))
    for number, (priority, cpus, constraints) in enumerate(wanted, 1):
        container = make_container(number, cpus=cpus, priority=priority, constraints=constraints)
        queue.add(container)
    return queue


def slot(id_: str, type_: InstanceType, *, used: int = 0) -> Slot:
    taken = Resources(cpu_millis=1000 * used, memory_bytes=GIB * used)
    return Slot(
        kind=SlotKind.READY,
        id=id_,
        type=type_,
        free=type_.allocatable.minus(taken),
        count=used,
        last_busy=1.0,
        idle=used == 0,
    )


def decide(queue: Queue, *slots: Slot, limits: Limits) -> Plan:
    rules = PackingPolicy(
        placement=Placement.PACKED, profile=Profile.OPTIMIZE_UTILIZATION, max_containers=256
    )
    return plan(make_view(queue, slots, limits, rules))


def limits(instances: int, /, max_instances: int = 100, **more: object) -> Limits:
    return make_limits(instances=instances, max_instances=max_instances, **more)  # type: ignore[arg-type]  # by name


def of_group(message: str, *names: str) -> dict[str, CreateBlock]:
    """Return one create block of a quota that several types share."""
    create_block = make_create_block(QUOTA, message, *names)
    return dict.fromkeys(names, create_block)


def codes(decided: Plan) -> list[str]:
    return [reason.code for reason in decided.waiting.values()]


def placed(decided: Plan) -> dict[str, str]:
    return {container_id: place.id for container_id, place in decided.places}


# ---- quota of a group ----------------------------------------------------------------------------


def test_a_quota_of_one_group_stops_what_needs_it_and_nothing_else() -> None:
    queue = queue_of((9, 4, only("t4")), (5, 4, only("gpu")), (3, 1, only("t1")))
    held = limits(0, create_blocks=of_group("32 vcpus at most", "t1", "t2", "t4"))
    decided = decide(queue, limits=held)
    assert [s.type.name for s in decided.creates] == ["gpu"]
    assert codes(decided) == ["at_quota", "behind"]
    first, second = decided.waiting.values()
    assert first.message == "no creates before 1970-01-01T00:00:09Z: 32 vcpus at most"
    assert "behind c-1" in second.message
    assert decided.next_in_line == ["c-1"]


def test_another_type_that_is_free_is_taken_instead_though_it_is_dearer() -> None:
    queue = queue_of((9, 4, only("t4", "gpu")))
    decided = decide(queue, limits=limits(0, create_blocks=of_group("q", "t1", "t2", "t4")))
    assert [s.type.name for s in decided.creates] == ["gpu"]
    assert decided.next_in_line == []


def test_what_is_below_gets_no_room_in_that_group_and_an_idle_worker_of_it_goes() -> None:
    queue = queue_of((9, 4, only("t4")), (5, 1, only("t1")), (3, 1, only("t1", "gpu")))
    slots = [slot("b", T1), slot("a", T1), slot("c", T2, used=1), slot("g", GPU)]
    decided = decide(queue, *slots, limits=limits(4, create_blocks=of_group("q", "t1", "t2", "t4")))
    assert placed(decided) == {"c-3": "g"}
    assert decided.unwanted == ["a"], "c-2 may have the other one when c-1 has its place"
    assert codes(decided) == ["at_quota", "behind"]


def test_what_was_mapped_before_keeps_its_worker() -> None:
    queue = queue_of((9, 1, only("t1")), (5, 4, only("t4")), (3, 1, only("t1")))
    decided = decide(
        queue,
        slot("a", T1),
        slot("b", T1),
        limits=limits(2, create_blocks=of_group("q", "t1", "t4")),
    )
    assert placed(decided) == {"c-1": "a"}
    assert decided.unwanted == ["b"]


def test_two_groups_at_quota_have_a_next_in_line_each() -> None:
    queue = queue_of((9, 4, only("t4")), (5, 4, only("gpu")), (3, 2, only("gpu")))
    held = of_group("standard", "t1", "t2", "t4") | of_group("gpus", "gpu")
    decided = decide(queue, limits=limits(0, create_blocks=held))
    assert decided.next_in_line == ["c-1", "c-2"]
    assert codes(decided) == ["at_quota", "at_quota", "behind"]
    assert "behind c-2" in list(decided.waiting.values())[2].message


def test_a_short_type_beside_one_at_quota_makes_no_second_next_in_line() -> None:
    queue = queue_of((9, 4, only("t4")), (5, 4, only("t4", "gpu")))
    held = of_group("q", "t4") | {"gpu": make_create_block(CAPACITY, "none left", "gpu")}
    decided = decide(queue, limits=limits(0, create_blocks=held))
    assert decided.next_in_line == ["c-1"]
    assert codes(decided) == ["at_quota", "behind"]


def test_a_quota_that_covers_every_type_stops_all_below() -> None:
    queue = queue_of((9, 4, only("t4")), (5, 1, only("t1")), (3, 4, only("gpu")))
    decided = decide(queue, slot("g", GPU), limits=limits(1, held=(QUOTA, "full")))
    assert placed(decided) == {}
    assert decided.stopped
    assert codes(decided) == ["at_quota", "behind", "behind"]
    assert decided.unwanted == ["g"]


def test_max_instances_stops_all_below_though_a_group_is_at_quota_too() -> None:
    queue = queue_of((9, 4, only("t4")), (5, 4, only("gpu")))
    held = limits(1, 1, create_blocks=of_group("q", "t4"))
    decided = decide(queue, slot("g", GPU), limits=held)
    assert decided.stopped
    assert placed(decided) == {}


# ---- at a quota the limit counts containers, not instances ---------------------------------------


def test_small_containers_go_on_being_packed_at_quota() -> None:
    queue = queue_of(*[(5, 1, Constraints())] * 12, types=[T8])
    decided = decide(
        queue, slot("a", T8, used=3), slot("b", T8), limits=limits(2, held=(QUOTA, "two at most"))
    )
    assert sorted(placed(decided).values()) == ["a"] * 5 + ["b"] * 7, "with two instances, twelve"
    assert decided.next_in_line == []
    assert decided.unwanted == []


def test_the_same_within_the_quota_of_a_group() -> None:
    queue = queue_of(*[(5, 1, only("t4"))] * 9)
    decided = decide(
        queue,
        slot("a", T4),
        slot("b", T4, used=1),
        limits=limits(2, create_blocks=of_group("q", "t4")),
    )
    assert len(decided.places) == 7
    assert decided.next_in_line == ["c-8"]


# ---- shortages, trials, tokens -------------------------------------------------------------------


def test_what_is_short_is_passed_over_for_the_next_cheapest_and_then_skipped() -> None:
    queue = queue_of((9, 1, only("t1", "t2")), (5, 1, only("t1")), (3, 4, only("t4")))
    decided = decide(queue, limits=limits(0, short=("t1",)))
    assert [s.type.name for s in decided.creates] == ["t2", "t4"]
    assert codes(decided) == ["at_capacity"]
    assert decided.next_in_line == []


def test_one_create_is_tried_in_a_scope_on_trial_and_the_rest_waits_for_it() -> None:
    trial = {EVERYTHING: make_create_block(CreateBlockKind.OTHER, "one is being tried", until=None)}
    queue = queue_of((9, 4, only("t4")), (5, 4, only("t4")), (3, 4, only("gpu")))
    decided = decide(queue, limits=limits(0, trials={"t4": trial, "gpu": trial}))
    assert [s.type.name for s in decided.creates] == ["t4"]
    assert codes(decided) == ["creating", "creating"]
    assert decided.next_in_line == []


def test_a_trial_of_one_type_lets_others_be_created_freely() -> None:
    short = make_create_block(CAPACITY, "none", "t1", until=None)
    trial = {Scope(type_name="t1"): short}
    queue = queue_of((9, 1, only("t1")), (5, 1, only("t1")), (4, 4, only("t4", "gpu")))
    decided = decide(queue, limits=limits(0, trials={"t1": trial}))
    assert [s.type.name for s in decided.creates] == ["t1", "t4"]
    assert placed(decided) == {"c-1": "new-000000", "c-3": "new-000001"}
    assert codes(decided) == ["at_capacity"]
    (reason,) = decided.waiting.values()
    assert reason.message == "the cloud is short of t1; one create is being tried"


def test_what_can_go_elsewhere_leaves_the_one_on_trial_to_those_that_cannot() -> None:
    short = make_create_block(CAPACITY, "none", "t1", until=None)
    trial = {Scope(type_name="t1"): short}
    queue = queue_of((9, 1, only("t1", "gpu")), (5, 1, only("t1")))
    decided = decide(queue, limits=limits(0, trials={"t1": trial}))
    assert [s.type.name for s in decided.creates] == ["gpu", "t1"]
    assert len(placed(decided)) == 2


def test_a_create_under_way_on_trial_hinders_all_of_its_scope() -> None:
    flying = make_create_block(CreateBlockKind.OTHER, "one is being tried", "t4", until=None)
    decided = decide(queue_of((9, 4, only("t4"))), limits=limits(0, create_blocks={"t4": flying}))
    assert decided.creates == []
    assert codes(decided) == ["creating"]


def test_a_rate_limit_keeps_nobody_from_the_room_that_is_left() -> None:
    queue = queue_of((9, 4, only("t4")), (5, 1, only("t1")))
    held = (CreateBlockKind.OTHER, "slow down")
    decided = decide(queue, slot("a", T1), limits=limits(1, held=held))
    assert placed(decided) == {"c-2": "a"}
    assert codes(decided) == ["creates_held"]


EVENING = 1_700_075_710.75  # 2023-11-15T19:15:10Z


def test_who_waits_for_a_hold_is_told_when_the_first_of_its_types_is_tried_again() -> None:
    ends = {"t1": EVENING + 3600, "t2": EVENING, "t4": EVENING + 60}
    for kind, message in (
        (QUOTA, "no creates before 2023-11-15T19:15:10Z: of t2"),
        (CreateBlockKind.OTHER, "no creates before 2023-11-15T19:15:10Z: of t2"),
        (CAPACITY, "the cloud is short of t1, t2, t4; tried again at 2023-11-15T19:15:10Z"),
    ):
        held = {
            name: make_create_block(kind, f"of {name}", name, until=end)
            for name, end in ends.items()
        }
        decided = decide(queue_of((9, 1, only(*ends))), limits=limits(0, create_blocks=held))
        assert [reason.message for reason in decided.waiting.values()] == [message]


def test_what_ends_before_a_quota_does_is_told_with_its_own_end() -> None:
    held = {
        "t1": make_create_block(QUOTA, "8 at most", "t1", until=EVENING),
        "t2": make_create_block(CreateBlockKind.OTHER, "slow down", "t2", until=EVENING + 5),
    }
    decided = decide(queue_of((9, 1, only("t1", "t2"))), limits=limits(0, create_blocks=held))
    assert codes(decided) == ["creates_held"]
    (reason,) = decided.waiting.values()
    assert reason.message == "no creates before 2023-11-15T19:15:15Z: slow down"


def test_a_type_that_is_being_tried_is_told_of_before_those_that_are_held() -> None:
    for kind in (QUOTA, CreateBlockKind.OTHER):
        held = {
            "t1": make_create_block(kind, "8 at most", "t1", until=EVENING),
            "t2": make_create_block(kind, "one create is being tried", "t2", until=None),
        }
        decided = decide(queue_of((9, 1, only("t1", "t2"))), limits=limits(0, create_blocks=held))
        assert codes(decided) == ["creating"]
        (reason,) = decided.waiting.values()
        assert reason.message == "one create is being tried"
        assert decided.next_in_line == [], "a trial is no refusal"


def test_without_tokens_creates_wait_and_say_so() -> None:
    queue = queue_of((9, 4, only("t4")), (5, 4, only("t4")), (5, 4, only("t4")))
    decided = decide(queue, limits=limits(0, tokens_left=2))
    assert len(decided.creates) == 2
    assert decided.tokens_short
    (reason,) = decided.waiting.values()
    assert reason.code == "creating"
    assert "max_cloud_ops_per_second" in reason.message
    enough = decide(queue, limits=limits(0, tokens_left=3))
    assert not enough.tokens_short
    bounded = decide(queue, limits=limits(0, creates_left=2, tokens_left=2))
    assert not bounded.tokens_short, "an answer will wake the planner"


def test_who_waits_for_the_share_of_supervisors_is_told_so_only_while_others_have_it() -> None:
    queue = queue_of((9, 4, only("t4")))
    for number, name in ((2, "t1"), (3, "t2")):
        waiting = make_container(number, cpus=1, priority=5, constraints=only(name))
        queue.add(replace(waiting, spec=replace(waiting.spec, supervisor=True)))
    free = replace(limits(0), containers_left=9, supervisors_left=1)
    decided = decide(queue, limits=free)
    assert codes(decided) == ["supervisors"], "the other one has the share"
    decided = decide(queue, limits=replace(free, max_instances=1))
    assert sorted(codes(decided)) == ["at_quota", "behind"], "nobody has it"


def test_a_supervisor_whose_type_is_gone_waits_for_that_and_for_nobody() -> None:
    queue = queue_of((9, 4, only("t4")))
    for number, name in ((2, "t1"), (3, "t16")):
        waiting = make_container(number, cpus=1, priority=5, constraints=only(name))
        queue.add(replace(waiting, spec=replace(waiting.spec, supervisor=True)))
    one = replace(limits(1, 2), containers_left=9, supervisors_left=1)
    decided = decide(queue, slot("i", T2), limits=one)
    assert sorted(codes(decided)) == ["at_quota", "no_type"]
