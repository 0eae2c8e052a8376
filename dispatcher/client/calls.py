"""Every call of the API, as a value: what is sent for it, and what its answer is read as.

Both clients carry these out, so that they differ in how they wait and in nothing else. `ENDPOINTS`
has a row for each route of the server; a test compares it with the OpenAPI document, and its names
with the methods of both clients.

Most functions here have the signature and the docstring of the method of their name, which
`blocking` and `asynchronous` make of them: what it says to do is what the method does, and what it
says to return or to yield comes of the call, or of the listing, that the function returns.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, ParamSpec, Protocol, TypedDict, TypeVar, Unpack
from urllib.parse import quote

import msgspec

from longshore.dispatcher.api.schemas.budgets import BudgetsAnswer
from longshore.dispatcher.api.schemas.containers import (
    ContainerAnswer,
    ContainerList,
    RotationAnswer,
    SecretAnswer,
    SecretList,
)
from longshore.dispatcher.api.schemas.cost import (
    CostAnswer,
    CostForecastAnswer,
    PriceListAnswer,
    ReconcileAnswer,
)
from longshore.dispatcher.api.schemas.efficiency import EfficiencyAnswer
from longshore.dispatcher.api.schemas.ended_runs import EndedRunsAnswer
from longshore.dispatcher.api.schemas.explain import ExplanationAnswer, HoldsAnswer
from longshore.dispatcher.api.schemas.health import HealthAnswer, LiveAnswer, ReadyAnswer
from longshore.dispatcher.api.schemas.instances import (
    InstanceAnswer,
    InstanceList,
    LeakList,
    StrayList,
)
from longshore.dispatcher.api.schemas.jobs import JobAnswer, JobList, PlanAnswer
from longshore.dispatcher.api.schemas.overview import DecisionList, OverviewAnswer
from longshore.dispatcher.api.schemas.timeline import TimelineAnswer
from longshore.dispatcher.api.schemas.tokens import (
    AuditList,
    CallerAnswer,
    NewTokenAnswer,
    TokenAnswer,
    TokenList,
)
from longshore.dispatcher.client.errors import read_as
from longshore.dispatcher.client.exchange import ApiCall, Repeatable, encoded
from longshore.dispatcher.client.log_cursor import LogCursor

PAGE_ITEMS = 500

Answer = TypeVar("Answer")
Result = TypeVar("Result")
Given = ParamSpec("Given")
Item_co = TypeVar("Item_co", covariant=True)


class ListOf(Protocol[Item_co]):
    """A page of a listing."""

    @property
    def items(self) -> Sequence[Item_co]:
        """Return what is on it."""

    @property
    def next_cursor(self) -> str | None:
        """Return where the next page begins, None on the last."""


Page = TypeVar("Page", bound=ListOf[Any])
Page_co = TypeVar("Page_co", bound=ListOf[Any], covariant=True)
Filter = str | Sequence[str] | None
"""What a listing is narrowed to: one word, any of several, or None for all."""


class RunFields(TypedDict, total=False):
    """What a container or a task may say beside its command, as the API has it."""

    name: str
    image: str
    entrypoint: list[str] | None
    init: bool
    env: Mapping[str, object]
    cpus: float
    memory: int | str
    disk: int | str
    gpus: int | Mapping[str, object]
    resources: Mapping[str, int]
    labels: Mapping[str, str]
    constraints: Mapping[str, object]
    supervisor: bool
    api: bool
    secrets: Sequence[Mapping[str, object]]
    retries: Mapping[str, object]
    after: Sequence[str | Mapping[str, object]]
    not_before: str
    time_limit_s: float
    grace_period_s: float


class ContainerFields(RunFields, total=False):
    """What a container may say beside its command."""

    priority: int
    project: str


class JobFields(TypedDict, total=False):
    """What a job may say beside its tasks."""

    name: str
    type: str
    priority: int
    project: str
    labels: Mapping[str, str]
    update: Mapping[str, object]
    late_joiners: bool
    on_paused: bool
    ignore_system: bool
    mode: str
    size: float
    runtime_s: float
    scale_up: bool
    periodic: Mapping[str, object]
    parameterized: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One route of the server."""

    method: str
    path: str
    repeatable: Repeatable = Repeatable.SAFE
    #: Statuses that are answers beside those from 200 to 299.
    also: tuple[int, ...] = ()


