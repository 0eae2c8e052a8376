"""The pass over elastic jobs: who begins, who grows, and who gives back for it; pure.

The jobs have their turns by policy (`place` tells what a turn is). A job begins only if all of its
essential members have a place at once, and if elastic members of others give way for it, only if
less room is free afterwards than before. If it cannot begin, its turn is undone, and nobody behind
it begins either, unless jobs may go ahead (`backfill`). A job that can never begin, is not yet due,
or costs more than its own project or user may spend, holds nobody up.

At most `MOST_TRIED_IN_VAIN` jobs are tried in vain in a pass, beside those for which room is kept:
the first half of them are the first in order, the others those that earlier passes left out.

Room that is kept for a job may have to be given up: the job can never begin, or is behind one that
is `infeasible`, or too few more containers may have a place. That is known only at the end of
the pass, and the turns of the others might have gone otherwise without that room. So the whole pass
is then undone, and made anew without what was kept for these jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container
from dataclasses import replace
from enum import Enum

from longshore.dispatcher.domain.containers import WaitReason
from longshore.dispatcher.domain.jobs import ElasticMode, TaskRole
from longshore.dispatcher.scheduler.elastic import order as job_order
from longshore.dispatcher.scheduler.elastic import wait_reasons as reasons
from longshore.dispatcher.scheduler.elastic.allocation import Allocation, by_member
from longshore.dispatcher.scheduler.elastic.budget import SPEND_LIMIT, ElasticBudget
from longshore.dispatcher.scheduler.elastic.demand import UnplacedMembers
from longshore.dispatcher.scheduler.elastic.model import (
    ElasticJob,
    ElasticPlan,
    ElasticView,
    MemberState,
)
from longshore.dispatcher.scheduler.elastic.order import RotatingBudget
from longshore.dispatcher.scheduler.elastic.place import ElasticPlacement
from longshore.dispatcher.scheduler.placement.wait_reasons import behind

MOST_TRIED_IN_VAIN = 50
"""How many jobs that cannot begin one pass tries, beside those for which room is kept (backfill).

