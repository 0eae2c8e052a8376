"""The planner on literal cases: the rows of the design's tables that this issue has, and ties."""

from __future__ import annotations

from decimal import Decimal

import pytest

from longshore.dispatcher.domain.containers import Constraints, Placement, Preemptible, Profile
from longshore.dispatcher.domain.feasibility import eligible_types, impossible, rejections
from longshore.dispatcher.scheduler.batch.plan import plan
from longshore.dispatcher.scheduler.placement.fleet import PackingPolicy, Slot, SlotKind
from longshore.dispatcher.scheduler.placement.snapshot import Plan
from longshore.dispatcher.state.queue import Queue
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.holds import CreateBlockKind
from tests.rigs.planner import make_limits, make_view
from tests.samples import GIB, make_container, make_type


def slot(
    id_: str, type_: InstanceType, *, kind: SlotKind = SlotKind.READY, used: int = 0, **more: object
) -> Slot:
    """Return a worker with `used` one-cpu containers on it."""
    taken = Resources(cpu_millis=1000 * used, memory_bytes=GIB * used)
    values: dict[str, object] = {
        "kind": kind,
        "id": id_,
        "type": type_,
        "free": type_.allocatable.minus(taken),
        "count": used,
        "last_busy": 0.0,
        "idle": used == 0,
        **more,
    }
    return Slot(**values)  # type: ignore[arg-type]  # the fields of a slot, by name


def decide(
    queue: Queue,
    *slots: Slot,
    placement: Placement = Placement.PACKED,
    profile: Profile = Profile.OPTIMIZE_UTILIZATION,
    max_instances: int = 100,
    creates_left: int = 100,
    held: str = "",
    short: tuple[str, ...] = (),
) -> Plan:
    """Plan one pass."""
    limits = make_limits(
        instances=len(slots),
        max_instances=max_instances,
        creates_left=creates_left,
        held=(CreateBlockKind.QUOTA, held) if held else None,
        short=short,
    )
    rules = PackingPolicy(placement=placement, profile=profile, max_containers=256)
    return plan(make_view(queue, slots, limits, rules))


def queue_of(types: list[InstanceType], *containers: object, factor: float = 1.5) -> Queue:
    """Return a queue of containers."""
    queue = Queue(
        lambda k: eligible_types(types, k.resources, k.constraints, max_price_factor=factor)
    )
    for container in containers:
        queue.add(container)  # type: ignore[arg-type]  # containers only
    return queue


def placed(decided: Plan) -> dict[str, str]:
    """Return container id -> slot id."""
    return {container_id: slot.id for container_id, slot in decided.places}


T1, T2, T3, T4 = (make_type(n) for n in (1, 2, 3, 4))


def test_exclusive_one_starts_on_the_idle_t1_and_three_t1_are_created() -> None:
    queue = queue_of([T1, T2], *(make_container(n) for n in range(1, 5)), factor=1)
    decided = decide(
        queue,
        slot("a", T1),
        slot("b", T2),
        slot("c", T2),
        placement=Placement.EXCLUSIVE,
    )
    assert placed(decided)["c-1"] == "a"
    assert [s.type.name for s in decided.creates] == ["t1", "t1", "t1"]


def test_packed_without_a_t1_two_t2_are_created() -> None:
    queue = queue_of([T2, T3], *(make_container(n) for n in range(1, 5)))
    decided = decide(queue)
    assert [s.type.name for s in decided.creates] == ["t2", "t2"]


def test_packed_with_an_idle_t3_three_start_on_it_and_one_t2_is_created() -> None:
    queue = queue_of([T2, T3], *(make_container(n) for n in range(1, 5)))
    decided = decide(queue, slot("a", T3))
    assert sorted(placed(decided).values()) == ["a", "a", "a", "new-000000"]
    assert [s.type.name for s in decided.creates] == ["t2"]