_SAFE, _KEYED, _ONCE = Repeatable.SAFE, Repeatable.KEYED, Repeatable.ONCE
_SECRETS = "/v1/projects/{project}/secrets"
_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
_PLACE = re.compile(r"\{\w+\}")
_CONTAINER, _JOB, _INSTANCE = "/v1/containers/{id}", "/v1/jobs/{id}", "/v1/instances/{id}"

ENDPOINTS: Mapping[str, Endpoint] = {
    "submit": Endpoint(method="POST", path="/v1/containers", repeatable=_KEYED),
    "containers": Endpoint(method="GET", path="/v1/containers"),
    "container": Endpoint(method="GET", path=_CONTAINER),
    "set_container_priority": Endpoint(method="PATCH", path=_CONTAINER, repeatable=_ONCE),
    "cancel_container": Endpoint(method="POST", path=f"{_CONTAINER}/cancel", repeatable=_ONCE),
    "explain": Endpoint(method="GET", path=f"{_CONTAINER}/explain"),
    "logs": Endpoint(method="GET", path=f"{_CONTAINER}/logs"),
    "submit_job": Endpoint(method="POST", path="/v1/jobs", repeatable=_KEYED),
    "jobs": Endpoint(method="GET", path="/v1/jobs"),
    "plan_job": Endpoint(method="POST", path="/v1/jobs/plan"),
    "job": Endpoint(method="GET", path=_JOB),
    "change_job": Endpoint(method="PATCH", path=_JOB, repeatable=_ONCE),
    "update_job": Endpoint(method="PUT", path=_JOB, repeatable=_ONCE),
    "dispatch_job": Endpoint(method="POST", path=f"{_JOB}/dispatch", repeatable=_KEYED),
    "cancel_job": Endpoint(method="POST", path=f"{_JOB}/cancel", repeatable=_ONCE),
    "instances": Endpoint(method="GET", path="/v1/instances"),
    "instance": Endpoint(method="GET", path=_INSTANCE),
    "set_idle_behavior": Endpoint(
        method="PUT", path=f"{_INSTANCE}/idle-behavior", repeatable=_ONCE
    ),
    "kill_instance": Endpoint(method="POST", path=f"{_INSTANCE}/kill", repeatable=_ONCE),
    "strays": Endpoint(method="GET", path="/v1/strays"),
    "decide_strays": Endpoint(method="POST", path=f"{_INSTANCE}/strays", repeatable=_ONCE),
    "leaks": Endpoint(method="GET", path="/v1/leaks"),
    "events": Endpoint(method="GET", path="/v1/events"),
    "create_token": Endpoint(method="POST", path="/v1/tokens", repeatable=_KEYED),
    "tokens": Endpoint(method="GET", path="/v1/tokens"),
    "secrets": Endpoint(method="GET", path=_SECRETS),
    "set_secret": Endpoint(method="PUT", path=f"{_SECRETS}/{{name}}", repeatable=_ONCE),
    "remove_secret": Endpoint(method="DELETE", path=f"{_SECRETS}/{{name}}", repeatable=_ONCE),
    "rotate_secret_keys": Endpoint(method="POST", path="/v1/secret-keys/rotate", repeatable=_ONCE),
    "token": Endpoint(method="GET", path="/v1/tokens/{id}"),
    "revoke_token": Endpoint(method="POST", path="/v1/tokens/{id}/revoke", repeatable=_ONCE),
    "whoami": Endpoint(method="GET", path="/v1/whoami"),
    "cost": Endpoint(method="GET", path="/v1/cost"),
    "budgets": Endpoint(method="GET", path="/v1/budgets"),
    "cost_forecast": Endpoint(method="GET", path="/v1/cost/forecast"),
    "ended_runs": Endpoint(method="GET", path="/v1/cost/runs"),
    "prices": Endpoint(method="GET", path="/v1/prices"),
    "export_cost": Endpoint(method="GET", path="/v1/cost/export"),
    "reconcile_cost": Endpoint(method="POST", path="/v1/cost/reconcile", repeatable=_ONCE),
    "audit": Endpoint(method="GET", path="/v1/audit"),
    "efficiency": Endpoint(method="GET", path="/v1/efficiency"),
    "overview": Endpoint(method="GET", path="/v1/overview"),
    "holds": Endpoint(method="GET", path="/v1/holds"),
    "decisions": Endpoint(method="GET", path="/v1/decisions"),
    "timeline": Endpoint(method="GET", path="/v1/timeline"),
    "live": Endpoint(method="GET", path="/health/live"),
    "ready": Endpoint(method="GET", path="/health/ready", also=(503,)),
    "health": Endpoint(method="GET", path="/v1/health"),
    "metrics": Endpoint(method="GET", path="/metrics"),
}
"""Every route of the server, by the method of the clients that asks for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedCall(Generic[Answer]):
    """A call, and how its answer is read."""

    call: ApiCall
    #: From decoded JSON; raises `UnexpectedAnswerError`.
    read: Callable[[object], Answer]


def api_call(
    name: str,
    *identifiers: str,
    query: Iterable[tuple[str, str]] = (),
    body: object = None,
    key: str = "",
) -> ApiCall:
    """Return a call of an endpoint; `identifiers` are whose it is, `key` a create's own."""
    endpoint, places = ENDPOINTS[name], iter(identifiers)
    return ApiCall(
        method=endpoint.method,
        path=_PLACE.sub(lambda _: quote(next(places), safe=""), endpoint.path),
        repeatable=endpoint.repeatable,
        query=tuple(query),
        body=None if body is None else encoded(body),
        idempotency_key=key,
        also=endpoint.also,
    )


