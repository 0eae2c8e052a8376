"""The cheapest mix of new instances for what fits no instance that is there or on its way; pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longshore.dispatcher.domain.containers import Placement
from longshore.dispatcher.scheduler.scale_up.exact import cheapest_exact
from longshore.dispatcher.scheduler.scale_up.heuristic import best_mix, better_mix, by_priority
from longshore.dispatcher.scheduler.scale_up.improve import topped_up, trimmed
from longshore.dispatcher.scheduler.scale_up.problem import (
    Group,
    Item,
    Option,
    PackingProblem,
    Solution,
)
from longshore.drivers.interface import InstanceType

_FEW = 32

__all__ = ["Item", "NewInstance", "Option", "cheapest_mix"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewInstance:
    """One instance to create; `contents` are (index, count) pairs sorted by index."""

    type: InstanceType
    contents: tuple[tuple[int, int], ...]


def cheapest_mix(
    wants: Sequence[Item],
    *,
    placement: Placement,
    max_containers: int,
    most_instances: int,
    most_of: Callable[[str], int | None],
) -> tuple[NewInstance, ...]:
    """Return the mix of new instances with the lowest price an hour that holds the wants.

    `wants` come in order of priority. `max_containers` is the most that one instance may hold,
    `most_instances` the most instances in all, and `most_of` says how many there may be of a type
    (by name), None for no limit. When not everything fits within `most_instances`, the mix holds as
    much as it can in order of priority, on larger types where that helps; lower wants fill the room
    that is left. What is not held is in no contents.

    At equal prices smaller instances are taken. The instances come in order of what they hold, the
    most important first, so that whoever may create only the first of them takes those that matter
    most. The mix is the very cheapest for a handful of containers, and close to it for more.
    """
    if most_instances <= 0 or not wants:
        return ()
    if placement is Placement.EXCLUSIVE:
        max_containers = 1
    market = PackingProblem(wants, max_containers=max_containers, most_of=most_of)
    if placement is Placement.EXCLUSIVE:
        return _listed(market, _exclusive(market, most_instances))
    mix = best_mix(market, market.demand, most_instances)
    mix = _at_the_limit(market, mix, most_instances) if any(mix.left) else trimmed(mix)
    return _listed(market, mix.groups)


def _exclusive(market: PackingProblem, most: int) -> list[Group]:
    """Return an instance a container, each on the cheapest type that is to be had."""
    mix = Solution.nothing(market, market.demand)
    for number, count in market.order:
        lacking = count
        for type_ in market.options[number]:
            if lacking and mix.count < most and mix.available(type_):
                contents = ((number, 1),)
                if market.holds(type_, contents):
                    times = min(lacking, mix.repeats(type_, contents, most))
                    mix.buy(type_, contents, times)
                    lacking -= times
    return mix.groups


def _at_the_limit(market: PackingProblem, mix: Solution, most: int) -> Solution:
    """Return a mix that holds as much as `mix` in order of priority or more, for less if it can."""
    mix = _longer(market, mix, most)
    held = [whole - left for whole, left in zip(market.demand, mix.left, strict=True)]
    left, mix.left = mix.left, [0] * len(held)
    mix = trimmed(better_mix(mix, held, most))
    mix.left = left
    lacking = 0
    while lacking != (lacking := sum(mix.left)):
        mix = topped_up(mix)
        if mix.count < most:
            by_priority(mix, most, order=[number for number, left in enumerate(mix.left) if left])
        if sum(mix.left) < lacking:
            mix = trimmed(mix)  # which may leave room for more
    return mix


def _longer(market: PackingProblem, mix: Solution, most: int) -> Solution:
    """Return a mix that holds more in order of priority if a handful of containers wait."""
    total = sum(market.demand)
    if total > _FEW:
        return mix
    low, high = _first_lacking(mix), total  # `low` are held by `mix`, all never by any mix found
    while high - low > 1:
        middle = (low + high) // 2
        demand = _first(market, middle)
        found = cheapest_exact(market, demand, most)
        if found is None:
            high = middle
        else:
            pairs = zip(market.demand, demand, strict=True)
            found.left = [whole - part for whole, part in pairs]
            low, mix = middle, found
    return mix


def _first_lacking(mix: Solution) -> int:
    """Return how many containers are held before the first that is not."""
    held = 0
    for (_, count), lacking in zip(mix.market.order, mix.unheld(), strict=True):
        held += count - lacking
        if lacking:
            break
    return held


def _first(market: PackingProblem, most: int) -> list[int]:
    """Return the demand of the first so many containers."""
    demand = [0] * len(market.demand)
    for number, count in market.order:
        taken = min(count, most)
        demand[number] += taken
        most -= taken
    return demand


def _listed(market: PackingProblem, groups: Sequence[Group]) -> tuple[NewInstance, ...]:
    """Return the instances one by one, those with the most important contents first."""
    held = [0] * len(market.demand)
    target = [0] * len(market.demand)
    left = [group.times for group in groups]
    holding: list[list[int]] = [[] for _ in market.demand]
    for place, group in enumerate(groups):
        for number, _ in group.contents:
            holding[number].append(place)
    amounts = [dict(group.contents) for group in groups]
    for number, places in enumerate(holding):
        places.sort(key=lambda place: (-amounts[place][number], groups[place].contents, place))
    found: list[NewInstance] = []
    for number, count in market.order:
        target[number] += count
        for place in holding[number]:
            lacking = target[number] - held[number]
            times = min(left[place], -(-lacking // amounts[place][number]))
            if times > 0:
                left[place] -= times
                for each, amount in groups[place].contents:
                    held[each] += amount * times
                found += [_instance(market, groups[place])] * times
    return tuple(found)


def _instance(market: PackingProblem, group: Group) -> NewInstance:
    contents = sorted((market.indexes[number], count) for number, count in group.contents)
    return NewInstance(type=market.types[group.type], contents=tuple(contents))
