"""What one container or job has cost up to now, for who may see it.

Stands alone: the services of containers and jobs say who sees what, and this only adds up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from longshore.dispatcher.cost.money import as_usd, in_dollars
from longshore.dispatcher.cost.spent import direct_grains
from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.domain.jobs import Job
from longshore.dispatcher.domain.ledger import ms_of
from longshore.dispatcher.domain.queries import JobCosts, SpentFacts
from longshore.dispatcher.service.contracts import Unavailable
from longshore.dispatcher.store.errors import StoreBusy
from longshore.dispatcher.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpent:
    """What a container has cost up to now, and each of its attempts by its id."""

    total_usd: Decimal
    attempts_usd: Mapping[str, Decimal]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpent:
    """What a job's ended attempts cost, and how much of that came to nothing."""

    costs: JobCosts
    #: None where that is too much to be added up for an answer.
    lost_work_usd: Decimal | None


class SpentService:
    """Adds up what was spent; used on the loop's thread."""

    def __init__(self, *, store: Store, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now

    async def container(self, seen: Container) -> ContainerSpent | None:
        """Return what a container that a caller sees has cost up to now; raises `Unavailable`.

        None where its instances had too much else on them for it to be reckoned for an answer.
        """
        now_ms = ms_of(self._now())

        def found() -> ContainerSpent | None:
            grains = _direct(self._store.ledger.facts_of_container(seen.id), now_ms)
            if grains is None:
                return None
            attempts_usd = dict(zip(grains, as_usd(list(grains.values())), strict=True))
            return ContainerSpent(
                total_usd=in_dollars(sum(grains.values())), attempts_usd=attempts_usd
            )

        try:
            return await asyncio.to_thread(found)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error

    async def job(self, seen: Job, *, by_index: bool) -> JobSpent:
        """Return what a job that a caller sees has cost; raises `Unavailable`."""
        now_ms = ms_of(self._now())

        def found() -> JobSpent:
            costs = self._store.ledger.job_costs(seen.id, by_index=by_index)
            lost = _direct(self._store.ledger.facts_of_lost(seen.id), now_ms)
            lost_usd = None if lost is None else in_dollars(sum(lost.values()))
            return JobSpent(costs=costs, lost_work_usd=lost_usd)

        try:
            return await asyncio.to_thread(found)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error


def _direct(known: SpentFacts | None, now_ms: int) -> dict[str, int] | None:
    """Return what the attempts of some facts cost, None where nobody knows."""
    return None if known is None else direct_grains(known.facts, known.attempts, now_ms=now_ms)
