"""The routes of instances."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from aiohttp import web

from longshore.dispatcher.api.render.instances import (
    instance_list,
    leak_list,
    packed_answer,
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
from longshore.dispatcher.api.validate.parameters import PAGE_PARAMETERS, Switch
from longshore.dispatcher.api.validate.rfc3339 import end_problem, parse_moment
from longshore.dispatcher.input.text_rules import text_problem
from longshore.dispatcher.service.instances import InstanceService
from longshore.drivers.errors import InvalidRequest
from longshore.pool.model import IdleBehavior

_GONE = Switch(name="gone", description="Only those that are gone, the last first.")
INSTANCE_LIST_PARAMETERS = (_GONE, *PAGE_PARAMETERS)
_REASON_DEFAULT = "asked for over the API"


class InstanceRoutes:
    """Answers for `/v1/instances` and below, for `/v1/leaks` and `/v1/strays`."""

    def __init__(
        self,
        instances: InstanceService,
        *,
        bodies: Bodies,
        now: Callable[[], float | None],
    ) -> None:
        self._instances = instances
        self._bodies = bodies
        self._now = now

    async def list(self, request: web.Request) -> web.Response:
        """Answer a page of instances; with `gone`, of those that are gone."""
        query = QueryString(request, INSTANCE_LIST_PARAMETERS)
        gone, (cursor, limit) = query.switch(_GONE), query.page()
        if gone:
            report = await self._instances.gone_instances(cursor=cursor, limit=limit)
        else:
            report = self._instances.instances(cursor=cursor, limit=limit)
        return json_response(instance_list(report))

    async def show(self, request: web.Request) -> web.Response:
        """Answer one instance, gone or not."""
        view = await self._instances.instance(path_id(request, "instance"))
        return json_response(packed_answer(view))

    async def leaks(self, request: web.Request) -> web.Response:
        """Answer a page of what is billed and not wanted."""
        cursor, limit = QueryString(request, PAGE_PARAMETERS).page()
        report = await self._instances.leaks(cursor=cursor, limit=limit)
        return json_response(leak_list(report))

    async def strays(self, request: web.Request) -> web.Response:
        """Answer a page of the strays that are kept."""
        cursor, limit = QueryString(request, PAGE_PARAMETERS).page()
        page = self._instances.strays(cursor=cursor, limit=limit)
        return json_response(stray_list(page.items, page.next_cursor))

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
        return json_response(packed_answer(view))

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
        return json_response(packed_answer(view), status=202)


# ---- the table of the routes of instances --------------------------------------------------------


def instance_routes(instances: InstanceRoutes) -> list[Route]:
    """Return the routes of instances, of leaks and of strays."""
    instance = "/v1/instances/{id}"
    return [
        *_of_instances(instances, instance),
        *_steering(instances, instance),
        *_of_the_unwanted(instances, instance),
    ]


def _of_instances(instances: InstanceRoutes, instance: str) -> list[Route]:
    return [
        Route(
            method="GET",
            path="/v1/instances",
            handler=instances.list,
            operation_id="list_instances",
            summary="List instances, by id; with gone=true those that are gone, the last first",
            description="With their state, what runs on them, what they cost, and what is wrong "
            "with them.",
            access=Access.ADMINS,
            answer=(instance_wire.InstanceList,),
            parameters=INSTANCE_LIST_PARAMETERS,
        ),
        Route(
            method="GET",
            path=instance,
            handler=instances.show,
            operation_id="show_instance",
            summary="Show one instance, gone or not",
            description="Of one that is gone, when and why it ended.",
            access=Access.ADMINS,
            answer=(instance_wire.InstanceAnswer,),
        ),
    ]


def _steering(instances: InstanceRoutes, instance: str) -> list[Route]:
    return [
        Route(
            method="PUT",
            path=f"{instance}/idle-behavior",
            handler=instances.set_idle_behavior,
            operation_id="set_idle_behavior",
            summary="Let an instance run, hold it or drain it",
            description="One that is held is kept, also idle; one that drains gets nothing new and "
            "is shut down when it is empty.",
            examples={"hold for a look at it": {"idle_behavior": "hold", "reason": "disk noises"}},
            refusals=(409,),
            access=Access.ADMINS,
            request=(instance_wire.IdleBehaviorRequest,),
            answer=(instance_wire.InstanceAnswer,),
        ),
        Route(
            method="POST",
            path=f"{instance}/kill",
            handler=instances.kill,
            operation_id="kill_instance",
            summary="Destroy an instance now, whatever runs on it",
            description="What runs on it is lost there, and tried again elsewhere.",
            examples={"with a reason": {"reason": "its disk fails"}},
            refusals=(409,),
            access=Access.ADMINS,
            request=(instance_wire.KillRequest,),
            answer=(instance_wire.InstanceAnswer,),
            status=202,
        ),
    ]


def _of_the_unwanted(instances: InstanceRoutes, instance: str) -> list[Route]:
    return [
        Route(
            method="GET",
            path="/v1/strays",
            handler=instances.strays,
            operation_id="list_strays",
            summary="List what another store has started, and is kept",
            description="By instance and attempt. They are kept until an admin decides.",
            access=Access.ADMINS,
            answer=(instance_wire.StrayList,),
            parameters=PAGE_PARAMETERS,
        ),
        Route(
            method="POST",
            path=f"{instance}/strays",
            handler=instances.decide_strays,
            operation_id="decide_strays",
            summary="End what is kept on an instance, or leave it to its own end",
            description="All that are kept there, or those that are named.",
            examples={"end all of them": {"fate": "kill"}},
            refusals=(409,),
            access=Access.ADMINS,
            request=(instance_wire.StraysRequest,),
            answer=(instance_wire.StrayList,),
            status=202,
        ),
        Route(
            method="GET",
            path="/v1/leaks",
            handler=instances.leaks,
            operation_id="list_leaks",
            summary="List what is billed and not wanted",
            description="Instances, volumes and addresses that carry the tags of this server and "
            "that nothing of it needs.",
            access=Access.ADMINS,
            answer=(instance_wire.LeakList,),
            parameters=PAGE_PARAMETERS,
        ),
    ]
