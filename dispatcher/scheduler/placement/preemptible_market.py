"""What is known of preemptible types: of which the cloud has none, and how much use was lost.

A pass looks here first; what it sees stays so until the next.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from longshore.dispatcher.domain.containers import INTERRUPTED, Attempt, SchedulerSettings
from longshore.dispatcher.scheduler.placement.preemptible import ENOUGH, Scarce, Waste
from longshore.drivers.interface import InstanceType
from longshore.pool.port import PoolPort


class PreemptibleMarket:
    """Looks at the pool's holds, and is told of attempts that have ended."""

    def __init__(self, *, pool: PoolPort, settings: SchedulerSettings) -> None:
        self._pool = pool
        self._patience_s = settings.preemptible_patience_s
        types = sorted(pool.types.values(), key=lambda type_: type_.name)
        self._preemptible = [type_ for type_ in types if type_.preemptible]
        self._waste = Waste()
        self._shares: dict[str, Decimal] = {}
        self.scarce = ENOUGH

    def ran(self, attempt: Attempt, now: float) -> None:
        """Take in an attempt of batch work, or of an elastic job, that has ended."""
        type_ = self._pool.types.get(attempt.instance_type)
        if type_ is None or not type_.preemptible or attempt.started_at is None:
            return
        seconds = max(0.0, (attempt.finished_at or now) - attempt.started_at)
        reclaimed = attempt.reason is not None and attempt.reason.code == INTERRUPTED
        self._waste.ran(type_.name, seconds, reclaimed=reclaimed, now=now)

    def update(self, now: float) -> bool:
        """Look at the holds and at what was lost; return whether other types are scarce now."""
        before = self.scarce
        held: set[str] = set()
        tried: set[str] = set()
        for type_ in self._preemptible:
            self._shares[type_.name] = self._waste.share(type_.name, now)
            since = self._pool.short_since(type_, now)
            if since is not None and now >= since + self._patience_s:
                (held if self._pool.is_short(type_, now) else tried).add(type_.name)
        self.scarce = Scarce(held=frozenset(held), tried=frozenset(tried))
        return self.scarce != before

    def priced(self, type_: InstanceType) -> InstanceType:
        """Return a type with the share of its use that was lost, as of the latest `update`."""
        share = self._shares.get(type_.name)
        return replace(type_, waste=share) if share else type_

    @property
    def shares(self) -> dict[str, Decimal]:
        """Return that share for each preemptible type, by name; a copy."""
        return {type_.name: self._shares.get(type_.name, Decimal(0)) for type_ in self._preemptible}
