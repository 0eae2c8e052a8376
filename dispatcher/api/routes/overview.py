"""The routes of what goes on: an overview for everybody, and what holds creates, for admins.

Stands alone: each resource has a file of its own in each role.
"""

from __future__ import annotations

from aiohttp import web

from longshore.dispatcher.api.render.explain import holds_answer
from longshore.dispatcher.api.render.overview import overview_answer
from longshore.dispatcher.api.render.values import json_response
from longshore.dispatcher.api.routes.callers import Access, caller_of
from longshore.dispatcher.api.routes.openapi import Route
from longshore.dispatcher.api.schemas.explain import HoldsAnswer
from longshore.dispatcher.api.schemas.overview import OverviewAnswer
from longshore.dispatcher.api.validate.bodies import QueryString
from longshore.dispatcher.service.overview import OverviewService


class OverviewRoutes:
    """Answers for `/v1/overview` and `/v1/holds`."""

    def __init__(self, service: OverviewService) -> None:
        self._service = service

    async def overview(self, request: web.Request) -> web.Response:
        """Answer what goes on in numbers."""
        QueryString(request, ())
        found = self._service.overview(caller_of(request))
        return json_response(overview_answer(found, self._service.now()))

    async def holds(self, request: web.Request) -> web.Response:
        """Answer what keeps instances from being created."""
        QueryString(request, ())
        return json_response(holds_answer(self._service.holds()))


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
        Route(
            method="GET",
            path="/v1/holds",
            handler=overview.holds,
            operation_id="list_holds",
            summary="List what keeps instances from being created: holds, and limits",
            description="Holds of creates with their cause and end, and each limit of the"
            " configuration by its setting, with how much of it is used and whether something waits"
            " for it.",
            access=Access.ADMINS,
            answer=(HoldsAnswer,),
        ),
    ]
