"""The routes of instances."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from aiohttp import web

from longshore.dispatcher.api.render.instances import (
    instance_answer,
    instance_list,
    leak_list,
    stray_list,
)
from longshore.dispatcher.api.render.values import json_response
from longshore.dispatcher.api.routes.callers import Access, caller_of
from longshore.dispatcher.api.routes.openapi import Route
from longshore.dispatcher.api.schemas import instances as instance_wire
from longshore.dispatcher.api.schemas.instances import (
    IdleBehaviorRequest,
    KillRequest,
    StraysRequest,
)
from longshore.dispatcher.api.validate.bodies import Bodies, QueryString, decode_one
from longshore.dispatcher.api.validate.ids import path_id
from longshore.dispatcher.api.validate.limits import ApiLimits
from longshore.dispatcher.api.validate.rfc3339 import end_problem, parse_moment
from longshore.dispatcher.input.text_rules import text_problem
from longshore.dispatcher.service.instances import InstanceService
from longshore.drivers.errors import InvalidRequest
from longshore.pool.model import IdleBehavior

PAGE_PARAMETERS = ("limit", "cursor")
INSTANCE_LIST_PARAMETERS = ("gone", *PAGE_PARAMETERS)
_PAGE_DEFAULT = 100
_REASON_DEFAULT = "asked for over the API"


class InstanceRoutes:
    """Answers for `/v1/instances` and below, for `/v1/leaks` and `/v1/strays`."""

    def __init__(
        self,
        instances: InstanceService,
        *,
        bodies: Bodies,
        limits: ApiLimits,
        now: Callable[[], float | None],
    ) -> None:
        self._instances = instances
        self._bodies = bodies
        self._limits = limits
        self._now = now

    async def list(self, request: web.Request) -> web.Response:
        """Answer a page of instances; with `gone`, of those that are gone."""
        query = QueryString(request, INSTANCE_LIST_PARAMETERS)
        gone = query.choice("gone", "false", ("true", "false")) == "true"
        cursor, limit = self._page_of(query)
        if gone:
            report = await self._instances.gone_instances(cursor=cursor, limit=limit)
        else:
            report = self._instances.instances(cursor=cursor, limit=limit)
        return json_response(instance_list(report))

    async def show(self, request: web.Request) -> web.Response:
        """Answer one instance, gone or not."""
        view = await self._instances.instance(path_id(request, "instance"))
        return json_response(instance_answer(view))

    async def leaks(self, request: web.Request) -> web.Response:
        """Answer a page of what is billed and not wanted."""
        cursor, limit = self._page_of(QueryString(request, PAGE_PARAMETERS))
        return json_response(leak_list(self._instances.leaks(cursor=cursor, limit=limit)))

    async def strays(self, request: web.Request) -> web.Response:
        """Answer a page of the strays that are kept."""
        cursor, limit = self._page_of(QueryString(request, PAGE_PARAMETERS))
        page = self._instances.strays(cursor=cursor, limit=limit)
        return json_response(stray_list(page.items, page.next_cursor))

    def _page_of(self, query: QueryString) -> tuple[str, int]:
        """Return which page is asked for, as its cursor and how many it may have."""
        limit = query.whole("limit", _PAGE_DEFAULT, low=1, high=self._limits.page_items)
        return query.cursor(), limit

    async def decide_strays(self, request: web.Request) -> web.Response:
        """End strays that are kept on an instance, or leave them to their own end."""
        instance_id = path_id(request, "instance")
        wanted = await self._bodies.decoded(request, partial(decode_one, StraysRequest))
        decided = await self._instances.decide_strays(
            instance_id, wanted.attempts, adopt=wanted.fate == "adopt"
        )
        return json_response(stray_list(decided), status=202)

    async def set_idle_behavior(self, request: web.Request) -> web.Response:
        """Hold, drain or run an instance."""
        instance_id = path_id(request, "instance")
        wanted = await self._bodies.decoded(request, partial(decode_one, IdleBehaviorRequest))
        until = self._checked_end(wanted)
        behavior = IdleBehavior(wanted.idle_behavior)
        view = await self._instances.set_idle_behavior(
            instance_id, behavior, reason=wanted.reason, user=caller_of(request).user, until=until
        )
        return json_response(instance_answer(view))

    def _checked_end(self, wanted: IdleBehaviorRequest) -> float | None:
        """Return until when an instance is held; raises `InvalidRequest` with all that is wrong."""
        problems = []
        if wrong := text_problem(wanted.reason):
            problems.append(("reason", wrong))
        if wanted.until is not None and wanted.idle_behavior != IdleBehavior.HOLD.value:
            problems.append(("until", "is for a hold alone: leave it out"))
        elif wanted.until is not None and (wrong := end_problem(wanted.until, self._now())):
            problems.append(("until", wrong))
        if problems:
            raise InvalidRequest(problems)
        return None if wanted.until is None else parse_moment(wanted.until)

    async def kill(self, request: web.Request) -> web.Response:
        """Destroy an instance now."""
        instance_id = path_id(request, "instance")
        wanted = await self._bodies.decoded(request, partial(decode_one, KillRequest))
        if wrong := text_problem(wanted.reason):
            raise InvalidRequest([("reason", wrong)])
        view = await self._instances.kill(instance_id, wanted.reason or _REASON_DEFAULT)
        return json_response(instance_answer(view), status=202)


# ---- the table of the routes of instances --------------------------------------------------------


def instance_routes(instances: InstanceRoutes) -> list[Route]:
    """Return the routes of instances, of leaks and of strays."""
    instance = "/v1/instances/{id}"
    return [
        Route(
            method="GET",
            path="/v1/instances",
            handler=instances.list,
            summary="List instances, by id; with gone=true those that are gone, the last first",
            access=Access.ADMINS,
            answer=(instance_wire.InstanceList,),
            parameters=INSTANCE_LIST_PARAMETERS,
        ),
        Route(
            method="GET",
            path=instance,
            handler=instances.show,
            summary="Show one instance, gone or not",
            access=Access.ADMINS,
            answer=(instance_wire.InstanceAnswer,),
        ),
        Route(
            method="PUT",
            path=f"{instance}/idle-behavior",
            handler=instances.set_idle_behavior,
            summary="Let an instance run, hold it or drain it",
            access=Access.ADMINS,
            request=(instance_wire.IdleBehaviorRequest,),
            answer=(instance_wire.InstanceAnswer,),
        ),
        Route(
            method="POST",
            path=f"{instance}/kill",
            handler=instances.kill,
            summary="Destroy an instance now, whatever runs on it",
            access=Access.ADMINS,
            request=(instance_wire.KillRequest,),
            answer=(instance_wire.InstanceAnswer,),
            status=202,
        ),
        Route(
            method="GET",
            path="/v1/strays",
            handler=instances.strays,
            summary="List what another store has started, and is kept",
            access=Access.ADMINS,
            answer=(instance_wire.StrayList,),
            parameters=PAGE_PARAMETERS,
        ),
        Route(
            method="POST",
            path=f"{instance}/strays",
            handler=instances.decide_strays,
            summary="End what is kept on an instance, or leave it to its own end",
            access=Access.ADMINS,
            request=(instance_wire.StraysRequest,),
            answer=(instance_wire.StrayList,),
            status=202,
        ),
        Route(
            method="GET",
            path="/v1/leaks",
            handler=instances.leaks,
            summary="List what is billed and not wanted",
            access=Access.ADMINS,
            answer=(instance_wire.LeakList,),
            parameters=PAGE_PARAMETERS,
        ),
    ]