def _typed(kind: type[Answer], name: str, *identifiers: str, **others: Any) -> TypedCall[Answer]:
    call = api_call(name, *identifiers, **others)
    return TypedCall(call=call, read=partial(read_as, kind=kind))


def _said(**fields: object) -> dict[str, object]:
    """Return the fields that are not None: those are left to the server."""
    return {name: value for name, value in fields.items() if value is not None}


# ---- listings ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedListing(Generic[Page_co]):
    """A listing, which comes page by page."""

    name: str
    kind: type[Page_co]
    query: tuple[tuple[str, str], ...] = ()
    #: Whose it is, where its path says that.
    of: tuple[str, ...] = ()

    def page(self, cursor: str | None) -> TypedCall[Page_co]:
        """Return the call for the page at a cursor, None for the first."""
        query = [*self.query, ("limit", str(PAGE_ITEMS))]
        if cursor is not None:
            query.append(("cursor", cursor))
        return _typed(self.kind, self.name, *self.of, query=query)


def _listing(
    name: str, kind: type[Page], /, of: tuple[str, ...] = (), **filters: Filter | int | bool
) -> PagedListing[Page]:
    """Return a listing, narrowed to what the filters say; None for no filter.

    `of` is whose it is, where its path says that.
    """
    query: list[tuple[str, str]] = []
    for key, value in filters.items():
        match value:
            case None:
                continue
            case bool():
                query.append((key, "true" if value else "false"))
            case str() | int():
                query.append((key, str(value)))
            case _:
                query += [(key, each) for each in value]
    return PagedListing(name=name, kind=kind, query=tuple(query), of=of)


def joined(pages: Sequence[Page]) -> Page:
    """Return pages of a listing as one: the last, with the items of all."""
    last: Any = pages[-1]
    whole: Page = msgspec.structs.replace(
        last, items=[each for page in pages for each in page.items]
    )
    return whole


# ---- methods of both clients ---------------------------------------------------------------------


