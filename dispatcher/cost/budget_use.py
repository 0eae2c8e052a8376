"""What is known of a budget in its period, from sums of the ledger and from what runs; pure.

Hours are those of UTC. In a zone that is not whole hours off it, an hour belongs to the period in
which it begins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longshore.dispatcher.cost.budgets import CostBudget, counts_for
from longshore.dispatcher.cost.forecast import (
    PendingWork,
    SpendForecast,
    SpendSeen,
    expected_run_s,
    forecast_spend,
    pending_grains,
)
from longshore.dispatcher.domain.budgets import is_of
from longshore.dispatcher.domain.ledger import Account, CostGroup, Total
from longshore.dispatcher.domain.periods import Period

_HOUR_S = 3600
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningWork:
    """An attempt that has its place now."""

    account: Account
    nusd_per_hour: int
    #: How long it has had it.
    ran_s: float
    #: How long it may run in all; None for as long as it likes.
    limit_s: float | None


def hours_in(period: Period, now: float) -> tuple[int, int]:
    """Return the hours since the epoch [from, until) of a period, up to `now`."""
    first = math.ceil(period.starts_at / _HOUR_S)
    until = min(period.ends_at, now)
    return first, max(first, math.ceil(until / _HOUR_S))


def spent_grains(budget: CostBudget, totals: Mapping[CostGroup, Total]) -> int:
    """Return what a budget adds up of some sums."""
    return sum(
        total.grains
        for group, total in totals.items()
        if counts_for(budget, _account_of(group), group.column)
    )


def committed_grains(budget: CostBudget, works: Sequence[RunningWork], left_s: float) -> int:
    """Return what those of a budget's works that run may add within `left_s`.

    Each runs to its time limit; one without, for a quarter more of what it has run.
    """
    return committed_of(_works_of(budget, works), left_s)


def committed_of(works: Sequence[RunningWork], left_s: float) -> int:
    """Return what works may add within `left_s`, in grains: see `committed_grains`."""
    return pending_grains(
        [
            PendingWork(
                nusd_per_hour=each.nusd_per_hour,
                ran_s=each.ran_s,
                expected_s=0.0 if each.limit_s is None else each.limit_s,
            )
            for each in works
        ],
        left_s,
    )


def _works_of(budget: CostBudget, works: Sequence[RunningWork]) -> list[RunningWork]:
    return [each for each in works if is_of(budget.scope, budget.whose, each.account)]


def forecast_of(
    budget: CostBudget,
    period: Period,
    now: float,
    *,
    days: Sequence[int],
    spent: int,
    works: Sequence[RunningWork],
) -> SpendForecast:
    """Return what a period will likely have cost at its end.

    `days` has what each whole day before today has cost, the oldest first; `spent` is of the
    period, up to `now`. Both are in grains.
    """
    own = _works_of(budget, works)
    return forecast_works(period, now, days=days, spent=spent, works=own)


def forecast_works(
    period: Period, now: float, *, days: Sequence[int], spent: int, works: Sequence[RunningWork]
) -> SpendForecast:
    """Return the same as `forecast_of` of some spending, of which all of `works` are."""
    left_s = max(0.0, period.ends_at - now)
    pending = [
        PendingWork(
            nusd_per_hour=each.nusd_per_hour,
            ran_s=each.ran_s,
            expected_s=0.0 if each.limit_s is None else expected_run_s(each.limit_s, ()),
        )
        for each in works
    ]
    seen = SpendSeen(
        days=days,
        booked=spent,
        elapsed_days=max(0.0, now - period.starts_at) / _DAY_S,
        left_days=left_s / _DAY_S,
        pending=pending_grains(pending, left_s),
    )
    return forecast_spend(seen)


def _account_of(group: CostGroup) -> Account:
    return Account(project=group.project, user=group.user, labels=group.labels)
