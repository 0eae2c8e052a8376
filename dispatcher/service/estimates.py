"""What a job may come to before it is submitted: from its user's history, else from its limits.

Stands alone: it asks the store of what was, and the engine of types and prices, and takes no part
in what is planned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import assert_never

from longshore.dispatcher.cost.estimate import (
    ENOUGH_RUNS,
    HISTORY_S,
    CostEstimate,
    PastRuns,
    TimeBound,
    Unbounded,
    Unknown,
    Work,
    WorkKind,
    estimated_cost,
)
from longshore.dispatcher.domain.containers import ContainerSpec
from longshore.dispatcher.domain.jobs import JobTask, JobType
from longshore.dispatcher.domain.policies import Policies
from longshore.dispatcher.domain.principals import Principal
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.explain.efficiency import Market, dearest_usd_per_hour_of
from longshore.dispatcher.service.contracts import NewJob, Unavailable
from longshore.dispatcher.service.governing import govern_job
from longshore.dispatcher.store.errors import StoreBusy
from longshore.dispatcher.store.store import Store

MOST_KINDS = 20
"""Of so many tasks of a job the history is read; the others are bounded by their time limits."""


class EstimateService:
    """Estimates cost; used on the loop's thread."""

    def __init__(
        self, *, policies: Policies, view: EngineView, store: Store, now: Callable[[], float]
    ) -> None:
        self._policies = policies
        self._view = view
        self._store = store
        self._now = now

    async def job(self, new: NewJob, *, caller: Principal) -> CostEstimate:
        """Return what one run of a job of a caller's comes to, as the policies have it.

        Raises `InvalidRequest` for what they refuse, and `Unavailable`.
        """
        new = govern_job(self._policies, new, caller)
        match new.type:
            case JobType.SYSTEM | JobType.SYSBATCH:
                return Unknown(why="it runs on each instance, and nobody knows how many there are")
            case JobType.ELASTIC:
                return Unknown(why="it has as many containers as there is room for, while there is")
            case JobType.BATCH:
                return await self._batch(new.name, new.tasks, caller.user)
            case unknown:
                assert_never(unknown)

    async def _batch(self, name: str, tasks: Sequence[JobTask], user: str) -> CostEstimate:
        now, market = self._now(), self._market()
        there = {worker.type.name for worker in self._view.pool.workers.values()}
        factor = self._view.max_price_factor
        bounds = [
            _bound(
                task.spec,
                dearest_usd_per_hour_of(task.spec, market, there=there, max_price_factor=factor),
            )
            for task in tasks
        ]

        def found() -> CostEstimate:
            return estimated_cost(
                [
                    Work(
                        name=task.name,
                        number=task.size,
                        past=self._past(name, task, user, now) if n < MOST_KINDS else PastRuns(),
                        bound=bound,
                    )
                    for n, (task, bound) in enumerate(zip(tasks, bounds, strict=True))
                ],
                now,
            )

        try:
            return await asyncio.to_thread(found)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error

    def _past(self, name: str, task: JobTask, user: str, now: float) -> PastRuns:
        kind = WorkKind(user=user, job_name=name, task=task.name, asked=task.spec.resources)
        return self._store.ledger.past_runs(kind, now - HISTORY_S)

    def _market(self) -> Market:
        view = self._view
        types = tuple(type_ for _, type_ in sorted(view.types().items()))
        return Market(
            types=types,
            as_new={type_.name: view.allocatable_left(type_) for type_ in types},
            placement=view.rules.placement,
        )


def _bound(spec: ContainerSpec, usd_per_hour: Decimal | None) -> TimeBound | Unbounded:
    """Return what one container comes to at most, or why nobody knows.

    `usd_per_hour` is what it costs on the dearest type that it may go to.
    """
    few = f"fewer than {ENOUGH_RUNS} runs of this user, name and resources ended lately"
    if spec.time_limit_s is None:
        return Unbounded(why=f"{few}, and it has no time limit: set time_limit_s for a bound")
    if usd_per_hour is None:
        return Unbounded(why=f"{few}, and no instance type has room for it as things are")
    if usd_per_hour <= 0:
        return Unbounded(
            why=f"{few}, and an instance type that it may go to has no price: an admin sets its"
            " price_per_hour"
        )
    return TimeBound(
        time_limit_s=spec.time_limit_s,
        attempts=1 + spec.retries.most,
        usd_per_hour=usd_per_hour,
    )
