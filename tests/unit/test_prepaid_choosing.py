"""What is prepaid costs nothing more where instances are chosen: so many, and not one more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from longshore.dispatcher.domain.containers import Placement, Profile, SchedulerSettings
from longshore.dispatcher.domain.feasibility import eligible_types
from longshore.dispatcher.input.quantities import Price
from longshore.dispatcher.scheduler.batch.plan import plan
from longshore.dispatcher.scheduler.placement.fleet import PackingPolicy
from longshore.dispatcher.scheduler.scale_up.batch import CreateLimits
from longshore.dispatcher.scheduler.scale_up.dominated import worthwhile
from longshore.dispatcher.scheduler.scale_up.problem import options_of
from longshore.dispatcher.scheduler.scale_up.solve import (
    Item,
    NewInstance,
    Option,
    cheapest_solution,
)
from longshore.dispatcher.state.queue import Queue
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.messages import CreateInstance
from longshore.pool.model import PoolSettings
from tests.packing_cases import MAX_CONTAINERS, random_case
from tests.rigs.elastic_jobs import essential, submit
from tests.rigs.engine import Rig
from tests.rigs.planner import make_limits, make_view
from tests.samples import GIB, make_container, make_type

T1, T2 = make_type(1), make_type(2)
P2 = make_type(2, name="p2", price="0.9", prepaid=2)
P8 = make_type(8, name="p8", price="2", prepaid=1)
RULES = PackingPolicy(
    placement=Placement.PACKED, profile=Profile.OPTIMIZE_UTILIZATION, max_containers=256
)


def item(count: int, types: Sequence[InstanceType], *, factor: float | None = None) -> Item:
    need = Resources(cpu_millis=1000, memory_bytes=GIB)
    options = options_of(types, lambda _: need, max_price_factor=factor)
    return Item(index=0, count=count, options=options)


def solved(
    items: Sequence[Item],
    prepaid_left: Mapping[str, int],
    *,
    placement: Placement = Placement.PACKED,
    most: Mapping[str, int] | None = None,
) -> tuple[NewInstance, ...]:
    return cheapest_solution(
        items,
        placement=placement,
        max_containers=MAX_CONTAINERS,
        most_instances=1000,
        most_of=(most or {}).get,
        prepaid_left=prepaid_left,
    )


def names(solution: Sequence[NewInstance]) -> dict[str, int]:
    return dict(sorted(Counter(new.type.name for new in solution).items()))


def test_prepaid_instances_come_first_and_the_rest_is_the_cheapest_at_its_price() -> None:
    types = [T1, T2, P2]
    assert names(solved([item(3, types)], {"p2": 2})) == {"p2": 2}
    assert names(solved([item(7, types)], {"p2": 2})) == {"p2": 2, "t1": 3}
    assert names(solved([item(300, types)], {"p2": 2})) == {"p2": 2, "t1": 296}
    assert names(solved([item(3, types)], {})) == {"t1": 3}, "none is left"


def test_no_more_are_created_than_are_of_use_though_they_cost_nothing() -> None:
    assert names(solved([item(1, [T1, P2])], {"p2": 50})) == {"p2": 1}
    assert names(solved([item(4, [T1, P8])], {"p8": 50})) == {"p8": 1}


def test_alone_on_an_instance_each_takes_a_prepaid_one_as_long_as_there_are_some() -> None:
    found = solved([item(5, [T1, P2])], {"p2": 2}, placement=Placement.EXCLUSIVE)
    assert names(found) == {"p2": 2, "t1": 3}


def test_what_is_prepaid_is_part_of_a_limit_of_its_type() -> None:
    assert names(solved([item(9, [P2])], {"p2": 2}, most={"p2": 3})) == {"p2": 3}
    assert names(solved([item(9, [T1, P2])], {"p2": 2}, most={"p2": 1})) == {"p2": 1, "t1": 7}


def test_what_is_too_dear_is_created_as_far_as_it_is_prepaid() -> None:
    found = solved([item(7, [T1, P2], factor=1.5)], {"p2": 2}, most={"t1": 1})
    assert names(found) == {"p2": 2, "t1": 1}, "two wait rather than that they get a dear one"


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.data())
def test_the_first_so_many_are_free_and_it_costs_no_more_than_without(
    seed: int, data: st.DataObject
) -> None:
    items = random_case(seed)
    there = sorted({option.type.name for each in items for option in each.options})
    left = {name: data.draw(st.integers(1, 4), name) for name in there if data.draw(st.booleans())}
    found, without = solved(items, left), solved(items, {})
    held: Counter[int] = Counter()
    for new in found:
        held.update(dict(new.contents))
    assert held == Counter({each.index: each.count for each in items})
    assert charged(found, left) <= charged(without, left) * Decimal("1.1"), "close to the cheapest"
    assert all(new.contents for new in found)


def charged(solution: Sequence[NewInstance], left: Mapping[str, int]) -> Decimal:
    """Return what a solution costs an hour, without the first so many of each type."""
    price = {new.type.name: new.type.effective_usd_per_hour for new in solution}
    numbers = Counter(new.type.name for new in solution)
    found = (price[n] * max(0, count - left.get(n, 0)) for n, count in numbers.items())
    return sum(found, Decimal(0))


def test_the_price_rule_leaves_a_prepaid_type_in_and_none_that_is_not() -> None:
    dear = make_type(2, name="dear", price="0.9")
    need = Resources(cpu_millis=1000, memory_bytes=GIB)
    found = eligible_types(
        [T1, P2, dear], need, make_container(1).spec.constraints, max_price_factor=1.5
    )
    assert [type_.name for type_ in found] == ["t1", "p2"]


def test_among_many_types_a_prepaid_one_is_looked_at_and_makes_no_other_needless() -> None:
    need = Resources(cpu_millis=1000, memory_bytes=GIB)
    cheap = make_type(4, name="cheap", price="0.1", prepaid=1)
    plain, dear = make_type(4, name="plain", price="0.2"), make_type(2, price="3")
    classes = [[Option(type=type_, need=need) for type_ in (cheap, T1, plain, P2, dear)]]
    assert worthwhile(classes, may_replace=lambda _: True) == {"cheap", "t1", "plain", "p2"}


def decided(count: int, left: Mapping[str, int], **more: object) -> dict[str, int]:
    """Return what a pass creates for so many containers, by type."""
    types = [T1, P2]
    queue = Queue(lambda k: eligible_types(types, k.resources, k.constraints, max_price_factor=1.5))
    for number in range(1, count + 1):
        queue.add(make_container(number))
    limits = make_limits(instances=0, max_instances=100, **more)  # type: ignore[arg-type]  # by name
    limits = replace(limits, prepaid_left=left, max_price_factor=1.5)
    made = plan(make_view(queue, (), limits, RULES)).creates
    return dict(sorted(Counter(slot.type.name for slot in made).items()))


def test_a_pass_creates_what_is_prepaid_first_and_counts_what_it_creates() -> None:
    assert decided(6, {"p2": 2}) == {"p2": 2, "t1": 2}
    assert decided(2, {}) == {"t1": 2}, "none is left, and at its price it is too dear"


def test_where_the_cheap_type_is_short_no_more_of_the_dear_one_comes_than_is_prepaid() -> None:
    assert decided(9, {"p2": 2}, short=("t1",)) == {"p2": 2}
    assert decided(9, {}, short=("t1",)) == {}


def test_what_a_pass_has_created_takes_a_prepaid_place_in_its_next_round() -> None:
    limits = make_limits(instances=0, max_instances=100)
    this_pass = CreateLimits(replace(limits, prepaid_left={"p2": 2}))
    dear = Option(type=P2, need=Resources(), only_prepaid=True)
    this_pass.create(P2)
    assert (this_pass.prepaid_left, this_pass.is_within_price(dear)) == ({"p2": 1}, True)
    this_pass.create(P2)
    assert (this_pass.prepaid_left, this_pass.is_within_price(dear)) == ({}, False)


def test_all_that_are_there_or_on_their_way_take_a_prepaid_place() -> None:
    rig = Rig(T1, P2, pool=PoolSettings(max_concurrent_creates=10))
    rig.submit(make_container(1, cpus=2, priority=900))
    rig.advance(10)
    assert rig.created_types() == ["p2"]
    rig.silent.add(CreateInstance)
    rig.submit(*(make_container(number) for number in range(2, 5)))
    rig.advance(10)
    assert sorted(rig.created_types()) == ["p2", "p2", "t1"]
    rig.submit(make_container(9))
    rig.advance(10)
    assert sorted(rig.created_types()) == ["p2", "p2", "t1", "t1"]


def test_elastic_jobs_get_what_is_prepaid_first_and_no_more_of_it() -> None:
    rig = Rig(
        T1,
        P2,
        pool=PoolSettings(max_concurrent_creates=10),
        settings=SchedulerSettings(max_price_factor=1.5),
    )
    submit(rig, 1, essential(6))
    assert sorted(rig.created_types()) == ["p2", "p2", "t1", "t1"]


def test_a_limit_of_spending_that_is_below_the_price_of_what_is_prepaid_stops_no_job() -> None:
    rig = Rig(
        T1,
        P2,
        pool=PoolSettings(max_concurrent_creates=10),
        settings=SchedulerSettings(max_hourly_spend_usd=Price("0.5")),
    )
    submit(rig, 1, essential(2))
    rig.submit(make_container(7))
    rig.advance(10)
    assert rig.created_types() == ["t1", "t1", "t1"]
