"""The route that explains a container."""

from __future__ import annotations

from aiohttp import web

from longshore.dispatcher.api.render.containers import json_response
from longshore.dispatcher.api.render.explain import explanation_answer
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
        found = await self._containers.explain(path_id(request, "container"))
        return json_response(explanation_answer(found))
