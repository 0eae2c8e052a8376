"""One pass over elastic jobs: what the planner sees, what it decides, and the room that is kept.

`run` brings the view of the instances up to date, and takes places back from members whose instance
takes no work any more. If that, or anything else, changed what was decided, it decides anew:

1. It plans (`plan_elastic`) and carries the plan out; and again, a few times at most, while members
   that it has just placed might give way for essential ones that lack room.
2. It has the market buy what the plan lacks. If that finds other jobs beyond limits than the plan
   was made with, it plans again and asks again, in three rounds at most (`PurchaseRound`).
3. If something was bought, it plans once more, so that it is claimed by those it was bought for.

Then it starts the members whose turn it is, and keeps the room of all others that have a place or a
claim from everybody else, until the next time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from longshore.dispatcher.domain.containers import (
    AttemptOutcome,
    QueuePolicy,
    SchedulerSettings,
    StopCause,
    StopReason,
    WaitReason,
)
from longshore.dispatcher.domain.jobs import ElasticMode, TaskRole
from longshore.dispatcher.scheduler.elastic import end_reasons
from longshore.dispatcher.scheduler.elastic.allocation import slot_in
from longshore.dispatcher.scheduler.elastic.apply import ElasticApplier, need_on
from longshore.dispatcher.scheduler.elastic.budget import SPEND_LIMIT
from longshore.dispatcher.scheduler.elastic.capacity import CapacityView, kept_of, with_members
from longshore.dispatcher.scheduler.elastic.model import (
    Component,
    ElasticPlan,
    ElasticView,
    JobComponent,
    Member,
    MemberDemand,
    MemberPlace,
    MemberState,
)
from longshore.dispatcher.scheduler.elastic.order import progressed
from longshore.dispatcher.scheduler.elastic.purchase import (
    ElasticMarket,
    PurchaseOutcome,
    PurchaseRound,
)
from longshore.dispatcher.scheduler.elastic.runtime_state import (
    ElasticState,
    as_planned,
    without_place,
)
from longshore.dispatcher.scheduler.elastic.schedule import plan_elastic
from longshore.dispatcher.scheduler.placement.fleet import PackingPolicy
from longshore.dispatcher.scheduler.placement.snapshot import Budget
from longshore.dispatcher.scheduler.placement.workload import NewInstances
from longshore.dispatcher.state.spend_limits import SpendLimits, SpendSubjects
from longshore.drivers.errors import BugError
from longshore.drivers.interface import Resources
from longshore.pool.port import PoolPort

_IN_TIME = frozenset({QueuePolicy.DYNSIZE, QueuePolicy.HRRN})
"""The policies by which the order of jobs changes though nothing happens."""

_MORE_PLANS_MOST = 3
"""How often it is decided once more before anything is created; each time somebody has a place."""

_AGAIN_S = 5.0
"""How soon it is decided again where time alone may change something, and nobody knows when."""


class ElasticPass:
    """Decides, and keeps what was decided until the next time."""

    def __init__(
        self,
        *,
        pool: PoolPort,
        settings: SchedulerSettings,
        new: NewInstances,
        rules: PackingPolicy,
        capacity: CapacityView,
        applier: ElasticApplier,
        market: ElasticMarket,
        lives: Callable[[], list[ElasticState]],
    ) -> None:
        """`new` tells what is left of new instances.

        `lives` returns the jobs that are not over, as they came.
        """
        self._pool = pool
        self._settings = settings
        self._new = new
        self._rules = rules
        self._capacity = capacity
        self._applier = applier
        self._market = market
        self._spend_limits = SpendLimits(settings)
        self._lives = lives
        #: The room of members that are not started yet, by slot.
        self.reservations: dict[str, Resources] = {}
        #: The instances on which there is any.
        self.claimed_workers: frozenset[str] = frozenset()
        #: How many members that room is for, by slot.
        self.reserved_on: Mapping[str, int] = {}
        self._places_left: int | None = None
        #: Why jobs wait, by id.
        self.waiting: Mapping[str, WaitReason] = {}
        #: When to decide again though nothing happens, None for never.
        self.next_at: float | None = None
        self._tried_before: frozenset[str] = frozenset()
        self._soft_reservations: tuple[MemberPlace, ...] = ()
        self._wanted_again: tuple[JobComponent, ...] = ()

    def rest(self) -> None:
        """Keep nothing: there are no jobs."""
        self.reservations = {}
        self.claimed_workers = frozenset()
        self.reserved_on = {}
        self.waiting = {}
        self.next_at = None
        self._soft_reservations = ()
        self._capacity.forget()

    def run(self, now: float, *, wanted: bool) -> None:
        """Decide anew if it is `wanted` or anything has changed; start what can be started now."""
        changed = self._capacity.update(now)
        lost = self._give_up_lost_places()
        due = self.next_at is not None and self.next_at <= now
        limit_moved = self._places_left != self._left(now)
        if wanted or changed or lost or due or limit_moved:
            self._decide(now)
        for live in self._lives():
            self._applier.start(live, now)
        # By now some are going.
        self._capacity.update(now)
        self._places_left = self._left(now)
        self._keep()

    def _left(self, now: float) -> int | None:
        """Return how many more may have a place, counting those that are told to end as ended."""
        left = self._applier.places_left(now)
        if left is None:
            return None
        left += len(self._capacity.leaving)
        return left - sum(len(unstarted) for unstarted in self._unstarted().values())

    def _unstarted(self) -> dict[str, list[tuple[ElasticState, Component, Member]]]:
        """Return the members that have a place and are not started yet, by instance."""
        unstarted: dict[str, list[tuple[ElasticState, Component, Member]]] = {}
        for live in self._lives():
            for component, member in self._applier.unstarted(live):
                unstarted.setdefault(member.instance_id, []).append((live, component, member))
        return unstarted

    def _give_up_lost_places(self) -> bool:
        """Let members wait again whose instance takes no work any more, or is taken by others.

        Returns whether there are any.
        """
        lost = False
        for instance_id, unstarted in sorted(self._unstarted().items()):
            base = self._capacity.bases.get(instance_id)
            fitting = [False] * len(unstarted)
            if base is not None:
                needs = [need_on(base.node.type, component) for _, component, _ in unstarted]
                fitting = list(with_members(base.node, needs)[1])
            for has_room, (live, _, member) in zip(fitting, unstarted, strict=True):
                if not has_room:
                    live.put([without_place(member)])
                    self._applier.rejoin(live)
                    lost = True
        return lost

    def _decide(self, now: float) -> None:
        """Plan and create what is wanted; then plan again, so that what comes is claimed."""
        for live in self._lives():
            live.job = progressed(live.job, now - live.progressed_at)
            live.progressed_at = now
        self._follow_instances()
        plan = self._plan(now)
        is_new = False
        for purchase_round in PurchaseRound:
            result = self._market.buy(self._with_budget(now), plan.demand, now, purchase_round)
            if result.outcome is not PurchaseOutcome.NOTHING_NEW:
                self._capacity.update(now)
                wanted = plan.demand
                come_back = result.outcome is PurchaseOutcome.COME_BACK
                plan = self._plan(now) if come_back else self._plan_once(now, result.launches)
                self._wanted_again = self._bought_unused(wanted, result.launches, plan.demand)
            if result.outcome is not PurchaseOutcome.COME_BACK:
                is_new = result.outcome is PurchaseOutcome.PLAN_AGAIN
                break
        self._tried_before = plan.tried_before
        infeasible = self._market.infeasible
        over = self._market.over_quota
        self.waiting = {
            job_id: end_reasons.beyond_quota(why, over.get(job_id, ()))
            if job_id in infeasible
            else why
            for job_id, why in plan.waiting
        }
        in_time = self._settings.elastic.policy in _IN_TIME and bool(plan.waiting)
        over_budget = any(why.code == SPEND_LIMIT for why in self.waiting.values())
        # Nobody has tried yet to buy what is wanted only since the last round.
        untried = is_new and bool(plan.demand)
        again = in_time or over_budget or untried or self._market.is_short
        ends = [plan.next_at, now + _AGAIN_S if again else None]
        self.next_at = min((end for end in ends if end is not None), default=None)

    def _follow_instances(self) -> None:
        """Move claims, and what is counted on, from a launch to the instance that came of it."""
        bases = self._capacity.bases
        workers = (self._pool.workers.get(id_) for id_ in sorted(bases))
        came_of = {worker.token: worker.id for worker in workers if worker is not None}

        def followed(place: MemberPlace) -> MemberPlace:
            if place.instance_id in bases or place.instance_id not in came_of:
                return place
            return replace(place, instance_id=came_of[place.instance_id])

        self._soft_reservations = tuple(followed(place) for place in self._soft_reservations)
        for live in self._lives():
            claims = tuple(followed(claim) for claim in live.job.claims)
            if claims != live.job.claims:
                live.job = replace(live.job, claims=claims)

    def _bought_unused(
        self,
        before: Sequence[MemberDemand],
        launches: Mapping[JobComponent, Sequence[str]],
        after: Sequence[MemberDemand],
    ) -> tuple[JobComponent, ...]:
        """Return the components that still lack members for whom something was bought.

        () if not all could be bought, or if an instance that is listed without its token stands for
        a launch.
        """
        tokens = {token for bought in launches.values() for token in bought}
        if self._market.is_short or not tokens <= self._capacity.bases.keys():
            return ()
        left = Counter({(each.job_id, each.component): each.count for each in before})
        left.subtract({of: len(bought) for of, bought in launches.items()})
        counts = {(each.job_id, each.component): each.count for each in after}
        return tuple(sorted(of for of in launches if counts.get(of, 0) > left[of]))

    def _plan(self, now: float) -> ElasticPlan:
        """Plan and carry the plan out, and again while that may find room for who is needed and
        lacks it.

        Members that have a place by now give way as those of earlier passes do: one by one, not all
        at once. Sometimes that is enough, and nothing need be created.
        """
        plan = self._plan_once(now, bought={})
        for _ in range(_MORE_PLANS_MOST):
            if not self._may_fare_otherwise(plan):
                break
            self._capacity.update(now)
            plan = self._plan_once(now, bought={})
        return plan

    def _may_fare_otherwise(self, plan: ElasticPlan) -> bool:
        """Return whether a plan lacks room for what is needed, but placed what would give way."""
        lives = {live.job.id: live for live in self._lives()}
        gives = any(_gives_way(lives[place.job_id], place) for place in plan.starts)
        return gives and any(
            each.role is TaskRole.ESSENTIAL or lives[each.job_id].job.mode is ElasticMode.RIGID
            for each in plan.demand
        )

    def _plan_once(self, now: float, bought: Mapping[JobComponent, tuple[str, ...]]) -> ElasticPlan:
        plan = plan_elastic(replace(self._with_budget(now), bought=bought), now)
        self._carry_out(plan, now)
        return plan

    def _with_budget(self, now: float) -> ElasticView:
        view = self._view(now)
        budget = self._market.budget()
        if budget is not None:
            self._reserve_unstarted(budget, view.accounts)
        return replace(view, budget=budget)

    def _reserve_unstarted(self, budget: Budget, accounts: Mapping[str, SpendSubjects]) -> None:
        """Count what those cost that have a place and are not started yet."""
        for instance_id, unstarted in sorted(self._unstarted().items()):
            base = self._capacity.bases.get(instance_id)
            if base is None:
                continue
            slot = slot_in(base.node)
            for live, component, _ in unstarted:
                budget.place(accounts[live.job.id], slot, need_on(slot.type, component), 1)

    def _accounts(self) -> dict[str, SpendSubjects]:
        """Return whose limits count for which job; nobody's where there are none."""
        if not self._spend_limits.exist:
            return {}
        return {live.job.id: self._account_of(live) for live in self._lives()}

    def _account_of(self, live: ElasticState) -> SpendSubjects:
        containers = (self._applier.container(live, key) for key in live.ids)
        known = next(container for container in containers if container is not None)
        return self._spend_limits.account_of(known)

    def _view(self, now: float) -> ElasticView:
        unstarted = self._unstarted()
        nodes = []
        for instance_id, base in sorted(self._capacity.bases.items()):
            here = unstarted.get(instance_id, [])
            needs = [need_on(base.node.type, component) for _, component, _ in here]
            nodes.append(with_members(base.node, needs)[0] if needs else base.node)
        leaving = self._capacity.leaving
        seen = (as_planned(live, leaving) for live in self._lives())
        types = [self._pool.types[name] for name in sorted(self._pool.types)]
        infeasible = self._market.infeasible
        return ElasticView(
            jobs=tuple(
                replace(job, claims=()) if job.id in infeasible else job
                for job in seen
                if job is not None
            ),
            nodes=tuple(nodes),
            types=tuple(self._new.allocatable_left(type_) for type_ in types),
            rules=self._rules,
            settings=self._settings.elastic,
            max_price_factor=self._settings.max_price_factor,
            infeasible=infeasible,
            over_budget=self._market.over_budget,
            tried_before=self._tried_before,
            containers_most=self._settings.max_containers,
            containers_left=self._left(now),
            accounts=self._accounts(),
            soft_reservations=self._soft_reservations,
        )

    def _carry_out(self, plan: ElasticPlan, now: float) -> None:
        lives = {live.job.id: live for live in self._lives()}
        for job_id in plan.begun:
            live = lives[job_id]
            live.job = replace(live.job, began_at=now)
        for stop in plan.stops:
            place = stop.place
            live = lives[place.job_id]
            known = live.member((place.component, place.index))
            member = replace(known, state=MemberState.STOPPING)
            live.put([member])
            why = StopReason(cause=StopCause.FOR_JOB, of=stop.by)
            decided = self._applier.stops(live, [member], AttemptOutcome.PREEMPTED, why)
            self._applier.carry_out(decided, now)
        for start in plan.starts:
            live = lives[start.job_id]
            member = live.member((start.component, start.index))
            placed = replace(member, state=MemberState.PLACED, instance_id=start.instance_id)
            live.put([placed])
        self._soft_reservations = plan.soft_reservations
        claims: dict[str, tuple[MemberPlace, ...]] = {}
        for claim in plan.claims:
            claims[claim.job_id] = (*claims.get(claim.job_id, ()), claim)
        for live in self._lives():
            if live.job.claims != claims.get(live.job.id, ()):
                live.job = replace(live.job, claims=claims.get(live.job.id, ()))

    def check(self) -> None:
        """Raise `BugError` if something is wanted again although all that was wanted was bought.

        Tests call it after events.
        """
        if self._wanted_again:
            raise BugError(f"bought for in vain: {self._wanted_again}")

    def _keep(self) -> None:
        """Keep the room of those that have a place and are not started, and what is claimed."""
        needs: dict[str, list[Resources]] = {}
        wanting = list(self._wanting())
        self.reserved_on = Counter(instance_id for _, instance_id in wanting)
        for component, instance_id in wanting:
            base = self._capacity.bases.get(instance_id)
            if base is not None:
                needs.setdefault(instance_id, []).append(need_on(base.node.type, component))
        bases = self._capacity.bases
        self.reservations = {
            id_: kept_of(bases[id_], wanted) for id_, wanted in sorted(needs.items())
        }
        self.claimed_workers = frozenset(self.reservations.keys() & self._pool.workers.keys())

    def _wanting(self) -> Iterator[tuple[Component, str]]:
        for live in self._lives():
            for component, member in self._applier.unstarted(live):
                yield component, member.instance_id
            components = live.roles() if live.job.claims else {}
            for claim in live.job.claims:
                yield components[claim.component], claim.instance_id


def _gives_way(live: ElasticState, place: MemberPlace) -> bool:
    """Return whether a member gives way for essential ones from the next plan on."""
    essential = live.is_essential((place.component, place.index))
    return live.job.mode is ElasticMode.FLEXIBLE and not essential