def test_a_type_that_is_not_to_be_had_is_skipped_and_lower_ones_go_on() -> None:
    queue = queue_of(
        [T1, T4],
        make_container(4, cpus=4, priority=4),
        make_container(3, cpus=4, priority=3),
        make_container(1, cpus=1, priority=1),
        factor=1,
    )
    decided = decide(queue, slot("a", T4), short=("t4",))
    assert placed(decided) == {"c-4": "a", "c-1": "new-000000"}
    assert [s.type.name for s in decided.creates] == ["t1"]
    assert decided.next_in_line == []
    assert [r.code for r in decided.waiting.values()] == ["at_capacity"]


@pytest.mark.parametrize(
    ("profile", "expected"),
    [(Profile.OPTIMIZE_UTILIZATION, ["a", "a", "a"]), (Profile.DISTRIBUTE_LOAD, ["a", "b", "c"])],
)
def test_profiles_fill_the_fullest_or_the_emptiest(profile: Profile, expected: list[str]) -> None:
    queue = queue_of([T3], *(make_container(n) for n in (1, 2, 3)))
    decided = decide(queue, *(slot(name, T3) for name in "abc"), profile=profile)
    assert list(placed(decided).values()) == expected


def test_with_nothing_creatable_a_smaller_one_passes_a_larger_that_is_short_of_cpus() -> None:
    queue = queue_of(
        [T4],
        make_container(1, cpus=3),
        make_container(2, cpus=2),
        make_container(3, cpus=1),
    )
    decided = decide(queue, slot("a", T4), short=("t4",))
    assert placed(decided) == {"c-1": "a", "c-3": "a"}


def test_at_quota_the_first_without_a_place_and_all_below_it_wait() -> None:
    queue = queue_of(
        [T1, T2],
        make_container(1, cpus=2, priority=9),
        make_container(2, cpus=1, priority=5),
        factor=10,
    )
    decided = decide(queue, slot("a", T1), max_instances=1)
    assert placed(decided) == {}
    assert decided.next_in_line == ["c-1"]
    assert decided.unwanted == ["a"]
    assert [r.code for r in decided.waiting.values()] == ["at_quota", "behind"]
    assert "behind c-1" in list(decided.waiting.values())[1].message


def test_at_quota_what_no_type_serves_says_so_and_is_not_told_to_queue() -> None:
    hopeless = make_container(2, priority=5, constraints=Constraints(labels=(("zone", "x"),)))
    queue = queue_of([T1, T2], make_container(1, cpus=2, priority=9), hopeless, factor=10)
    decided = decide(queue, slot("a", T1), max_instances=1)
    reasons = list(decided.waiting.values())
    assert [r.code for r in reasons] == ["at_quota", "no_type"]
    assert "zone=x" in reasons[1].message


def test_booting_capacity_counts_so_that_nothing_is_created_twice() -> None:
    queue = queue_of([T2], *(make_container(n) for n in range(1, 5)))
    decided = decide(
        queue, slot("a", T2, kind=SlotKind.COMING), slot("b", T2, kind=SlotKind.LAUNCHING)
    )
    assert decided.creates == []
    assert list(placed(decided).values()) == ["a", "a", "b", "b"]


def test_a_ready_worker_is_preferred_to_a_fuller_one_that_boots() -> None:
    queue = queue_of([T4], make_container(1))
    decided = decide(queue, slot("a", T4, kind=SlotKind.COMING, used=3), slot("b", T4, used=0))
    assert placed(decided) == {"c-1": "b"}


def test_ties_go_to_the_cheapest_and_then_to_the_most_recently_busy() -> None:
    cheap = make_type(2, name="cheap", price="0.20")
    queue = queue_of([cheap, T2], make_container(1))
    decided = decide(
        queue,
        slot("a", T2, last_busy=9.0),
        slot("b", cheap, last_busy=1.0),
        slot("c", cheap, last_busy=5.0),
    )
    assert placed(decided) == {"c-1": "c"}


