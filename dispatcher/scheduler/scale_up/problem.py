"""What new instances could be bought for containers that wait, in whole numbers; pure.

Classes and types are numbers here: classes in order of priority, types cheapest first and the
smaller first among equals. A cost is one whole number that orders first by price, then by how
few of the largest types they have: so ties in price go to smaller instances, exactly.

What is prepaid costs nothing more: a type of which some are left is there twice, once for nothing
and only so many, and once at its price.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Final

from longshore.dispatcher.domain.feasibility import price_order
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.charging import SHARED_CPU_MILLIS, shares_a_cpu

Contents = tuple[tuple[int, int], ...]

_STEPS_TO_BEGIN = 8
_TIE_BITS = 24
_NAMED_DIMENSIONS = 4

NOTHING_PREPAID: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One type that may be created now for a want; `need` is what one container takes there."""

    type: InstanceType
    need: Resources
    #: Whether it is too dear but for what is prepaid of it.
    only_prepaid: bool = False


def options_of(
    types: Sequence[InstanceType],
    need: Callable[[InstanceType], Resources],
    *,
    max_price_factor: float | None,
) -> tuple[Option, ...]:
    """Return types (cheapest first) as options; those beyond the factor are only to be prepaid."""
    limit = _limit_of(types, max_price_factor)
    return tuple(
        Option(
            type=type_,
            need=need(type_),
            only_prepaid=limit is not None and type_.effective_usd_per_hour > limit,
        )
        for type_ in types
    )


def within_factor(
    types: Sequence[InstanceType], max_price_factor: float | None
) -> tuple[InstanceType, ...]:
    """Return those of types (cheapest first) that are not too dear, where nothing is prepaid."""
    limit = _limit_of(types, max_price_factor)
    if limit is None or types[-1].effective_usd_per_hour <= limit:
        return tuple(types)
    return tuple(each for each in types if each.effective_usd_per_hour <= limit)


def _limit_of(types: Sequence[InstanceType], max_price_factor: float | None) -> Decimal | None:
    if not types or max_price_factor is None:
        return None
    return types[0].effective_usd_per_hour * Decimal(str(max_price_factor))


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Containers of one request class that need new instances, next in order of priority."""

    #: The caller's number for the class. It may come again further down, with the same options.
    index: int
    #: Above 0.
    count: int
    #: Cheapest first, the smaller first among equals; never empty.
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Equal instances: the number of their type, what each holds as (class, count), how many."""

    type: int
    contents: Contents
    times: int


@dataclass(frozen=True, slots=True)
class ItemSize:
    """What one container takes: (dimension, amount above 0) pairs, and whether it shares a cpu."""

    amounts: tuple[tuple[int, int], ...]
    shares: bool


class Bin:
    """Free room of one instance, from empty on."""

    __slots__ = ("_asks", "free", "shared", "slots")

    def __init__(self, asks: Mapping[int, ItemSize], room: Sequence[int], slots: int) -> None:
        self._asks = asks
        self.free = list(room)
        self.slots = slots
        self.shared = False

    def fits(self, number: int, most: int) -> int:
        """Return how many more of a class fit, at most `most`; 0 if it may not go there."""
        ask = self._asks.get(number)
        if ask is None:
            return 0
        free = self.free
        fit = most if most < self.slots else self.slots  # noqa: FURB136 - thrice as fast as min()
        for dimension, amount in ask.amounts:
            each = free[dimension] // amount
            fit = min(fit, each)
        if fit <= 0 or (ask.shares and not self.shared and free[0] < SHARED_CPU_MILLIS):
            return 0
        return fit

    def copy(self) -> Bin:
        """Return a room with as much in it that changes on its own."""
        other = Bin(self._asks, self.free, self.slots)
        other.shared = self.shared
        return other

    def take(self, number: int, count: int) -> None:
        """Take the room of `count` > 0 that fit."""
        ask = self._asks[number]
        free = self.free
        if ask.shares and not self.shared:
            free[0] -= SHARED_CPU_MILLIS
            self.shared = True
        for dimension, amount in ask.amounts:
            free[dimension] -= amount * count
        self.slots -= count


