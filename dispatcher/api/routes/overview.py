"""The routes of what goes on: an overview for everybody, and what holds creates, for admins.

Stands alone: each resource has a file of its own in each role.
"""

from __future__ import annotations

from aiohttp import web

from longshore.dispatcher.api.render.explain import holds_answer
from longshore.dispatcher.api.render.overview import decision_list, overview_answer
from longshore.dispatcher.api.render.values import json_response
from longshore.dispatcher.api.routes.callers import Access, caller_of
from longshore.dispatcher.api.routes.openapi import Route
from longshore.dispatcher.api.schemas.explain import HoldsAnswer
from longshore.dispatcher.api.schemas.overview import DecisionList, OverviewAnswer
from longshore.dispatcher.api.validate.bodies import QueryString
from longshore.dispatcher.api.validate.parameters import PAGE_PARAMETERS, Choices
from longshore.dispatcher.service.overview import OverviewService
from longshore.dispatcher.state.history import DecisionKind

_KINDS = {kind.value: kind for kind in DecisionKind}
_KIND = Choices(name="kind", description="Only those of these kinds.", words=tuple(_KINDS))
_DECISION_PARAMETERS = (_KIND, *PAGE_PARAMETERS)


class OverviewRoutes:
    """Answers for `/v1/overview`, `/v1/holds` and `/v1/decisions`."""

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

    async def decisions(self, request: web.Request) -> web.Response:
        """Answer what was decided lately."""
        query = QueryString(request, _DECISION_PARAMETERS)
        cursor, limit = query.page()
        words = query.choices(_KIND)
        kinds = frozenset(_KINDS[word] for word in words) if words else None
        found = self._service.decisions(kinds=kinds, cursor=cursor, limit=limit)
        return json_response(decision_list(found))


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
        Route(
            method="GET",
            path="/v1/decisions",
            handler=overview.decisions,
            operation_id="list_decisions",
            summary="List what was decided lately of instances, and who made way, newest first",
            description="Instances bought, for whom and at which price; those shut down, and why;"
            " creates that are held; attempts that made way for others. In memory: since the"
            " server's start, and the latest 2,000.",
            access=Access.ADMINS,
            answer=(DecisionList,),
            parameters=_DECISION_PARAMETERS,
        ),
    ]
