"""Cases for the packing of new instances, from a seed, and what is really the cheapest."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path

import pulp

from longshore.dispatcher.domain.containers import Placement
from longshore.dispatcher.domain.feasibility import price_order
from longshore.dispatcher.scheduler.scale_up.solve import (
    Item,
    NewInstance,
    Option,
    cheapest_solution,
)
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.charging import charge
from tests.samples import GIB

MAX_CONTAINERS = 8
CBC = Path(sys.executable).with_name("cbc")  # comes with the development tools, beside Python


def random_case(seed: int, *, containers: int = 12, classes: int = 4) -> list[Item]:
    """Return wants of few containers, on types with odd prices and shapes."""
    dice = random.Random(seed)
    types = [random_type(dice, number) for number in range(dice.randint(2, 6))]
    items: list[Item] = []
    left = dice.randint(1, containers)
    for index in range(dice.randint(1, classes)):
        need = Resources(
            cpu_millis=500 * dice.choice((0, 1, 2, 2, 3, 4, 6, 8)),
            memory_bytes=GIB * dice.choice((1, 1, 2, 3, 5, 8)) // 2,
            gpus=dice.choice((0, 0, 0, 0, 1)),
            custom=(("license", 1),) if dice.random() < 0.1 else (),
        )
        options = [
            Option(type=type_, need=need)
            for type_ in sorted(types, key=price_order)
            if charge(need, on_shared_cpu=0).fits_in(type_.allocatable) and dice.random() < 0.9
        ]
        count = dice.randint(1, max(1, left))
        if options and left:
            items.append(Item(index=index, count=count, options=tuple(options)))
            left -= count
    return items or random_case(seed + 1_000_000, containers=containers, classes=classes)


def random_type(dice: random.Random, number: int) -> InstanceType:
    """Return a type of any shape at a price that is nearly, not quite, in proportion."""
    cpus = dice.choice((1, 2, 2, 3, 4, 4, 6, 8, 12, 16))
    gib = max(1, round(cpus * dice.choice((0.5, 1, 1, 2, 4))))
    gpus = dice.choice((0, 0, 0, 1, 2))
    worth = 0.04 * cpus + 0.005 * gib + 0.3 * gpus
    price = worth ** dice.choice((0.8, 0.9, 1, 1, 1.1, 1.25)) * dice.uniform(0.6, 1.5)
    return InstanceType(
        name=f"n{number}",
        provider_type=f"n{number}",
        resources=Resources(
            cpu_millis=1000 * cpus,
            memory_bytes=GIB * gib,
            gpus=gpus,
            custom=(("license", 2),) if dice.random() < 0.3 else (),
        ),
        price_usd_per_hour=Decimal(f"{price:.4f}"),
        reserve=Resources(memory_bytes=GIB // 8),
    )


def solve(
    items: Sequence[Item],
    *,
    placement: Placement = Placement.PACKED,
    max_containers: int = MAX_CONTAINERS,
    most_instances: int = 1000,
    most: dict[str, int] | None = None,
) -> tuple[NewInstance, ...]:
    """Return the solution, with limits that most cases do not reach."""
    return cheapest_solution(
        items,
        placement=placement,
        max_containers=max_containers,
        most_instances=most_instances,
        most_of=(most or {}).get,
    )


def price(solution: Sequence[NewInstance]) -> Decimal:
    """Return what a solution costs an hour."""
    return sum((new.type.price_usd_per_hour for new in solution), Decimal(0))


def holds(items: Sequence[Item], type_: InstanceType, contents: Sequence[tuple[int, int]]) -> bool:
    """Return whether an instance holds (index, count) pairs, found one container at a time."""
    needs = {
        (item.index, option.type.name): option.need for item in items for option in item.options
    }
    free, on_shared_cpu, held = type_.allocatable, 0, 0
    for index, count in contents:
        need = needs.get((index, type_.name))
        if count and need is None:
            return False
        for _ in range(count):
            assert need is not None
            free = free.minus(charge(need, on_shared_cpu=on_shared_cpu))
            on_shared_cpu += need.cpu_millis == 0
            held += 1
    return (
        held <= MAX_CONTAINERS
        and Resources().fits_in(free)
        and min((amount for _, amount in free.custom), default=0) >= 0
    )


def cheapest_by_contents(items: Sequence[Item]) -> dict[tuple[int, ...], InstanceType]:
    """Return the cheapest type for everything that one instance can hold of the items."""
    types = sorted(
        {option.type.name: option.type for w in items for option in w.options}.values(),
        key=price_order,
    )
    found: dict[tuple[int, ...], InstanceType] = {}
    for counts in _counts(items):
        contents = [(w.index, n) for w, n in zip(items, counts, strict=True) if n]
        type_ = next((t for t in types if contents and holds(items, t, contents)), None)
        if type_ is not None:
            found[counts] = type_
    return found


def _counts(items: Sequence[Item]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(item.count + 1) for item in items))


def optimum(items: Sequence[Item]) -> Decimal:
    """Return the lowest price that holds all wants, by going through every partition."""
    prices = {p: t.price_usd_per_hour for p, t in cheapest_by_contents(items).items()}
    best: dict[tuple[int, ...], Decimal] = {(0,) * len(items): Decimal(0)}
    for state in itertools.islice(_counts(items), 1, None):
        first = next(place for place, count in enumerate(state) if count)
        ways = []
        for held in itertools.product(*(range(count + 1) for count in state)):
            if held[first] and held in prices:
                rest = tuple(a - b for a, b in zip(state, held, strict=True))
                ways.append(prices[held] + best[rest])
        best[state] = min(ways)
    return best[tuple(item.count for item in items)]


def optimum_by_program(items: Sequence[Item]) -> Decimal:
    """Return the lowest price that holds all wants, by an integer program."""
    patterns = sorted(cheapest_by_contents(items).items())
    program = pulp.LpProblem("mix", pulp.LpMinimize)
    bought = [
        program.add_variable(f"bought_{number}", lowBound=0, cat=pulp.LpInteger)
        for number in range(len(patterns))
    ]
    pairs = list(zip(bought, patterns, strict=True))
    program += pulp.lpSum(b * float(t.price_usd_per_hour) for b, (_, t) in pairs)
    for place, item in enumerate(items):
        program += pulp.lpSum(b * held[place] for b, (held, _) in pairs) >= item.count
    # CBC is told to prove the optimum, without its usual gap.
    program.solve(pulp.COIN_CMD(path=str(CBC), msg=False, gapRel=0))
    assert pulp.LpStatus[program.status] == "Optimal"
    return sum((round(pulp.value(b)) * t.price_usd_per_hour for b, (_, t) in pairs), Decimal(0))
