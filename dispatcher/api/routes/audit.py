"""The route of the audit log."""

from __future__ import annotations

from aiohttp import web

from longshore.dispatcher.api.render.tokens import audit_entry_answer
from longshore.dispatcher.api.render.values import json_response
from longshore.dispatcher.api.routes.callers import Access
from longshore.dispatcher.api.routes.openapi import Route
from longshore.dispatcher.api.schemas.tokens import AuditList
from longshore.dispatcher.api.validate.bodies import QueryString
from longshore.dispatcher.api.validate.limits import ApiLimits
from longshore.dispatcher.api.validate.rfc3339 import parse_moment
from longshore.dispatcher.domain.audit import AuditFilter
from longshore.dispatcher.service.audit import AuditService
from longshore.drivers.errors import InvalidRequest

_PARAMETERS = ("user", "token", "since", "until", "limit", "cursor")
_PAGE_DEFAULT = 100


class AuditRoutes:
    """Answers for `/v1/audit`."""

    def __init__(self, audit: AuditService, *, limits: ApiLimits) -> None:
        self._audit = audit
        self._limits = limits

    async def list(self, request: web.Request) -> web.Response:
        """Answer a page of the audit log, newest first."""
        query = QueryString(request, _PARAMETERS)
        which = AuditFilter(
            user=query.text("user"),
            token_id=query.text("token"),
            since=_moment(query, "since"),
            until=_moment(query, "until"),
        )
        limit = query.whole("limit", _PAGE_DEFAULT, low=1, high=self._limits.page_items)
        page = await self._audit.entries(which, cursor=query.cursor(), limit=limit)
        items = tuple(audit_entry_answer(each) for each in page.items)
        return json_response(AuditList(items=items, next_cursor=page.next_cursor))


def _moment(query: QueryString, name: str) -> float | None:
    text = query.text(name)
    if not text:
        return None
    try:
        return parse_moment(text)
    except ValueError as error:
        raise InvalidRequest([(name, str(error))]) from error


def audit_routes(audit: AuditRoutes) -> list[Route]:
    """Return the route of the audit log."""
    return [
        Route(
            method="GET",
            path="/v1/audit",
            handler=audit.list,
            summary="List who was to change what, newest first",
            access=Access.ADMINS,
            answer=(AuditList,),
            parameters=_PARAMETERS,
        ),
    ]