class PackingProblem:
    """The wants of one call as numbers, with what each type costs and holds."""

    def __init__(
        self,
        items: Iterable[Item],
        *,
        max_containers: int,
        most_of: Callable[[str], int | None],
        prepaid_left: Mapping[str, int] = NOTHING_PREPAID,
    ) -> None:
        self.max_containers = max_containers
        self.indexes: list[int] = []
        self.demand: list[int] = []
        self.order: list[tuple[int, int]] = []
        options: list[tuple[Option, ...]] = []
        numbers: dict[int, int] = {}
        for item in items:
            number = numbers.setdefault(item.index, len(numbers))
            if number == len(options):
                self.indexes.append(item.index)
                self.demand.append(0)
                options.append(item.options)
            self.demand[number] += item.count
            self.order.append((number, item.count))
        found = {option.type.name: option.type for each in options for option in each}
        ordered = sorted(found.values(), key=price_order)
        free = [type_ for type_ in ordered if prepaid_left.get(type_.name, 0) > 0]
        free.sort(key=lambda type_: price_order(replace(type_, price_usd_per_hour=Decimal(0))))
        #: The first so many cost nothing.
        self._free = len(free)
        self.types = [*free, *ordered]
        self.most = _most(free, ordered, most_of, prepaid_left)
        self._price()
        self._measure(options)
        self.steps = 0

    def _price(self) -> None:
        prices = [type_.effective_usd_per_hour for type_ in self.types]
        prices[: self._free] = [Decimal(0)] * self._free
        places = min((_exponent(price) for price in prices), default=0)
        self.tie_bits = _TIE_BITS * len(prices)
        whole = [int(price.scaleb(-min(places, 0))) for price in prices]
        self.costs = [
            (price << self.tie_bits) + (1 << (_TIE_BITS * rank)) for rank, price in enumerate(whole)
        ]
        # A price of nothing still has to tell more from less.
        least = max(max(whole, default=0) * 1e-9, 1e-9)
        self.prices = [price + least * (rank + 1) for rank, price in enumerate(whole)]

    def _measure(self, options: Sequence[tuple[Option, ...]]) -> None:
        dimensions: dict[str, int] = {}
        for type_ in self.types:
            for name, _ in type_.allocatable.custom:
                dimensions.setdefault(name, _NAMED_DIMENSIONS + len(dimensions))
        width = _NAMED_DIMENSIONS + len(dimensions) + 1  # the last one is what no type has
        self.room = [_vector(type_.allocatable, dimensions, width) for type_ in self.types]
        free = {type_.name: number for number, type_ in enumerate(self.types[: self._free])}
        paid = {type_.name: n for n, type_ in enumerate(self.types) if n >= self._free}
        self.asks: list[dict[int, ItemSize]] = [{} for _ in self.types]
        self.options: list[list[int]] = []
        least: list[int] | None = None
        for number, each in enumerate(options):
            need, ask = None, ItemSize((), False)
            for option in each:
                if option.need is not need:
                    need = option.need
                    vector = _vector(need, dimensions, width)
                    amounts = tuple(pair for pair in enumerate(vector) if pair[1] > 0)
                    ask = ItemSize(amounts, shares_a_cpu(need))
                    least = list(vector) if least is None else list(map(min, least, vector))
                for type_number in _numbers(option, free, paid):
                    self.asks[type_number][number] = ask
            whole = [n for option in each for n in _numbers(option, free, paid)]
            self.options.append(
                sorted(n for n in whole if n < self._free) + [n for n in whole if n >= self._free]
            )
        # An instance with less free than every container takes is full.
        self._least = [pair for pair in enumerate(least or ()) if pair[1] > 0]

    def empty(self, type_: int) -> Bin:
        """Return the room of an instance that holds nothing."""
        return Bin(self.asks[type_], self.room[type_], self.max_containers)

    def filled(self, group: Group) -> Bin:
        """Return the room that is left on one instance of a group."""
        room = self.empty(group.type)
        for number, count in group.contents:
            room.take(number, count)
        return room

    def holds(self, type_: int, contents: Contents) -> bool:
        """Return whether an instance of a type may hold these together."""
        room = self.empty(type_)
        for number, count in contents:
            if room.fits(number, count) < count:
                return False
            room.take(number, count)
        return True

    def fill(self, type_: int, order: Sequence[int], left: Sequence[int]) -> Contents:
        """Return what an instance holds if classes are put in by turns, as many as fit of each."""
        room = self.empty(type_)
        contents = []
        self.steps += _STEPS_TO_BEGIN + len(order)
        for number in order:
            if left[number] and (count := room.fits(number, left[number])):
                room.take(number, count)
                contents.append((number, count))
                if not room.slots or any(room.free[d] < amount for d, amount in self._least):
                    break
        return tuple(contents)


