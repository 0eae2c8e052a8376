"""The very cheapest solution for a handful of containers, by a bounded search; pure.

Instances are only thought of as full as they can be: one that holds less is never cheaper. The
search goes from the whole demand to none, what is most promising first, and gives up at a bound.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from longshore.dispatcher.scheduler.scale_up.problem import Contents, PackingProblem, Solution

MOST_STATES = 400
_MOST_PATTERNS = 400
_MOST_TRIED = 2000
_MOST_WALKED = 2000
_EPSILON = 1e-9

_Left = tuple[int, ...]
_State = tuple[_Left, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A full instance: the number of its type, what it holds of each class of the search."""

    type: int
    counts: _Left


class _TooLargeError(Exception):
    """The search would take longer than it is worth."""


def cheapest_exact(problem: PackingProblem, demand: Sequence[int], most: int) -> Solution | None:
    """Return the cheapest solution of at most `most` instances that holds the whole demand.

    None when there is none, or when looking for it would take too long.
    """
    classes = [number for number, count in enumerate(demand) if count]
    states = 1
    for number in classes:
        states *= demand[number] + 1
        if states > MOST_STATES:
            return None
    try:
        search = _Search(problem, classes, tuple(demand[number] for number in classes))
        if search.fewest(search.whole) > most:
            return None
        way = search.run(None)
        if way is not None and len(way) > most:
            way = search.run(most)
    except _TooLargeError:
        return None
    if way is None:
        return None
    solution = Solution.nothing(problem, demand)
    for (type_, counts), times in Counter(way).items():
        contents = zip(classes, counts, strict=True)
        solution.buy(type_, tuple(pair for pair in contents if pair[1]), times)
    return solution


class _Search:
    def __init__(self, problem: PackingProblem, classes: Sequence[int], whole: _Left) -> None:
        self._market = problem
        self._classes = classes
        self.whole = whole
        self._limited = [t for t, most in enumerate(problem.most) if most is not None]
        self._patterns = self._full_patterns()
        self._worth = self._lower_bounds([cost >> problem.tie_bits for cost in problem.costs])
        self._parts = self._lower_bounds([1] * len(problem.costs))
        self._holding = [[p for p in self._patterns if p.counts[i]] for i in range(len(classes))]
        self._tried = 0

    def _full_patterns(self) -> list[_Pattern]:
        found: list[_Pattern] = []
        end = self._market.steps + _MOST_WALKED
        for type_, most in enumerate(self._market.most):
            if most is None or most > 0:
                for counts in _fullest(self._market, type_, self._classes, self.whole):
                    found.append(_Pattern(type_, counts))
                    if len(found) > _MOST_PATTERNS or self._market.steps > end:
                        raise _TooLargeError
        costs = self._market.costs
        self._market.steps += len(found) ** 2 // 8
        return [p for p in found if not any(_beats(q, p, costs, self._market) for q in found)]

    def _lower_bounds(self, prices: Sequence[int]) -> list[float]:
        """Return what one container of each class costs at least: no solution costs less."""
        worth = [
            min((prices[p.type] / p.counts[i] for p in self._patterns if p.counts[i]), default=0.0)
            for i in range(len(self._classes))
        ]
        for pattern in self._patterns:
            value = sum(n * w for n, w in zip(pattern.counts, worth, strict=True))
            if value > prices[pattern.type]:
                scale = prices[pattern.type] / value
                worth = [w * scale if n else w for n, w in zip(pattern.counts, worth, strict=True)]
        return [w * (1 - _EPSILON) for w in worth]

    def _bound(self, left: _Left) -> int:
        least = sum(n * w for n, w in zip(left, self._worth, strict=True))
        return int(least) << self._market.tie_bits

    def fewest(self, left: _Left) -> int:
        """Return how many instances any solution for this has at least."""
        return math.ceil(sum(n * part for n, part in zip(left, self._parts, strict=True)))

    def run(self, most: int | None) -> list[tuple[int, _Left]] | None:
        """Return the instances of the cheapest solution, None when there is none."""
        start: _State = (self.whole, (0,) * len(self._limited) + (() if most is None else (0,)))
        costs = {start: 0}
        came: dict[_State, tuple[_State, int, _Left]] = {}
        heap = [(self._bound(self.whole), start)]
        while heap:
            bound, state = heapq.heappop(heap)
            left = state[0]
            if not any(left):
                return _way(came, state)
            cost = costs[state]
            if bound > cost + self._bound(left):
                continue  # a cheaper way to it was found meanwhile
            for type_, held, after in self._next(state, most):
                self._tried += 1
                self._market.steps += 1
                new = cost + self._market.costs[type_]
                if new < costs.get(after, new + 1):
                    costs[after] = new
                    came[after] = (state, type_, held)
                    heapq.heappush(heap, (new + self._bound(after[0]), after))
            if self._tried > _MOST_TRIED:
                raise _TooLargeError
        return None

    def _next(self, state: _State, most: int | None) -> Iterator[tuple[int, _Left, _State]]:
        left, used = state
        if most is not None and used[-1] + self.fewest(left) > most:
            return
        first = next(i for i, count in enumerate(left) if count)
        for pattern in self._holding[first]:
            now = self._used(used, pattern.type, most)
            if now is not None:
                held = tuple(map(min, left, pattern.counts))
                rest = tuple(a - b for a, b in zip(left, held, strict=True))
                yield pattern.type, held, (rest, now)

    def _used(self, used: tuple[int, ...], type_: int, most: int | None) -> tuple[int, ...] | None:
        """Return the instances that count against limits with one more, None if it is too many."""
        if type_ in self._limited:
            place = self._limited.index(type_)
            limit = self._market.most[type_]
            if limit is not None and used[place] >= limit:
                return None
            used = (*used[:place], used[place] + 1, *used[place + 1 :])
        return used if most is None else (*used[:-1], used[-1] + 1)


