"""What is asked of cost beside its rows, by the dashboard above all: one service a question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from longshore.dispatcher.config.model import CostConfig
from longshore.dispatcher.cost.prices import PricesInForce
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.service.cost_forecast import CostForecastService
from longshore.dispatcher.service.ended_runs import EndedRunService
from longshore.dispatcher.service.price_list import PriceListService
from longshore.dispatcher.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class CostViews:
    """The services of these questions; used on the loop's thread."""

    forecast: CostForecastService
    runs: EndedRunService
    prices: PriceListService
    #: What all amounts are in.
    currency: str


def make_cost_views(
    view: EngineView,
    store: Store,
    now: Callable[[], float],
    *,
    cost: CostConfig,
    prices: Callable[[], PricesInForce],
) -> CostViews:
    """Return them for an engine and its store; `prices` tells those of now."""
    return CostViews(
        forecast=CostForecastService(
            view=view, store=store, now=now, labels=cost.labels, prices=prices
        ),
        runs=EndedRunService(store=store, now=now),
        prices=PriceListService(view=view, now=now, prices=prices),
        currency=cost.currency,
    )