def named_after(
    make: Callable[..., object],
) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """Return what gives a client's method the name, docstring and parameters of a function here.

    It changes the method that it is given. Of what the method returns only its types tell.
    """
    told = inspect.signature(make)
    parameters = [_SELF, *told.parameters.values()]

    def named(method: Callable[Given, Result]) -> Callable[Given, Result]:
        method.__name__, method.__doc__ = make.__name__, make.__doc__
        vars(method)["__signature__"] = inspect.Signature(parameters)
        return method

    return named


# ---- containers ----------------------------------------------------------------------------------


def submit(command: Sequence[str], fields: ContainerFields, key: str) -> TypedCall[ContainerAnswer]:
    """Return the call that submits one container."""
    return _typed(ContainerAnswer, "submit", body=_with_command(command, fields), key=key)


def submit_many(containers: Sequence[Mapping[str, object]], key: str) -> TypedCall[ContainerList]:
    """Return the call that submits several, all or none."""
    return _typed(ContainerList, "submit", body=[dict(each) for each in containers], key=key)


def _with_command(command: Sequence[str], fields: Mapping[str, object]) -> dict[str, object]:
    return {"command": list(command), **fields} if command else dict(fields)


def container(
    container_id: str, *, tree: bool = False, costs: bool = False
) -> TypedCall[ContainerAnswer]:
    """Return one container as it is now.

    With `tree` it has `cost_of_tree_usd`, if it submitted any from inside; that takes the longer,
    the more these are. With `costs` it and each attempt say what they have cost up to now.
    """
    query = [(name, "true") for name, wanted in (("tree", tree), ("costs", costs)) if wanted]
    return _typed(ContainerAnswer, "container", container_id, query=query)


def containers(
    *,
    state: Filter = None,
    user: Filter = None,
    project: Filter = None,
    name: Filter = None,
    instance: Filter = None,
    job: str | None = None,
    parent: str | None = None,
    task: str | None = None,
    array_index: int | None = None,
    order: str | None = None,
) -> PagedListing[ContainerList]:
    """Yield containers, the newest first, page by page; None is no filter.

    With `order` "queue" these are those that wait in the queue, the next in line first.
    `parent` is the container that submitted them from inside.
    """
    return _listing(
        "containers",
        ContainerList,
        state=state,
        user=user,
        project=project,
        name=name,
        instance=instance,
        job=job,
        parent=parent,
        task=task,
        array_index=array_index,
        order=order,
    )


def set_container_priority(container_id: str, priority: int) -> TypedCall[ContainerAnswer]:
    """Change a container's priority: 1000 goes first, 0 is held back."""
    body = {"priority": priority}
    return _typed(ContainerAnswer, "set_container_priority", container_id, body=body)


def cancel_container(container_id: str, *, tree: bool = False) -> TypedCall[ContainerAnswer]:
    """Ask for a container to be cancelled; it may take a while until it has ended.

    With `tree` all that it submitted from inside is cancelled too, and what those did.
    """
    body = {"tree": True} if tree else {}
    return _typed(ContainerAnswer, "cancel_container", container_id, body=body)


def explain(container_id: str) -> TypedCall[ExplanationAnswer]:
    """Return why a container is where it is."""
    return _typed(ExplanationAnswer, "explain", container_id)


def logs(container_id: str, cursor: LogCursor, *, follow: bool) -> ApiCall:
    """Return the call that streams a container's log from where a reader is."""
    query = [("stream", cursor.stream), ("offset", str(cursor.offset))]
    if follow:
        query.append(("follow", "true"))
    return replace(api_call("logs", container_id, query=query), accept="*/*")


# ---- jobs ----------------------------------------------------------------------------------------


def _job_body(tasks: Sequence[Mapping[str, object]], fields: JobFields) -> dict[str, object]:
    """Return a job as it is submitted, planned and updated."""
    return {"tasks": [dict(each) for each in tasks], **fields}


def submit_job(
    tasks: Sequence[Mapping[str, object]], fields: JobFields, key: str
) -> TypedCall[JobAnswer]:
    """Return the call that submits a job."""
    return _typed(JobAnswer, "submit_job", body=_job_body(tasks, fields), key=key)


