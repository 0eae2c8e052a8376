"""The OpenAPI document, made from the table of routes and the wire structs.

What follows from what a route is stands here once and not in the table: which refusals it may
answer (`_refusals`), whether a token is asked for, the headers of its answers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, assert_never

import msgspec
from aiohttp import web

from longshore.dispatcher.api.render.problems import Handler
from longshore.dispatcher.api.routes.callers import Access
from longshore.dispatcher.api.schemas.budgets import BudgetEvent, UnusualDayEvent
from longshore.dispatcher.api.schemas.containers import ProblemDetails
from longshore.dispatcher.api.validate.parameters import (
    CURSOR_MAX_CHARACTERS,
    TEXT_MAX_CHARACTERS,
    Choice,
    Choices,
    Cursor,
    Instant,
    Parameter,
    Switch,
    Text,
    Whole,
)
from longshore.dispatcher.input.quantities import (
    CPUS_MAX,
    PRICE_MAX_USD_PER_HOUR,
    SIZE_MAX_BYTES,
    CpuMillis,
    Price,
    Size,
)

DOCUMENT = web.AppKey("document", bytes)
"""The document of an application, as it is answered."""
KEY_HEADER = "Idempotency-Key"
TRACE_HEADER = "traceparent"
_PROBLEM = "application/problem+json"
_NOT_FOLLOWED = frozenset({"false", "0"})
_REFERENCE = "#/components/schemas/{name}"
_NOT_TOLD = ("command", "entrypoint", "env", "after")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_QUANTITIES: dict[type, dict[str, Any]] = {
    Size: {
        "description": 'Bytes, or a text like "4GiB"',
        "anyOf": [
            {"type": "integer", "minimum": 0, "maximum": SIZE_MAX_BYTES},
            {"type": "string", "examples": ["512MB", "4GiB"]},
        ],
    },
    CpuMillis: {
        "description": "A number of cpus",
        "type": "number",
        "minimum": 0,
        "maximum": CPUS_MAX,
        "multipleOf": 0.001,
    },
    Price: {
        "description": "US dollars an hour",
        "type": "number",
        "minimum": 0,
        "maximum": PRICE_MAX_USD_PER_HOUR,
    },
}


_ABOUT = """\
Containers wait in a queue until there is room for them on a pool of cloud instances, which this
server creates and shuts down.