def test_no_more_creates_than_concurrency_allows() -> None:
    queue = queue_of([T1], *(make_container(n) for n in range(1, 6)))
    decided = decide(queue, creates_left=2)
    assert len(decided.creates) == 2
    assert [r.code for r in decided.waiting.values()] == ["creating"]


def test_planning_leaves_the_queue_as_it_was() -> None:
    queue = queue_of([T1], *(make_container(n) for n in range(1, 6)))
    first, second = placed(decide(queue)), placed(decide(queue))
    assert first == second
    assert len(queue) == 5


def test_eligible_types_are_cheapest_first_and_none_beyond_the_price_factor() -> None:
    small = make_type(2, name="a-small", price="0.3")
    large = make_type(4, name="a-large", price="0.3")
    names = [
        t.name
        for t in eligible_types(
            [large, T4, small, T1],
            Resources(cpu_millis=2000, memory_bytes=GIB),
            Constraints(),
            max_price_factor=1.5,
        )
    ]
    assert names == ["a-small", "a-large"], "equal prices: the smaller first; t4 is too dear"


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        (Constraints(instance_types=("other",)), ["not among the wanted instance_types"]),
        (Constraints(preemptible=Preemptible.REQUIRED), ["not preemptible"]),
        (Constraints(labels=(("zone", "b"),)), ["label zone=b missing"]),
        (Constraints(labels=(("absent", ""),)), ["label absent= missing"]),
        (
            Constraints(max_price_usd_per_hour=Decimal("0.1")),
            ["$0.123/h is above max_price_per_hour"],
        ),
    ],
)
def test_every_rejection_has_its_reason(constraints: Constraints, expected: list[str]) -> None:
    type_ = make_type(1, labels=(("zone", "a"),))
    assert rejections(type_, Resources(cpu_millis=500), constraints) == expected


def test_a_type_that_is_too_small_says_in_what() -> None:
    wanted = Resources(cpu_millis=9000, memory_bytes=1, gpus=1, custom=(("licence", 1),))
    assert rejections(T1, wanted, Constraints()) == [
        "too small in cpus",
        "has no gpus",
        "has no licence",
    ]


def test_a_preemptible_type_is_rejected_where_forbidden() -> None:
    type_ = make_type(1, preemptible=True)
    forbidden = Constraints(preemptible=Preemptible.FORBIDDEN)
    assert rejections(type_, Resources(), forbidden) == ["preemptible"]


def test_an_impossible_request_names_the_nearest_type_but_labels_never_refuse() -> None:
    types = [T1, T4]
    assert "nearest is t4" in impossible(types, Resources(cpu_millis=99_000), Constraints())
    assert impossible(types, Resources(), Constraints(labels=(("no", "such"),))) == ""
    assert "no instance types" in impossible([], Resources(), Constraints())


def test_the_reserve_of_the_operating_system_is_not_given_away() -> None:
    type_ = make_type(1, reserve=Resources(memory_bytes=GIB))
    wanted = Resources(cpu_millis=1000, memory_bytes=GIB)
    assert rejections(type_, wanted, Constraints()) == ["too small in memory"]


def test_a_remainder_below_zero_fits_nothing() -> None:
    free = Resources(cpu_millis=2000).minus(Resources(cpu_millis=4000))
    assert not Resources(cpu_millis=1).fits_in(free)


def test_classes_of_one_priority_are_served_in_the_order_of_arrival_when_few_are_created() -> None:
    many = [
        make_container(n, cpus=1, constraints=Constraints(instance_types=("t1",)))
        for n in range(1, 8)
    ]
    other = make_container(3, cpus=2, constraints=Constraints(instance_types=("t2",)))
    many[2] = other
    queue = queue_of([T1, T2], *many)
    decided = decide(queue, creates_left=3)
    assert [slot.type.name for slot in decided.creates] == ["t1", "t1", "t2"]
    assert sorted(placed(decided)) == ["c-1", "c-2", "c-3"]