def plan_job(
    tasks: Sequence[Mapping[str, object]],
    *,
    job_id: str | None = None,
    **fields: Unpack[JobFields],
) -> TypedCall[PlanAnswer]:
    """Return what a job would come to, or an update of the job `job_id`; nothing is done."""
    query = [("job", job_id)] if job_id is not None else []
    return _typed(PlanAnswer, "plan_job", query=query, body=_job_body(tasks, fields))


def job(job_id: str, *, costs: str = "none") -> TypedCall[JobAnswer]:
    """Return one job, with its tasks, as it is now.

    With `costs` "task" it has what its tasks cost, with "index" also the elements of its arrays.
    """
    query = [("costs", costs)] if costs != "none" else []
    return _typed(JobAnswer, "job", job_id, query=query)


def jobs(
    *,
    state: Filter = None,
    user: Filter = None,
    project: Filter = None,
    name: Filter = None,
    parent: str | None = None,
    own: bool | None = None,
) -> PagedListing[JobList]:
    """Yield jobs without their tasks, the newest first, page by page; None is no filter.

    `parent` is the template whose runs are asked for; `own` leaves all runs out.
    """
    return _listing(
        "jobs",
        JobList,
        state=state,
        user=user,
        project=project,
        name=name,
        parent=parent,
        own=own,
    )


def change_job(
    job_id: str, *, priority: int | None = None, held: bool | None = None
) -> TypedCall[JobAnswer]:
    """Change a job's priority, hold it or release it; None leaves it as it is."""
    return _typed(JobAnswer, "change_job", job_id, body=_said(priority=priority, held=held))


def update_job(
    job_id: str, tasks: Sequence[Mapping[str, object]], **fields: Unpack[JobFields]
) -> TypedCall[JobAnswer]:
    """Make a system or sysbatch job what is said here: its next revision."""
    return _typed(JobAnswer, "update_job", job_id, body=_job_body(tasks, fields))


def dispatch_job(
    job_id: str, parameters: Mapping[str, str] | None, key: str
) -> TypedCall[JobAnswer]:
    """Return the call that runs a parameterized job."""
    body = {"parameters": dict(parameters or {})}
    return _typed(JobAnswer, "dispatch_job", job_id, body=body, key=key)


def cancel_job(job_id: str) -> TypedCall[JobAnswer]:
    """Ask for all of a job to be cancelled; it may take a while until it has ended."""
    return _typed(JobAnswer, "cancel_job", job_id, body={})


# ---- instances -----------------------------------------------------------------------------------


def instances(*, gone: bool = False) -> PagedListing[InstanceList]:
    """Return all instances, or those that are gone."""
    return _listing("instances", InstanceList, gone=gone)


def instance(instance_id: str) -> TypedCall[InstanceAnswer]:
    """Return one instance, gone or not."""
    return _typed(InstanceAnswer, "instance", instance_id)


def set_idle_behavior(
    instance_id: str,
    idle_behavior: str,
    *,
    reason: str | None = None,
    until: str | None = None,
) -> TypedCall[InstanceAnswer]:
    """Let an instance `run`, `hold` it (until a time in RFC 3339) or `drain` it."""
    body = _said(idle_behavior=idle_behavior, reason=reason, until=until)
    return _typed(InstanceAnswer, "set_idle_behavior", instance_id, body=body)


def kill_instance(instance_id: str, *, reason: str | None = None) -> TypedCall[InstanceAnswer]:
    """Destroy an instance now, whatever runs on it."""
    return _typed(InstanceAnswer, "kill_instance", instance_id, body=_said(reason=reason))


def strays() -> PagedListing[StrayList]:
    """Return what another store has started, and is kept."""
    return _listing("strays", StrayList)


def leaks() -> PagedListing[LeakList]:
    """Return what is billed and not wanted."""
    return _listing("leaks", LeakList)


def decide_strays(
    instance_id: str, fate: str, attempts: Sequence[str] = ()
) -> TypedCall[StrayList]:
    """`kill` or `adopt` what is kept on an instance: these attempts, none for all of them."""
    body = {"fate": fate, "attempts": list(attempts)}
    return _typed(StrayList, "decide_strays", instance_id, body=body)


