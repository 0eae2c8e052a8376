"""The OpenAPI document: whole, told apart, and true of what the server takes and answers."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from longshore.dispatcher.api.routes.openapi import TRACE_HEADER
from tests.api_document import Document
from tests.api_server import Client, connected

LISTS = (
    *(
        "audit",
        "containers",
        "decisions",
        "instances",
        "jobs",
        "leaks",
        "projects/{project}/secrets",
    ),
    *("strays", "tokens"),
)
METHODS = ("get", "put", "post", "patch", "delete")
EMPTY_VALUES = {
    "/v1/containers": ("limit", "array_index", "state", "order"),
    "/v1/containers/c-1/logs": ("stream", "offset", "follow"),
    "/v1/jobs": ("limit", "state", "own"),
    "/v1/instances": ("limit", "gone"),
    "/v1/strays": ("limit",),
    "/v1/leaks": ("limit",),
    "/v1/tokens": ("limit", "state"),
    "/v1/audit": ("limit", "since", "until"),
    "/v1/efficiency": ("since",),
    "/v1/timeline": ("limit", "from", "to"),
}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with connected() as client:
        yield client


@pytest.fixture
async def document(client: Client) -> dict[str, Any]:
    _, document = await client.call("GET", "/openapi.json")
    assert isinstance(document, dict)
    return document


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield method, path, item[method]


def test_it_is_a_document_of_openapi(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    OpenAPIV31SpecValidator(document).validate()


def test_every_operation_is_told_and_has_a_name_of_its_own(document: dict[str, Any]) -> None:
    told = list(operations(document))
    names = [operation["operationId"] for _, _, operation in told]
    assert len(set(names)) == len(names) >= 29
    tags = {tag["name"] for tag in document["tags"]}
    for method, path, operation in told:
        where = f"{method} {path}"
        assert re.fullmatch(r"[a-z]+(_[a-z]+)+", operation["operationId"]), where
        assert operation["description"].endswith("."), where
        assert not operation["summary"].endswith("."), where
        assert set(operation["tags"]) <= tags, where
        for parameter in operation["parameters"]:
            assert parameter["description"].endswith("."), (where, parameter["name"])
            if parameter["name"] == TRACE_HEADER:
                continue  # whatever it has is taken: what is no such value is ignored
            told_more = set(parameter["schema"]) & {"pattern", "maxLength", "enum", "format"}
            assert told_more or parameter["schema"]["type"] != "string", (where, parameter["name"])


def test_every_operation_says_who_is_asked_for_a_token_and_what_it_may_refuse(
    document: dict[str, Any],
) -> None:
    public = {"/health/live", "/health/ready"}
    for _, path, operation in operations(document):
        said, refusals = operation["security"], set(operation["responses"])
        assert (said == []) == (path in public), path
        assert refusals >= {"400", "403", "500"}, path
        assert ({"401", "429", "503"} <= refusals) or path in public, path
        assert ("404" in refusals) >= ("{" in path), path
        assert ("415" in refusals) == ("requestBody" in operation), path
        assert "default" not in refusals, path


def test_every_create_takes_a_key(document: dict[str, Any]) -> None:
    takes, creates = set(), set()
    for method, path, operation in operations(document):
        name, parameters = operation["operationId"], operation["parameters"]
        # To set something again by PUT is no harm.
        if "201" in operation["responses"] and method != "put":
            creates.add(name)
            assert "Location" in operation["responses"]["201"]["headers"], path
        if "Idempotency-Key" in {each["name"] for each in parameters}:
            takes.add(name)
            assert "422" in operation["responses"], path
    assert takes == creates
    assert takes == {"submit_containers", "submit_job", "dispatch_job", "create_token"}


async def test_every_body_has_examples_that_the_server_takes(
    client: Client, document: dict[str, Any]
) -> None:
    tried = 0
    for method, path, operation in operations(document):
        if "requestBody" not in operation:
            continue
        content = operation["requestBody"]["content"]["application/json"]
        schema = {**content["schema"], "components": document["components"]}
        assert content["examples"], path
        # Without one there is no Content-Type, and that of JSON is what keeps forms of others out.
        assert operation["requestBody"]["required"], path
        for name, each in content["examples"].items():
            Draft202012Validator(schema).validate(each["value"])
            tried += 1
            if "{" not in path:
                status, answer = await client.call(method.upper(), path, json=each["value"])
                assert str(status) in {"200", "201"}, (path, name, answer)
    assert tried >= 15


async def test_every_list_pages_by_cursor_and_takes_a_limit(
    client: Client, document: dict[str, Any]
) -> None:
    lists = set()
    for method, path, operation in operations(document):
        answer = json.dumps(operation["responses"].get("200", {}))
        name = re.search(r"schemas/(\w+List)\b", answer)
        if method != "get" or name is None:
            continue
        lists.add(path)
        asked = path.replace("{project}", "default")
        properties = document["components"]["schemas"][name[1]]["properties"]
        assert set(properties) >= {"items", "next_cursor"}, path
        assert {each["name"] for each in operation["parameters"]} >= {"limit", "cursor"}, path
        assert (await client.call("GET", f"{asked}?limit=1"))[0] == 200
        for bad in ("limit=0", "limit=1001", "limit=x", "cursor=%20", "cursor=a&cursor=b"):
            assert (await client.call("GET", f"{asked}?{bad}"))[0] == 400, (path, bad)
    assert lists == {f"/v1/{each}" for each in LISTS}


@pytest.mark.parametrize(
    ("path", "name"), [(path, name) for path, names in EMPTY_VALUES.items() for name in names]
)
async def test_a_value_that_is_empty_is_refused_where_it_is_none(
    client: Client, path: str, name: str
) -> None:
    status, answer = await client.call("GET", f"{path}?{name}=")
    assert (status, answer["errors"][0]["path"]) == (400, name)


def test_an_answer_is_found_by_what_was_asked_for(document: dict[str, Any]) -> None:
    """The tests with a real process rely on it."""
    held = Document(json.dumps(document).encode())
    told = {"Content-Type": "application/json"}
    plan = next(iter(document["paths"]["/v1/jobs/plan"]))
    with pytest.raises(AssertionError, match="'/v1/jobs/plan'"):
        held.check_target(plan.upper(), "/v1/jobs/plan?x=/v1/jobs", 200, told, b"[]")
    with pytest.raises(AssertionError, match=r"'/v1/jobs/\{id\}'"):
        held.check_target("GET", "/v1/jobs/j-1", 200, told, b"[]")
    held.check_target("GET", "/v1/jobs/j-1/none", 200, told, b"[]")
    held.check_target("TRACE", "/v1/jobs/j-1", 200, told, b"[]")
    page = json.dumps({"items": [{"wrong": 1}], "next_cursor": None}).encode()
    with pytest.raises(AssertionError, match='"user" is a required property'):
        held.check_target("GET", "/v1/tokens?limit=1", 200, told, page)


def test_a_status_or_a_header_that_is_not_told_is_found(document: dict[str, Any]) -> None:
    """The tests of the API rely on it: each answer of theirs goes through `check_answer`."""
    held = Document(json.dumps(document).encode())
    body = b'{"type": "x", "title": "x", "status": 409, "detail": "x", "errors": []}'
    problem = {"Content-Type": "application/problem+json"}
    held.check_answer("POST", "/v1/containers/{id}/cancel", 409, problem, body)
    with pytest.raises(AssertionError, match="is not said to answer 409"):
        held.check_answer("GET", "/v1/containers/{id}", 409, problem, body)
    late = {**problem, "Retry-After": "2"}
    with pytest.raises(AssertionError, match="is not said to answer Retry-After"):
        held.check_answer("POST", "/v1/containers/{id}/cancel", 409, late, body)
    with pytest.raises(AssertionError, match='"detail" is a required property'):
        held.check_answer("POST", "/v1/jobs", 400, problem, body.replace(b"detail", b"details"))
    held.check_event(b'{"message": "Events are missing here."}')
    with pytest.raises(AssertionError, match="not valid under any"):
        held.check_event(b'{"what": "Events are missing here."}')