An error is a problem document (RFC 9457) whose `errors` list everything that is wrong, each with
its path and what to do. Lists come in pages: pass on `next_cursor` until it is null. A create that
is sent again with the same `Idempotency-Key` within 24 hours makes nothing new. Sizes are in bytes,
times in RFC 3339, amounts in US dollars. Answers to GET are compressed with gzip for who accepts
it.
"""
_TAGS: Mapping[str, str] = {
    "containers": "What is to run, and what became of it.",
    "jobs": "Containers that were submitted together, also those that begin again and again.",
    "instances": "The pool of cloud instances, for admins.",
    "strays": "What another store has started.",
    "leaks": "What is billed and not wanted.",
    "projects": "Secrets of projects: set, used, and never read.",
    "secret-keys": "The keys that secrets are encrypted with, for admins.",
    "tokens": "Who is let in, for admins.",
    "whoami": "Who one is to the server.",
    "cost": "What was spent, by whom, for what and when.",
    "prices": "What an hour of each type costs, for admins.",
    "budgets": "What may be spent, and how much of it is.",
    "audit": "Who was to change what, for admins.",
    "efficiency": "What work asks for against what it really takes.",
    "overview": "What goes on, in numbers.",
    "holds": "What keeps instances from being created, for admins.",
    "decisions": "What was decided lately, and why, for admins.",
    "timeline": "Which instances were there when, with what ran on them, for admins.",
    "events": "What happens, as it happens.",
    "health": "How the server is doing.",
    "metrics": "Numbers for Prometheus.",
}
_REFUSALS: Mapping[int, str] = {
    400: "The request is wrong: `errors` says where, why, and what to do.",
    401: "This takes a token, and there was none, or none that is valid.",
    403: "The caller may not do this, or a page of another origin asks.",
    404: "There is nothing with that id that the caller sees.",
    408: "The body came too slowly.",
    409: "It is in a state that does not allow this.",
    413: "The body is too large.",
    415: "The body is not declared as JSON, or is encoded.",
    417: "Nothing is known of what the header Expect asks for: leave it out.",
    422: "The Idempotency-Key was used for another request within the last 24 hours.",
    429: "The caller asks too often: try again after `Retry-After`.",
    500: "The server failed, and its log tells why.",
    503: "The server cannot take this now: try again after `Retry-After`.",
}
_ANSWER_HEADERS: Mapping[str, dict[str, Any]] = {
    "Location": {
        "description": "Where what was made is shown; absent where a list was made.",
        "schema": {"type": "string"},
    },
    "Retry-After": {
        "description": "In how many seconds to try again.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "WWW-Authenticate": {
        "description": "What to show: a bearer token.",
        "schema": {"type": "string"},
    },
    "Longshore-Log-Problem": {
        "description": "Why what the container writes did not come when the answer began.",
        "schema": {"type": "string"},
    },
}
_REQUEST_HEADERS: Mapping[str, dict[str, Any]] = {
    KEY_HEADER: {
        "description": "A text of your choice: this request again with it makes nothing twice,"
        " and is answered with what was made; for 24 hours, and for you alone.",
        "schema": {"type": "string", "pattern": "^[!-~]{1,200}$"},
    },
    TRACE_HEADER: {
        "description": "The trace that this is part of (W3C Trace Context): containers get it as"
        " TRACEPARENT. What is no such value is ignored.",
        "schema": {"type": "string"},
    },
    "Last-Event-ID": {
        "description": "The id of the event that came last, to go on after it.",
        "schema": {"type": "string", "pattern": "^[0-9]{1,18}-[0-9]{1,18}$"},
    },
}
_SCHEMES: Mapping[str, dict[str, Any]] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token; a server in the open mode takes requests without one.",
    },
    "basic": {
        "type": "http",
        "scheme": "basic",
        "description": "A token as the password, for clients that know nothing else.",
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One route: what serves it and what is told of it."""

    method: str
    path: str
    handler: Handler
    #: What programs call it: a verb and its object, as `list_jobs`; it stays what it is.
    operation_id: str
    summary: str
    #: What the summary has no room for, in sentences.
    description: str
    #: Alternative types.
    request: tuple[Any, ...] = ()
    #: Bodies that are taken, by what they show.
    examples: Mapping[str, Any] = field(default_factory=dict)
    #: Alternative types; an answer without any is told by `media_type`.
    answer: tuple[Any, ...] = ()
    status: int = 200
    #: Further statuses with the same answer.
    also: tuple[int, ...] = ()
    #: Refusals that do not follow from what it is, as 409 where a state may not allow it.
    refusals: tuple[int, ...] = ()
    media_type: str = "application/json"
    parameters: tuple[Parameter, ...] = ()
    headers: tuple[str, ...] = ()
    answer_headers: tuple[str, ...] = ()
    #: Whether its answers go on; HEAD is not asked for these.
    streams: bool = False
    #: Without which parameter they end with what there is, "" where they always go on.
    followed_by: str = ""
    #: Whether it tells of more than a container and what that submitted: inside none is answered.
    tells_of_more: bool = False
    #: Whom it answers.
    access: Access = Access.MEMBERS
    #: Whether it changes nothing though its method could.
    only_asks: bool = False

    @property
    def changes(self) -> bool:
        """Return whether it is to change something: each such request is in the audit log."""
        return self.method != "GET" and not self.only_asks

    def goes_on(self, request: web.Request) -> bool:
        """Return whether the answer to a request does not end with what there is by now."""
        if not self.streams or not self.followed_by:
            return self.streams
        return not _NOT_FOLLOWED.issuperset(request.query.getall(self.followed_by, []))


def openapi_document(routes: Sequence[Route], *, version: str) -> bytes:
    """Return the OpenAPI 3.1 document of `routes` as JSON."""
    types = [kind for route in routes for kind in (*route.request, *route.answer)]
    by_type, components = _schemas((*types, ProblemDetails, BudgetEvent, UnusualDayEvent))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_type)
    used = list(dict.fromkeys(_tag(route) for route in routes))
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Longshore",
                "version": version,
                "description": _ABOUT,
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/"}],
            "tags": [{"name": tag, "description": _TAGS[tag]} for tag in used],
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": _SCHEMES,
                "responses": {str(status): _refusal(status) for status in _REFUSALS},
            },
        }
    )


@cache
def _schemas(types: tuple[Any, ...]) -> tuple[list[tuple[Any, dict[str, Any]]], dict[str, Any]]:
    """Return the schema of each type, and by their names those that they refer to.

    Kept, since it takes 20 ms, and tests start a thousand servers in one process.
    """
    schemas, components = msgspec.json.schema_components(
        types, schema_hook=_schema_of, ref_template=_REFERENCE
    )
    for schema in components.values():
        _as_numbers(schema)
    _tell_events(components)
    return list(zip(types, schemas, strict=True)), components


def _as_numbers(schema: Any) -> None:
    """Let amounts of money be what they are sent as; to msgspec, decimals are text."""
    match schema:
        case {"type": "string", "format": "decimal"}:
            schema["type"] = "number"
            schema["description"] = "US dollars, with up to 8 decimals"
            del schema["format"]
        case dict():
            for part in schema.values():
                _as_numbers(part)
        case list():
            for part in schema:
                _as_numbers(part)