# ---- who is let in -------------------------------------------------------------------------------


def create_token(
    user: str,
    role: str,
    *,
    projects: Sequence[str],
    default_project: str | None,
    name: str | None,
    expires_at: str | None,
    key: str,
) -> TypedCall[NewTokenAnswer]:
    """Return the call that makes a token; None is left to the server."""
    body = _said(
        user=user,
        role=role,
        projects=list(projects),
        default_project=default_project,
        name=name,
        expires_at=expires_at,
    )
    return _typed(NewTokenAnswer, "create_token", body=body, key=key)


def tokens(*, user: str | None = None, state: str | None = None) -> PagedListing[TokenList]:
    """Yield tokens without their texts, by id, page by page; None is no filter."""
    return _listing("tokens", TokenList, user=user, state=state)


def token(token_id: str) -> TypedCall[TokenAnswer]:
    """Return one token, without its text."""
    return _typed(TokenAnswer, "token", token_id)


def revoke_token(token_id: str) -> TypedCall[TokenAnswer]:
    """Let nobody in with a token any more."""
    return _typed(TokenAnswer, "revoke_token", token_id, body={})


def secrets(project: str) -> PagedListing[SecretList]:
    """Yield the secrets of a project without their values, by name, page by page."""
    return _listing("secrets", SecretList, of=(project,))


def set_secret(project: str, name: str, value: str) -> TypedCall[SecretAnswer]:
    """Set a secret; attempts that start from now on get it."""
    return _typed(SecretAnswer, "set_secret", project, name, body={"value": value})


def remove_secret(project: str, name: str) -> TypedCall[SecretAnswer]:
    """Remove a secret; what refers to it waits until it is set again."""
    return _typed(SecretAnswer, "remove_secret", project, name)


def rotate_secret_keys() -> TypedCall[RotationAnswer]:
    """Encrypt all secrets anew, with a new key, and have the old ones forgotten."""
    return _typed(RotationAnswer, "rotate_secret_keys", body={})


def audit(
    *,
    user: str | None = None,
    token: str | None = None,
    since: str | None = None,
    until: str | None = None,
) -> PagedListing[AuditList]:
    """Yield who was to change what, the newest first, page by page; None is no filter.

    `token` is the id of one, `since` and `until` are times in RFC 3339.
    """
    return _listing("audit", AuditList, user=user, token=token, since=since, until=until)


def cost(
    *,
    since: str | None = None,
    until: str | None = None,
    tz: str | None = None,
    by: Sequence[str] = (),
    step: str | None = None,
    idle: str | None = None,
    user: str | None = None,
    project: str | None = None,
    job: str | None = None,
    instance_type: str | None = None,
) -> PagedListing[CostAnswer]:
    """Yield what was spent, page by page; each page has the total of all of them.

    `since` and `until` are days or months of the time zone `tz` (None: UTC), or times in RFC 3339;
    None is the beginning of this month, and now. `by` are the dimensions by which rows are told
    apart, `step` is `hour`, `day`, `month` or `whole`, `idle` is `separate` or `share`. The others
    are filters, None for none.
    """
    filters: dict[str, Filter] = {
        "from": since,
        "to": until,
        "tz": tz,
        "by": ",".join(by) or None,
        "step": step,
        "idle": idle,
        "user": user,
        "project": project,
        "job": job,
        "type": instance_type,
    }
    return _listing("cost", CostAnswer, (), **filters)


def cost_forecast(*, tz: str | None = None) -> TypedCall[CostForecastAnswer]:
    """Return where this month of a time zone stands, and where it will likely end; None is UTC."""
    query = [] if tz is None else [("tz", tz)]
    return _typed(CostForecastAnswer, "cost_forecast", query=query)


def ended_runs(
    *,
    since: str | None = None,
    until: str | None = None,
    tz: str | None = None,
    user: str | None = None,
    project: str | None = None,
) -> TypedCall[EndedRunsAnswer]:
    """Return the dearest runs that ended in a time, and how long runs waited, by type.

    `since`, `until` and `tz` are as for `cost`; the others are filters, None for none.
    """
    wanted = {"from": since, "to": until, "tz": tz, "user": user, "project": project}
    query = [(key, value) for key, value in wanted.items() if value is not None]
    return _typed(EndedRunsAnswer, "ended_runs", query=query)


