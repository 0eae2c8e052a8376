"""Creating instances for elastic jobs, within the limits that hold for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from longshore.dispatcher.domain.containers import SchedulerSettings
from longshore.dispatcher.scheduler.elastic.model import ElasticView, JobComponent, MemberDemand
from longshore.dispatcher.scheduler.elastic.scale_up import Purchase, purchase_list
from longshore.dispatcher.scheduler.placement.container_port import ContainerPort
from longshore.dispatcher.scheduler.placement.create_limits import create_limits
from longshore.dispatcher.scheduler.placement.fleet_sync import FleetSync
from longshore.dispatcher.scheduler.placement.snapshot import Budget, Limits
from longshore.dispatcher.scheduler.placement.spend import InstanceSpend
from longshore.dispatcher.state.spend_limits import payer_of_job
from longshore.pool.port import PoolPort
from longshore.pool.quotas import QuotaBound

_UNUSED_S = 5.0
"""How long an instance is idle before it is of no use to anybody who waits now."""


class PurchaseOutcome(Enum):
    """What came of one round of buying, and so what the pass does next."""

    NOTHING_NEW = "nothing new"
    PLAN_AGAIN = "plan again"
    COME_BACK = "plan again and come back: nothing is bought yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseResult:
    """What one round of buying came to."""

    outcome: PurchaseOutcome
    #: What was bought, one for each member that is to go there.
    launches: Mapping[JobComponent, tuple[str, ...]] = field(default_factory=dict)


class PurchaseRound(Enum):
    """The rounds of one pass; one after the first is made only if the one before asks for it."""

    FIRST = "first"
    SECOND = "second"
    LAST = "last"


class ElasticMarket:
    """Creates instances for elastic jobs, and remembers for which of them limits do not allow
    enough.

    What is on its way counts as room from then on, so that nothing is bought twice.
    """

    def __init__(
        self,
        *,
        pool: PoolPort,
        table: ContainerPort,
        settings: SchedulerSettings,
        spend: InstanceSpend | None,
        fleet_sync: FleetSync,
    ) -> None:
        """`spend` counts what instances cost, None without limits of it."""
        self._pool = pool
        self._table = table
        self._settings = settings
        self._spend = spend
        self._fleet_sync = fleet_sync
        #: Whether more was wanted in the latest round than was bought.
        self.is_short = False
        #: The jobs for which the limits never allow enough, as the latest round found.
        self.infeasible: frozenset[str] = frozenset()
        #: Those of them for which that is a limit of their own project or user.
        self.over_budget: frozenset[str] = frozenset()
        #: The quotas, as errors have told of them, that some of them would exceed, by job.
        self.over_quota: Mapping[str, tuple[QuotaBound, ...]] = {}
        #: For which job each instance was launched, by token.
        self._bought_for: dict[str, str] = {}
        self._tried_before: frozenset[str] = frozenset()

    def buy(
        self,
        view: ElasticView,
        demand: Sequence[MemberDemand],
        now: float,
        purchase_round: PurchaseRound,
    ) -> PurchaseResult:
        """Buy instances for `demand` within the limits; return what the pass is to do next.

        `COME_BACK`: nothing is bought, since other jobs are `infeasible` than the plan was made
        with. One that is newly so keeps no room, which may do for others; one that no
        longer is needs room that the plan did not count. Only the first round looks for the latter,
        so that a job does not go to and fro; the last round always buys, so that a pass comes back
        twice at most.

        `PLAN_AGAIN`: something is bought, or `infeasible` or `over_budget` changed.
        `NOTHING_NEW`: neither.
        """
        before, self.infeasible = self.infeasible, frozenset()
        over_budget, self.over_budget = self.over_budget, frozenset()
        self.is_short = False
        self.over_quota = {}
        if not demand:
            # Who was behind those that were infeasible may want something by now.
            if purchase_round is not PurchaseRound.LAST and (before or over_budget):
                return PurchaseResult(outcome=PurchaseOutcome.COME_BACK)
            return PurchaseResult(outcome=_again(is_new=bool(before or over_budget)))
        found = purchase_list(view, demand, self._limits(now), self._tried_before)
        self.over_quota = dict(found.over_quota)
        is_first = purchase_round is PurchaseRound.FIRST
        less = before - found.infeasible if is_first else frozenset()
        if (
            found.purchases
            and purchase_round is not PurchaseRound.LAST
            and (found.infeasible - before or less)
        ):
            self.is_short = True
            self.infeasible = found.infeasible if is_first else found.infeasible | before
            self.over_budget = found.over_budget if is_first else found.over_budget | over_budget
            return PurchaseResult(outcome=PurchaseOutcome.COME_BACK)
        for scope in found.tried:
            self._pool.try_quota(scope, now)
        launches = self._launch(found.purchases, now)
        self.is_short = found.is_short
        self.infeasible = found.infeasible
        self.over_budget = found.over_budget
        self._tried_before = found.tried_before
        if not found.purchases:
            self._let_go({each.job_id for each in demand}, now)
        is_new = (
            bool(found.purchases) or self.infeasible != before or self.over_budget != over_budget
        )
        return PurchaseResult(outcome=_again(is_new=is_new), launches=launches)

    def _launch(
        self, purchases: Sequence[Purchase], now: float
    ) -> dict[JobComponent, tuple[str, ...]]:
        launches: dict[JobComponent, tuple[str, ...]] = {}
        for purchase in purchases:
            payer = payer_of_job(self._table.jobs.job(purchase.job_id))
            type_ = self._pool.types[purchase.type.name]
            token = self._pool.launch(type_, payer, now)
            self._bought_for[token] = purchase.job_id
            for of, count in purchase.contents:
                launches[of] = launches.get(of, ()) + (token,) * count
            if self._spend is not None:
                self._spend.launched(token)
        return launches

    def _let_go(self, wanting: set[str], now: float) -> None:
        """Release idle instances that were bought for a job which needs more than a quota allows.

        They would idle until that is tried again. Nothing is released while others want something
        too: they may have a use for it.
        """
        pool = self._pool
        there = pool.launches.keys() | {worker.token for worker in pool.workers.values()}
        self._bought_for = {token: of for token, of in self._bought_for.items() if token in there}
        if not self.over_quota or wanting - self.over_quota.keys():
            return
        for worker in sorted(pool.workers.values(), key=lambda worker: worker.id):
            unused = worker.id not in pool.claimed_workers and now >= worker.state_since + _UNUSED_S
            if unused and self._bought_for.get(worker.token) in self.over_quota:
                pool.release(worker.id, now)

    def _limits(self, now: float) -> Limits:
        return create_limits(
            self._pool,
            self._settings,
            instances=self._pool.number_of_instances(),
            budget=None,
            now=now,
        )

    def budget(self) -> Budget | None:
        """Return what may still be spent, with what has changed since the last pass."""
        spend = self._spend
        if spend is None:
            return None
        spend.update(self._pool.expected_launches())
        return spend.budget(self._table.queue.classes(), self._fleet_sync.fleet)


def _again(*, is_new: bool) -> PurchaseOutcome:
    return PurchaseOutcome.PLAN_AGAIN if is_new else PurchaseOutcome.NOTHING_NEW
