"""The routes of what goes on: an overview for everybody.

Stands alone: each resource has a file of its own in each role.
"""

from __future__ import annotations

from aiohttp import web

from longshore.dispatcher.api.render.overview import overview_answer
from longshore.dispatcher.api.render.values import json_response
from longshore.dispatcher.api.routes.callers import caller_of
from longshore.dispatcher.api.routes.openapi import Route
from longshore.dispatcher.api.schemas.overview import OverviewAnswer
from longshore.dispatcher.api.validate.bodies import QueryString
from longshore.dispatcher.service.overview import OverviewService


class OverviewRoutes:
    """Answers for `/v1/overview`."""

    def __init__(self, service: OverviewService) -> None:
        self._service = service

    async def overview(self, request: web.Request) -> web.Response:
        """Answer what goes on in numbers."""
        QueryString(request, ())
        found = self._service.overview(caller_of(request))
        return json_response(overview_answer(found, self._service.now()))


def overview_routes(overview: OverviewRoutes) -> list[Route]:
    """Return the routes of what goes on."""
    return [
        Route(
            method="GET",
            path="/v1/overview",
            handler=overview.overview,
            operation_id="show_overview",
            tells_of_more=True,
            summary="Show in numbers what goes on: containers by state, and why those wait that do",
            description="Of the projects that the caller sees; admins are told of instances too,"
            " and what they cost an hour. It is cheap: ask every few seconds.",
            answer=(OverviewAnswer,),
        ),
    ]