def prices() -> TypedCall[PriceListAnswer]:
    """Return what an hour of each configured type costs now, by whom and since when."""
    return _typed(PriceListAnswer, "prices")


def budgets() -> TypedCall[BudgetsAnswer]:
    """Return the budgets that concern the caller, as they were looked at last."""
    return _typed(BudgetsAnswer, "budgets")


def export_cost(*, month: str, form: str, tz: str, labels: Sequence[str]) -> ApiCall:
    """Return the call that streams the lines of a month as a file; "" is the server's choice."""
    wanted = {"month": month, "format": form, "tz": tz, "label": ",".join(labels)}
    query = [(key, value) for key, value in wanted.items() if value]
    return replace(api_call("export_cost", query=query), accept="text/csv")


def reconcile_cost(piece: Mapping[str, object]) -> TypedCall[ReconcileAnswer]:
    """Return how a piece of a cloud's bill differs from the ledger.

    `piece` is a `ReconcileRequest` of the API's document; with `apply` it books what is missing.
    """
    return _typed(ReconcileAnswer, "reconcile_cost", body=dict(piece))


def whoami() -> TypedCall[CallerAnswer]:
    """Return who one is to the server, and what one sees."""
    return _typed(CallerAnswer, "whoami")


# ---- what work takes -----------------------------------------------------------------------------


def efficiency(
    *,
    user: str | None = None,
    project: str | None = None,
    name: str | None = None,
    since: str | None = None,
) -> TypedCall[EfficiencyAnswer]:
    """Return what work asks for against what it really takes; None is no filter.

    `name` is that of a job, `since` a time in RFC 3339.
    """
    wanted = {"user": user, "project": project, "name": name, "since": since}
    query = [(key, value) for key, value in wanted.items() if value is not None]
    return _typed(EfficiencyAnswer, "efficiency", query=query)


# ---- what goes on --------------------------------------------------------------------------------


def overview() -> TypedCall[OverviewAnswer]:
    """Return in numbers what goes on in the projects that one sees."""
    return _typed(OverviewAnswer, "overview")


def decisions(*, kind: str | Sequence[str] | None = None) -> PagedListing[DecisionList]:
    """Yield what was decided lately, the newest first, page by page; `kind` None is no filter."""
    return _listing("decisions", DecisionList, kind=kind)


def holds() -> TypedCall[HoldsAnswer]:
    """Return what keeps instances from being created: holds, and limits with what is used."""
    return _typed(HoldsAnswer, "holds")


def timeline(
    *, since: str | None = None, until: str | None = None, instance: str | None = None
) -> PagedListing[TimelineAnswer]:
    """Yield the instances that were there in a window, by their creation, with what ran on them.

    `since` and `until` are times in RFC 3339, at most 7 days apart; None is an hour before the end,
    and now. `instance` is the one that is asked for, None for all.
    """
    wanted: dict[str, Filter] = {"from": since, "to": until, "instance": instance}
    return _listing("timeline", TimelineAnswer, (), **wanted)


# ---- the server ----------------------------------------------------------------------------------


def live() -> TypedCall[LiveAnswer]:
    """Return that the server's process answers."""
    return _typed(LiveAnswer, "live")


def ready() -> TypedCall[ReadyAnswer]:
    """Return whether requests can be served, and what is wrong."""
    return _typed(ReadyAnswer, "ready")


def health() -> TypedCall[HealthAnswer]:
    """Return how the server is doing."""
    return _typed(HealthAnswer, "health")


def metrics() -> ApiCall:
    """Return the call for the Prometheus text exposition."""
    return replace(api_call("metrics"), accept="text/plain")


def events(last_event_id: str) -> ApiCall:
    """Return the call that streams events from behind an id, "" for from now on."""
    return replace(api_call("events"), accept="text/event-stream", last_event_id=last_event_id)
