"""Where a month stands, as JSON: amounts as decimals.

Stands alone: each resource has a file of its own in each role.
"""

from __future__ import annotations

from longshore.dispatcher.api.render.values import rfc3339, usd
from longshore.dispatcher.api.schemas.budgets import ForecastAnswer
from longshore.dispatcher.api.schemas.cost import (
    CostForecastAnswer,
    PoolRateAnswer,
    StateRateAnswer,
)
from longshore.dispatcher.cost.money import in_dollars, usd_per_hour
from longshore.dispatcher.service.cost_forecast import ForecastReport, PoolRate


def cost_forecast_answer(
    found: ForecastReport, *, time_zone: str, currency: str
) -> CostForecastAnswer:
    """Return where a month of a time zone stands as JSON."""
    month = found.month
    return CostForecastAnswer(
        since=rfc3339(month.period.starts_at),
        until=rfc3339(month.period.ends_at),
        time_zone=time_zone,
        currency=currency,
        spent=in_dollars(month.spent_grains),
        committed=in_dollars(month.committed_grains),
        forecast=ForecastAnswer(
            p10=in_dollars(month.forecast.p10_grains),
            p50=in_dollars(month.forecast.p50_grains),
            p90=in_dollars(month.forecast.p90_grains),
        ),
        running=month.running,
        running_usd_per_hour=usd(usd_per_hour(month.running_nusd_per_hour)),
        pool=None if found.pool is None else _pool(found.pool),
        labels=found.labels,
        as_of=rfc3339(found.as_of),
    )


def _pool(rate: PoolRate) -> PoolRateAnswer:
    limit = rate.limit_usd_per_hour
    return PoolRateAnswer(
        states=tuple(
            StateRateAnswer(
                state=each.state, instances=each.instances, usd_per_hour=usd(each.usd_per_hour)
            )
            for each in rate.states
        ),
        limit_usd_per_hour=None if limit is None else usd(limit),
    )
