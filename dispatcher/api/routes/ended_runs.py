"""The route of ended runs: the dearest, and how long runs waited.

Stands alone: each resource has a file of its own in each role.
"""

from __future__ import annotations

from aiohttp import web

from longshore.dispatcher.api.render.ended_runs import ended_runs_answer
from longshore.dispatcher.api.render.values import json_response
from longshore.dispatcher.api.routes.callers import caller_of
from longshore.dispatcher.api.routes.openapi import Route
from longshore.dispatcher.api.schemas.ended_runs import EndedRunsAnswer
from longshore.dispatcher.api.validate.bodies import QueryString
from longshore.dispatcher.api.validate.parameters import PROJECT, USER, Text
from longshore.dispatcher.api.validate.rfc3339 import parse_moment
from longshore.dispatcher.domain.ended_runs import EndedRunFilter
from longshore.dispatcher.service.cost_periods import Step, steps_between
from longshore.dispatcher.service.costs import CostService
from longshore.dispatcher.service.ended_runs import EndedRunService

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
_PARAMETERS = (_FROM, _TO, _TZ, PROJECT, USER)
_HOUR_S = 3600.0


class EndedRunsRoute:
    """Answers for `/v1/cost/runs`."""

    def __init__(self, runs: EndedRunService, costs: CostService) -> None:
        self._runs, self._costs = runs, costs

    async def report(self, request: web.Request) -> web.Response:
        """Answer what ended in a time: the dearest, and waits by type."""
        query = QueryString(request, _PARAMETERS)
        ((first, last),) = steps_between(
            since=query.text(_FROM),
            until=query.text(_TO),
            time_zone=query.text(_TZ) or "UTC",
            step=Step.WHOLE,
            now=self._runs.now(),
            moment=parse_moment,
        )
        which = EndedRunFilter(
            since=first * _HOUR_S,
            until=last * _HOUR_S,
            user=query.text(USER),
            project=query.text(PROJECT),
        )
        report = await self._runs.report(which, caller=caller_of(request))
        return json_response(ended_runs_answer(report, currency=self._costs.currency))


def ended_runs_routes(runs: EndedRunsRoute) -> list[Route]:
    """Return the route of ended runs."""
    return [
        Route(
            method="GET",
            path="/v1/cost/runs",
            handler=runs.report,
            operation_id="report_ended_runs",
            tells_of_more=True,
            summary="Tell which runs were the dearest, and how long runs waited, by type",
            description="Of containers that ended in a time, which is taken in whole hours. A user"
            " is told of their own, a lead of those in their projects, an admin of all.",
            answer=(EndedRunsAnswer,),
            parameters=_PARAMETERS,
        ),
    ]