@dataclass(slots=True)
class Solution:
    """A solution as it grows: its groups, and the demand that none of them holds."""

    problem: PackingProblem
    left: list[int]
    groups: list[Group]
    bought: list[int]
    count: int = 0
    cost: int = 0

    @classmethod
    def nothing(cls, problem: PackingProblem, demand: Sequence[int]) -> Solution:
        """Return a solution without instances."""
        return cls(problem, list(demand), [], [0] * len(problem.types))

    def available(self, type_: int) -> bool:
        """Return whether one more instance of a type may be bought."""
        most = self.problem.most[type_]
        return most is None or self.bought[type_] < most

    def repeats(self, type_: int, contents: Contents, most: int) -> int:
        """Return how many equal instances the demand that is left fills, within the limits."""
        times = min(self.left[number] // count for number, count in contents)
        limit = self.problem.most[type_]
        if limit is not None:
            times = min(times, limit - self.bought[type_])
        return min(times, most - self.count)

    def buy(self, type_: int, contents: Contents, times: int) -> None:
        """Add `times` > 0 equal instances for what is left."""
        for number, count in contents:
            self.left[number] -= count * times
        self.keep(Group(type_, contents, times))

    def keep(self, group: Group) -> None:
        """Add instances whose contents are not part of what is left any more."""
        last = self.groups[-1] if self.groups else group
        if self.groups and (last.type, last.contents) == (group.type, group.contents):
            self.groups[-1] = Group(group.type, group.contents, last.times + group.times)
        else:
            self.groups.append(group)
        self.bought[group.type] += group.times
        self.count += group.times
        self.cost += self.problem.costs[group.type] * group.times

    def unheld(self) -> list[int]:
        """Return how much of each want is not held, in order of priority."""
        problem = self.problem
        if not any(self.left):
            return [0] * len(problem.order)
        held = [whole - left for whole, left in zip(problem.demand, self.left, strict=True)]
        lacking = []
        for number, count in problem.order:
            got = min(held[number], count)
            held[number] -= got
            lacking.append(count - got)
        return lacking


def _most(
    free: Sequence[InstanceType],
    ordered: Sequence[InstanceType],
    most_of: Callable[[str], int | None],
    prepaid_left: Mapping[str, int],
) -> list[int | None]:
    """Return how many of each number there may be: what is free of a type is part of its limit."""
    limits = {type_.name: most_of(type_.name) for type_ in ordered}
    for_nothing: dict[str, int] = {}
    for type_ in free:
        limit, left = limits[type_.name], prepaid_left[type_.name]
        for_nothing[type_.name] = left if limit is None else min(left, limit)
    at_price = (
        None if limit is None else limit - for_nothing.get(name, 0)
        for name, limit in limits.items()
    )
    return [*for_nothing.values(), *at_price]


def _numbers(option: Option, free: Mapping[str, int], paid: Mapping[str, int]) -> list[int]:
    """Return the numbers under which an option's type is to be had, that for nothing first."""
    name = option.type.name
    found = [free[name]] if name in free else []
    return found if option.only_prepaid else [*found, paid[name]]


def _exponent(price: Decimal) -> int:
    exponent = price.normalize().as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0


def _vector(amount: Resources, dimensions: Mapping[str, int], width: int) -> tuple[int, ...]:
    vector = [amount.cpu_millis, amount.memory_bytes, amount.disk_bytes, amount.gpus]
    vector += [0] * (width - _NAMED_DIMENSIONS)
    for name, count in amount.custom:
        dimension = dimensions.get(name, width - 1)
        vector[dimension] = max(vector[dimension], count)
    return tuple(vector)
