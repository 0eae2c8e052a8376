"""Putting the API together: one table of routes serves the router and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from longshore.dispatcher.api.guards import ANSWER_HEADERS, open_mode_middleware
from longshore.dispatcher.api.render.problems import problems_middleware
from longshore.dispatcher.api.routes.containers import LIST_PARAMETERS, ContainerRoutes
from longshore.dispatcher.api.routes.explain import ExplainRoute
from longshore.dispatcher.api.routes.instances import (
    INSTANCE_LIST_PARAMETERS,
    PAGE_PARAMETERS,
    InstanceRoutes,
)
from longshore.dispatcher.api.routes.jobs import JobRoutes, job_routes
from longshore.dispatcher.api.routes.openapi import DOCUMENT, Route, openapi_document
from longshore.dispatcher.api.routes.server import ServerRoutes
from longshore.dispatcher.api.routes.streams import StreamGate
from longshore.dispatcher.api.schemas import containers as wire
from longshore.dispatcher.api.schemas import explain as explain_wire
from longshore.dispatcher.api.schemas import health
from longshore.dispatcher.api.schemas import instances as instance_wire
from longshore.dispatcher.api.server import LIMITS
from longshore.dispatcher.api.validate.bodies import Bodies
from longshore.dispatcher.api.validate.jobs import JobDecoder
from longshore.dispatcher.api.validate.limits import ApiLimits, Defaults
from longshore.dispatcher.api.validate.submissions import SubmissionDecoder
from longshore.dispatcher.service.services import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    containers: ContainerRoutes
    jobs: JobRoutes
    explain: ExplainRoute
    instances: InstanceRoutes
    server: ServerRoutes


def make_app(
    services: Services,
    *,
    limits: ApiLimits,
    defaults: Defaults,
    instance_type_names: Collection[str],
    version: str,
    now: Callable[[], float | None] = lambda: None,
) -> web.Application:
    """Return the API as an aiohttp application, for `dispatcher.api.server.ApiRunner`.

    `version` is told in the header `Server` and in the OpenAPI document. `now` gives seconds since
    the epoch, or None where nothing shall be too far ahead to wait for. While it runs it uses the
    event loop's default executor for large bodies; on shutdown it ends all streams within about a
    second. `services.events` should end when the server stops, but need not.
    """
    logs = StreamGate(limit=limits.concurrent_streams, what="log streams")
    subscribers = StreamGate(limit=limits.subscribers, what="event subscribers")
    bodies = Bodies(limits)
    decoder = SubmissionDecoder(
        limits=limits, defaults=defaults, instance_type_names=instance_type_names, now=now
    )
    job_decoder = JobDecoder(
        limits=limits, defaults=defaults, instance_type_names=instance_type_names, now=now
    )
    parts = _Parts(
        containers=ContainerRoutes(
            services.containers,
            services.logs,
            bodies=bodies,
            decoder=decoder,
            gate=logs,
            limits=limits,
        ),
        jobs=JobRoutes(services.jobs, bodies=bodies, decoder=job_decoder, limits=limits, now=now),
        explain=ExplainRoute(services.containers),
        instances=InstanceRoutes(services.instances, bodies=bodies, limits=limits, now=now),
        server=ServerRoutes(
            events=services.events,
            health=services.health,
            metrics=services.metrics,
            gate=subscribers,
            limits=limits,
        ),
    )
    app = web.Application(
        middlewares=[problems_middleware, open_mode_middleware],
        client_max_size=limits.request_bytes,
    )
    app[LIMITS] = limits
    _mount(app, _routes(parts), version)

    async def add_headers(_request: web.Request, response: web.StreamResponse) -> None:
        response.headers["Server"] = f"longshore/{version}"
        response.headers.update(ANSWER_HEADERS)

    async def end_streams(_app: web.Application) -> None:
        await subscribers.close()
        await logs.close()

    app.on_response_prepare.append(add_headers)
    app.on_shutdown.append(end_streams)
    return app


def _mount(app: web.Application, routes: list[Route], version: str) -> None:
    """Let an application answer these routes, and the document that tells of them."""
    document = openapi_document(routes, version=version)
    app[DOCUMENT] = document

    async def openapi(_request: web.Request) -> web.Response:
        return web.Response(body=document, content_type="application/json")

    app.router.add_get("/openapi.json", openapi)
    for route in routes:
        if route.method == "GET":
            app.router.add_get(route.path, route.handler, allow_head=not route.streams)
        else:
            app.router.add_route(route.method, route.path, route.handler)


def _routes(parts: _Parts) -> list[Route]:
    container, instance = "/v1/containers/{id}", "/v1/instances/{id}"
    one: Any = wire.ContainerRequest
    return [
        Route(
            method="POST",
            path="/v1/containers",
            handler=parts.containers.submit,
            summary="Submit one container, or a list of them, all or nothing",
            request=(one, list[one]),
            answer=(wire.ContainerAnswer, wire.ContainerList),
            status=201,
            headers=("Idempotency-Key",),
        ),
        Route(
            method="GET",
            path="/v1/containers",
            handler=parts.containers.list,
            summary="List containers, newest first",
            answer=(wire.ContainerList,),
            parameters=LIST_PARAMETERS,
        ),
        Route(
            method="GET",
            path=container,
            handler=parts.containers.show,
            summary="Show one container",
            answer=(wire.ContainerAnswer,),
        ),
        Route(
            method="PATCH",
            path=container,
            handler=parts.containers.change,
            summary="Change a container's priority",
            request=(wire.PriorityRequest,),
            answer=(wire.ContainerAnswer,),
        ),
        Route(
            method="POST",
            path=f"{container}/cancel",
            handler=parts.containers.cancel,
            summary="Ask for a container to be cancelled",
            request=(wire.CancelRequest,),
            answer=(wire.ContainerAnswer,),
            status=202,
        ),
        Route(
            method="GET",
            path=f"{container}/explain",
            handler=parts.explain.show,
            summary="Explain why a container waits, or what became of it",
            answer=(explain_wire.ExplanationAnswer,),
        ),
        Route(
            method="GET",
            path=f"{container}/logs",
            handler=parts.containers.logs,
            summary="Stream the bytes of stdout or stderr",
            media_type="application/octet-stream",
            parameters=("stream", "offset", "follow"),
            streams=True,
        ),
        *job_routes(parts.jobs),
        *_instance_routes(parts, instance),
        *_server_routes(parts),
    ]


def _instance_routes(parts: _Parts, instance: str) -> list[Route]:
    return [
        Route(
            method="GET",
            path="/v1/instances",
            handler=parts.instances.list,
            summary="List instances, by id; with gone=true those that are gone, the last first",
            answer=(instance_wire.InstanceList,),
            parameters=INSTANCE_LIST_PARAMETERS,
        ),
        Route(
            method="GET",
            path=instance,
            handler=parts.instances.show,
            summary="Show one instance, gone or not",
            answer=(instance_wire.InstanceAnswer,),
        ),
        Route(
            method="PUT",
            path=f"{instance}/idle-behavior",
            handler=parts.instances.set_idle_behavior,
            summary="Let an instance run, hold it or drain it",
            request=(instance_wire.IdleBehaviorRequest,),
            answer=(instance_wire.InstanceAnswer,),
        ),
        Route(
            method="POST",
            path=f"{instance}/kill",
            handler=parts.instances.kill,
            summary="Destroy an instance now, whatever runs on it",
            request=(instance_wire.KillRequest,),
            answer=(instance_wire.InstanceAnswer,),
            status=202,
        ),
        Route(
            method="GET",
            path="/v1/strays",
            handler=parts.instances.strays,
            summary="List what another store has started, and is kept",
            answer=(instance_wire.StrayList,),
            parameters=PAGE_PARAMETERS,
        ),
        Route(
            method="POST",
            path=f"{instance}/strays",
            handler=parts.instances.decide_strays,
            summary="End what is kept on an instance, or leave it to its own end",
            request=(instance_wire.StraysRequest,),
            answer=(instance_wire.StrayList,),
            status=202,
        ),
        Route(
            method="GET",
            path="/v1/leaks",
            handler=parts.instances.leaks,
            summary="List what is billed and not wanted",
            answer=(instance_wire.LeakList,),
            parameters=PAGE_PARAMETERS,
        ),
    ]


def _server_routes(parts: _Parts) -> list[Route]:
    return [
        Route(
            method="GET",
            path="/v1/events",
            handler=parts.server.events,
            summary="Follow what happens, as server-sent events",
            answer=(wire.EventAnswer,),
            media_type="text/event-stream",
            headers=("Last-Event-ID",),
            streams=True,
        ),
        Route(
            method="GET",
            path="/health/live",
            handler=parts.server.live,
            summary="Tell that the process answers",
            answer=(wire.LiveAnswer,),
        ),
        Route(
            method="GET",
            path="/health/ready",
            handler=parts.server.ready,
            summary="Tell whether requests can be served, and what is wrong",
            answer=(health.ReadyAnswer,),
            also=(503,),
        ),
        Route(
            method="GET",
            path="/v1/health",
            handler=parts.server.health,
            summary="Tell how the server does: what is wrong since when, and its disks",
            answer=(health.HealthAnswer,),
        ),
        Route(
            method="GET",
            path="/metrics",
            handler=parts.server.metrics,
            summary="The Prometheus text exposition",
            media_type="text/plain",
        ),
    ]
