"""The cheapest new instances for what fits no instance that is there or on its way; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from longshore.dispatcher.domain.containers import Placement
from longshore.dispatcher.scheduler.scale_up.exact import cheapest_exact
from longshore.dispatcher.scheduler.scale_up.heuristic import (
    best_solution,
    better_solution,
    by_priority,
)
from longshore.dispatcher.scheduler.scale_up.improve import topped_up, trimmed
from longshore.dispatcher.scheduler.scale_up.problem import (
    NOTHING_PREPAID,
    Group,
    Item,
    Option,
    PackingProblem,
    Solution,
)
from longshore.drivers.interface import InstanceType

_FEW = 32

__all__ = ["Item", "NewInstance", "Option", "cheapest_solution"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewInstance:
    """One instance to create; `contents` are (index, count) pairs sorted by index."""

    type: InstanceType
    contents: tuple[tuple[int, int], ...]


def cheapest_solution(
    items: Sequence[Item],
    *,
    placement: Placement,
    max_containers: int,
    most_instances: int,
    most_of: Callable[[str], int | None],
    prepaid_left: Mapping[str, int] = NOTHING_PREPAID,
) -> tuple[NewInstance, ...]:
    """Return the new instances with the lowest price an hour that hold the items.

    `items` come in order of priority. `max_containers` is the most that one instance may hold,
    `most_instances` the most instances in all, and `most_of` says how many there may be of a type
    (by name), None for no limit; `prepaid_left` is how many of a type cost nothing more. When not
    everything fits within `most_instances`, the solution holds as much as it can in order of
    priority, on larger types where that helps; lower items fill the room that is left. What is not
    held is in no contents.

    At equal prices smaller instances are taken. The instances come in order of what they hold, the
    most important first, so that whoever may create only the first of them takes those that matter
    most. It is the very cheapest for a handful of containers, and close to it for more.
    """
    if most_instances <= 0 or not items:
        return ()
    if placement is Placement.EXCLUSIVE:
        max_containers = 1
    problem = PackingProblem(
        items, max_containers=max_containers, most_of=most_of, prepaid_left=prepaid_left
    )
    if placement is Placement.EXCLUSIVE:
        return _listed(problem, _exclusive(problem, most_instances))
    solution = best_solution(problem, problem.demand, most_instances)
    solution = (
        _at_the_limit(problem, solution, most_instances)
        if any(solution.left)
        else trimmed(solution)
    )
    return _listed(problem, solution.groups)


def _exclusive(problem: PackingProblem, most: int) -> list[Group]:
    """Return an instance a container, each on the cheapest type that is to be had."""
    solution = Solution.nothing(problem, problem.demand)
    for number, count in problem.order:
        lacking = count
        for type_ in problem.options[number]:
            if lacking and solution.count < most and solution.available(type_):
                contents = ((number, 1),)
                if problem.holds(type_, contents):
                    times = min(lacking, solution.repeats(type_, contents, most))
                    solution.buy(type_, contents, times)
                    lacking -= times
    return solution.groups


def _at_the_limit(problem: PackingProblem, solution: Solution, most: int) -> Solution:
    """Return a solution that holds as much in order of priority or more, for less if it can."""
    solution = _longer(problem, solution, most)
    held = [whole - left for whole, left in zip(problem.demand, solution.left, strict=True)]
    left, solution.left = solution.left, [0] * len(held)
    solution = trimmed(better_solution(solution, held, most))
    solution.left = left
    lacking = 0
    while lacking != (lacking := sum(solution.left)):
        solution = topped_up(solution)
        if solution.count < most:
            by_priority(
                solution, most, order=[number for number, left in enumerate(solution.left) if left]
            )
        if sum(solution.left) < lacking:
            solution = trimmed(solution)  # which may leave room for more
    return solution


def _longer(problem: PackingProblem, solution: Solution, most: int) -> Solution:
    """Return a solution that holds more in order of priority if a handful of containers wait."""
    total = sum(problem.demand)
    if total > _FEW:
        return solution
    low, high = (
        _first_lacking(solution),
        total,
    )  # `low` are held by `solution`, all never by any solution found
    while high - low > 1:
        middle = (low + high) // 2
        demand = _first(problem, middle)
        found = cheapest_exact(problem, demand, most)
        if found is None:
            high = middle
        else:
            pairs = zip(problem.demand, demand, strict=True)
            found.left = [whole - part for whole, part in pairs]
            low, solution = middle, found
    return solution


def _first_lacking(solution: Solution) -> int:
    """Return how many containers are held before the first that is not."""
    held = 0
    for (_, count), lacking in zip(solution.problem.order, solution.unheld(), strict=True):
        held += count - lacking
        if lacking:
            break
    return held


def _first(problem: PackingProblem, most: int) -> list[int]:
    """Return the demand of the first so many containers."""
    demand = [0] * len(problem.demand)
    for number, count in problem.order:
        taken = min(count, most)
        demand[number] += taken
        most -= taken
    return demand


def _listed(problem: PackingProblem, groups: Sequence[Group]) -> tuple[NewInstance, ...]:
    """Return the instances one by one, those with the most important contents first."""
    held = [0] * len(problem.demand)
    target = [0] * len(problem.demand)
    left = [group.times for group in groups]
    holding: list[list[int]] = [[] for _ in problem.demand]
    for place, group in enumerate(groups):
        for number, _ in group.contents:
            holding[number].append(place)
    amounts = [dict(group.contents) for group in groups]
    for number, places in enumerate(holding):
        places.sort(key=lambda place: (-amounts[place][number], groups[place].contents, place))
    found: list[NewInstance] = []
    for number, count in problem.order:
        target[number] += count
        for place in holding[number]:
            lacking = target[number] - held[number]
            times = min(left[place], -(-lacking // amounts[place][number]))
            if times > 0:
                left[place] -= times
                for each, amount in groups[place].contents:
                    held[each] += amount * times
                found += [_instance(problem, groups[place])] * times
    return tuple(found)


def _instance(problem: PackingProblem, group: Group) -> NewInstance:
    contents = sorted((problem.indexes[number], count) for number, count in group.contents)
    return NewInstance(type=problem.types[group.type], contents=tuple(contents))
