"""The route of the timeline: instances over time, with what ran on them.

Stands alone: each resource has a file of its own in each role.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from longshore.dispatcher.api.render.timeline import timeline_answer
from longshore.dispatcher.api.render.values import json_response
from longshore.dispatcher.api.routes.callers import Access
from longshore.dispatcher.api.routes.openapi import Route
from longshore.dispatcher.api.schemas.timeline import TimelineAnswer
from longshore.dispatcher.api.validate.bodies import QueryString
from longshore.dispatcher.api.validate.parameters import PAGE_PARAMETERS, Instant, Text
from longshore.dispatcher.service.timeline import Timeline, TimelineService

_FROM = Instant(name="from", description="From when on. Left out it is an hour before the end.")
_TO = Instant(name="to", description="Before when, at most 7 days later. Left out it is now.")
_INSTANCE = Text(
    name="instance", description="Only this instance, of which up to 2,000 attempts are told."
)
_PARAMETERS = (_FROM, _TO, _INSTANCE, *PAGE_PARAMETERS)
_MANY = 20


class TimelineRoute:
    """Answers for `/v1/timeline`."""

    def __init__(self, timeline: TimelineService) -> None:
        self._timeline = timeline

    async def show(self, request: web.Request) -> web.Response:
        """Answer a page of the instances that were there in a window."""
        query = QueryString(request, _PARAMETERS)
        cursor, limit = query.page()
        found = await self._timeline.timeline(
            since=query.instant(_FROM),
            until=query.instant(_TO),
            instance_id=query.text(_INSTANCE),
            cursor=cursor,
            limit=limit,
        )
        if len(found.page.items) > _MANY or found.window.instance_id:
            return await asyncio.to_thread(_response, found)
        return _response(found)


def _response(found: Timeline) -> web.Response:
    return json_response(timeline_answer(found))


def timeline_routes(timeline: TimelineRoute) -> list[Route]:
    """Return the route of the timeline."""
    return [
        Route(
            method="GET",
            path="/v1/timeline",
            handler=timeline.show,
            operation_id="show_timeline",
            summary="List the instances that were there in a window, with what ran on them",
            description="By when they were created, up to 200 a page: what each was from when to"
            " when, and which attempts had a place on it. Of up to 200 states and 200 attempts"
            " each, the latest, and how many are left out.",
            access=Access.ADMINS,
            answer=(TimelineAnswer,),
            parameters=_PARAMETERS,
        ),
    ]
