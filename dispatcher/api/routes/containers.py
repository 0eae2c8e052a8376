"""The routes of containers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from aiohttp import web

from longshore.dispatcher.api.render.containers import (
    NO_STANDING,
    container_answer,
    container_bytes,
    costed_answer,
)
from longshore.dispatcher.api.render.values import how_many_fit, json_response
from longshore.dispatcher.api.routes.callers import caller_of
from longshore.dispatcher.api.routes.openapi import KEY_HEADER, TRACE_HEADER, Route
from longshore.dispatcher.api.schemas import containers as wire
from longshore.dispatcher.api.validate.bodies import (
    Bodies,
    QueryString,
    decode_one,
    idempotency_key,
    trace_header,
)
from longshore.dispatcher.api.validate.ids import path_id
from longshore.dispatcher.api.validate.parameters import (
    ARRAY_INDEX,
    NAME,
    PAGE_PARAMETERS,
    PROJECT,
    USER,
    Choice,
    Choices,
    Switch,
    Text,
)
from longshore.dispatcher.api.validate.submissions import SubmissionDecoder
from longshore.dispatcher.domain.containers import Container, ContainerState
from longshore.dispatcher.domain.principals import Principal
from longshore.dispatcher.domain.queries import LISTED_ATTEMPTS, ContainerFilter, Page
from longshore.dispatcher.explain.explanation import WaitStatus
from longshore.dispatcher.service.containers import ContainerService
from longshore.dispatcher.service.logs import LogService
from longshore.dispatcher.service.spent import SpentService
from longshore.drivers.errors import InvalidRequest

_MANY = 200
_FEW = 20
_STATES = {state.value: state for state in ContainerState}

_STATE = Choices(name="state", description="Only those in these states.", words=tuple(_STATES))
_INSTANCE = Text(name="instance", description="Only those that an attempt of ran on this instance.")
_JOB = Text(name="job", description="Only the containers of this job, by its id.")
_TASK = Text(name="task", description="Only those of tasks of this name.")
_PARENT = Text(name="parent", description="Only those that this container submitted from inside.")
_ORDER = Choice(
    name="order",
    description="In which order: `newest` first, or what waits in the order of the `queue`, the"
    " next in line first. A page of the queue may be short and have a next one.",
    words=("newest", "queue"),
    default="newest",
)
_TREE = Switch(
    name="tree", description="Also what it and all that it submitted from inside have cost."
)
_COSTS = Switch(
    name="costs", description="Also what it has cost up to now, and what each of its attempts has."
)
_SUBMISSIONS: Mapping[str, Any] = {
    "one container": {
        "name": "train",
        "image": "docker.io/library/python:3.12",
        "command": ["python", "train.py"],
        "env": {"EPOCHS": "10"},
        "cpus": 2,
        "memory": "4GiB",
        "retries": {"max": 2},
    },
    "a list, all or nothing": [{"command": ["./a"]}, {"command": ["./b"], "priority": 800}],
}
LIST_PARAMETERS = (
    *(_STATE, USER, PROJECT, NAME, _INSTANCE, _JOB, _TASK, ARRAY_INDEX, _PARENT),
    _ORDER,
    *PAGE_PARAMETERS,
)
SHOW_PARAMETERS = (_TREE, _COSTS)


class ContainerRoutes:
    """Answers for `/v1/containers` and below."""

    def __init__(
        self,
        containers: ContainerService,
        logs: LogService,
        spent: SpentService,
        *,
        bodies: Bodies,
        decoder: SubmissionDecoder,
        page_bytes: int,
    ) -> None:
        self._containers = containers
        self._logs = logs
        self._spent = spent
        self._bodies = bodies
        self._decoder = decoder
        self._page_bytes = page_bytes

    async def submit(self, request: web.Request) -> web.Response:
        """Take one container or a list of them, all or nothing."""
        key, caller = idempotency_key(request), caller_of(request)
        decode = partial(self._decoder.decode, project=caller.default_project)
        submission = await self._bodies.decoded(request, decode)
        trace = trace_header(request)
        try:
            made = await self._containers.submit(
                [each.within_trace(trace) for each in submission.items],
                caller=caller,
                idempotency_key=key,
                fingerprint=submission.fingerprint,
            )
        except InvalidRequest as error:
            if submission.listed:
                raise
            whole = [
                (path.removeprefix("[0]").removeprefix("."), what) for path, what in error.problems
            ]
            raise InvalidRequest(whole) from error
        if submission.listed:
            return await _list_response(made, status=201)
        headers = {"Location": f"/v1/containers/{made[0].id}"}
        return json_response(container_answer(made[0]), status=201, headers=headers)

    async def list(self, request: web.Request) -> web.Response:
        """Answer a page of containers, newest first."""
        query = QueryString(request, LIST_PARAMETERS)
        which = ContainerFilter(
            states=tuple(_STATES[word] for word in query.choices(_STATE)),
            user=query.text(USER),
            project=query.text(PROJECT),
            name=query.text(NAME),
            instance_id=query.text(_INSTANCE),
            job_id=query.text(_JOB),
            task=query.text(_TASK),
            array_index=query.whole(ARRAY_INDEX),
            parent=query.text(_PARENT),
        )
        caller, (cursor, limit) = caller_of(request), query.page()
        containers = self._containers
        listing = containers.queue if query.choice(_ORDER) == "queue" else containers.containers
        page = await self._page(partial(listing, which, caller=caller, cursor=cursor), limit)
        standings = {}
        for number, one in enumerate(page.items):
            standings[one.id] = self._standing(one, caller)
            if number % _FEW == 0:
                # Positions are counted among all classes: others get their turn in between.
                await asyncio.sleep(0)
        return await _list_response(page.items, standings=standings, next_cursor=page.next_cursor)

    async def show(self, request: web.Request) -> web.Response:
        """Answer one container, with why its log does not come."""
        query, caller = QueryString(request, SHOW_PARAMETERS), caller_of(request)
        with_tree, with_costs = query.switch(_TREE), query.switch(_COSTS)
        container = await self._containers.container(path_id(request, "container"), caller=caller)
        # Who waits for a container asks for it again and again, and its tree may be large.
        cost_usd = await self._containers.cost_of_tree_usd(container) if with_tree else None
        standing, problem = self._standing(container, caller), self._logs.problem(container)
        answer = container_answer(
            container,
            standing,
            log_problem=problem or None,
            cost_of_tree_usd=cost_usd,
        )
        if with_costs:
            answer = costed_answer(answer, await self._spent.container(container))
        return json_response(answer)

    async def change(self, request: web.Request) -> web.Response:
        """Change a container's priority."""
        container_id = path_id(request, "container")
        wanted = await self._bodies.decoded(request, partial(decode_one, wire.PriorityRequest))
        caller = caller_of(request)
        changed = await self._containers.set_priority(container_id, wanted.priority, caller=caller)
        return self._answer(changed, caller)

    async def cancel(self, request: web.Request) -> web.Response:
        """Ask for a container to be cancelled, or with all that it submitted from inside."""
        container_id = path_id(request, "container")
        wanted = await self._bodies.decoded(
            request, partial(decode_one, wire.ContainerCancelRequest)
        )
        caller, containers = caller_of(request), self._containers
        cancel = containers.cancel_tree if wanted.tree else containers.cancel
        cancelled = await cancel(container_id, caller=caller)
        return self._answer(cancelled, caller, status=202)

    async def _page(self, listed: Callable[..., Awaitable[Page]], limit: int) -> Page:
        page = await listed(limit=limit)
        fitting = how_many_fit(map(container_bytes, page.items), self._page_bytes)
        if fitting < len(page.items):
            page = await listed(limit=fitting)
        return page

    def _answer(
        self, container: Container, caller: Principal, *, status: int = 200
    ) -> web.Response:
        answer = container_answer(container, self._standing(container, caller))
        return json_response(answer, status=status)

    def _standing(self, container: Container, caller: Principal) -> WaitStatus:
        if container.state.final:
            return NO_STANDING
        return self._containers.wait_status(container, caller=caller)


