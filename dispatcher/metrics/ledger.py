"""Metrics of money: what an hour costs now, what the month and budgets came to, and what is unsure.

Rates follow the rule of the ledger (`cost.rates`), so that their mean over a time is what it books.
They are reckoned anew for those instances alone of which something has changed since the last
scrape. Nothing is told before the ledger was read for the first time: that nobody knows is no 0.

Projects are as many as users make: the dearest have series of their own, and all others are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from longshore.dispatcher.cost.budgets import BudgetUse, CostBudget
from longshore.dispatcher.cost.money import in_dollars
from longshore.dispatcher.cost.prices import PriceBook
from longshore.dispatcher.cost.rates import InstanceRates, MonthToDate, rates_of
from longshore.dispatcher.cost.report import NONE
from longshore.dispatcher.domain.ledger import BilledState, InstanceBill, Interval, PriceRow, ms_of
from longshore.dispatcher.engine.view import EngineView
from longshore.pool.tags import is_stand_in

MOST_PROJECTS: Final = 20
OTHERS: Final = "(others)"
NOT_CONFIGURED: Final = "not configured"

_Meter = tuple[InstanceBill, Interval, Sequence[Interval]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetNow:
    """A budget as of the last look at it."""

    budget: CostBudget
    use: BudgetUse
    is_stopped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerNow:
    """What was read of the ledger last; `month` is None before the first time."""

    month: MonthToDate | None = None
    budgets: Sequence[BudgetNow] = ()


NOTHING_READ: Final = LedgerNow()


class RateMemory:
    """Remembers what each instance costs an hour, for as long as nothing of it changes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[_Meter, InstanceRates | None]] = {}
        self._prices: tuple[PriceRow, ...] = ()
        self._book = PriceBook(())

    def rates(
        self, meters: Iterable[_Meter], prices: tuple[PriceRow, ...], now: float
    ) -> list[InstanceRates]:
        """Return what those cost that are billed; `prices` are those of now."""
        if self._prices != prices:
            self._known, self._prices, self._book = {}, prices, PriceBook(prices)
        before, self._known = self._known, {}
        for meter in meters:
            id_ = meter[0].instance_id
            known = before.get(id_)
            if known is None or known[0] != meter:
                known = meter, rates_of(*meter, self._book, now_ms=ms_of(now))
            self._known[id_] = known
        return [rates for _, rates in self._known.values() if rates is not None]


def families(
    view: EngineView, memory: RateMemory, ledger: LedgerNow, now: float
) -> Iterator[Metric]:
    """Yield the metric families of money at `now`, in seconds since the epoch."""
    month = ledger.month
    if month is not None:
        rates = memory.rates(view.on_the_meter(), month.prices, now)
        names = _names(month, rates)
        yield _by_project(rates, names)
        yield from _by_state(rates)
        yield from _of_month(month, names, now)
    yield from _budgets(ledger.budgets)


def _names(month: MonthToDate, rates: Iterable[InstanceRates]) -> dict[str, str]:
    """Return as what each project is told: the dearest of the month, then of now, by their names.

    What is nobody's always has a series of its own.
    """
    costs: dict[str, tuple[int, int]] = {name: (grains, 0) for name, grains in month.by_project}
    for each in rates:
        for name, _, grains in each.parts:
            booked, now_grains = costs.get(name, (0, 0))
            costs[name] = booked, now_grains + grains
    costs.pop("", None)
    dearest = sorted(costs, key=lambda name: (-costs[name][0], -costs[name][1], name))
    told = {name: name if at < MOST_PROJECTS else OTHERS for at, name in enumerate(dearest)}
    return told | {"": NONE}


def _by_project(rates: Iterable[InstanceRates], names: Mapping[str, str]) -> Metric:
    sums: dict[tuple[str, str], int] = {}
    for each in rates:
        type_ = NOT_CONFIGURED if is_stand_in(each.type_name) else each.type_name
        for project, _, grains in each.parts:
            key = names[project], type_
            sums[key] = sums.get(key, 0) + grains
    family = GaugeMetricFamily(
        "longshore_cost_rate_usd_per_hour",
        "What all that is billed costs an hour now, by who pays for it and by type.",
        labels=("project", "instance_type"),
    )
    for key in sorted(sums):
        family.add_metric(key, _usd(sums[key]))
    return family


def _by_state(rates: Sequence[InstanceRates]) -> Iterator[Metric]:
    sums = dict.fromkeys(BilledState, 0)
    for each in rates:
        for _, state, grains in each.parts:
            sums[state] += grains
    family = GaugeMetricFamily(
        "longshore_cost_state_rate_usd_per_hour",
        "What all that is billed costs an hour now, by what that part of an instance is.",
        labels=("state",),
    )
    for state in BilledState:
        if state is not BilledState.MINIMUM:  # that is of instances that are gone
            family.add_metric((state.value,), _usd(sums[state]))
    yield family
    yield GaugeMetricFamily(
        "longshore_cost_unpriced_instances",
        "Instances that are billed and whose price nobody knows: they count as 0 everywhere.",
        value=sum(not each.has_price for each in rates),
    )


def _of_month(month: MonthToDate, names: Mapping[str, str], now: float) -> Iterator[Metric]:
    sums: dict[str, int] = {NONE: 0}
    for project, grains in month.by_project:
        sums[names[project]] = sums.get(names[project], 0) + grains
    family = GaugeMetricFamily(
        "longshore_cost_month_to_date_usd",
        "What this month of UTC has cost by the ledger, by who pays for it.",
        labels=("project",),
    )
    for name in sorted(sums):
        family.add_metric((name,), _usd(sums[name]))
    yield family
    yield GaugeMetricFamily(
        "longshore_cost_month_to_date_uncertain_usd",
        "How much of what this month has cost is not known exactly.",
        value=_usd(month.uncertain_grains),
    )
    yield GaugeMetricFamily(
        "longshore_cost_month_to_date_unpriced_seconds",
        "Instance time of this month that has no price, and counts as 0.",
        value=month.unpriced_ms / 1000,
    )
    yield GaugeMetricFamily(
        "longshore_cost_age_seconds",
        "Time since the ledger was read for these metrics.",
        value=max(0.0, now - month.as_of),
    )


def _budgets(budgets: Iterable[BudgetNow]) -> Iterator[Metric]:
    limit = GaugeMetricFamily(
        "longshore_budget_limit_usd", "What a budget allows in its period.", labels=("budget",)
    )
    spent = GaugeMetricFamily(
        "longshore_budget_spent_usd",
        "What is spent of a budget in this period.",
        labels=("budget",),
    )
    committed = GaugeMetricFamily(
        "longshore_budget_committed_usd",
        "What that which runs may still add to a budget, to its expected end.",
        labels=("budget",),
    )
    stopped = GaugeMetricFamily(
        "longshore_budget_stopped",
        "1 while a budget lets nothing new begin.",
        labels=("budget",),
    )
    for each in budgets:
        labels = (each.budget.name,)
        limit.add_metric(labels, _usd(each.budget.limit_grains))
        spent.add_metric(labels, _usd(each.use.spent_grains))
        committed.add_metric(labels, _usd(each.use.committed_grains))
        stopped.add_metric(labels, float(each.is_stopped))
    yield from (limit, spent, committed, stopped)


def _usd(grains: int) -> float:
    return float(in_dollars(grains))
