"""The pass over elastic jobs: who begins, who grows, and who gives back for it; pure.

It goes through the jobs by policy. Elastic members that this pass has placed are set aside for the
essential members of the next job, and put back in order, as they fit; elastic members of earlier
passes give way only in flexible jobs, and only to essential members. A job that cannot begin, or
would leave no less free than there was, is undone to the last member and ends the pass, unless
jobs behind it may go ahead (`backfill`). What can never be, is not yet due, or is for more than its
own project or user may spend, holds nobody up.
One pass tries so many jobs in vain and no more: the first ones always, the others in turn.
"""

from __future__ import annotations

from collections.abc import Collection

from dispatcher.model import WaitReason
from dispatcher.planner import elastic_reasons as reasons
from dispatcher.planner.elastic_demand import Remainder
from dispatcher.planner.elastic_floor import Floor
from dispatcher.planner.elastic_model import (
    ElasticJob,
    ElasticMode,
    ElasticPlan,
    ElasticView,
    MemberState,
    Place,
    Role,
)
from dispatcher.planner.elastic_money import SPEND_LIMIT, Purse
from dispatcher.planner.elastic_order import in_order
from dispatcher.planner.elastic_stage import Stage
from dispatcher.planner.reasons import behind

MOST_TRIED_IN_VAIN = 50
"""How many jobs that cannot begin one pass tries, beside those for which room is kept (backfill).

Half of them are the first ones, the others those that earlier passes left out.
"""

NEXT_TURN_S = 5.0
"""How soon those have their turn that a pass left out."""


def plan_elastic(view: ElasticView, now: float) -> ElasticPlan:
    """Return what is to be started and given back, what is wanted, and why the rest waits."""
    return _Pass(view, now).run()


