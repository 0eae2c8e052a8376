"""Where a period stands and will likely end for whoever asks, with no budget to go by; pure.

It is the same forecast as a budget's (`cost.forecast`), from what the ledger shows its reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from longshore.dispatcher.cost.budget_use import RunningWork, committed_of, forecast_works
from longshore.dispatcher.cost.forecast import SpendForecast
from longshore.dispatcher.cost.report import Seen
from longshore.dispatcher.cost.rollups import Totals
from longshore.dispatcher.domain.periods import Period


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthForecast:
    """What a reader's work has cost in a period that goes on, and what will be added."""

    period: Period
    spent_grains: int
    #: What runs may still add in the period.
    committed_grains: int
    forecast: SpendForecast
    #: How many attempts have a place now, and what they cost together while they do.
    running: int
    running_nusd_per_hour: int


def month_forecast_of(
    period: Period,
    now: float,
    *,
    seen: Seen,
    spent: Totals,
    days: Sequence[Totals],
    works: Sequence[RunningWork],
) -> MonthForecast:
    """Return how a period stands for a reader who sees only this.

    `spent` has the sums of the period up to `now` (seconds since the epoch), `days` those of each
    whole day before today, the oldest first. `works` is what runs, of anybody.
    """
    own = [each for each in works if seen.sees(each.account)]
    spent_grains = _grains(spent, seen)
    return MonthForecast(
        period=period,
        spent_grains=spent_grains,
        committed_grains=committed_of(own, max(0.0, period.ends_at - now)),
        forecast=forecast_works(
            period, now, days=[_grains(each, seen) for each in days], spent=spent_grains, works=own
        ),
        running=len(own),
        running_nusd_per_hour=sum(each.nusd_per_hour for each in own),
    )


def _grains(totals: Totals, seen: Seen) -> int:
    return sum(total.grains for group, total in totals.items() if seen.sees(group))