async def _list_response(
    containers: Sequence[Container],
    *,
    status: int = 200,
    standings: Mapping[str, WaitStatus] | None = None,
    next_cursor: str | None = None,
) -> web.Response:
    known = standings or {}

    def build() -> web.Response:
        items = [
            container_answer(one, known.get(one.id, NO_STANDING), most_attempts=LISTED_ATTEMPTS)
            for one in containers
        ]
        return json_response(
            wire.ContainerList(items=items, next_cursor=next_cursor), status=status
        )

    return build() if len(containers) <= _MANY else await asyncio.to_thread(build)


# ---- the table of the routes of containers -------------------------------------------------------


def container_routes(containers: ContainerRoutes) -> list[Route]:
    """Return the routes of containers."""
    return [*_of_all(containers), *_of_one(containers, "/v1/containers/{id}")]


def _of_all(containers: ContainerRoutes) -> list[Route]:
    one: Any = wire.ContainerRequest
    return [
        Route(
            method="POST",
            path="/v1/containers",
            handler=containers.submit,
            operation_id="submit_containers",
            refusals=(409,),
            summary="Submit one container, or a list of them, all or nothing",
            description="One object is answered with the container, a list with the list of them in"
            " the same order. What no instance type could ever run is refused at once, "
            "and so is all of a list of which something is wrong.",
            examples=_SUBMISSIONS,
            answer_headers=("Location",),
            request=(one, list[one]),
            answer=(wire.ContainerAnswer, wire.ContainerList),
            status=201,
            headers=(KEY_HEADER, TRACE_HEADER),
        ),
        Route(
            method="GET",
            path="/v1/containers",
            handler=containers.list,
            operation_id="list_containers",
            refusals=(404,),
            summary="List containers, newest first, or what waits, the next in line first",
            description="Filters that are given together must all hold. Of each container the last "
            "attempts are shown.",
            answer=(wire.ContainerList,),
            parameters=LIST_PARAMETERS,
        ),
    ]


def _of_one(containers: ContainerRoutes, container: str) -> list[Route]:
    return [
        Route(
            method="GET",
            path=container,
            handler=containers.show,
            operation_id="show_container",
            summary="Show one container",
            description="With up to 100 attempts, and with why its log does not come where that is "
            "so.",
            answer=(wire.ContainerAnswer,),
            parameters=SHOW_PARAMETERS,
        ),
        Route(
            method="PATCH",
            path=container,
            handler=containers.change,
            operation_id="change_container",
            summary="Change a container's priority",
            description="A waiting container moves in the queue; priority 0 holds it back, and ends"
            " the attempt of a running one, which begins anew when it has a priority "
            "again.",
            examples={"first in the queue": {"priority": 1000}, "held back": {"priority": 0}},
            refusals=(409,),
            request=(wire.PriorityRequest,),
            answer=(wire.ContainerAnswer,),
        ),
        Route(
            method="POST",
            path=f"{container}/cancel",
            handler=containers.cancel,
            operation_id="cancel_container",
            summary="Ask for a container to be cancelled",
            description="What waits is cancelled at once; what runs is told to end, and killed "
            "after its grace period.",
            examples={"one": {}, "all below it too": {"tree": True}},
            refusals=(409,),
            request=(wire.ContainerCancelRequest,),
            answer=(wire.ContainerAnswer,),
            status=202,
        ),
    ]
