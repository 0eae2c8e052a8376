"""What puts a solution in order after it was bought, each step alone."""

from __future__ import annotations

from longshore.dispatcher.scheduler.scale_up.heuristic import pooled
from longshore.dispatcher.scheduler.scale_up.improve import topped_up, trimmed
from longshore.dispatcher.scheduler.scale_up.problem import PackingProblem, Solution
from longshore.dispatcher.scheduler.scale_up.solve import Item, Option
from longshore.drivers.interface import InstanceType, Resources
from tests.samples import make_type

ONE_CPU = Resources(cpu_millis=1000)
BARGAIN = make_type(4, name="bargain", price="0.1")
T1, T2, T8 = make_type(1), make_type(2), make_type(8)
ENOUGH_STEPS = 100_000


def problem(count: int, *types: InstanceType, most: dict[str, int] | None = None) -> PackingProblem:
    options = tuple(Option(type=t, need=ONE_CPU) for t in (BARGAIN, T1, T2, T8) if t in types)
    item = Item(index=0, count=count, options=options)
    return PackingProblem([item], max_containers=8, most_of=(most or {}).get)


def bought(solution: Solution) -> list[tuple[str, int]]:
    return sorted(
        (solution.problem.types[group.type].name, group.times) for group in solution.groups
    )


def test_an_instance_becomes_one_of_the_cheapest_type_for_what_it_holds() -> None:
    solution = Solution.nothing(problem(1, T1, T8), [1])
    solution.buy(1, ((0, 1),), 1)
    assert bought(trimmed(solution)) == [("t1", 1)]


def test_an_instance_whose_contents_fit_beside_the_others_is_left_out() -> None:
    solution = Solution.nothing(problem(8, T8), [8])
    solution.buy(0, ((0, 3),), 1)
    solution.buy(0, ((0, 5),), 1)
    slim = trimmed(solution)
    assert bought(slim) == [("t8", 1)]
    assert slim.groups[0].contents == ((0, 8),)


def test_a_pair_of_instances_is_bought_anew_for_less() -> None:
    solution = Solution.nothing(problem(4, BARGAIN, T2), [4])
    solution.buy(1, ((0, 2),), 2)
    assert bought(pooled(solution, 10, ENOUGH_STEPS)) == [("bargain", 1)]


def test_a_pair_is_not_bought_anew_beyond_the_limit_of_a_type() -> None:
    solution = Solution.nothing(problem(8, BARGAIN, T2, most={"bargain": 1}), [8])
    solution.buy(0, ((0, 4),), 1)
    solution.buy(1, ((0, 2),), 2)
    assert bought(pooled(solution, 10, ENOUGH_STEPS)) == [("bargain", 1), ("t2", 2)]


def test_room_that_is_left_is_filled_with_what_is_left() -> None:
    solution = Solution.nothing(problem(5, T8), [5])
    solution.buy(0, ((0, 2),), 1)
    full = topped_up(solution)
    assert full.left == [0]
    assert full.groups[0].contents == ((0, 5),)
