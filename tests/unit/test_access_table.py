"""Every endpoint x every kind of caller x own and foreign things: who gets which answer.

An endpoint that is not in the table fails, so a new one has its row before it is there.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from longshore.dispatcher.config.model import AuthConfig, AuthMode
from longshore.dispatcher.domain.principals import Door, Principal, Role
from longshore.dispatcher.service.services import Services
from longshore.dispatcher.service.tokens import NewToken
from tests.api_server import serving
from tests.doors import doors_of
from tests.rigs.api import ApiRig

ADMIN = Principal(user="root", role=Role.ADMIN, door=Door.SOCKET)
CONTAINER = {"command": ["true"], "cpus": 0.5, "memory": "16MiB"}
DAEMON = {"type": "sysbatch", "tasks": [CONTAINER]}
TEMPLATE = {"parameterized": {"optional": {"SAMPLE": "x"}}, "tasks": [CONTAINER]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """One kind of caller, and what it is to the things of ann in project a."""

    name: str
    role: Role
    user: str = "x"
    projects: tuple[str, ...] = ()


CALLERS = (
    Caller(name="owner", role=Role.USER, user="ann", projects=("a",)),
    Caller(name="owner of two projects", role=Role.USER, user="ann", projects=("a", "b")),
    Caller(name="mate", role=Role.USER, user="bob", projects=("a",)),
    Caller(name="lead", role=Role.LEAD, user="lea", projects=("a",)),
    Caller(name="stranger", role=Role.USER, user="eve", projects=("b",)),
    Caller(name="namesake", role=Role.USER, user="ann", projects=("b",)),
    Caller(name="foreign lead", role=Role.LEAD, user="max", projects=("b",)),
    Caller(name="admin", role=Role.ADMIN, user="ada"),
    Caller(name="metrics", role=Role.METRICS, user="prometheus"),
)
WORTHLESS = ("none", "garbage", "unknown", "revoked", "expired", "basic garbage", "twice", "other")

SEES = {"owner", "owner of two projects", "mate", "lead", "admin"}
MAY = {"owner", "owner of two projects", "lead", "admin"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One endpoint: what is asked, and who gets which answer."""

    method: str
    path: str
    #: What stands for `{id}`: the name of one of `Things`.
    thing: str = ""
    query: str = ""
    body: Any = None
    good: int = 200
    #: "see": 404 to those that do not see it; "act": and 403 to those that do and may not;
    #: "admin", "monitor", "all", "known", "public" and "members" as `Access` has it.
    whom: str = "members"

    def expected(self, caller: Caller) -> int:
        """Return the status that a caller gets."""
        roles = {
            "public": set(Role),
            "known": set(Role),
            "admin": {Role.ADMIN},
            "monitor": {Role.ADMIN, Role.METRICS},
        }.get(self.whom, set(Role) - {Role.METRICS})
        if caller.role not in roles:
            return 403
        if self.whom not in ("see", "act"):
            return self.good
        if caller.name not in SEES:
            return 404
        return self.good if self.whom == "see" or caller.name in MAY else 403


