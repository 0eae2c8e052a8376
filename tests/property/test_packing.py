"""Properties of the packing of new instances on generated wants, types and limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from longshore.dispatcher.domain.containers import Placement
from longshore.dispatcher.domain.feasibility import price_order
from longshore.dispatcher.scheduler.scale_up.solve import Item, NewInstance, Option
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.charging import charge
from tests.packing_cases import holds, price, solve
from tests.samples import GIB

Amounts = dict[int, int]


@st.composite
def instance_types(draw: st.DrawFn) -> list[InstanceType]:
    shapes = st.tuples(
        st.integers(1, 16), st.integers(1, 32), st.integers(0, 1), st.integers(0, 400)
    )
    return sorted(
        (
            InstanceType(
                name=f"n{number}",
                provider_type=f"n{number}",
                resources=Resources(cpu_millis=1000 * cpus, memory_bytes=GIB * gib, gpus=gpus),
                price_usd_per_hour=Decimal(cents) / 100,
            )
            for number, (cpus, gib, gpus, cents) in enumerate(
                draw(st.lists(shapes, min_size=1, max_size=6))
            )
        ),
        key=price_order,
    )


@st.composite
def demands(draw: st.DrawFn, *, classes: int = 8, most: int = 30) -> list[Item]:
    types = draw(instance_types())
    known: dict[int, tuple[Option, ...]] = {}
    items = []
    for _ in range(draw(st.integers(1, classes))):
        index = draw(st.integers(0, classes))
        if index not in known:
            need = Resources(
                cpu_millis=500 * draw(st.integers(0, 8)),
                memory_bytes=GIB // 2 * draw(st.integers(0, 8)),
                gpus=draw(st.sampled_from((0, 0, 0, 1))),
            )
            known[index] = tuple(
                Option(type=type_, need=need)
                for type_ in types
                if charge(need, on_shared_cpu=0).fits_in(type_.allocatable) and draw(st.booleans())
            )
        if known[index]:
            count = draw(st.integers(1, most))
            items.append(Item(index=index, count=count, options=known[index]))
    return items


def wanted(items: Sequence[Item]) -> Counter[int]:
    total: Counter[int] = Counter()
    for item in items:
        total[item.index] += item.count
    return total


def held(solution: Sequence[NewInstance]) -> Counter[int]:
    total: Counter[int] = Counter()
    for new in solution:
        total.update(dict(new.contents))
    return total


def fits_beside(items: Sequence[Item], solution: Sequence[NewInstance], gone: int) -> bool:
    """Return whether the others could hold what one holds, put in by turns where it first fits."""
    others = [(new.type, dict(new.contents)) for place, new in enumerate(solution) if place != gone]
    for index, count in solution[gone].contents:
        for _ in range(count):
            for type_, amounts in others:
                more = {**amounts, index: amounts.get(index, 0) + 1}
                if holds(items, type_, sorted(more.items())):
                    amounts.update(more)
                    break
            else:
                return False
    return True


@settings(max_examples=300, deadline=None)
@given(demands(), st.sampled_from(list(Placement)))
def test_everything_is_held_where_it_may_be(items: list[Item], placement: Placement) -> None:
    solution = solve(items, placement=placement)
    assert held(solution) == wanted(items)
    for new in solution:
        assert new.contents, "no instance is bought for nothing"
        assert list(new.contents) == sorted(new.contents)
        assert all(count > 0 for _, count in new.contents)
        assert holds(items, new.type, new.contents)
        if placement is Placement.EXCLUSIVE:
            assert sum(count for _, count in new.contents) == 1
    assert solve(items, placement=placement) == solution, "the same items give the same solution"


@settings(max_examples=300, deadline=None)
@given(demands(most=8))
def test_nothing_is_bought_that_can_be_done_without(items: list[Item]) -> None:
    solution = solve(items)
    types = sorted(
        {o.type.name: o.type for w in items for o in w.options}.values(), key=price_order
    )
    for place, new in enumerate(solution):
        # What costs nothing is not tried in every order: its contents may fit by another one.
        costs = new.type.price_usd_per_hour > 0
        assert not (costs and fits_beside(items, solution, place)), f"{new} could be left out"
        cheaper = next(t for t in types if holds(items, t, new.contents))
        assert new.type.price_usd_per_hour <= cheaper.price_usd_per_hour
        assert new.type == cheaper, "at equal prices the smaller type"


@settings(max_examples=300, deadline=None)
@given(demands())
def test_exclusive_is_never_cheaper_than_packed(items: list[Item]) -> None:
    assert price(solve(items)) <= price(solve(items, placement=Placement.EXCLUSIVE))


@settings(max_examples=300, deadline=None)
@given(
    demands(),
    st.sampled_from(list(Placement)),
    st.integers(0, 12),
    st.dictionaries(st.sampled_from(["n0", "n1", "n2"]), st.integers(0, 2)),
)
def test_limits_are_kept(
    items: list[Item], placement: Placement, most_instances: int, most: dict[str, int]
) -> None:
    solution = solve(items, placement=placement, most_instances=most_instances, most=most)
    assert len(solution) <= most_instances
    bought = Counter(new.type.name for new in solution)
    assert all(bought[name] <= limit for name, limit in most.items())
    assert held(solution) <= wanted(items)
    assert all(new.contents and holds(items, new.type, new.contents) for new in solution)
    if held(solution) != wanted(items) and len(solution) < most_instances:
        _check_nothing_else_could_be_bought(items, solution, bought, most)
    again = solve(items, placement=placement, most_instances=most_instances, most=most)
    assert again == solution


def _check_nothing_else_could_be_bought(
    items: Sequence[Item],
    solution: Sequence[NewInstance],
    bought: Counter[str],
    most: dict[str, int],
) -> None:
    lacking = wanted(items) - held(solution)
    for item in items:
        if lacking[item.index]:
            names = {option.type.name for option in item.options}
            assert all(bought[name] >= most.get(name, bought[name] + 1) for name in names)


@settings(max_examples=200, deadline=None)
@given(demands(), st.integers(1, 6))
def test_at_the_limit_no_lower_want_takes_the_room_of_a_higher(
    items: list[Item], most_instances: int
) -> None:
    solution = solve(items, most_instances=most_instances)
    lacking = wanted(items) - held(solution)
    for index in lacking:
        for new in solution:
            amounts = dict(new.contents)
            amounts[index] = amounts.get(index, 0) + 1
            assert not holds(items, new.type, sorted(amounts.items())), "room is left over"


@settings(max_examples=200, deadline=None)
@given(demands(), st.integers(1, 10))
def test_a_higher_limit_never_holds_less_of_the_first(items: list[Item], most: int) -> None:
    first = items[0].index if items else 0
    fewer, more = (held(solve(items, most_instances=limit))[first] for limit in (most, most + 1))
    whole = items[0].count if items else 0
    assert min(fewer, whole) <= more


@settings(max_examples=200, deadline=None)
@given(demands())
def test_the_first_instances_hold_the_most_important(items: list[Item]) -> None:
    solution = solve(items)
    target: Counter[int] = Counter()
    got: Counter[int] = Counter()
    place = 0
    for item in items:
        target[item.index] += item.count
        while got[item.index] < target[item.index]:
            assert dict(solution[place].contents).get(item.index, 0) > 0
            got.update(dict(solution[place].contents))
            place += 1
    assert place == len(solution)
