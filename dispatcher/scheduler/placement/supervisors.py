"""How many supervisors may have a place at limits of instances; pure.

Supervisors submit other containers and wait for them. Where no more instances may be had they could
hold all of them while those wait for room, for ever. So at each such limit that is known
(`max_instances`, money, what the cloud's quotas have told) they may be a share of the containers
that can have a place there, at least one: of those that have one, of those of their own size that
fit beside them, and of those that fit on what may be created yet.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from longshore.dispatcher.scheduler.placement.fleet import Fleet, PackingPolicy
from longshore.dispatcher.scheduler.placement.snapshot import Ceiling, ClassPlacement, Limits
from longshore.drivers.interface import Resources
from longshore.pool.charging import charge

_ROUNDING = 1e-9
_PLENTY = 1_000_000


def share_of(fraction: float, containers: float) -> int:
    """Return how many of so many containers may be supervisors: at least one."""
    return max(1, math.floor(fraction * containers + _ROUNDING))


@dataclass(slots=True)
class Shares:
    """How many supervisors have a place at each ceiling, and how many of a line may have one."""

    taken: list[int]
    allowed: dict[int, dict[int, int]] = field(default_factory=dict)

    def left(self, line: ClassPlacement) -> int | None:
        """Return how many more of a line may have a place, None for any number."""
        found = self.allowed.get(line.number, {}).items()
        return min((max(0, most - self.taken[index]) for index, most in found), default=None)

    def are_short(self, lines: Sequence[ClassPlacement]) -> bool:
        """Return whether not all who wait may have a place at once."""
        left = [(self.left(line), len(line.request_class)) for line in lines]
        return any(number is not None and number < waiting for number, waiting in left)

    def count(self, line: ClassPlacement, number: int) -> None:
        """Note that so many more of a line have a place, or fewer."""
        for index in self.allowed.get(line.number, ()):
            self.taken[index] += number


def shares(limits: Limits, lines: Sequence[ClassPlacement], fleet: Fleet) -> Shares:
    """Return what the supervisors of a pass may have; without any there is nothing to find out."""
    mine = [line for line in lines if line.key.supervisor]
    if not mine or not limits.ceilings:
        return Shares(taken=[])
    ceilings = (*limits.ceilings, *_all_together(limits.ceilings))
    running = limits.supervisors_on
    found = Shares(
        taken=[sum(n for name, n in running.items() if c.has(name)) for c in ceilings],
    )
    wanted: Counter[int] = Counter()
    for line in mine:
        for index, ceiling in enumerate(ceilings):
            if all(ceiling.has(type_.name) for type_ in line.request_class.types):
                wanted[index] += len(line.request_class)
    for line in mine:
        of_line: dict[int, int] = {}
        for index, ceiling in enumerate(ceilings):
            if all(ceiling.has(type_.name) for type_ in line.request_class.types):
                enough = found.taken[index] + wanted[index]
                of_line[index] = _allowed(limits, line, ceiling, fleet, enough)
        found.allowed[line.number] = of_line
    return found


def _all_together(ceilings: Sequence[Ceiling]) -> tuple[Ceiling, ...]:
    """Return the ceilings of some types as one, which holds for who may be on any of them."""
    some = [c.covers for c in ceilings if c.covers is not None]
    if len(some) < 2:
        return ()
    left = sum(ceiling.left for ceiling in ceilings if ceiling.covers is not None)
    return (Ceiling(covers=frozenset().union(*some), left=left),)


def _allowed(
    limits: Limits, line: ClassPlacement, ceiling: Ceiling, fleet: Fleet, enough: int
) -> int:
    """Return how many supervisors may be at a ceiling as far as a line goes, up to `enough`."""
    request_class, rules = line.request_class, fleet.rules
    needs = request_class.needs
    fits = [_fits(type_.allocatable, needs[type_.name], rules, 0) for type_ in request_class.types]
    containers = ceiling.left * max(1, min(fits, default=1))
    fraction = limits.supervisor_fraction
    for slot in fleet.slots.values():
        if share_of(fraction, containers) >= enough:
            break
        if ceiling.has(slot.type.name):
            need = needs.get(slot.type.name)
            more = 0 if need is None else _fits(slot.free, need, rules, slot.count)
            containers += slot.count + more
    return share_of(fraction, containers)


def _fits(free: Resources, need: Resources, rules: PackingPolicy, count: int) -> int:
    """Return how many requests fit beside so many containers, as far as cpus and memory go."""
    need = charge(need, on_shared_cpu=0)
    pairs = ((need.cpu_millis, free.cpu_millis), (need.memory_bytes, free.memory_bytes))
    room = min((whole // part for part, whole in pairs if part), default=_PLENTY)
    return max(0, min(room, rules.most_containers - count))
