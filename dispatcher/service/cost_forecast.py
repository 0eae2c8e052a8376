"""Where this month stands and will likely end, for whoever asks; what runs now, and what it costs.

Stands alone: each question about cost has a service of its own.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal

from longshore.dispatcher.cost.budget_use import RunningWork, hours_in
from longshore.dispatcher.cost.forecast import MOST_DAYS
from longshore.dispatcher.cost.month_forecast import MonthForecast, month_forecast_of
from longshore.dispatcher.cost.prices import PricesInForce
from longshore.dispatcher.cost.report import Seen
from longshore.dispatcher.domain.periods import PeriodKind, days_of, period_at
from longshore.dispatcher.domain.principals import Principal
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.explain.instance_views import price_now
from longshore.dispatcher.service.contracts import Unavailable
from longshore.dispatcher.service.cost_periods import month_in
from longshore.dispatcher.service.costs import seen_by, totals_until
from longshore.dispatcher.service.running_work import running_work
from longshore.dispatcher.store.errors import StoreBusy
from longshore.dispatcher.store.store import Store

_HOUR_S = 3600
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRate:
    """What the instances in one state cost together now."""

    state: str
    instances: int
    usd_per_hour: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRate:
    """What all instances cost now, by state, and what they may; None for no limit."""

    states: tuple[StateRate, ...]
    limit_usd_per_hour: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastReport:
    """What a caller is told of its month."""

    month: MonthForecast
    #: What only admins are told, None for others.
    pool: PoolRate | None
    #: The keys of labels that are dimensions, sorted.
    labels: tuple[str, ...]
    as_of: float


class CostForecastService:
    """Looks ahead; used on the loop's thread."""

    def __init__(
        self,
        *,
        view: EngineView,
        store: Store,
        now: Callable[[], float],
        labels: Collection[str],
        prices: Callable[[], PricesInForce],
    ) -> None:
        """`labels` are the keys of labels that are dimensions, `prices` tells those of now."""
        self._view, self._store, self._now = view, store, now
        self._labels, self._prices = tuple(sorted(labels)), prices

    async def forecast(self, *, time_zone: str, caller: Principal) -> ForecastReport:
        """Return how this month of a time zone stands for a caller.

        Raises `InvalidRequest` for a zone that is not known, `Unavailable` when the store cannot be
        read now.
        """
        now, seen = self._now(), seen_by(caller)
        month_in("", time_zone=time_zone, now=now)  # raises for a zone that is not known
        works = running_work(self._view, now)
        try:
            found = await asyncio.to_thread(self._look, time_zone, now, seen, works)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error
        return ForecastReport(
            month=found,
            pool=self._pool_rate() if caller.is_admin else None,
            labels=self._labels,
            as_of=now,
        )

    def _look(
        self, time_zone: str, now: float, seen: Seen, works: Sequence[RunningWork]
    ) -> MonthForecast:
        month = period_at(PeriodKind.MONTH, time_zone, now)
        today = period_at(PeriodKind.DAY, time_zone, now)
        days = days_of(time_zone, today.starts_at - MOST_DAYS * _DAY_S, today.starts_at)
        spans = [
            (math.ceil(each.starts_at / _HOUR_S), math.ceil(each.ends_at / _HOUR_S))
            for each in days[-MOST_DAYS:]
        ]
        needed = () if seen.everything else ("project", "user")
        totals, _ = totals_until(
            self._store, [*spans, hours_in(month, now)], now, labels=(), needed=needed
        )
        *of_days, spent = totals
        return month_forecast_of(month, now, seen=seen, spent=spent, days=of_days, works=works)

    def _pool_rate(self) -> PoolRate:
        prices = self._prices()
        found: dict[str, list[Decimal]] = {}
        for _, worker in sorted(self._view.pool.workers.items()):
            price = price_now(self._view, worker.id, prices)
            found.setdefault(worker.state.value, []).append(price)
        spending = self._view.spending()
        return PoolRate(
            states=tuple(
                StateRate(state=state, instances=len(each), usd_per_hour=sum(each, Decimal(0)))
                for state, each in sorted(found.items())
            ),
            limit_usd_per_hour=None if spending is None else spending.limit_usd_per_hour,
        )
