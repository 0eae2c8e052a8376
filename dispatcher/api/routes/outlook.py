"""The route of where this month stands, and where it will likely end.

Stands alone: each resource has a file of its own in each role.
"""

from __future__ import annotations

from aiohttp import web

from longshore.dispatcher.api.render.outlook import outlook_answer
from longshore.dispatcher.api.render.values import json_response
from longshore.dispatcher.api.routes.callers import caller_of
from longshore.dispatcher.api.routes.openapi import Route
from longshore.dispatcher.api.schemas.outlook import OutlookAnswer
from longshore.dispatcher.api.validate.bodies import QueryString
from longshore.dispatcher.api.validate.parameters import Text
from longshore.dispatcher.service.costs import CostService
from longshore.dispatcher.service.outlook import OutlookService

_TZ = Text(
    name="tz",
    description="The IANA time zone of the month, as `Europe/Berlin`. Left out it is UTC.",
)


class OutlookRoute:
    """Answers for `/v1/cost/outlook`."""

    def __init__(self, outlook: OutlookService, costs: CostService) -> None:
        self._outlook, self._costs = outlook, costs

    async def show(self, request: web.Request) -> web.Response:
        """Answer where this month stands."""
        time_zone = QueryString(request, (_TZ,)).text(_TZ) or "UTC"
        found = await self._outlook.outlook(time_zone=time_zone, caller=caller_of(request))
        answer = outlook_answer(found, time_zone=time_zone, currency=self._costs.currency)
        return json_response(answer)


def outlook_routes(outlook: OutlookRoute) -> list[Route]:
    """Return the route of where this month stands."""
    return [
        Route(
            method="GET",
            path="/v1/cost/outlook",
            handler=outlook.show,
            operation_id="show_cost_outlook",
            tells_of_more=True,
            summary="Show where this month's cost stands, and where it will likely end",
            description="Of what the caller sees of cost: a user its own, a lead its projects, an"
            " admin everything, and what instances cost now.",
            answer=(OutlookAnswer,),
            parameters=(_TZ,),
        ),
    ]
