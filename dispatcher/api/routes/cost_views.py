"""The routes of what is asked of cost beside its rows: where a month stands, ended runs, prices."""

from __future__ import annotations

from aiohttp import web

from longshore.dispatcher.api.render.cost_forecast import cost_forecast_answer
from longshore.dispatcher.api.render.ended_runs import ended_runs_answer
from longshore.dispatcher.api.render.prices import price_list_answer
from longshore.dispatcher.api.render.values import json_response
from longshore.dispatcher.api.routes.callers import Access, caller_of
from longshore.dispatcher.api.routes.openapi import Route
from longshore.dispatcher.api.schemas.cost import CostForecastAnswer, PriceListAnswer
from longshore.dispatcher.api.schemas.ended_runs import EndedRunsAnswer
from longshore.dispatcher.api.validate.bodies import QueryString
from longshore.dispatcher.api.validate.parameters import PROJECT, USER, Text
from longshore.dispatcher.api.validate.rfc3339 import parse_moment
from longshore.dispatcher.domain.ended_runs import EndedRunFilter
from longshore.dispatcher.service.cost_periods import Step, steps_between
from longshore.dispatcher.service.cost_views import CostViews

_FROM = Text(
    name="from",
    description="From when on they ended: a day or month of the time zone (`2026-10-01`,"
    " `2026-10`), or a time in RFC 3339. Left out it is the beginning of this month.",
)
_TO = Text(name="to", description="Before when, as `from`. Left out it is now.")
_TZ = Text(
    name="tz",
    description="The IANA time zone of days and months, as `Europe/Berlin`. Left out it is UTC.",
)
_OF_RUNS = (_FROM, _TO, _TZ, PROJECT, USER)
_HOUR_S = 3600.0


class CostViewRoutes:
    """Answers for `/v1/cost/forecast`, `/v1/cost/runs` and `/v1/prices`."""

    def __init__(self, views: CostViews) -> None:
        self._views = views

    async def forecast(self, request: web.Request) -> web.Response:
        """Answer where this month stands."""
        time_zone = QueryString(request, (_TZ,)).text(_TZ) or "UTC"
        found = await self._views.forecast.forecast(time_zone=time_zone, caller=caller_of(request))
        currency = self._views.currency
        answer = cost_forecast_answer(found, time_zone=time_zone, currency=currency)
        return json_response(answer)

    async def runs(self, request: web.Request) -> web.Response:
        """Answer what ended in a time: the dearest, and waits by type."""
        query = QueryString(request, _OF_RUNS)
        ((first, last),) = steps_between(
            since=query.text(_FROM),
            until=query.text(_TO),
            time_zone=query.text(_TZ) or "UTC",
            step=Step.WHOLE,
            now=self._views.runs.now(),
            moment=parse_moment,
        )
        which = EndedRunFilter(
            since=first * _HOUR_S,
            until=last * _HOUR_S,
            user=query.text(USER),
            project=query.text(PROJECT),
        )
        report = await self._views.runs.report(which, caller=caller_of(request))
        return json_response(ended_runs_answer(report, currency=self._views.currency))

    async def prices(self, request: web.Request) -> web.Response:
        """Answer the prices that hold now."""
        QueryString(request, ())
        listed, as_of = self._views.prices.prices(), self._views.prices.now()
        answer = price_list_answer(listed, currency=self._views.currency, as_of=as_of)
        return json_response(answer)


def cost_view_routes(views: CostViewRoutes) -> list[Route]:
    """Return the routes of what is asked of cost beside its rows."""
    return [
        Route(
            method="GET",
            path="/v1/cost/forecast",
            handler=views.forecast,
            operation_id="show_cost_forecast",
            tells_of_more=True,
            summary="Show where this month's cost stands, and where it will likely end",
            description="Of what the caller sees of cost: a user its own, a lead its projects, an"
            " admin everything, and what instances cost now.",
            answer=(CostForecastAnswer,),
            parameters=(_TZ,),
        ),
        Route(
            method="GET",
            path="/v1/cost/runs",
            handler=views.runs,
            operation_id="report_ended_runs",
            tells_of_more=True,
            summary="Tell which runs were the dearest, and how long runs waited, by type",
            description="Of containers that ended in a time, which is taken in whole hours. A user"
            " is told of their own, a lead of those in their projects, an admin of all.",
            answer=(EndedRunsAnswer,),
            parameters=_OF_RUNS,
        ),
        Route(
            method="GET",
            path="/v1/prices",
            handler=views.prices,
            operation_id="list_prices",
            summary="List what an hour of each type costs now, by whom and since when",
            description="The prices that the ledger reckons with, of configured types.",
            access=Access.ADMINS,
            answer=(PriceListAnswer,),
        ),
    ]