Half of them are the first ones, the others those that earlier passes left out.
"""

NEXT_TURN_S = 5.0
"""How soon those have their turn that a pass left out."""


def plan_elastic(view: ElasticView, now: float) -> ElasticPlan:
    """Return what is to be started and given back, what is wanted, and why the rest waits."""
    while True:
        this_pass = _Pass(view, now)
        let_go = this_pass.run()
        if not let_go:
            return this_pass.plan()
        this_pass.undo()
        # There are fewer each time for whom any room is kept, so that this comes to an end.
        view = _without_claims(view, let_go)


class _JobStatus(Enum):
    """Where a job stands after its turn."""

    #: It runs, as it did before.
    RUNS = "runs"
    #: It runs from now on.
    BEGINS = "begins"
    #: Room may be kept or created for it.
    WAITS = "waits"
    #: No room would help it, since it can never be, or is not paid.
    LEFT_OUT = "left_out"

    @property
    def has_begun(self) -> bool:
        """Return whether the job runs by now."""
        return self in (_JobStatus.RUNS, _JobStatus.BEGINS)


class _Pass:
    """One pass; all it changes is its own.

    Each job gets a status in its turn, and a reason if it waits. Without backfill one of those that
    wait is the `_blocker` of all that come after it.
    """

    def __init__(self, view: ElasticView, now: float) -> None:
        self._view = view
        self._now = now
        self._order = self._over_budget_last(job_order.in_order(view.jobs, view.settings, now))
        self._allocation = Allocation(view)
        self._budget = ElasticBudget(view)
        self._placement = ElasticPlacement(self._allocation, self._order, self._budget, now)
        self._unplaced = UnplacedMembers(self._allocation, view)
        self._rotation = RotatingBudget(MOST_TRIED_IN_VAIN, view.tried_before)
        self._statuses: dict[str, _JobStatus] = {}
        self._waiting: dict[str, WaitReason] = {}
        self._blocker: tuple[str, WaitReason] | None = None

    def run(self) -> frozenset[str]:
        """Give each job its turn, then count what those that wait lack.

        Returns the jobs for which room is kept that is to be given up; the pass counts only if
        there are none.
        """
        for job in self._order:
            self._statuses[job.id], why = self._turn(job)
            if why is not None:
                self._waiting[job.id] = why
        self._ask_for_essentials()
        kept_for = {job.id for job in self._order if self._placement.claimed[job.id]}
        return frozenset(kept_for - {claim.job_id for claim in self._unplaced.claims})

    def undo(self) -> None:
        """Give back to the view's budget what this pass has reserved there; all else is its own."""
        self._budget.refund()

    def _over_budget_last(self, order: list[ElasticJob]) -> list[ElasticJob]:
        """Return jobs with those last that wait and whose own account is at its limit.

        Otherwise they would get what is bought for others.
        """
        over_budget = self._view.over_budget
        return sorted(order, key=lambda job: not job.is_running and job.id in over_budget)

    def _turn(self, job: ElasticJob) -> tuple[_JobStatus, WaitReason | None]:
        """Return the standing of a job, and what it waits for, after all that it may do now."""
        if job.is_running:
            # Where it has no turn, it says how much it lacks once that is counted.
            return _JobStatus.RUNS, self._placement.go_on(job) if self._blocker is None else None
        if (never := self._impossible_reason(job)) is not None:
            return _JobStatus.LEFT_OUT, never
        if (not_yet := self._not_yet(job)) is not None:
            return _JobStatus.WAITS, not_yet
        if self._blocker is not None:
            return _JobStatus.WAITS, behind(*self._blocker)
        return self._begin(job)

    def _begin(self, job: ElasticJob) -> tuple[_JobStatus, WaitReason | None]:
        """Let a job that waits begin if it can; whoever has room kept for it always has a turn."""
        is_kept_for = bool(self._placement.claimed[job.id])
        if not is_kept_for and not self._rotation.admits(job.id):
            return _JobStatus.WAITS, reasons.LATER_TURN
        why = self._placement.begin(job)
        if why is None:
            return _JobStatus.BEGINS, None
        self._rotation.fail(job.id)
        if not is_kept_for:
            self._rotation.count()
        if why.code == SPEND_LIMIT:
            # Others have money of their own, and what could be had for it is there.
            self._placement.let_go(job)
            return _JobStatus.LEFT_OUT, why
        if not self._view.settings.backfill and job.id not in self._view.over_budget:
            self._blocker = job.id, why
        return _JobStatus.WAITS, why

    def _not_yet(self, job: ElasticJob) -> WaitReason | None:
        """Return why a job that waits is no candidate yet, None for one that is."""
        if any(member.state is MemberState.STOPPING for member in job.members):
            return reasons.ENDING
        if job.not_before > self._now:
            return reasons.backing_off(job.not_before, job.failed_starts)
        rests_until = _rests_until(job)
        return reasons.one_rests(rests_until) if rests_until > self._now else None

    def _impossible_reason(self, job: ElasticJob) -> WaitReason | None:
        """Return why a job can never begin, as types and limits are, None for one that can."""
        for component in job.components:
            ask = self._placement.ask(job, component)
            if not ask.needs:
                return reasons.no_type(component)
            over_budget = (
                self._budget.impossible_reason(job.id, ask)
                if component.role is TaskRole.ESSENTIAL
                else None
            )
            if over_budget is not None:
                return over_budget
        most = self._view.containers_most
        if most is not None and job.needs_at_once > most:
            return reasons.never_so_many(job.needs_at_once, most)
        return None

    # ---- the plan ----------------------------------------------------------------------------

    def plan(self) -> ElasticPlan:
        """Return what the pass comes to, elastic members counted last; to be called once."""
        starts = self._placement.placed()
        self._ask_for_growth({by_member(place) for place in starts})
        return ElasticPlan(
            begun=tuple(
                job.id for job in self._order if self._statuses[job.id] is _JobStatus.BEGINS
            ),
            starts=tuple(starts),
            stops=tuple(sorted(self._placement.stops, key=lambda stop: by_member(stop.place))),
            claims=tuple(self._unplaced.claims),
            soft_reservations=tuple(self._unplaced.soft_reservations),
            demand=tuple(self._unplaced.demand),
            waiting=tuple(
                (job.id, self._waiting[job.id]) for job in self._order if job.id in self._waiting
            ),
            next_at=self._next_at(),
            tried_before=self._rotation.tried_before,
        )

    def _ask_for_essentials(self) -> None:
        """Count what room is left for the jobs that wait, and what they lack."""
        holds_up = self._view.infeasible - self._view.over_budget
        for job in self._order:
            if self._statuses[job.id] is not _JobStatus.WAITS:
                continue
            self._waiting[job.id] = self._unplaced.essentials(
                job,
                self._placement.needed(job),
                self._placement.claimed[job.id],
                self._waiting[job.id],
            )
            if job.id in holds_up and not self._view.settings.backfill:
                # Nobody knows for how long those behind it would have instances stand by.
                break

    def _ask_for_growth(self, placed: Collection[tuple[str, str, int]]) -> None:
        """Count what is left of it for elastic members, after all that is essential."""
        given_back = Counter(stop.place.job_id for stop in self._placement.stops)
        growth = []
        for job in self._order:
            lacking = given_back[job.id] + sum(
                member.state is MemberState.WAITING
                and (job.id, component.name, member.index) not in placed
                for component, member in self._placement.parts(job)
            )
            if self._statuses[job.id].has_begun and lacking:
                is_full = not self._allocation.may_take(1)
                self._waiting.setdefault(job.id, reasons.grows(lacking, is_full=is_full))
            if job.scale_up and self._is_possible(job):
                missing = [
                    (component, member)
                    for component, member in self._placement.could_grow(job)
                    if (job.id, component.name, member.index) not in placed
                ]
                growth.append((job, missing))
        self._unplaced.grow(growth)

    def _is_possible(self, job: ElasticJob) -> bool:
        """Return whether more is of use to a job: it runs, or all that it needs is counted."""
        has_begun = self._statuses[job.id].has_begun
        return (has_begun or job.id in self._unplaced.counted) and all(
            self._placement.ask(job, component).needs for component in job.components
        )

    def _next_at(self) -> float | None:
        """Return when the next delay of a job or a member ends, or who was left out has a turn."""
        ends = [job.not_before for job in self._order if not job.is_running]
        ends += [
            member.not_before
            for job in self._order
            for member in job.members
            if member.state is MemberState.WAITING
        ]
        ends += [self._now + NEXT_TURN_S] if self._rotation.later else []
        return min((end for end in ends if end > self._now), default=None)


def _without_claims(view: ElasticView, let_go: Container[str]) -> ElasticView:
    """Return a view in which nothing is kept for some jobs."""
    jobs = (replace(job, claims=()) if job.id in let_go else job for job in view.jobs)
    return replace(view, jobs=tuple(jobs))


def _rests_until(job: ElasticJob) -> float:
    """Return when the last delay of those ends without whom a job does not begin, 0 for none."""
    if job.mode is not ElasticMode.RIGID:
        return 0.0
    waiting = (member for member in job.members if member.state is MemberState.WAITING)
    return max((member.not_before for member in waiting), default=0.0)