ROWS = (
    Row(method="POST", path="/v1/containers", body=CONTAINER, good=201),
    Row(method="GET", path="/v1/containers"),
    Row(method="GET", path="/v1/containers/{id}", thing="container", whom="see"),
    Row(method="GET", path="/v1/containers/{id}/explain", thing="container", whom="see"),
    Row(method="GET", path="/v1/containers/{id}/logs", thing="container", whom="see"),
    Row(
        method="PATCH",
        path="/v1/containers/{id}",
        thing="container",
        body={"priority": 7},
        whom="act",
    ),
    Row(
        method="POST",
        path="/v1/containers/{id}/cancel",
        thing="container",
        body={},
        good=202,
        whom="act",
    ),
    Row(method="POST", path="/v1/jobs", body={"tasks": [CONTAINER]}, good=201),
    Row(method="GET", path="/v1/jobs"),
    Row(method="POST", path="/v1/jobs/plan", body={"tasks": [CONTAINER]}),
    Row(method="GET", path="/v1/jobs/{id}", thing="job", whom="see"),
    Row(method="PATCH", path="/v1/jobs/{id}", thing="job", body={"priority": 7}, whom="act"),
    Row(method="PUT", path="/v1/jobs/{id}", thing="daemon", body=DAEMON, whom="act"),
    Row(
        method="POST",
        path="/v1/jobs/{id}/dispatch",
        thing="template",
        body={"parameters": {}},
        good=201,
        whom="act",
    ),
    Row(method="POST", path="/v1/jobs/{id}/cancel", thing="job", body={}, good=202, whom="act"),
    Row(method="GET", path="/v1/instances", whom="admin"),
    Row(method="GET", path="/v1/instances/{id}", thing="instance", whom="admin"),
    Row(
        method="PUT",
        path="/v1/instances/{id}/idle-behavior",
        thing="instance",
        body={"idle_behavior": "hold"},
        whom="admin",
    ),
    Row(
        method="POST",
        path="/v1/instances/{id}/strays",
        thing="instance",
        body={"fate": "kill"},
        good=404,
        whom="admin",
    ),
    Row(
        method="POST",
        path="/v1/instances/{id}/kill",
        thing="instance",
        body={},
        good=202,
        whom="admin",
    ),
    Row(method="GET", path="/v1/strays", whom="admin"),
    Row(method="GET", path="/v1/leaks", whom="admin"),
    Row(
        method="POST",
        path="/v1/tokens",
        body={"user": "new", "projects": ["a"]},
        good=201,
        whom="admin",
    ),
    Row(method="GET", path="/v1/tokens", whom="admin"),
    Row(method="GET", path="/v1/tokens/{id}", thing="token", whom="admin"),
    Row(method="POST", path="/v1/tokens/{id}/revoke", thing="token", body={}, whom="admin"),
    Row(method="GET", path="/v1/whoami", whom="known"),
    Row(method="GET", path="/v1/audit", whom="admin"),
    Row(method="GET", path="/v1/events"),
    Row(method="GET", path="/v1/health", whom="monitor"),
    Row(method="GET", path="/metrics", whom="monitor"),
    Row(method="GET", path="/health/live", whom="public"),
    Row(method="GET", path="/health/ready", whom="public"),
    Row(method="GET", path="/openapi.json", whom="public"),
)


class World:
    """A server that asks who one is, with things of ann's in project a."""

    def __init__(self, url: str, services: Services, session: aiohttp.ClientSession) -> None:
        self.url = url
        self.services = services
        self._session = session
        self.things: dict[str, str] = {}

    async def token(self, caller: Caller, *, expires_at: float | None = None) -> str:
        """Return the text of a new token."""
        wanted = NewToken(
            name="",
            user=caller.user,
            role=caller.role,
            projects=caller.projects,
            default_project=caller.projects[0] if caller.projects else "",
            expires_at=expires_at,
        )
        _, text = await self.services.tokens.create(wanted, caller=ADMIN)
        return text

    async def call(
        self, method: str, path: str, headers: dict[str, str], body: Any = None
    ) -> tuple[int, Any]:
        """Return the status of an answer and its beginning, or all of it."""
        data = None
        if body is not None:
            data, headers = json.dumps(body), {**headers, "Content-Type": "application/json"}
        async with self._session.request(
            method, self.url + path, data=data, headers=headers
        ) as answer:
            if answer.content_type == "text/event-stream":
                return answer.status, b""
            content = await answer.read()
            return answer.status, content

    async def make_things(self) -> None:
        """Make what is ann's in project a, anew."""
        owner = {"Authorization": f"Bearer {await self.token(CALLERS[0])}"}
        asked = {
            "container": ("/v1/containers", CONTAINER),
            "job": ("/v1/jobs", {"tasks": [CONTAINER]}),
            "daemon": ("/v1/jobs", DAEMON),
            "template": ("/v1/jobs", TEMPLATE),
        }
        for name, (path, body) in asked.items():
            status, content = await self.call("POST", path, owner, body)
            assert status == 201, content
            self.things[name] = json.loads(content)["id"]
        self.things["instance"] = "i-none"
        self.things["token"] = (
            self.services.tokens.tokens(user="ann", state=None, cursor="", limit=1).items[0].id
        )

    async def ask(self, row: Row, headers: dict[str, str]) -> tuple[int, bytes]:
        """Ask for what a row says."""
        path = row.path.replace("{id}", self.things.get(row.thing, ""))
        return await self.call(row.method, path, headers, row.body)


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    rig = ApiRig()
    async with rig.served() as services:
        doors = doors_of(
            services,
            mode=AuthMode.REQUIRED,
            config=AuthConfig(requests_per_s=1000, burst=100_000),
            now=lambda: rig.now,
        )
        async with serving(services, doors=doors) as (url, _), aiohttp.ClientSession() as session:
            made = World(url, services, session)
            await made.make_things()
            yield made