def _fullest(
    problem: PackingProblem, type_: int, classes: Sequence[int], whole: _Left
) -> Iterator[tuple[int, ...]]:
    """Yield everything that an instance can hold to which nothing of the demand can be added."""
    chosen: list[int] = [0] * len(classes)

    def contents(end: int) -> Contents:
        return tuple((classes[i], chosen[i]) for i in range(end) if chosen[i])

    def walk(place: int) -> Iterator[tuple[int, ...]]:
        room = problem.empty(type_)
        for number, count in contents(place):
            room.take(number, count)
        fit = room.fits(classes[place], whole[place])
        problem.steps += place + 1
        last = place == len(classes) - 1
        for count in range(fit, fit - 1 if last else -1, -1):
            chosen[place] = count
            if not last:
                yield from walk(place + 1)
            elif any(chosen) and not _has_room(problem, type_, contents(place + 1), classes, whole):
                yield tuple(chosen)
        chosen[place] = 0

    if any(classes_asked in problem.asks[type_] for classes_asked in classes):
        yield from walk(0)


def _has_room(
    problem: PackingProblem, type_: int, contents: Contents, classes: Sequence[int], whole: _Left
) -> bool:
    """Return whether one more container of the demand fits."""
    room = problem.empty(type_)
    held = dict(contents)
    for number, count in contents:
        room.take(number, count)
    return any(
        held.get(number, 0) < count and room.fits(number, 1)
        for number, count in zip(classes, whole, strict=True)
    )


def _beats(
    better: _Pattern, worse: _Pattern, costs: Sequence[int], problem: PackingProblem
) -> bool:
    """Return whether one pattern makes another needless: it holds as much and costs less.

    A type of which there are only so many replaces nothing.
    """
    return (
        costs[better.type] < costs[worse.type]
        and problem.most[better.type] is None
        and all(a >= b for a, b in zip(better.counts, worse.counts, strict=True))
    )


def _way(came: dict[_State, tuple[_State, int, _Left]], state: _State) -> list[tuple[int, _Left]]:
    way = []
    while state in came:
        state, type_, held = came[state]
        way.append((type_, held))
    return way[::-1]
