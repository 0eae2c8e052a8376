"""Preemption: which attempts on an instance make way for a request that matters more; pure.

`victims(asked, priority, on)` answers for one instance, with an `Eviction` or with why there is
none; `choose(evictions, now)` picks one of those of several instances. Whether somebody may evict
at all is for `PreemptionSettings.allows`, and whom, for `may_evict`: callers ask both beforehand.

On one instance:

1. What is being ended already counts as room, and is never evicted again.
2. Only attempts go that may be evicted and are at least `MIN_GAP` priority points below.
3. The lowest priority goes first. Among equals it is the one that comes nearest to what is short:
   with `short` the amount that is missing in a dimension and `given` what the attempt gives back
   of it, the sum of ((short - given) / short)² over the dimensions that are short is least. Next
   the one that began last goes, since the least work is lost with it.
4. At last those are spared, the dearest first (the highest priority, then the oldest), without
   whom there is room all the same. So none is left that could stay.

The idea is Nomad's (developer.hashicorp.com/nomad/docs/concepts/scheduling/preemption), which asks
for a gap of 10 points of 100, begins with the lowest priority and scores by nearness of fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from itertools import groupby
from math import fsum, inf, prod
from typing import Annotated, assert_never

import msgspec

from longshore.dispatcher.input.quantities import PRIORITY_MAX
from longshore.dispatcher.scheduler.placement.fleet import Slot
from longshore.drivers.interface import Resources
from longshore.pool.charging import charge

MIN_GAP = 100
"""How many priority points a victim is below who evicts it, at least."""

PLACES = "places for containers"
"""What an instance is short of that has as many containers as it may have."""


class PreemptorKind(Enum):
    """What an attempt belongs to, or who asks for room.

    A supervisor is a batch container that submits others; components of elastic jobs are batch.
    """

    BATCH = "batch"
    SUPERVISOR = "supervisor"
    SYSTEM = "system"
    SYSBATCH = "sysbatch"


class PreemptionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who may evict others: system jobs, sysbatch jobs, and batch containers from a priority on.

    `batch` is the lowest priority from which batch containers do, None for none at all.
    """

    system: bool = True
    sysbatch: bool = False
    batch: Annotated[int, msgspec.Meta(ge=1, le=PRIORITY_MAX)] | None = None

    def allows(self, by: PreemptorKind, priority: int) -> bool:
        """Return whether what asks, of such a priority, may evict anybody."""
        match by:
            case PreemptorKind.SYSTEM:
                return self.system
            case PreemptorKind.SYSBATCH:
                return self.sysbatch
            case PreemptorKind.BATCH | PreemptorKind.SUPERVISOR:
                return self.batch is not None and priority >= self.batch
            case _:
                assert_never(by)


def may_evict(by: PreemptorKind, whom: PreemptorKind) -> bool:
    """Return whether one kind may evict another, if the gap between their priorities allows it.

    A batch container evicts none but batch containers: attempts of per-instance jobs have no other
    place to go to, and a supervisor that made way for what it submitted would submit it anew.
    Per-instance jobs have no other place either, so they evict every kind.
    """
    match by:
        case PreemptorKind.SYSTEM | PreemptorKind.SYSBATCH:
            return True
        case PreemptorKind.BATCH | PreemptorKind.SUPERVISOR:
            return whom is PreemptorKind.BATCH
        case _:
            assert_never(by)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningAttempt:
    """An attempt that holds resources on an instance; strays hold none that anybody knows of.

    `began_at` is in seconds since the epoch, None while nothing is known to run. `is_ending` says
    that it was told to end.
    """

    attempt_id: str
    priority: int
    resources: Resources
    began_at: float | None = None
    is_ending: bool = False
    may_be_evicted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUsage:
    """One instance with all that holds resources there.

    `slot` is never changed. Its free room is less than nothing where room that comes free is
    promised to others; `most_containers` is how many it may have at once.
    """

    slot: Slot
    attempts: tuple[RunningAttempt, ...]
    most_containers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """Whom to evict from an instance, lowest priority first.

    Without victims there is room already, or will be when all has ended that is being ended.
    """

    slot_id: str
    price_usd_per_hour: Decimal
    victims: tuple[RunningAttempt, ...]


class Blocker(Enum):
    """What is in the way of making room on an instance."""

    TOO_SMALL = "too_small"
    PROTECTED = "protected"
    PRIORITY = "priority"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoEviction:
    """Why nobody is evicted: the blocker, and the dimensions that stay short all the same."""

    blocker: Blocker
    short: tuple[str, ...]

    @property
    def message(self) -> str:
        """Return it as a clause about the instance."""
        short = f"it would be short of {' and '.join(self.short)}"
        match self.blocker:
            case Blocker.TOO_SMALL:
                return f"{short} even without all that runs on it"
            case Blocker.PROTECTED:
                return f"{short} unless more went, who may not be evicted"
            case Blocker.PRIORITY:
                return f"{short} unless more went, who are not {MIN_GAP} priority points below"
            case _:
                assert_never(self.blocker)


def victims(asked: Resources, priority: int, on: NodeUsage) -> Eviction | NoEviction:
    """Return whom to evict from an instance for a request, or why that makes no room for it.

    `asked` is what it needs on this type of instance, as `fit.need` tells. The order of the
    attempts does not matter. There is an eviction whenever any choice of victims would do.
    """
    trial = _Trial.of(asked, on)
    running = [attempt for attempt in on.attempts if not attempt.is_ending]
    evictable = [attempt for attempt in running if attempt.may_be_evicted]
    willing = [attempt for attempt in evictable if priority - attempt.priority >= MIN_GAP]
    short = trial.short_without(willing)
    if short:
        too_small = trial.short_without(running)
        if too_small:
            return NoEviction(blocker=Blocker.TOO_SMALL, short=too_small)
        blocker = Blocker.PROTECTED if trial.short_without(evictable) else Blocker.PRIORITY
        return NoEviction(blocker=blocker, short=short)
    taken = _taken(trial, willing)
    return Eviction(
        slot_id=on.slot.id,
        price_usd_per_hour=on.slot.type.price_usd_per_hour,
        victims=tuple(sorted(_needed(trial, taken), key=_loss)),
    )


