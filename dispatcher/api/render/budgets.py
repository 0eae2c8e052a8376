"""Budgets as JSON: amounts as decimals.

Stands alone: each resource has a file of its own in each role.
"""

from __future__ import annotations

from collections.abc import Sequence

from longshore.dispatcher.api.render.values import rfc3339
from longshore.dispatcher.api.schemas.budgets import BudgetAnswer, BudgetsAnswer, ForecastAnswer
from longshore.dispatcher.cost.forecast import SpendForecast
from longshore.dispatcher.cost.money import in_dollars
from longshore.dispatcher.service.budgets import BudgetStanding


def budgets_answer(standings: Sequence[BudgetStanding], *, currency: str) -> BudgetsAnswer:
    """Return budgets as JSON, in the order in which they come."""
    return BudgetsAnswer(items=tuple(_budget(each) for each in standings), currency=currency)


def _budget(standing: BudgetStanding) -> BudgetAnswer:
    budget, use, period = standing.budget, standing.use, standing.memory.period
    left = budget.limit_grains - use.spent_grains - use.committed_grains
    stop = standing.stop
    return BudgetAnswer(
        name=budget.name,
        scope=budget.scope.value,
        whose=budget.whose,
        period=period.name,
        since=rfc3339(period.starts_at),
        until=rfc3339(period.ends_at),
        limit=in_dollars(budget.limit_grains),
        spent=in_dollars(use.spent_grains),
        committed=in_dollars(use.committed_grains),
        left=in_dollars(max(0, left)),
        steps_reached=standing.memory.steps_told,
        forecast=_forecast(standing.forecast),
        stop=budget.stop.value,
        stopped_until=None if stop is None else rfc3339(stop.until),
        message="" if stop is None else stop.sentence,
        as_of=rfc3339(standing.as_of),
    )


def _forecast(found: SpendForecast | None) -> ForecastAnswer | None:
    if found is None:
        return None
    return ForecastAnswer(
        p10=in_dollars(found.p10_grains),
        p50=in_dollars(found.p50_grains),
        p90=in_dollars(found.p90_grains),
    )
