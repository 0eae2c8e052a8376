"""Putting the API together: the routes' tables serve the router and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from aiohttp import web

from longshore.dispatcher.access.issuer_login import IssuerLogin
from longshore.dispatcher.api.browser_login import BrowserLoginPages
from longshore.dispatcher.api.compression import compression_middleware
from longshore.dispatcher.api.dashboard import DashboardPage, DashboardPages
from longshore.dispatcher.api.doors import Doors
from longshore.dispatcher.api.entrance import Entrance
from longshore.dispatcher.api.guards import ANSWER_HEADERS, guard_for
from longshore.dispatcher.api.render.problems import problems_middleware
from longshore.dispatcher.api.routes.audit import AuditRoutes, audit_routes
from longshore.dispatcher.api.routes.budgets import BudgetRoute, budget_routes
from longshore.dispatcher.api.routes.callers import holder_of
from longshore.dispatcher.api.routes.containers import ContainerRoutes, container_routes
from longshore.dispatcher.api.routes.cost import CostRoutes, cost_routes
from longshore.dispatcher.api.routes.cost_files import CostFileRoutes, cost_file_routes
from longshore.dispatcher.api.routes.cost_views import CostViewRoutes, cost_view_routes
from longshore.dispatcher.api.routes.docs import document_pages
from longshore.dispatcher.api.routes.efficiency import EfficiencyRoute, efficiency_routes
from longshore.dispatcher.api.routes.explain import ExplainRoute, explain_routes
from longshore.dispatcher.api.routes.instances import InstanceRoutes, instance_routes
from longshore.dispatcher.api.routes.jobs import JobRoutes, job_routes
from longshore.dispatcher.api.routes.logs import LogRoutes, log_routes
from longshore.dispatcher.api.routes.openapi import DOCUMENT, Route, openapi_document
from longshore.dispatcher.api.routes.overview import OverviewRoutes, overview_routes
from longshore.dispatcher.api.routes.reconciling import ReconcileRoutes, reconcile_routes
from longshore.dispatcher.api.routes.secrets import SecretRoutes, secret_routes
from longshore.dispatcher.api.routes.server import ServerRoutes, server_routes
from longshore.dispatcher.api.routes.streams import StreamGate
from longshore.dispatcher.api.routes.timeline import TimelineRoute, timeline_routes
from longshore.dispatcher.api.routes.tokens import TokenRoutes, token_routes
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
    logs: LogRoutes
    explain: ExplainRoute
    instances: InstanceRoutes
    secrets: SecretRoutes
    server: ServerRoutes
    tokens: TokenRoutes
    audit: AuditRoutes
    cost: CostRoutes
    cost_files: CostFileRoutes
    reconciling: ReconcileRoutes
    efficiency: EfficiencyRoute
    budgets: BudgetRoute
    timeline: TimelineRoute
    overview: OverviewRoutes
    cost_views: CostViewRoutes


def make_app(
    services: Services,
    *,
    doors: Doors,
    limits: ApiLimits,
    defaults: Defaults,
    instance_type_names: Collection[str],
    version: str,
    now: Callable[[], float | None] = lambda: None,
    login: IssuerLogin | None = None,
) -> web.Application:
    """Return the API as an aiohttp application, for `dispatcher.api.server.ApiRunner`.

    `doors` let callers in. `version` is told in the header `Server` and in the OpenAPI document.
    `now` gives seconds since the epoch, or None where nothing shall be too far ahead to wait for.
    `login` lets browsers log in at the issuer, None for no way to.
    While it runs it uses the event loop's default executor for large bodies; on shutdown it ends
    all streams within about a second. `services.events` may end when the server stops.
    """
    logs = StreamGate(limit=limits.concurrent_streams, what="log streams")
    subscribers = StreamGate(limit=limits.subscribers, what="event subscribers")
    exports = StreamGate(limit=limits.concurrent_exports, what="exports of cost")
    bodies = Bodies(limits, holder_of=holder_of)
    decoder, job_decoder = _decoders(services, limits, defaults, instance_type_names, now)
    parts = _Parts(
        containers=ContainerRoutes(
            services.containers,
            services.logs,
            services.spent,
            bodies=bodies,
            decoder=decoder,
            page_bytes=limits.page_bytes,
        ),
        logs=LogRoutes(services.containers, services.logs, gate=logs, limits=limits),
        jobs=_jobs(services, bodies, job_decoder, limits, now),
        explain=ExplainRoute(services.containers),
        instances=InstanceRoutes(services.instances, bodies=bodies, now=now),
        secrets=SecretRoutes(services.secrets, bodies=bodies),
        server=_server(services, doors, subscribers, limits),
        tokens=TokenRoutes(services.tokens, bodies=bodies),
        audit=AuditRoutes(services.audit),
        cost=CostRoutes(services.costs),
        cost_files=CostFileRoutes(services.exports, gate=exports, limits=limits),
        reconciling=ReconcileRoutes(services.reconciler, services.costs, bodies=bodies),
        efficiency=EfficiencyRoute(services.efficiency),
        budgets=BudgetRoute(services.budgets, services.costs),
        timeline=TimelineRoute(services.timeline),
        overview=OverviewRoutes(services.overview),
        cost_views=CostViewRoutes(services.cost_views),
    )
    around = [compression_middleware, problems_middleware, guard_for(is_open=doors.is_open)]
    app = web.Application(middlewares=around, client_max_size=limits.request_bytes)
    app[LIMITS] = limits
    pages = DashboardPages(doors, bodies=bodies, now=now, login=login).pages()
    pages += BrowserLoginPages(doors, services.audit, login, now=now).pages()
    _mount(app, _routes(parts), pages, version, Entrance(doors, services.audit))

    async def end_streams(_app: web.Application) -> None:
        for gate in (subscribers, logs, exports):
            await gate.close()

    app.on_response_prepare.append(_headers_of(version))
    app.on_shutdown.append(end_streams)
    return app


def _server(
    services: Services, doors: Doors, subscribers: StreamGate, limits: ApiLimits
) -> ServerRoutes:
    """Return the routes of the server itself."""
    return ServerRoutes(
        events=services.events,
        health=services.health,
        measuring=services.measuring,
        containers=services.containers,
        tells_everybody=doors.is_open,
        gate=subscribers,
        limits=limits,
    )


def _jobs(
    services: Services,
    bodies: Bodies,
    decoder: JobDecoder,
    limits: ApiLimits,
    now: Callable[[], float | None],
) -> JobRoutes:
    """Return the routes of jobs."""
    return JobRoutes(
        services.jobs,
        services.estimates,
        services.spent,
        bodies=bodies,
        decoder=decoder,
        limits=limits,
        now=now,
    )


def _decoders(
    services: Services,
    limits: ApiLimits,
    defaults: Defaults,
    instance_type_names: Collection[str],
    now: Callable[[], float | None],
) -> tuple[SubmissionDecoder, JobDecoder]:
    """Return what decodes submissions, of containers and of jobs."""

    def seal(name: str, value: str) -> str:
        return services.secrets.seal(name, value)

    return SubmissionDecoder(
        limits=limits,
        defaults=defaults,
        instance_type_names=instance_type_names,
        now=now,
        seal=seal,
    ), JobDecoder(
        limits=limits,
        defaults=defaults,
        instance_type_names=instance_type_names,
        now=now,
        seal=seal,
    )


def _headers_of(
    version: str,
) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    """Return what gives each answer the headers that all have."""

    async def add(_request: web.Request, response: web.StreamResponse) -> None:
        response.headers["Server"] = f"longshore/{version}"
        for name, value in ANSWER_HEADERS.items():
            response.headers.setdefault(name, value)

    return add


def _mount(
    app: web.Application,
    routes: list[Route],
    pages: Sequence[DashboardPage],
    version: str,
    entrance: Entrance,
) -> None:
    """Let an application answer these routes, the document that tells of them, and pages."""
    app[DOCUMENT] = openapi_document(routes, version=version)
    for each in pages:
        app.router.add_route(each.method, each.path, each.handler)
    for path, page in document_pages().items():
        app.router.add_get(path, page)
    for route in routes:
        handler = entrance.guarded(route)
        if route.method == "GET":
            app.router.add_get(route.path, handler, allow_head=not route.streams)
        else:
            app.router.add_route(route.method, route.path, handler)


def _routes(parts: _Parts) -> list[Route]:
    return [
        *container_routes(parts.containers),
        *log_routes(parts.logs),
        *explain_routes(parts.explain),
        *job_routes(parts.jobs),
        *instance_routes(parts.instances),
        *secret_routes(parts.secrets),
        *server_routes(parts.server),
        *token_routes(parts.tokens),
        *cost_routes(parts.cost),
        *cost_view_routes(parts.cost_views),
        *budget_routes(parts.budgets),
        *cost_file_routes(parts.cost_files),
        *reconcile_routes(parts.reconciling),
        *audit_routes(parts.audit),
        *efficiency_routes(parts.efficiency),
        *timeline_routes(parts.timeline),
        *overview_routes(parts.overview),
    ]
