"""The route that explains a container.

Stands alone: each resource has a file of its own in each role.
"""

from __future__ import annotations

from aiohttp import web

from longshore.dispatcher.api.render.explain import explanation_answer
from longshore.dispatcher.api.render.values import json_response
from longshore.dispatcher.api.routes.callers import caller_of
from longshore.dispatcher.api.routes.openapi import Route
from longshore.dispatcher.api.schemas.explain import ExplanationAnswer
from longshore.dispatcher.api.validate.bodies import QueryString
from longshore.dispatcher.api.validate.ids import path_id
from longshore.dispatcher.service.containers import ContainerService


class ExplainRoute:
    """Answers for `/v1/containers/{id}/explain`."""

    def __init__(self, containers: ContainerService) -> None:
        self._containers = containers

    async def show(self, request: web.Request) -> web.Response:
        """Answer why a container is where it is."""
        QueryString(request, ())
        found = await self._containers.explain(
            path_id(request, "container"), caller=caller_of(request)
        )
        return json_response(explanation_answer(found))


def explain_routes(explain: ExplainRoute) -> list[Route]:
    """Return the route that explains."""
    return [
        Route(
            method="GET",
            path="/v1/containers/{id}/explain",
            handler=explain.show,
            operation_id="explain_container",
            summary="Explain why a container waits, or what became of it",
            description="Type by type and instance by instance: what rules it out, which limits are"
            " reached, when it may start, and what was decided about it so far.",
            answer=(ExplanationAnswer,),
        ),
    ]
