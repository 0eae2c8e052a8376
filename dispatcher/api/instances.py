"""The routes of instances."""

from __future__ import annotations

from functools import partial

from aiohttp import web

from dispatcher.api.answers import (
    instance_answer,
    instance_list,
    json_response,
    leak_list,
    stray_list,
)
from dispatcher.api.backend import Backend
from dispatcher.api.bodies import Bodies, Query, decode_one
from dispatcher.api.instance_wire import IdleBehaviorRequest, KillRequest, StraysRequest
from dispatcher.api.path_ids import path_id
from dispatcher.api.plain_text import text_problem
from drivers.errors import InvalidRequest

_REASON_DEFAULT = "asked for over the API"


class InstanceRoutes:
    """Answers for `/v1/instances` and below, for `/v1/leaks` and `/v1/strays`."""

    def __init__(self, backend: Backend, *, bodies: Bodies) -> None:
        self._backend = backend
        self._bodies = bodies

    async def list(self, request: web.Request) -> web.Response:
        """Answer all instances."""
        Query(request, ())
        return json_response(instance_list(self._backend.instances()))

    async def show(self, request: web.Request) -> web.Response:
        """Answer one instance."""
        view = self._backend.instance(path_id(request, "instance"))
        return json_response(instance_answer(view))

    async def leaks(self, request: web.Request) -> web.Response:
        """Answer what is billed and not wanted."""
        Query(request, ())
        return json_response(leak_list(self._backend.leaks()))

    async def strays(self, request: web.Request) -> web.Response:
        """Answer the strays that are kept."""
        Query(request, ())
        return json_response(stray_list(self._backend.strays()))

    async def decide_strays(self, request: web.Request) -> web.Response:
        """End strays that are kept on an instance, or leave them to their own end."""
        instance_id = path_id(request, "instance")
        wanted = await self._bodies.decoded(request, partial(decode_one, StraysRequest))
        decided = await self._backend.decide_strays(
            instance_id, wanted.attempts, adopt=wanted.fate == "adopt"
        )
        return json_response(stray_list(decided), status=202)

    async def set_idle_behavior(self, request: web.Request) -> web.Response:
        """Hold, drain or run an instance."""
        instance_id = path_id(request, "instance")
        wanted = await self._bodies.decoded(request, partial(decode_one, IdleBehaviorRequest))
        view = await self._backend.set_idle_behavior(instance_id, wanted.idle_behavior)
        return json_response(instance_answer(view))

    async def kill(self, request: web.Request) -> web.Response:
        """Destroy an instance now."""
        instance_id = path_id(request, "instance")
        wanted = await self._bodies.decoded(request, partial(decode_one, KillRequest))
        if wrong := text_problem(wanted.reason):
            raise InvalidRequest([("reason", wrong)])
        view = await self._backend.kill_instance(instance_id, wanted.reason or _REASON_DEFAULT)
        return json_response(instance_answer(view), status=202)
