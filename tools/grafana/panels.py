"""What a panel of a dashboard is, and how its queries are put together.

Money is never what a counter grew by: a counter begins anew with each process, and what was spent
meanwhile would be lost. `spent_in_range` takes the mean of a rate over the range, times the range.
The mean is over all scrapes of the range, and not over those alone in which a series was there: a
project that cost something for an hour of a day would count for the whole day else. How many
scrapes there were is told by a series that is always there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

JOB: Final = '{job="$job"}'
RATE: Final = "longshore_cost_rate_usd_per_hour"
STATE_RATE: Final = "longshore_cost_state_rate_usd_per_hour"
USD: Final = "currencyUSD"
_ALWAYS_THERE: Final = "longshore_cost_unpriced_instances"


class Shape(Enum):
    """How a panel shows its series."""

    LINES = "timeseries"
    STACK = "stack"
    NUMBER = "stat"
    BARS = "bargauge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One query of a panel, and what its series are called there."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelSpec:
    """One panel; its width is in 24ths of the page."""

    title: str
    #: What it tells and, where something is to be done about it, what.
    description: str
    shape: Shape
    #: Of Grafana's units.
    unit: str
    queries: tuple[Query, ...]
    width: int = 8

    @property
    def is_of_now(self) -> bool:
        """Return whether it shows one value of each series, and not their course."""
        return self.shape in (Shape.NUMBER, Shape.BARS)


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardSpec:
    """One dashboard: its panels in order, from left to right and down."""

    uid: str
    title: str
    description: str
    #: As Grafana has times, such as "now-6h".
    since: str
    panels: tuple[PanelSpec, ...]


def spent_in_range(metric: str, by: str) -> str:
    """Return what was spent in the range of the dashboard, by a label of a rate; "" for all."""
    total = f"sum by ({by})" if by else "sum"
    spent = f"{total} (sum_over_time({metric}{JOB}[$__range]))"
    scrapes = f"scalar(sum(count_over_time({_ALWAYS_THERE}{JOB}[$__range])))"
    return f"{spent} / {scrapes} * $__range_s / 3600"


def quantile(of: float, metric: str) -> str:
    """Return a quantile of a histogram, of what was observed of late."""
    return f"histogram_quantile({of}, sum by (le) (rate({metric}_bucket{JOB}[$__rate_interval])))"


def growth(metric: str, by: str) -> str:
    """Return how often something happened in the range, by a label; of no money."""
    return f"sum by ({by}) (increase({metric}{JOB}[$__range]))"


def one(expression: str, legend: str) -> tuple[Query, ...]:
    """Return the one query of a panel."""
    return (Query(expression=expression, legend=legend),)


def quantiles(metric: str, what: str = "") -> tuple[Query, ...]:
    """Return the queries of a histogram's median and 95th percentile."""
    return tuple(
        Query(expression=quantile(of, metric), legend=f"{what}{name}")
        for of, name in ((0.5, "median"), (0.95, "95 %"))
    )