def choose(evictions: Iterable[Eviction], now: float) -> Eviction | None:
    """Return the eviction by which least is lost, None when there is none to choose from.

    The priorities of the victims, added up, are least: few and low ones. Then it is by the number
    of the victims, by the seconds that they have run in all, by the price of the instance, and by
    its id. `now` is in seconds since the epoch.
    """

    def cost(eviction: Eviction) -> tuple[int, int, float, Decimal, str]:
        lost = eviction.victims
        began = [victim.began_at for victim in lost if victim.began_at is not None]
        return (
            sum(victim.priority for victim in lost),
            len(lost),
            # Added up exactly, so that the order of the victims makes no difference.
            fsum(max(0.0, now - began_at) for began_at in began),
            eviction.price_usd_per_hour,
            eviction.slot_id,
        )

    return min(evictions, key=cost, default=None)


@dataclass(slots=True, kw_only=True)
class _Trial:
    """The room on an instance for one request, while attempts are taken off and put back."""

    asked: Resources
    slot: Slot
    most_containers: int

    @classmethod
    def of(cls, asked: Resources, on: NodeUsage) -> _Trial:
        """Return it with all gone that is being ended."""
        slot = replace(on.slot)
        for attempt in on.attempts:
            if attempt.is_ending:
                slot.release(attempt.resources)
        return cls(asked=asked, slot=slot, most_containers=on.most_containers)

    def short(self) -> dict[str, int]:
        """Return how much is missing in each dimension that is short."""
        slot = self.slot
        wanted = charge(self.asked, on_shared_cpu=slot.on_shared_cpu)
        amounts, free = _amounts(wanted), _amounts(slot.free)
        short = {d: amounts.get(d, 0) - free.get(d, 0) for d in wanted.shortages(slot.free)}
        if slot.count >= self.most_containers:
            short[PLACES] = slot.count + 1 - self.most_containers
        return short

    def short_without(self, attempts: Iterable[RunningAttempt]) -> tuple[str, ...]:
        """Return the dimensions that are short once these are gone too."""
        without = replace(self, slot=replace(self.slot))
        for attempt in attempts:
            without.slot.release(attempt.resources)
        return tuple(without.short())

    def given(self, resources: Resources) -> dict[str, int]:
        """Return what comes free when the next attempt with such resources goes.

        The place for a container is left out: it is the same for all.
        """
        return _amounts(charge(resources, on_shared_cpu=self.slot.on_shared_cpu - 1))


def _taken(trial: _Trial, willing: Iterable[RunningAttempt]) -> list[RunningAttempt]:
    """Take attempts off until there is room; return them. All together make enough."""
    taken: list[RunningAttempt] = []
    for _, level in groupby(sorted(willing, key=_loss), key=_priority):
        # Those of one shape differ in their age only, and there are few shapes.
        by_shape: dict[Resources, list[RunningAttempt]] = {}
        for attempt in sorted(level, key=_loss, reverse=True):
            by_shape.setdefault(attempt.resources, []).append(attempt)
        while by_shape and (short := trial.short()):
            shape = _nearest(trial, short, by_shape)
            attempt = by_shape[shape].pop()
            if not by_shape[shape]:
                del by_shape[shape]
            trial.slot.release(attempt.resources)
            taken.append(attempt)
    return taken


def _nearest(
    trial: _Trial, short: dict[str, int], by_shape: dict[Resources, list[RunningAttempt]]
) -> Resources:
    """Return the shape that comes nearest to what is short; the last of each is its youngest."""

    def key(shape: Resources) -> tuple[int, tuple[int, float, str]]:
        return _distance(short, trial.given(shape)), _loss(by_shape[shape][-1])

    return min(by_shape, key=key)


def _distance(short: dict[str, int], given: dict[str, int]) -> int:
    """Return how far what comes free is from what is short, as an exact number to compare by.

    It is the sum of ((short - given) / short)², times the square of the product of all `short`,
    which is the same for everybody and leaves no fraction.
    """
    whole = prod(short.values())
    return sum(((s - given.get(d, 0)) * (whole // s)) ** 2 for d, s in short.items())


def _needed(trial: _Trial, taken: Iterable[RunningAttempt]) -> list[RunningAttempt]:
    """Put back, dearest first, whoever need not go; return the others.

    One round does: with fewer gone there is never more room, so who is needed once stays so.
    """
    needed = []
    for attempt in sorted(taken, key=_loss, reverse=True):
        trial.slot.assign(attempt.resources)
        if trial.short():
            trial.slot.release(attempt.resources)
            needed.append(attempt)
    return needed


def _priority(attempt: RunningAttempt) -> int:
    return attempt.priority


def _loss(attempt: RunningAttempt) -> tuple[int, float, str]:
    """Return the sort key of what is lost with an attempt; the least goes first."""
    age = -inf if attempt.began_at is None else -attempt.began_at
    return attempt.priority, age, attempt.attempt_id


def _amounts(resources: Resources) -> dict[str, int]:
    return {
        **dict(resources.custom),
        "cpus": resources.cpu_millis,
        "memory": resources.memory_bytes,
        "disk": resources.disk_bytes,
        "gpus": resources.gpus,
    }
