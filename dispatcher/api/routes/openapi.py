"""The OpenAPI document, made from the table of routes and the wire structs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web

from longshore.dispatcher.api.render.problems import Handler
from longshore.dispatcher.api.routes.callers import Access
from longshore.dispatcher.api.schemas.containers import ProblemDetails
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One route: what serves it and what is told of it."""

    method: str
    path: str
    handler: Handler
    summary: str
    #: Alternative types.
    request: tuple[Any, ...] = ()
    #: Alternative types; an answer without any is told by `media_type`.
    answer: tuple[Any, ...] = ()
    status: int = 200
    #: Further statuses with the same answer.
    also: tuple[int, ...] = ()
    media_type: str = "application/json"
    parameters: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    #: Whether its answers go on; HEAD is not asked for these.
    streams: bool = False
    #: Whom it answers.
    access: Access = Access.MEMBERS
    #: Whether it changes nothing though its method could.
    only_asks: bool = False

    @property
    def changes(self) -> bool:
        """Return whether it is to change something: each such request is in the audit log."""
        return self.method != "GET" and not self.only_asks


def openapi_document(routes: Sequence[Route], *, version: str) -> bytes:
    """Return the OpenAPI 3.1 document of `routes` as JSON."""
    types = [kind for route in routes for kind in (*route.request, *route.answer)]
    types.append(ProblemDetails)
    schemas, components = msgspec.json.schema_components(
        types, schema_hook=_schema_of, ref_template=_REFERENCE
    )
    for schema in components.values():
        _as_numbers(schema)
    _tell_events(components)
    by_type = list(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_type)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "Longshore", "version": version},
            "paths": paths,
            "components": {"schemas": components},
        }
    )


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
    told = ("ContainerEvent", "JobAnswer", "InstanceAnswer")
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
    problem = {"application/problem+json": {"schema": schema(ProblemDetails)}}
    operation: dict[str, Any] = {
        "summary": route.summary,
        "parameters": [
            *(_parameter(name, "path") for name in _PLACEHOLDER.findall(route.path)),
            *(_parameter(name, "query") for name in route.parameters),
            *(_parameter(name, "header") for name in route.headers),
        ],
        "responses": {
            **{
                str(status): {"description": route.summary, "content": {route.media_type: answer}}
                for status in (route.status, *route.also)
            },
            "default": {"description": "What is wrong", "content": problem},
        },
    }
    if route.request:
        operation["requestBody"] = {
            "content": {"application/json": {"schema": schema(*route.request)}}
        }
    return operation


def _parameter(name: str, place: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "schema": {"type": "string"},
    }
