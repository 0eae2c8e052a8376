"""Good mixes of new instances for any demand: several ways to shop, the cheapest result; pure.

Work is counted, not timed, and bounded: it grows with classes, types and instances, never with the
number of containers. So the same wants give the same mix on every machine.
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


def best_mix(market: PackingProblem, demand: Sequence[int], most: int) -> Solution:
    """Return the cheapest mix found of at most `most` instances.

    It holds as much of the demand as the best way found does, in order of priority.
    """
    mix = Solution.nothing(market, demand)
    by_priority(mix, most, order=[number for number, count in enumerate(demand) if count])
    if mix.count == most and 2 * sum(mix.left) > sum(demand):
        return mix  # far beyond the limit no other way holds more of what matters
    return better_mix(mix, demand, most)


def better_mix(mix: Solution, demand: Sequence[int], most: int) -> Solution:
    """Return the best mix found of at most `most` instances for a demand; `mix` is one of them."""
    market = mix.market
    exact = cheapest_exact(market, demand, most)
    if exact is not None:
        return exact
    end = market.steps + MOST_STEPS
    best, key = mix, (mix.unheld(), mix.cost)
    for shopper in _shoppers(market, demand, most):
        other = Solution.nothing(market, demand)
        shopper(other, most)
        other_key = (other.unheld(), other.cost)
        if other_key < key:
            best, key = other, other_key
        if market.steps > end:
            return best
    return pooled(best, most, end)


def _shoppers(market: PackingProblem, demand: Sequence[int], most: int) -> Iterator[_Shopper]:
    """Yield ways to shop, the most worthwhile first."""
    order = [number for number, count in enumerate(demand) if count]
    yield partial(one_by_one, order=order)
    wide = len(order) * len(market.types) <= _WIDE
    shop = partial(by_value, wide=wide)
    if not wide:
        order = order[: most * market.max_containers]
    for worth in _worths(market, order, wide=wide):
        large = sorted(order, key=lambda number: (-worth[number], number))
        ways = [large, order, large[::-1]]
        if wide:
            ways += [_from(large, number) for number in large[1:]]
        for way in ways:
            yield partial(shop, order=way, worth=worth, extra=0.0)
        dear = sum(market.prices) / len(market.prices)
        for extra in (dear / 4, dear, 10 * dear):
            yield partial(shop, order=large, worth=worth, extra=extra)


def _from(order: Sequence[int], first: int) -> list[int]:
    return [first] + [number for number in order if number != first]


def _worths(
    market: PackingProblem, order: Sequence[int], *, wide: bool
) -> Iterator[dict[int, float]]:
    """Yield what one container of each class is taken to be worth: its share of an instance."""
    shares: dict[int, float] = {}
    wholes: dict[int, float] = {}
    for number in order:
        options = market.options[number]
        share = whole = float("inf")
        for type_ in options if wide else options[:_NARROW_OPTIONS]:
            price, room = market.prices[type_], market.room[type_]
            ask = market.asks[type_][number]
            fit = market.empty(type_).fits(number, market.max_containers)
            if not fit:
                continue
            part = max((amount / room[d] for d, amount in ask.amounts), default=0.0)
            share = min(share, price * max(part, 1 / market.max_containers))
            whole = min(whole, price / fit)
        shares[number] = share if share < float("inf") else 0.0
        wholes[number] = whole if whole < float("inf") else 0.0
    yield wholes
    yield shares


def by_priority(mix: Solution, most: int, *, order: Sequence[int]) -> None:
    """Buy for the first class that waits the type that holds most, in order of priority."""
    market = mix.market
    waiting = list(order)
    while mix.count < most and waiting:
        rooms = [(t, market.empty(t)) for t in market.options[waiting[0]] if mix.available(t)]
        for number in waiting[:_NARROW_CLASSES]:
            market.steps += len(rooms)
            fits = [room.fits(number, mix.left[number]) for _, room in rooms]
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
        _buy(mix, rooms[0][0], waiting, most)
        waiting = [number for number in waiting if mix.left[number]]


def one_by_one(mix: Solution, most: int, *, order: Sequence[int]) -> None:
    """Buy for each class its own cheapest type; others may come along."""
    market = mix.market
    for number in order:
        for type_ in market.options[number]:
            while mix.left[number] and mix.count < most and mix.available(type_):
                if not market.empty(type_).fits(number, 1):
                    break
                _buy(mix, type_, _from(order, number), most)


def _buy(mix: Solution, type_: int, order: Sequence[int], most: int) -> None:
    contents = mix.market.fill(type_, order[:_MOST_FILLING], mix.left)
    mix.buy(type_, contents, mix.repeats(type_, contents, most))


def by_value(
    mix: Solution,
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
    market = mix.market
    waiting = list(order)
    while mix.count < most and waiting:
        options = range(len(market.types)) if wide else market.options[waiting[0]]
        window = waiting if wide else waiting[:_NARROW_CLASSES]
        best: tuple[float, int] | None = None
        for type_ in options if wide else options[:_NARROW_OPTIONS]:
            if not mix.available(type_):
                continue
            contents = market.fill(type_, window, mix.left)
            value = sum(count * worth[number] for number, count in contents)
            if value:
                rate = (market.prices[type_] + extra) / value
                if best is None or rate < best[0] * _NEARLY:
                    best = (rate, type_)
        if best is None:
            waiting = [] if wide else waiting[1:]
            continue
        _buy(mix, best[1], waiting, most)
        waiting = [number for number in waiting if mix.left[number]]


def pooled(mix: Solution, most: int, end: int) -> Solution:
    """Return a mix in which no two instances looked at are better bought anew for their contents.

    It stops when `end` steps have been taken.
    """
    market = mix.market
    known: set[tuple[Contents, int]] = set()
    changed = True
    while changed and market.steps < end:
        changed = False
        for one, other in _pairs(mix.groups):
            pool = _pool(market, one, other)
            cost = market.costs[one.type] + market.costs[other.type]
            key = (tuple((n, count) for n, count in enumerate(pool) if count), cost)
            if key in known or market.steps >= end:
                continue
            known.add(key)
            better = _anew(mix, pool, (one, other), most)
            if better is not None and better.cost < cost:
                mix = _replaced(mix, one, other, better)
                changed = True
                break
    return mix


def _pairs(groups: Sequence[Group]) -> Iterator[tuple[Group, Group]]:
    """Yield pairs of instances; those bought last, which are the least well filled, first."""
    last = list(groups[::-1][:_MOST_POOLED])
    for place, one in enumerate(last):
        for other in last[place:]:
            if one is not other or one.times > 1:
                yield one, other


def _pool(market: PackingProblem, one: Group, other: Group) -> list[int]:
    pool = [0] * len(market.demand)
    for number, count in (*one.contents, *other.contents):
        pool[number] += count
    return pool


def _anew(mix: Solution, pool: Sequence[int], old: Sequence[Group], most: int) -> Solution | None:
    """Return the cheapest mix for what a pair holds, on one instance more at most."""
    market = mix.market
    most = min(len(old) + 1, len(old) + most - mix.count)
    found = cheapest_exact(market, pool, most)
    if found is None:
        found = Solution.nothing(market, pool)
        by_priority(found, most, order=[number for number, count in enumerate(pool) if count])
    if any(found.left) or not _within_limits(mix, found, old):
        return None
    return found


def _within_limits(mix: Solution, found: Solution, old: Sequence[Group]) -> bool:
    for type_, most in enumerate(mix.market.most):
        freed = sum(group.type == type_ for group in old)
        if most is not None and mix.bought[type_] - freed + found.bought[type_] > most:
            return False
    return True


def _replaced(mix: Solution, one: Group, other: Group, better: Solution) -> Solution:
    """Return a mix in which a pair is bought anew, as often as it occurs."""
    limited = any(mix.market.most[group.type] is not None for group in better.groups)
    times = one.times // 2 if one is other else min(one.times, other.times)
    times = 1 if limited or len(better.groups) > 2 else times
    after = Solution.nothing(mix.market, mix.left)
    for group in mix.groups:
        used = times * ((group is one) + (group is other))
        if group.times > used:
            after.keep(Group(group.type, group.contents, group.times - used))
    for group in better.groups:
        after.keep(Group(group.type, group.contents, group.times * times))
    return after