def _tell_events(components: dict[str, Any]) -> None:
    """Say what the data of an event is, by its kind."""
    container = components["ContainerAnswer"]
    components["ContainerEvent"] = {
        **container,
        "title": "ContainerEvent",
        "description": "A container, without its command, environment and what it waits for.",
        "properties": {k: v for k, v in container["properties"].items() if k not in _NOT_TOLD},
        "required": [name for name in container["required"] if name not in _NOT_TOLD],
    }
    told = ("ContainerEvent", "JobAnswer", "InstanceAnswer", "BudgetEvent", "UnusualDayEvent")
    of = [{"$ref": _REFERENCE.format(name=name)} for name in told]
    components["EventAnswer"]["properties"]["data"] = {"anyOf": of}


def _schema_of(kind: type) -> dict[str, Any]:
    if kind not in _QUANTITIES:
        # That is how a hook of msgspec's says that a type is not its own.
        raise NotImplementedError(f"no schema for {kind.__name__}")
    return _QUANTITIES[kind]


def _operation(route: Route, by_type: list[tuple[Any, dict[str, Any]]]) -> dict[str, Any]:
    def schema(*wanted: Any) -> dict[str, Any]:
        found = [next(schema for kind, schema in by_type if kind == one) for one in wanted]
        return found[0] if len(found) == 1 else {"anyOf": found}

    answer = {"schema": schema(*route.answer)} if route.answer else {}
    answered = {
        "description": route.summary,
        "headers": {name: _ANSWER_HEADERS[name] for name in route.answer_headers},
        "content": {route.media_type: answer},
    }
    operation: dict[str, Any] = {
        "operationId": route.operation_id,
        "tags": [_tag(route)],
        "summary": route.summary,
        "description": route.description,
        "security": _security(route.access),
        "parameters": [
            *(_placeholder(route, name) for name in _PLACEHOLDER.findall(route.path)),
            *(_query_parameter(each) for each in route.parameters),
            *(_header(name) for name in route.headers),
        ],
        "responses": {
            **{
                str(status): {"$ref": f"#/components/responses/{status}"}
                for status in _refusals(route)
            },
            **{str(status): answered for status in (route.status, *route.also)},
        },
    }
    if route.request:
        examples = {name: {"value": value} for name, value in route.examples.items()}
        content = {"schema": schema(*route.request), "examples": examples}
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": content},
        }
    return operation


def _tag(route: Route) -> str:
    """Return what a route belongs to: the first part of its path behind the version."""
    return route.path.removeprefix("/v1").split("/")[1]


def _security(access: Access) -> list[dict[str, list[str]]]:
    """Return what must be shown; in the open mode nothing need be, which stands here as {}."""
    return [] if access is Access.PUBLIC else [{"bearer": []}, {"basic": []}, {}]


def _refusals(route: Route) -> list[int]:
    """Return which refusals a route may answer, in order."""
    statuses = {400, 403, 417, 500, *route.refusals}
    if route.access is not Access.PUBLIC:
        statuses |= {401, 429, 503}
    if _PLACEHOLDER.search(route.path):
        statuses.add(404)
    if route.request:
        statuses |= {408, 413, 415}
    if KEY_HEADER in route.headers:
        statuses.add(422)
    return sorted(statuses)


def _refusal(status: int) -> dict[str, Any]:
    names = {401: ("WWW-Authenticate",), 429: ("Retry-After",), 503: ("Retry-After",)}
    return {
        "description": _REFUSALS[status],
        "headers": {name: _ANSWER_HEADERS[name] for name in names.get(status, ())},
        "content": {_PROBLEM: {"schema": {"$ref": _REFERENCE.format(name="ProblemDetails")}}},
    }


def _placeholder(route: Route, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": f"The id of one of the {_tag(route)}.",
        "schema": {"type": "string", "pattern": "^[!-~]{1,256}$"},
    }


def _query_parameter(parameter: Parameter) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": parameter.name,
        "in": "query",
        "required": False,
        "description": parameter.description,
        "schema": _schema_of_parameter(parameter),
    }
    if isinstance(parameter, Choices):
        told |= {"style": "form", "explode": False}
    return told


def _schema_of_parameter(parameter: Parameter) -> dict[str, Any]:
    told: dict[str, Any]
    match parameter:
        case Text():
            told = {"type": "string", "maxLength": TEXT_MAX_CHARACTERS}
        case Whole():
            told = {"type": "integer", "minimum": parameter.low, "maximum": parameter.high}
            if parameter.default is not None:
                told["default"] = parameter.default
        case Choice():
            told = {"type": "string", "enum": parameter.words}
            if parameter.default:
                told["default"] = parameter.default
        case Choices():
            told = {"type": "array", "items": {"type": "string", "enum": parameter.words}}
            told["minItems"] = 1
        case Switch():
            told = {"type": "boolean", "default": False}
        case Instant():
            told = {"type": "string", "format": "date-time"}
        case Cursor():
            told = {"type": "string", "pattern": f"^[!-~]{{0,{CURSOR_MAX_CHARACTERS}}}$"}
        case _:
            assert_never(parameter)
    return told


def _header(name: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, **_REQUEST_HEADERS[name]}