class _Pass:
    """One pass; all it changes is its own."""

    def __init__(self, view: ElasticView, now: float) -> None:
        self._now = now
        self._backfill = view.settings.backfill
        self._beyond = view.beyond
        self._most = view.containers_most
        self._unpaid = view.unpaid
        self._order = self._unpaid_last(in_order(view.jobs, view.settings, now))
        self._floor = Floor(view)
        self._purse = Purse(view)
        self._stage = Stage(self._floor, self._order, self._purse, now)
        self._passed = view.passed
        self._tried_in_vain = 0
        self._vain: set[str] = set()
        self._untried: set[str] = set()
        self._blocker: tuple[str, WaitReason] | None = None
        self._begun: list[str] = []
        self._left_out: set[str] = set()
        self._waiting: dict[str, WaitReason] = {}

    def run(self) -> ElasticPlan:
        """Give each job its turn, then see what instances are wanted."""
        for job in self._order:
            why = self._not_now(job)
            if why is None and self._blocker is not None and not self._backfill:
                why = None if job.is_running else behind(*self._blocker)
            elif why is None:
                why = self._stage.go_on(job) if job.is_running else self._begin(job)
            if why is not None:
                self._waiting[job.id] = why
        return self._plan()

    def _unpaid_last(self, order: list[ElasticJob]) -> list[ElasticJob]:
        """Return jobs so that nobody waits for one whose own account is at its limit.

        What is bought for the others would be that one's if it came before them.
        """
        return sorted(order, key=lambda job: not job.is_running and job.id in self._unpaid)

    def _begin(self, job: ElasticJob) -> WaitReason | None:
        """Let a job that waits begin if it can, and return why it does not."""
        if self._is_for_later(job):
            self._untried.add(job.id)
            return reasons.LATER_TURN
        is_kept_for = bool(self._stage.claimed[job.id])
        why = self._stage.begin(job)
        if why is None:
            self._begun.append(job.id)
            return None
        self._vain.add(job.id)
        self._tried_in_vain += not is_kept_for
        if why.code == SPEND_LIMIT:
            # Others have money of their own, and what could be had for it is there.
            self._stage.let_go(job)
            self._left_out.add(job.id)
        elif job.id not in self._unpaid:
            self._blocker = self._blocker or (job.id, why)
        return why

    def _is_for_later(self, job: ElasticJob) -> bool:
        """Return whether others have their turn now; whoever has room kept for it always has."""
        if self._stage.claimed[job.id]:
            return False
        if job.id in self._passed and self._tried_in_vain >= MOST_TRIED_IN_VAIN // 2:
            return True
        return self._tried_in_vain >= MOST_TRIED_IN_VAIN

    def _not_now(self, job: ElasticJob) -> WaitReason | None:
        """Return why a job that waits is no candidate, None for one that is, or that runs."""
        if job.is_running:
            return None
        if (never := self._never(job)) is not None:
            self._left_out.add(job.id)
            return never
        if any(member.state is MemberState.STOPPING for member in job.members):
            return reasons.ENDING
        if job.not_before > self._now:
            return reasons.backing_off(job.not_before, job.failed_starts)
        rests_until = _rests_until(job)
        return reasons.one_rests(rests_until) if rests_until > self._now else None

    def _never(self, job: ElasticJob) -> WaitReason | None:
        """Return why a job can never begin, as types and limits are, None for one that can."""
        for component in job.components:
            ask = self._stage.ask(job, component)
            if not ask.needs:
                return reasons.no_type(component)
            unpaid = self._purse.never(job.id, ask) if component.role is Role.ESSENTIAL else None
            if unpaid is not None:
                return unpaid
        if self._most is not None and job.needs_at_once > self._most:
            return reasons.never_so_many(job.needs_at_once, self._most)
        return None

    # ---- the plan ----------------------------------------------------------------------------

    def _plan(self) -> ElasticPlan:
        starts = self._stage.placed()
        remainder = self._remainder({_by_member(place) for place in starts})
        kept_for = {job.id for job in self._order if self._stage.claimed[job.id]}
        return ElasticPlan(
            begun=tuple(self._begun),
            starts=tuple(starts),
            stops=tuple(sorted(self._stage.stops, key=lambda stop: _by_member(stop.place))),
            claims=tuple(remainder.claims),
            demand=tuple(remainder.demand),
            let_go=frozenset(kept_for - {claim.job_id for claim in remainder.claims}),
            waiting=tuple(
                (job.id, self._waiting[job.id]) for job in self._order if job.id in self._waiting
            ),
            next_at=self._next_at(),
            passed=self._passed | self._vain if self._untried - self._passed else frozenset(),
        )

    def _remainder(self, placed: Collection[tuple[str, str, int]]) -> Remainder:
        """See what the floor still has for those that lack something, what is essential first."""
        remainder = Remainder(self._floor, self._beyond)
        runs = {job.id for job in self._order if job.is_running}.union(self._begun)
        for job in self._order:
            if job.id not in runs and self._is_possible(job):
                self._waiting[job.id] = remainder.essentials(
                    job,
                    self._stage.needed(job),
                    self._stage.claimed[job.id],
                    self._waiting[job.id],
                )
                if job.id in self._beyond - self._unpaid and not self._backfill:
                    # Nobody knows for how long those behind it would have instances stand by.
                    break
        given_back = {_by_member(stop.place) for stop in self._stage.stops}
        for job in self._order:
            lacking = sum(
                (job.id, component.name, member.index) in given_back
                or (
                    member.state is MemberState.WAITING
                    and (job.id, component.name, member.index) not in placed
                )
                for component, member in self._stage.parts(job)
            )
            if job.id in runs and lacking:
                is_full = not self._floor.may_take(1)
                self._waiting.setdefault(job.id, reasons.grows(lacking, is_full=is_full))
            if job.scale_up and self._is_possible(job):
                extras = [
                    (component, member)
                    for component, member in self._stage.could_grow(job)
                    if (job.id, component.name, member.index) not in placed
                ]
                remainder.extras(job, extras)
        return remainder

    def _is_possible(self, job: ElasticJob) -> bool:
        return job.id not in self._left_out and all(
            self._stage.ask(job, component).needs for component in job.components
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
        ends += [self._now + NEXT_TURN_S] if self._untried else []
        return min((end for end in ends if end > self._now), default=None)


def _rests_until(job: ElasticJob) -> float:
    """Return when the last delay of those ends without whom a job does not begin, 0 for none."""
    if job.mode is not ElasticMode.RIGID:
        return 0.0
    waiting = (member for member in job.members if member.state is MemberState.WAITING)
    return max((member.not_before for member in waiting), default=0.0)


def _by_member(place: Place) -> tuple[str, str, int]:
    return place.job_id, place.component, place.index
