"""The route of the audit log.

Stands alone: each resource has a file of its own in each role.
"""

from __future__ import annotations

from aiohttp import web

from longshore.dispatcher.api.render.tokens import audit_entry_answer
from longshore.dispatcher.api.render.values import json_response
from longshore.dispatcher.api.routes.callers import Access
from longshore.dispatcher.api.routes.openapi import Route
from longshore.dispatcher.api.schemas.tokens import AuditList
from longshore.dispatcher.api.validate.bodies import QueryString
from longshore.dispatcher.api.validate.parameters import PAGE_PARAMETERS, USER, Instant, Text
from longshore.dispatcher.domain.audit import AuditFilter
from longshore.dispatcher.service.audit import AuditService

_TOKEN = Text(name="token", description="Only what was asked with this token, by its id.")
_SINCE = Instant(name="since", description="Only what was asked at this time or later.")
_UNTIL = Instant(name="until", description="Only what was asked before this time.")
_PARAMETERS = (USER, _TOKEN, _SINCE, _UNTIL, *PAGE_PARAMETERS)


class AuditRoutes:
    """Answers for `/v1/audit`."""

    def __init__(self, audit: AuditService) -> None:
        self._audit = audit

    async def list(self, request: web.Request) -> web.Response:
        """Answer a page of the audit log, newest first."""
        query = QueryString(request, _PARAMETERS)
        which = AuditFilter(
            user=query.text(USER),
            token_id=query.text(_TOKEN),
            since=query.instant(_SINCE),
            until=query.instant(_UNTIL),
        )
        cursor, limit = query.page()
        page = await self._audit.entries(which, cursor=cursor, limit=limit)
        items = tuple(audit_entry_answer(each) for each in page.items)
        return json_response(AuditList(items=items, next_cursor=page.next_cursor))


def audit_routes(audit: AuditRoutes) -> list[Route]:
    """Return the route of the audit log."""
    return [
        Route(
            method="GET",
            path="/v1/audit",
            handler=audit.list,
            operation_id="list_audit_entries",
            summary="List who was to change what, newest first",
            description="Each request that was to change something, also one that was refused: who,"
            " what, when, from where, and by which token.",
            access=Access.ADMINS,
            answer=(AuditList,),
            parameters=_PARAMETERS,
        ),
    ]