def _expected(row: Row, caller: Caller) -> int:
    good = row.expected(caller)
    # There is no instance in this world: whoever may ask is told so.
    return 404 if row.thing == "instance" and good in (200, 202) else good


@pytest.mark.parametrize("caller", CALLERS, ids=lambda each: each.name)
async def test_each_endpoint_answers_each_caller_as_it_should(world: World, caller: Caller) -> None:
    told, expected = {}, {}
    for row in ROWS:
        await world.make_things()
        # Made anew for each row, or one that is revoked would tell nothing of the rows behind.
        headers = {"Authorization": f"Bearer {await world.token(caller)}"}
        key = f"{row.method} {row.path}"
        told[key], expected[key] = (await world.ask(row, headers))[0], _expected(row, caller)
    assert told == expected


@pytest.mark.parametrize("kind", WORTHLESS)
async def test_what_is_no_credential_is_answered_401_everywhere(world: World, kind: str) -> None:
    text = await world.token(CALLERS[7], expires_at=None)
    match kind:
        case "none":
            headers = {}
        case "garbage":
            headers = {"Authorization": "Bearer abc"}
        case "unknown":
            headers = {"Authorization": f"Bearer {text[:-1]}{'a' if text[-1] != 'a' else 'b'}"}
        case "revoked":
            token_id = f"t-{text.split('_')[1]}"
            await world.services.tokens.revoke(token_id, caller=ADMIN)
            headers = {"Authorization": f"Bearer {text}"}
        case "expired":
            now = world.services.tokens._now
            text = await world.token(CALLERS[7], expires_at=now() + 0.001)
            world.services.tokens._now = lambda: now() + 1
            headers = {"Authorization": f"Bearer {text}"}
        case "basic garbage":
            headers = {"Authorization": "Basic YTpi"}
        case "twice":
            headers = {"Authorization": f"Bearer {text} {text}"}
        case _:
            headers = {"Authorization": f"Digest {text}"}
    told = {f"{row.method} {row.path}": (await world.ask(row, headers))[0] for row in ROWS}
    assert told == {
        f"{row.method} {row.path}": row.good if row.whom == "public" else 401 for row in ROWS
    }


async def test_the_table_has_every_endpoint(world: World) -> None:
    _, content = await world.call("GET", "/openapi.json", {})
    document = json.loads(content)
    there = {
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method in methods
    }
    in_table = {f"{row.method} {row.path}" for row in ROWS if row.path != "/openapi.json"}
    assert in_table == there


async def test_what_one_does_not_see_is_as_what_there_is_not(world: World) -> None:
    stranger = {"Authorization": f"Bearer {await world.token(CALLERS[4])}"}
    for thing, noun, path in (
        ("container", "container", "/v1/containers/"),
        ("job", "job", "/v1/jobs/"),
    ):
        there, absent = world.things[thing], world.things[thing][:-4] + "none"
        told = [
            json.loads((await world.call("GET", f"{path}{each}", stranger))[1])["detail"]
            for each in (there, absent)
        ]
        assert told == [f"there is no {noun} {there}", f"there is no {noun} {absent}"]


async def test_lists_have_what_one_sees(world: World) -> None:
    for caller in CALLERS[:8]:
        headers = {"Authorization": f"Bearer {await world.token(caller)}"}
        for path in ("/v1/containers", "/v1/jobs"):
            _, content = await world.call("GET", path, headers)
            seen = {item["project"] for item in json.loads(content)["items"]}
            assert seen == ({"a"} if caller.name in SEES else set()), caller
            _, content = await world.call("GET", f"{path}?project=a", headers)
            assert bool(json.loads(content)["items"]) is (caller.name in SEES)


async def test_a_project_of_others_is_no_project_of_ones_own(world: World) -> None:
    headers = {"Authorization": f"Bearer {await world.token(CALLERS[4])}"}
    for project in ("a", "no-such"):
        for path, body in (
            ("/v1/containers", {**CONTAINER, "project": project}),
            ("/v1/jobs", {"tasks": [CONTAINER], "project": project}),
            ("/v1/jobs/plan", {"tasks": [CONTAINER], "project": project}),
        ):
            status, content = await world.call("POST", path, headers, body)
            said = json.loads(content)["errors"]
            assert (status, said) == (
                400,
                [{"path": "project", "message": "is none of yours: leave it out, or say b"}],
            )
