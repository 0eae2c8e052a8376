"""What stands before every route: who asks, whether the route answers them, and what is noted."""

from __future__ import annotations

from contextlib import nullcontext
from http import HTTPStatus

from aiohttp import web

from longshore.dispatcher.access.credentials import TooManyRequests, Unauthorized
from longshore.dispatcher.api.doors import Doors
from longshore.dispatcher.api.render.problems import Handler, answer_for
from longshore.dispatcher.api.routes.callers import (
    Access,
    allows,
    change_noted,
    refusal_of,
    set_caller,
)
from longshore.dispatcher.api.routes.openapi import Route
from longshore.dispatcher.domain.principals import Door, Principal
from longshore.dispatcher.service.audit import AuditOutcome, AuditService
from longshore.dispatcher.service.contracts import Forbidden, Unavailable
from longshore.drivers.errors import InvalidRequest

_ACTION_CHARACTERS = 300
# There an answer is passed on once it is whole.
_TELLS_OF_MORE = (
    "This tells of more than a container and what it submitted: ask from outside of containers."
)
_NOT_INSIDE = (
    "This cannot be followed from inside of a container: ask for what there is by now, without"
    " follow, or from outside."
)


class Entrance:
    """Guards routes; `audit` has each request that is to change something."""

    def __init__(self, doors: Doors, audit: AuditService) -> None:
        self._doors = doors
        self._audit = audit

    def guarded(self, route: Route) -> Handler:
        """Return a route's handler, for callers of the roles that it answers."""

        async def public(request: web.Request) -> web.StreamResponse:
            try:
                set_caller(request, await self._doors.enter(request))
            except (Unauthorized, TooManyRequests, Forbidden, InvalidRequest, Unavailable):
                # Nobody need be known here: who is, is told more.
                return await route.handler(request)
            return await route.handler(request)

        async def guarded(request: web.Request) -> web.StreamResponse:
            caller = await self._doors.enter(request)
            set_caller(request, caller)
            if route.changes:
                with self._doors.asking(request, caller):
                    return await self._noted(request, route, caller)
            self._expect_allowed(route, caller)
            if caller.door is Door.CONTAINER and route.tells_of_more:
                raise Forbidden(_TELLS_OF_MORE)
            if caller.door is Door.CONTAINER and route.goes_on(request):
                raise Forbidden(_NOT_INSIDE)
            counted = self._doors.stream(request, caller) if route.streams else nullcontext()
            with counted:
                return await route.handler(request)

        return public if route.access is Access.PUBLIC else guarded

    async def _noted(
        self, request: web.Request, route: Route, caller: Principal
    ) -> web.StreamResponse:
        """Answer a request that is to change something, with an entry of it in the audit log."""
        action = f"{request.method} {request.path}"[:_ACTION_CHARACTERS]
        address = caller.attempt_id or self._doors.address_of(request)
        noted = self._audit.begin(caller, address=address, action=action)
        response: web.StreamResponse
        try:
            self._expect_allowed(route, caller)
            response = await route.handler(request)
            if response.status < HTTPStatus.BAD_REQUEST:
                await self._audit.confirm(noted)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - as the last line would answer it, and noted
            response = answer_for(error, where=action)
        made = response.headers.get("Location", "").rpartition("/")[2]
        outcome = AuditOutcome(status=response.status, detail=change_noted(request), made=made)
        self._audit.finish(noted, outcome)
        return response

    def _expect_allowed(self, route: Route, caller: Principal) -> None:
        if not allows(route.access, caller.role):
            raise Forbidden(refusal_of(route.access, caller.role))
