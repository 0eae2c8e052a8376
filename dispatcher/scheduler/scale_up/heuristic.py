"""Good solutions for any demand: several ways to shop, the cheapest result; pure.

Work is counted, not timed, and bounded: it grows with classes, types and instances, never with the
number of containers. So the same items give the same solution on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from longshore.dispatcher.scheduler.scale_up.exact import cheapest_exact
from longshore.dispatcher.scheduler.scale_up.problem import (
    Contents,
    Group,
    PackingProblem,
    Solution,
)

MOST_STEPS = 3000
_WIDE = 160
_NARROW_CLASSES = 8
_NARROW_OPTIONS = 4
_MOST_FILLING = 24
_MOST_POOLED = 24
_NEARLY = 1 - 1e-9

_Shopper = Callable[[Solution, int], None]


def best_solution(problem: PackingProblem, demand: Sequence[int], most: int) -> Solution:
    """Return the cheapest solution found of at most `most` instances.

    It holds as much of the demand as the best way found does, in order of priority.
    """
    solution = Solution.nothing(problem, demand)
    by_priority(solution, most, order=[number for number, count in enumerate(demand) if count])
    if solution.count == most and 2 * sum(solution.left) > sum(demand):
        return solution  # far beyond the limit no other way holds more of what matters
    return better_solution(solution, demand, most)


def better_solution(solution: Solution, demand: Sequence[int], most: int) -> Solution:
    """Return the best solution found of at most `most` instances; `solution` is one of them."""
    problem = solution.problem
    exact = cheapest_exact(problem, demand, most)
    if exact is not None:
        return exact
    end = problem.steps + MOST_STEPS
    best, key = solution, (solution.unheld(), solution.cost)
    for shopper in _shoppers(problem, demand, most):
        other = Solution.nothing(problem, demand)
        shopper(other, most)
        other_key = (other.unheld(), other.cost)
        if other_key < key:
            best, key = other, other_key
        if problem.steps > end:
            return best
    return pooled(best, most, end)


def _shoppers(problem: PackingProblem, demand: Sequence[int], most: int) -> Iterator[_Shopper]:
    """Yield ways to shop, the most worthwhile first."""
    order = [number for number, count in enumerate(demand) if count]
    yield partial(one_by_one, order=order)
    wide = len(order) * len(problem.types) <= _WIDE
    shop = partial(by_value, wide=wide)
    if not wide:
        order = order[: most * problem.max_containers]
    for worth in _worths(problem, order, wide=wide):
        large = sorted(order, key=lambda number: (-worth[number], number))
        ways = [large, order, large[::-1]]
        if wide:
            ways += [_from(large, number) for number in large[1:]]
        for way in ways:
            yield partial(shop, order=way, worth=worth, extra=0.0)
        dear = sum(problem.prices) / len(problem.prices)
        for extra in (dear / 4, dear, 10 * dear):
            yield partial(shop, order=large, worth=worth, extra=extra)


def _from(order: Sequence[int], first: int) -> list[int]:
    return [first] + [number for number in order if number != first]


def _worths(
    problem: PackingProblem, order: Sequence[int], *, wide: bool
) -> Iterator[dict[int, float]]:
    """Yield what one container of each class is taken to be worth: its share of an instance."""
    shares: dict[int, float] = {}
    wholes: dict[int, float] = {}
    for number in order:
        options = problem.options[number]
        share = whole = float("inf")
        for type_ in options if wide else options[:_NARROW_OPTIONS]:
            price, room = problem.prices[type_], problem.room[type_]
            ask = problem.asks[type_][number]
            fit = problem.empty(type_).fits(number, problem.max_containers)
            if not fit:
                continue
            part = max((amount / room[d] for d, amount in ask.amounts), default=0.0)
            share = min(share, price * max(part, 1 / problem.max_containers))
            whole = min(whole, price / fit)
        shares[number] = share if share < float("inf") else 0.0
        wholes[number] = whole if whole < float("inf") else 0.0
    yield wholes
    yield shares


def by_priority(solution: Solution, most: int, *, order: Sequence[int]) -> None:
    """Buy for the first class that waits the type that holds most, in order of priority."""
    problem = solution.problem
    waiting = list(order)
    while solution.count < most and waiting:
        rooms = [
            (t, problem.empty(t)) for t in problem.options[waiting[0]] if solution.available(t)
        ]
        for number in waiting[:_NARROW_CLASSES]:
            problem.steps += len(rooms)
            fits = [room.fits(number, solution.left[number]) for _, room in rooms]
            held = max(fits, default=0)
            if held:
                rooms = [pair for pair, fit in zip(rooms, fits, strict=True) if fit == held]
                for _, room in rooms:
                    room.take(number, held)
            elif number == waiting[0]:
                rooms = []
            if len(rooms) <= 1:
                break
        if not rooms:
            waiting.pop(0)
            continue
        _buy(solution, rooms[0][0], waiting, most)
        waiting = [number for number in waiting if solution.left[number]]


def one_by_one(solution: Solution, most: int, *, order: Sequence[int]) -> None:
    """Buy for each class its own cheapest type; others may come along."""
    problem = solution.problem
    for number in order:
        for type_ in problem.options[number]:
            while solution.left[number] and solution.count < most and solution.available(type_):
                if not problem.empty(type_).fits(number, 1):
                    break
                _buy(solution, type_, _from(order, number), most)


def _buy(solution: Solution, type_: int, order: Sequence[int], most: int) -> None:
    contents = solution.problem.fill(type_, order[:_MOST_FILLING], solution.left)
    solution.buy(type_, contents, solution.repeats(type_, contents, most))


def by_value(
    solution: Solution,
    most: int,
    *,
    order: Sequence[int],
    worth: dict[int, float],
    extra: float,
    wide: bool,
) -> None:
    """Buy again and again the instance whose price is lowest for what it holds.

    `extra` is a price that each instance has beside its own: the higher, the fewer are bought.
    """
    problem = solution.problem
    waiting = list(order)
    while solution.count < most and waiting:
        options = range(len(problem.types)) if wide else problem.options[waiting[0]]
        window = waiting if wide else waiting[:_NARROW_CLASSES]
        best: tuple[float, int] | None = None
        for type_ in options if wide else options[:_NARROW_OPTIONS]:
            if not solution.available(type_):
                continue
            contents = problem.fill(type_, window, solution.left)
            value = sum(count * worth[number] for number, count in contents)
            if value:
                rate = (problem.prices[type_] + extra) / value
                if best is None or rate < best[0] * _NEARLY:
                    best = (rate, type_)
        if best is None:
            waiting = [] if wide else waiting[1:]
            continue
        _buy(solution, best[1], waiting, most)
        waiting = [number for number in waiting if solution.left[number]]


def pooled(solution: Solution, most: int, end: int) -> Solution:
    """Return a solution in which no two instances looked at are better bought anew.

    It stops when `end` steps have been taken.
    """
    problem = solution.problem
    known: set[tuple[Contents, int]] = set()
    changed = True
    while changed and problem.steps < end:
        changed = False
        for one, other in _pairs(solution.groups):
            pool = _pool(problem, one, other)
            cost = problem.costs[one.type] + problem.costs[other.type]
            key = (tuple((n, count) for n, count in enumerate(pool) if count), cost)
            if key in known or problem.steps >= end:
                continue
            known.add(key)
            better = _anew(solution, pool, (one, other), most)
            if better is not None and better.cost < cost:
                solution = _replaced(solution, one, other, better)
                changed = True
                break
    return solution


def _pairs(groups: Sequence[Group]) -> Iterator[tuple[Group, Group]]:
    """Yield pairs of instances; those bought last, which are the least well filled, first."""
    last = list(groups[::-1][:_MOST_POOLED])
    for place, one in enumerate(last):
        for other in last[place:]:
            if one is not other or one.times > 1:
                yield one, other


def _pool(problem: PackingProblem, one: Group, other: Group) -> list[int]:
    pool = [0] * len(problem.demand)
    for number, count in (*one.contents, *other.contents):
        pool[number] += count
    return pool


def _anew(
    solution: Solution, pool: Sequence[int], old: Sequence[Group], most: int
) -> Solution | None:
    """Return the cheapest solution for what a pair holds, on one instance more at most."""
    problem = solution.problem
    most = min(len(old) + 1, len(old) + most - solution.count)
    found = cheapest_exact(problem, pool, most)
    if found is None:
        found = Solution.nothing(problem, pool)
        by_priority(found, most, order=[number for number, count in enumerate(pool) if count])
    if any(found.left) or not _within_limits(solution, found, old):
        return None
    return found


def _within_limits(solution: Solution, found: Solution, old: Sequence[Group]) -> bool:
    for type_, most in enumerate(solution.problem.most):
        freed = sum(group.type == type_ for group in old)
        if most is not None and solution.bought[type_] - freed + found.bought[type_] > most:
            return False
    return True


def _replaced(solution: Solution, one: Group, other: Group, better: Solution) -> Solution:
    """Return a solution in which a pair is bought anew, as often as it occurs."""
    limited = any(solution.problem.most[group.type] is not None for group in better.groups)
    times = one.times // 2 if one is other else min(one.times, other.times)
    times = 1 if limited or len(better.groups) > 2 else times
    after = Solution.nothing(solution.problem, solution.left)
    for group in solution.groups:
        used = times * ((group is one) + (group is other))
        if group.times > used:
            after.keep(Group(group.type, group.contents, group.times - used))
    for group in better.groups:
        after.keep(Group(group.type, group.contents, group.times * times))
    return after
