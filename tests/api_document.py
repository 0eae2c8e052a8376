"""Holds what a server answers and streams to what its OpenAPI document says of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from decimal import Decimal
from functools import cache
from types import SimpleNamespace
from typing import Any

from aiohttp import web
from jsonschema_rs import Draft202012Validator

from longshore.dispatcher.api.app import make_app
from longshore.dispatcher.api.routes import events
from longshore.dispatcher.api.routes.openapi import DOCUMENT
from longshore.dispatcher.api.validate.limits import ApiLimits, Defaults
from longshore.dispatcher.service.services import Services

MOST_DECIMALS = 8
_TOLD_HEADERS = {"Location", "Retry-After", "Longshore-Log-Problem"}
#: What the tests of the transport send, who do not care what it is.
_MADE_UP = {"state", "padding"}


class Document:
    """An OpenAPI document, with a validator for each answer."""

    def __init__(self, text: bytes) -> None:
        self._told = json.loads(text)
        self._validators: dict[tuple[str, ...], Draft202012Validator] = {}
        #: What fits each path, those first that have fewer names to be filled in.
        self._paths = {
            path: re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path)))
            for path in sorted(self._told["paths"], key=lambda path: (path.count("{"), path))
        }

    def check_answer(
        self, method: str, path: str, status: int, headers: Mapping[str, str], body: bytes
    ) -> None:
        """Raise `AssertionError` unless an answer is what the document says."""
        content_type = headers["Content-Type"].partition(";")[0]
        responses = self._told["paths"][path][method.lower()]["responses"]
        assert str(status) in responses, f"{method} {path} is not said to answer {status}: {body!r}"
        response = self._resolved(responses[str(status)])
        assert content_type in response["content"], (path, status, content_type)
        for name in _TOLD_HEADERS & headers.keys():
            assert name in response["headers"], f"{method} {path} is not said to answer {name}"
        if "json" in content_type:
            schema = response["content"][content_type]["schema"]
            self._check((method, path, str(status), content_type), schema, body)

    def check_target(
        self, method: str, target: str, status: int, headers: Mapping[str, str], body: bytes
    ) -> None:
        """Check an answer to a request for `target`, a path with its query, as `check_answer` does.

        What the document does not tell of is passed over.
        """
        asked = target.partition("?")[0]
        path = next((each for each, fits in self._paths.items() if fits.fullmatch(asked)), "")
        if method.lower() in self._told["paths"].get(path, {}):
            self.check_answer(method, path, status, headers, body)

    def check_event(self, data: bytes) -> None:
        """Raise `AssertionError` unless an event's data is what the document says."""
        content = self._told["paths"]["/v1/events"]["get"]["responses"]["200"]["content"]
        self._check(("event",), content["text/event-stream"]["schema"], data)

    def _resolved(self, part: dict[str, Any]) -> dict[str, Any]:
        """Return a part of the document, or what it refers to."""
        found = self._told if "$ref" in part else part
        for name in part.get("$ref", "#").split("/")[1:]:
            found = found[name]
        return found

    def _check(self, key: tuple[str, ...], schema: dict[str, Any], body: bytes) -> None:
        if key not in self._validators:
            whole = {**schema, "components": self._told["components"]}
            self._validators[key] = Draft202012Validator(whole)
        value = json.loads(body)
        problems = [
            f"{each.instance_path}: {each.message}"
            for each in self._validators[key].iter_errors(value)
        ]
        assert not problems, (key, problems, body[:2000])
        for amount in _decimals(json.loads(body, parse_float=Decimal)):
            assert -int(amount.as_tuple().exponent) <= MOST_DECIMALS, (key, amount)


def _decimals(value: Any, name: str = "") -> Iterator[Decimal]:
    """Yield the amounts of money in a JSON value."""
    match value:
        case dict():
            for key, part in value.items():
                yield from _decimals(part, key)
        case list():
            for part in value:
                yield from _decimals(part, name)
        case Decimal() if "usd" in name or "price" in name:
            yield value


@cache
def _document(text: bytes) -> Document:
    return Document(text)


def hold_to_document(app: web.Application) -> None:
    """Let every answer and event of `app` that is not as the document says fail its request."""
    document = _document(app[DOCUMENT])

    async def check(request: web.Request, response: web.StreamResponse) -> None:
        resource = request.match_info.route.resource
        known = resource is not None and resource.canonical in document._told["paths"]
        if not known or not isinstance(response, web.Response) or request.method == "HEAD":
            return
        body = response.body
        assert resource is not None
        if isinstance(body, bytes) and request.method in ("GET", "POST", "PUT", "PATCH"):
            document.check_answer(
                request.method, resource.canonical, response.status, response.headers, body
            )

    app.on_response_prepare.append(check)


@cache
def any_document() -> Document:
    """Return the document of some server: it is the same of all, and asks no service."""
    return Document(document_bytes())


def document_bytes() -> bytes:
    """Return the document of some server as it is answered."""
    nobodys: Any = SimpleNamespace(is_open=True)
    nobody: dict[str, Any] = {each.name: None for each in fields(Services)}
    # The only thing that is taken of a service while routes are made.
    nobody["containers"] = SimpleNamespace(project_of=None)
    app = make_app(
        Services(**nobody),
        doors=nobodys,
        limits=ApiLimits(),
        defaults=Defaults(),
        instance_type_names=(),
        version="0",
    )
    return app[DOCUMENT]


def _checked(self: events.EventEncoder, event: Any) -> bytes:
    made = _ENCODED(self, event)
    if event.data.keys() <= _MADE_UP:
        return made
    any_document().check_event(made.partition(b"data: ")[2].strip())
    return made


def _checked_notice(self: events.EventEncoder, kind: str, what: str, **given: Any) -> bytes:
    made = _NOTICE(self, kind, what, **given)
    any_document().check_event(made.partition(b"data: ")[2].strip())
    return made


# For as long as tests run: whichever server of theirs it is that sends an event.
_ENCODED, _NOTICE = events.EventEncoder.anew, events.EventEncoder.message
events.EventEncoder.anew = _checked  # type: ignore[method-assign]  # that is what it is for
events.EventEncoder.message = _checked_notice  # type: ignore[method-assign]  # as above
