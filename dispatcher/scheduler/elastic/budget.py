"""How limits of spending hold for elastic jobs when it is decided what they get; pure.

A plan, and what is created for it, ask a budget in which those are counted already that have a
place and are not started yet (`dispatcher.scheduler.elastic.run` makes it):

- A pass asks for places on what is there (`impossible_reason`, `pay`). A job begins only if
  all that it needs at once is paid; if it is not, nothing is kept for it, and nobody waits.
- Then is asked for the instances that the pass found wanting (`may_create`): what they add is for
  the job, all of them are for the cluster. Where the job's own account does not allow even what
  the job lacks by itself (`is_over_budget`), nobody waits for it either.

What the second one says is known only after a pass, which has told what is lacking: it holds for
the passes that follow (`ElasticView.over_budget`), in which such a job comes last, until it is said
anew. A member is started only if its own place is paid then (`elastic.apply`): others may have had
the money meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from longshore.dispatcher.domain.containers import WaitReason
from longshore.dispatcher.scheduler.elastic.allocation import Assignment, MemberRequest
from longshore.dispatcher.scheduler.elastic.model import ElasticView
from longshore.dispatcher.scheduler.placement.fleet import SlotKind, empty_slot
from longshore.dispatcher.scheduler.scale_up.solve import NewInstance
from longshore.dispatcher.state.spend_limits import SpendSubjects
from longshore.drivers.interface import InstanceType

SPEND_LIMIT = "spend_limit"
"""The code of a reason that is about money."""

_NOTHING = Decimal(0)


class ElasticBudget:
    """What may still be spent; places that jobs get are reserved in the view's budget."""

    def __init__(self, view: ElasticView) -> None:
        self._budget = view.budget
        self._accounts = view.accounts
        self._types = {type_.name: type_ for type_ in view.types}
        self._paid: list[tuple[SpendSubjects, Assignment]] = []

    def is_limited(self, job_id: str) -> bool:
        """Return whether a job has limits of its own project or user."""
        return self._budget is not None and bool(self._accounts.get(job_id))

    # ---- places ------------------------------------------------------------------------------

    def impossible_reason(self, job_id: str, ask: MemberRequest) -> WaitReason | None:
        """Return why a job's account may not even have one such member on any type, if so."""
        account = self._accounts.get(job_id, ())
        if self._budget is None or not account:
            return None
        why = None
        for name, wanted in sorted(ask.needs.items()):
            slot = empty_slot(SlotKind.NEW, "", self._types[name])
            refusal = self._budget.refuses_place(account, slot, wanted)
            if refusal is None or not refusal.is_final:
                return None
            why = why or refusal.reason
        return why

    def pay(self, job_id: str, assignments: Sequence[Assignment]) -> WaitReason | None:
        """Reserve what places cost a job's account, or return why not and reserve nothing."""
        account = self._accounts.get(job_id, ())
        if self._budget is None or not account:
            return None
        before = len(self._paid)
        for number, assignment in enumerate(assignments):
            refusal = self._budget.refuses_place(account, assignment.slot, assignment.need)
            if refusal is None:
                self._budget.place(account, assignment.slot, assignment.need, 1)
                self._paid.append((account, assignment))
                continue
            self._refund(before)
            why = refusal.reason
            if number and not why.is_final:
                count = f"with {number} of the {len(assignments)} places that it needs at once"
                why = replace(why, message=f"{count}, {why.message}")
            return why
        return None

    def refund(self) -> None:
        """Give back all that was reserved here, as if nobody had ever paid."""
        self._refund(0)

    def _refund(self, mark: int) -> None:
        while self._budget is not None and len(self._paid) > mark:
            account, assignment = self._paid.pop()
            self._budget.place(account, assignment.slot, assignment.need, -1)

    # ---- instances ---------------------------------------------------------------------------

    def may_create(
        self, job_id: str, solution: Sequence[NewInstance], *, before: Sequence[NewInstance]
    ) -> bool:
        """Return whether instances may be paid: by the job what it adds, by the cluster all.

        `before` is the solution without what the job items.
        """
        if self._budget is None or not solution:
            return True
        if self._budget.refuses_create((), _as_one(solution)) is not None:
            return False
        account = self._accounts.get(job_id, ())
        return self._budget.refuses_create(account, _as_one(solution, besides=before)) is None

    def is_over_budget(self, job_id: str, solution: Sequence[NewInstance]) -> bool:
        """Return whether a job's own account does not allow them, whatever the cluster's does."""
        if self._budget is None or not solution:
            return False
        refusal = self._budget.refuses_create(self._accounts.get(job_id, ()), _as_one(solution))
        return refusal is not None and not refusal.of_all


def _as_one(
    solution: Sequence[NewInstance], *, besides: Sequence[NewInstance] = ()
) -> InstanceType:
    """Return an instance that costs what a solution does, less what another one costs."""
    price = max(_NOTHING, _price(solution) - _price(besides))
    return replace(solution[0].type, price_usd_per_hour=price)


def _price(solution: Sequence[NewInstance]) -> Decimal:
    return sum((new.type.price_usd_per_hour for new in solution), _NOTHING)
