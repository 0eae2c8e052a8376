"""The route of what work asks for against what it really takes.

Stands alone: each resource has a file of its own in each role.
"""

from __future__ import annotations

from aiohttp import web

from longshore.dispatcher.api.render.efficiency import efficiency_answer
from longshore.dispatcher.api.render.values import json_response
from longshore.dispatcher.api.routes.callers import caller_of
from longshore.dispatcher.api.routes.openapi import Route
from longshore.dispatcher.api.schemas.efficiency import EfficiencyAnswer
from longshore.dispatcher.api.validate.bodies import QueryString
from longshore.dispatcher.api.validate.parameters import PROJECT, USER, Instant, Text
from longshore.dispatcher.domain.efficiency import EfficiencyFilter
from longshore.dispatcher.service.efficiency import EfficiencyService

_NAME = Text(
    name="name",
    description="Only jobs of this name, and containers of this name that are of no job.",
)
_SINCE = Instant(name="since", description="Only what ended at this time or later.")
_PARAMETERS = (USER, PROJECT, _NAME, _SINCE)


class EfficiencyRoute:
    """Answers for `/v1/efficiency`."""

    def __init__(self, efficiency: EfficiencyService) -> None:
        self._efficiency = efficiency

    async def report(self, request: web.Request) -> web.Response:
        """Answer what work asks for against what it takes."""
        query = QueryString(request, _PARAMETERS)
        which = EfficiencyFilter(
            user=query.text(USER),
            project=query.text(PROJECT),
            name=query.text(_NAME),
            since=query.instant(_SINCE),
        )
        report = await self._efficiency.report(which, caller=caller_of(request))
        return json_response(efficiency_answer(report))


def efficiency_routes(efficiency: EfficiencyRoute) -> list[Route]:
    """Return the route of what work asks for against what it takes."""
    return [
        Route(
            method="GET",
            path="/v1/efficiency",
            handler=efficiency.report,
            operation_id="report_efficiency",
            tells_of_more=True,
            summary="Compare what work asks for with what it really takes",
            description="By user, project, job, task and what was asked for: the 95th percentiles"
            " of what succeeded runs took, and from 20 of them on what to ask for instead. A user"
            " is told of their own runs, a lead of those in their projects, an admin of all.",
            answer=(EfficiencyAnswer,),
            parameters=_PARAMETERS,
        ),
    ]
