"""Which instances are created for elastic jobs; pure.

A job that waits gets all that its essential members need, or nothing: with less it could not begin,
and what was bought would stand by. If it gets nothing, jobs behind it wait too, unless jobs may go
ahead (`backfill`).

If errors have told of a quota, fewer and larger instances are taken that are within it: more of the
cheapest would be refused in part, and those that came would stand by, be shut down, and be created
again and again. If no solution is within the quota the job waits, until it may be tried whether
more are allowed by now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from longshore.dispatcher.domain.feasibility import eligible_types, need
from longshore.dispatcher.domain.jobs import ElasticMode, TaskRole
from longshore.dispatcher.scheduler.elastic.budget import ElasticBudget
from longshore.dispatcher.scheduler.elastic.model import (
    Component,
    ElasticView,
    JobComponent,
    MemberDemand,
)
from longshore.dispatcher.scheduler.elastic.order import RotatingBudget
from longshore.dispatcher.scheduler.placement.snapshot import Limits
from longshore.dispatcher.scheduler.scale_up.batch import CreateLimits
from longshore.dispatcher.scheduler.scale_up.problem import NOTHING_PREPAID, options_of
from longshore.dispatcher.scheduler.scale_up.solve import (
    Item,
    NewInstance,
    Option,
    cheapest_solution,
)
from longshore.drivers.interface import InstanceType
from longshore.pool.holds import CreateBlockKind, Scope
from longshore.pool.quotas import QuotaBound

MOST_JOBS = 20
"""For how many jobs one pass tries to buy: for the first ones always, for the others in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Purchase:
    """An instance to create, and the job that pays for it until it is ready.

    `contents` are the components of which members are to be there, by job, with their numbers.
    """

    type: InstanceType
    job_id: str
    contents: tuple[tuple[JobComponent, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseList:
    """What is to be created now."""

    purchases: tuple[Purchase, ...] = ()
    #: Whether more was wanted than may be.
    is_short: bool = False
    #: The jobs of which not all that is essential can be had, however long they wait.
    infeasible: frozenset[str] = frozenset()
    #: Those of them for whom a limit of their own project or user is reached.
    over_budget: frozenset[str] = frozenset()
    #: Those of them of which it is known which quotas they would exceed, with these.
    over_quota: tuple[tuple[str, tuple[QuotaBound, ...]], ...] = ()
    #: The scopes of which more is created than was told that there may be: whether that is still so
    #: is tried.
    tried: tuple[Scope, ...] = ()
    #: The jobs that were tried in vain, while there are some that were not tried since.
    tried_before: frozenset[str] = frozenset()


def purchase_list(
    view: ElasticView,
    demand: Sequence[MemberDemand],
    limits: Limits,
    tried_before: frozenset[str] = frozenset(),
) -> PurchaseList:
    """Return the cheapest instances that hold what is wanted, as far as limits allow.

    The view says what may be spent. Jobs in `tried_before` were tried recently; others go first.
    """
    return _Purchasing(view, limits, tried_before).go(demand)


class _Purchasing:
    def __init__(self, view: ElasticView, limits: Limits, tried_before: frozenset[str]) -> None:
        self._view = view
        self._limits = limits
        self._budget = ElasticBudget(view)
        self._rotation = RotatingBudget(MOST_JOBS, tried_before)
        self._looked_at = 0
        self._create_limits = CreateLimits(limits)
        self._components = {(j.id, c.name): c for j in view.jobs for c in j.components}
        self._rigid = {
            job.id for job in view.jobs if job.mode is ElasticMode.RIGID and not job.is_running
        }
        self._items: list[Item] = []
        self._asked: list[JobComponent] = []
        self._solution: tuple[NewInstance, ...] = ()
        self._infeasible: set[str] = set()
        self._over_budget: set[str] = set()
        self._prepaid_left = limits.prepaid_left
        self._over_quota: dict[str, tuple[QuotaBound, ...]] = {}

    def go(self, demand: Sequence[MemberDemand]) -> PurchaseList:
        essential = [each for each in demand if self._is_needed(each)]
        growth = [each for each in demand if not self._is_needed(each)]
        is_blocked = False
        for job_id, all_of_it in groupby(essential, lambda each: each.job_id):
            group = list(all_of_it)
            if is_blocked or not self._rotation.admits(job_id):
                self._let_wait(job_id, group)
                continue
            self._rotation.count()
            if not self._add(job_id, group, whole=True):
                self._rotation.fail(job_id)
                self._note_over_budget(job_id, group)
                is_blocked = not self._view.settings.backfill and job_id not in self._over_budget
            # Who comes next might be created for in part, as this one may be.
            is_blocked = is_blocked or bool(exceeded(self._solution, self._limits.quotas))
        is_short = is_blocked or bool(self._rotation.unserved)
        if not is_blocked and not self._rotation.unserved - self._over_budget:
            for job_id, all_of_it in groupby(growth[:MOST_JOBS], lambda each: each.job_id):
                is_short = not self._add(job_id, list(all_of_it), whole=False) or is_short
        return self._within_reach(is_short=is_short)

    def _let_wait(self, job_id: str, demand: list[MemberDemand]) -> None:
        """Leave a job out of this round; check whether one that was unpaid still is."""
        if job_id not in self._view.over_budget:
            return
        self._looked_at += 1
        if self._looked_at > MOST_JOBS:
            self._over_budget.add(job_id)
        else:
            self._note_over_budget(job_id, demand)

    def _note_over_budget(self, job_id: str, demand: list[MemberDemand]) -> None:
        """Note a job as unpaid if its own account does not allow all that it lacks.

        It is asked for the job alone, without what others want, so that the answer does not change
        with them.
        """
        if not self._budget.is_limited(job_id):
            return
        items = [
            Item(index=number, count=each.count, options=self._all_options(job_id, each.component))
            for number, each in enumerate(demand)
        ]
        solution = cheapest_solution(
            items,
            placement=self._view.rules.placement,
            max_containers=self._view.rules.max_containers,
            most_instances=self._limits.max_instances,
            most_of=lambda _: None,
        )
        if _holds_all(solution, items) and self._budget.is_over_budget(job_id, solution):
            self._over_budget.add(job_id)

    def _is_needed(self, demand: MemberDemand) -> bool:
        """Return whether a job does not begin without this: of one that is rigid all is needed."""
        return demand.role is TaskRole.ESSENTIAL or demand.job_id in self._rigid

    def _add(self, job_id: str, demand: list[MemberDemand], *, whole: bool) -> bool:
        """Add what a job wants to the solution: all if `whole`, else as much as can be had, if that
        can be paid.

        Returns whether all of it is in the solution.
        """
        first = len(self._asked)
        items = [
            Item(
                index=first + number,
                count=each.count,
                options=self._options(job_id, each.component),
            )
            for number, each in enumerate(demand)
        ]
        if whole and not all(item.options for item in items):
            if all(self._is_lasting(job_id, each.component) for each in demand):
                self._infeasible.add(job_id)
                self._note_holds(job_id, demand)
            return False
        items = [item for item in items if item.options]
        solution = self._payable(job_id, [*self._items, *items], whole=whole)
        has_all = _holds_all(solution, [*self._items, *items])
        if (whole and not has_all) or not self._budget.may_create(
            job_id, solution, before=self._solution
        ):
            if whole:
                self._infeasible.add(job_id)
            if whole and not has_all:
                self._note_quotas(job_id, [*self._items, *items])
            return False
        self._items += items
        self._asked += [(job_id, each.component) for each in demand]
        self._solution = solution
        return has_all and len(items) == len(demand)

    def _types(self, component: Component) -> tuple[InstanceType, ...]:
        return eligible_types(
            self._view.types,
            component.resources,
            component.constraints,
            component.unnamed,
            max_price_factor=self._view.max_price_factor,
        )

    def _options(self, job_id: str, component_name: str) -> tuple[Option, ...]:
        return tuple(
            option
            for option in self._all_options(job_id, component_name)
            if self._create_limits.create_block(option.type) is None
            and self._create_limits.is_within_price(option)
        )

    def _all_options(self, job_id: str, component_name: str) -> tuple[Option, ...]:
        component = self._components[job_id, component_name]
        return options_of(
            self._types(component),
            lambda type_: need(type_, component.resources, component.unnamed),
            max_price_factor=self._view.max_price_factor,
        )

    def _is_lasting(self, job_id: str, component_name: str) -> bool:
        """Return whether a component may be created, or what hinders that is the cloud's limits."""
        types = self._types(self._components[job_id, component_name])
        found = [self._create_limits.create_block(type_) for type_ in types]
        return all(each is None or each.kind is not CreateBlockKind.OTHER for each in found)

    def _note_holds(self, job_id: str, demand: list[MemberDemand]) -> None:
        """Note which quotas hold creates that a job needs."""
        types = [
            t for each in demand for t in self._types(self._components[job_id, each.component])
        ]
        found = ((type_.name, self._create_limits.create_block(type_)) for type_ in types)
        of_quota = (CreateBlockKind.QUOTA, CreateBlockKind.NONE_ALLOWED)
        held = {n for n, each in found if each and each.kind in of_quota}
        over = tuple(bound for bound in self._limits.quotas if bound.covers & held)
        if over:
            self._over_quota[job_id] = over

    def _note_quotas(self, job_id: str, items: list[Item]) -> None:
        """Note which quotas a job would exceed."""
        solution = self._cheapest(items, ()) if self._limits.quotas else ()
        if _holds_all(solution, items):
            self._over_quota[job_id] = exceeded(solution, self._limits.quotas)

    def _payable(self, job_id: str, items: list[Item], *, whole: bool) -> tuple[NewInstance, ...]:
        """Return the cheapest solution; where it is above a limit of spending, at full prices.

        For such limits what is prepaid costs its price too, which may be higher than another's.
        """
        solution = self._solution_for(items, whole=whole)
        prepaid = self._prepaid_left
        if not prepaid or self._budget.may_create(job_id, solution, before=self._solution):
            return solution
        self._prepaid_left = NOTHING_PREPAID
        at_price = self._solution_for(items, whole=whole)
        if self._budget.may_create(job_id, at_price, before=self._solution):
            return at_price
        self._prepaid_left = prepaid
        return solution

    def _solution_for(self, items: list[Item], *, whole: bool) -> tuple[NewInstance, ...]:
        """Return the cheapest solution within the quotas that errors told of.

        If that does not hold all of the first job, quotas that may have changed are left aside:
        that tries them.
        """
        told = self._limits.quotas
        solution = self._within(items, told)
        if self._solution or _holds_all(solution, items) or (solution and not whole):
            return solution
        tried = self._within(items, tuple(bound for bound in told if not bound.may_try))
        return tried if not whole or _holds_all(tried, items) else solution

    def _within(self, items: list[Item], bounds: tuple[QuotaBound, ...]) -> tuple[NewInstance, ...]:
        """Return the cheapest one that exceeds no bound, those of several types included."""
        solution = self._cheapest(items, bounds)
        while over := exceeded(solution, bounds):
            solution = self._cheapest(items, bounds, most=min(bound.left for bound in over))
        return solution

    def _cheapest(
        self, items: list[Item], bounds: tuple[QuotaBound, ...], *, most: int | None = None
    ) -> tuple[NewInstance, ...]:
        instances = [self._limits.max_instances - self._limits.instances]
        instances += [bound.left for bound in bounds if bound.everywhere]
        instances += [] if most is None else [most]
        return cheapest_solution(
            items,
            placement=self._view.rules.placement,
            max_containers=self._view.rules.max_containers,
            most_instances=min(instances),
            most_of=lambda name: min(
                (bound.left for bound in bounds if name in bound.covers), default=None
            ),
            prepaid_left=self._prepaid_left,
        )

    def _within_reach(self, *, is_short: bool) -> PurchaseList:
        """Return as much of it as may be created now, the most important first.

        Where all are there that a quota was told to allow, one create tells whether it still is so,
        and nothing else is created before that is known.
        """
        left = min(self._limits.creates_left, self._limits.tokens_left)
        over = exceeded(self._solution, self._limits.quotas)
        decisive = [bound for bound in over if not bound.left]
        found: list[Purchase] = []
        for new in self._solution:
            waits = bool(decisive) and (
                bool(found) or not any(new.type.name in bound.covers for bound in decisive)
            )
            if (
                waits
                or len(found) >= left
                or self._create_limits.create_block(new.type) is not None
            ):
                is_short = True
                continue
            self._create_limits.create(new.type)
            contents = tuple((self._asked[index], count) for index, count in new.contents)
            found.append(Purchase(type=new.type, job_id=contents[0][0][0], contents=contents))
        return PurchaseList(
            purchases=tuple(found),
            is_short=is_short,
            infeasible=self._view.infeasible & self._rotation.later | self._infeasible,
            over_budget=frozenset(self._over_budget),
            tried_before=self._rotation.tried_before,
            over_quota=tuple(sorted(self._over_quota.items())),
            tried=tuple(bound.scope for bound in over) if found and not decisive else (),
        )


def exceeded(
    solution: Sequence[NewInstance], bounds: Sequence[QuotaBound]
) -> tuple[QuotaBound, ...]:
    """Return the bounds in whose scopes a solution creates more than there may be."""
    return tuple(
        bound
        for bound in bounds
        if sum(new.type.name in bound.covers for new in solution) > bound.left
    )


def _holds_all(solution: tuple[NewInstance, ...], items: Sequence[Item]) -> bool:
    held: Counter[int] = Counter()
    for new in solution:
        held.update(dict(new.contents))
    return all(held[item.index] >= item.count for item in items)
