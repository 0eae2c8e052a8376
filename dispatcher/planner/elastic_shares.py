"""Spare cpus of an instance, shared among the elastic-job containers there; pure.

What no container has reserved is shared equally above the minimum that each asked for. Containers
with GPUs keep what they asked for: they have as many cpus as go with their GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from longshore.drivers.interface import Resources
from longshore.pool.room import SHARED_CPU_MILLIS, charge


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharer:
    """A container of an elastic job that runs on the instance, by the id of its attempt.

    `given` is what it was given there: the least that it ever has.
    """

    attempt_id: str
    given: Resources

    @property
    def least_millis(self) -> int:
        """Return the thousandths of a cpu that it has without any share."""
        return self.given.cpu_millis or SHARED_CPU_MILLIS


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuLimit:
    """What an attempt may use from now on."""

    attempt_id: str
    cpu_millis: int


def unreserved_millis(allocatable: Resources, reserved: Iterable[Resources]) -> int:
    """Return the thousandths of a cpu that no container of an instance has reserved, at least 0.

    `reserved` is what each container there was given, those of elastic jobs and all others.
    """
    left, sharers = allocatable, 0
    for given in sorted(reserved, key=lambda given: given.cpu_millis):
        left = left.minus(charge(given, sharers=sharers))
        sharers += given.cpu_millis == 0
    return max(0, left.cpu_millis)


def cpu_limits(spare_millis: int, sharers: Iterable[Sharer]) -> dict[str, int]:
    """Return what each container may use, in thousandths of a cpu, by attempt.

    All that is spare is given out, if anybody may have it: what cannot be halved goes to the first
    by id.
    """
    everybody = sorted(sharers, key=lambda sharer: sharer.attempt_id)
    limits = {sharer.attempt_id: sharer.least_millis for sharer in everybody}
    takers = [sharer.attempt_id for sharer in everybody if not sharer.given.gpus]
    for number, attempt_id in enumerate(takers):
        limits[attempt_id] += spare_millis // len(takers) + (number < spare_millis % len(takers))
    return limits


def changes(known: Mapping[str, int], wanted: Mapping[str, int]) -> tuple[CpuLimit, ...]:
    """Return which limits are to be set, in that order, lower ones before higher ones.

    `known` are those that are set, by attempt, or on their way; one that is missing there has none
    yet. Whoever is lowered comes first, so that at no time more is given out than there is.
    """
    new = [
        (limit > known.get(attempt_id, 0), attempt_id, limit)
        for attempt_id, limit in wanted.items()
        if known.get(attempt_id) != limit
    ]
    return tuple(
        CpuLimit(attempt_id=attempt_id, cpu_millis=limit) for _, attempt_id, limit in sorted(new)
    )
