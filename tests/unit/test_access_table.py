"""Every endpoint x every kind of caller x each door x own and foreign things: who gets what.

An endpoint that is not in the table fails, so a new one has its row before it is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from joserfc.jwk import RSAKey
from multidict import CIMultiDict

from longshore.dispatcher.access.issuer import Issuer
from longshore.dispatcher.access.json_web_tokens import LEEWAY_S
from longshore.dispatcher.api.routes.docs import document_pages
from longshore.dispatcher.config.model import (
    AuthConfig,
    AuthMode,
    IssuerClaimsConfig,
    IssuerConfig,
    ProxyConfig,
)
from longshore.dispatcher.domain.principals import Door, Principal, Role
from longshore.dispatcher.service.services import Services
from longshore.dispatcher.service.tokens import NewToken
from tests.api_server import serving
from tests.doors import doors_of
from tests.rigs.api import ApiRig
from tests.token_issuer import AUDIENCE, TokenIssuer, signed, token_issuer

ADMIN = Principal(user="root", role=Role.ADMIN, door=Door.SOCKET)
CONTAINER = {"command": ["true"], "cpus": 0.5, "memory": "16MiB"}
DAEMON = {"type": "sysbatch", "tasks": [CONTAINER]}
TEMPLATE = {"parameterized": {"optional": {"SAMPLE": "x"}}, "tasks": [CONTAINER]}


EMPTY_BILL = {
    "month": "2026-10",
    "piece": 0,
    "pieces": 1,
    "rows": [],
    "billed_from_hour": None,
    "billed_until_hour": None,
    "file": "october.csv",
    "sha256": "0" * 64,
}


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
WORTHLESS_JWTS = ("unsigned", "expired", "of a stranger", "for another")
DOORS = (Door.TOKEN, Door.ISSUER, Door.PROXY)
SINGLE_SIGN_ON = (Door.ISSUER, Door.PROXY)

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
    #: "see": 404 to those that do not see it; "act": and 403 to those that do and may not; "keep":
    #: and 403 to its users;
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
        if self.whom not in ("see", "act", "keep"):
            return self.good
        if caller.name not in SEES:
            return 404
        if self.whom == "keep":
            return self.good if caller.role in (Role.LEAD, Role.ADMIN) else 403
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
    Row(method="GET", path="/v1/projects/{project}/secrets", whom="see"),
    Row(
        method="PUT",
        path="/v1/projects/{project}/secrets/{name}",
        body={"value": "xyz"},
        whom="keep",
    ),
    Row(method="DELETE", path="/v1/projects/{project}/secrets/{name}", body={}, whom="keep"),
    Row(method="POST", path="/v1/secret-keys/rotate", body={}, whom="admin"),
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
    Row(method="GET", path="/v1/cost"),
    Row(method="GET", path="/v1/cost/forecast"),
    Row(method="GET", path="/v1/cost/runs"),
    Row(method="GET", path="/v1/prices", whom="admin"),
    Row(method="GET", path="/v1/budgets"),
    Row(method="GET", path="/v1/cost/export"),
    Row(method="POST", path="/v1/cost/reconcile", body=EMPTY_BILL, whom="admin"),
    Row(method="GET", path="/v1/audit", whom="admin"),
    Row(method="GET", path="/v1/efficiency"),
    Row(method="GET", path="/v1/overview"),
    Row(method="GET", path="/v1/holds", whom="admin"),
    Row(method="GET", path="/v1/decisions", whom="admin"),
    Row(method="GET", path="/v1/timeline", whom="admin"),
    Row(method="GET", path="/v1/events"),
    Row(method="GET", path="/v1/health", whom="monitor"),
    Row(method="GET", path="/metrics", whom="monitor"),
    Row(method="GET", path="/health/live", whom="public"),
    Row(method="GET", path="/health/ready", whom="public"),
    *(
        Row(method="GET", path=path, whom="public")
        for path in (
            "/",
            "/openapi.json",
            "/docs",
            "/docs/start.js",
            "/docs/swagger_bundle.js",
            "/docs/swagger_style.css",
        )
    ),
)


class World:
    """A server that asks who one is, with things of ann's in project a."""

    def __init__(
        self,
        url: str,
        services: Services,
        session: aiohttp.ClientSession,
        issuer: TokenIssuer,
        now: Callable[[], float],
    ) -> None:
        self.url = url
        self.services = services
        self.issuer = issuer
        self.now = now
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

    def jwt(self, caller: Caller) -> str:
        """Return the issuer's token of a caller."""
        said = {"sub": caller.user, "role": caller.role.value, "groups": list(caller.projects)}
        return self.issuer.token(self.now(), **said)

    async def shown(self, caller: Caller, door: Door) -> dict[str, str]:
        """Return the headers with which a caller comes by a door."""
        match door:
            case Door.ISSUER:
                return {"Authorization": f"Bearer {self.jwt(caller)}"}
            case Door.PROXY:
                return {
                    "X-User": caller.user,
                    "X-Projects": ",".join(caller.projects),
                    "X-Role": caller.role.value,
                }
            case _:
                return {"Authorization": f"Bearer {await self.token(caller)}"}

    async def call(
        self, method: str, path: str, headers: Mapping[str, str], body: Any = None
    ) -> tuple[int, Any]:
        """Return the status of an answer and its beginning, or all of it."""
        data, headers = None, CIMultiDict(headers)
        if body is not None:
            data = json.dumps(body)
            headers["Content-Type"] = "application/json"
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
        await self.services.secrets.set("a", "db", "abc", caller=ADMIN)
        self.things["instance"] = "i-none"
        self.things["token"] = (
            self.services.tokens.tokens(user="ann", state=None, cursor="", limit=1).items[0].id
        )

    async def ask(self, row: Row, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Ask for what a row says."""
        path = row.path.replace("{id}", self.things.get(row.thing, ""))
        path = path.replace("{project}", "a").replace("{name}", "db")
        return await self.call(row.method, path, headers, row.body)


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    rig = ApiRig()
    async with AsyncExitStack() as stack:
        services = await stack.enter_async_context(rig.served())
        tokens = await stack.enter_async_context(token_issuer())
        config = AuthConfig(
            requests_per_s=1000,
            burst=100_000,
            issuer=IssuerConfig(
                url=tokens.url,
                audience=AUDIENCE,
                claims=IssuerClaimsConfig(role="role", projects="groups"),
                roles={each.value: each for each in Role},
            ),
            proxy=ProxyConfig(
                addresses=("127.0.0.1",),
                user_header="X-User",
                projects_header="X-Projects",
                role_header="X-Role",
            ),
        )
        issuer = Issuer(config.issuer, now=lambda: rig.now, clock=time.monotonic)
        stack.push_async_callback(issuer.close)
        doors = doors_of(
            services,
            mode=AuthMode.REQUIRED,
            config=config,
            issuer=issuer,
            now=lambda: rig.now,
        )
        url, _ = await stack.enter_async_context(serving(services, doors=doors))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        made = World(url, services, session, tokens, lambda: rig.now)
        await made.make_things()
        yield made


def _expected(row: Row, caller: Caller) -> int:
    good = row.expected(caller)
    # There is no instance in this world: whoever may ask is told so.
    return 404 if row.thing == "instance" and good in (200, 202) else good


@pytest.mark.parametrize("door", DOORS, ids=lambda each: each.value)
@pytest.mark.parametrize("caller", CALLERS, ids=lambda each: each.name)
async def test_each_endpoint_answers_each_caller_as_it_should(
    world: World, caller: Caller, door: Door
) -> None:
    told, expected = {}, {}
    for row in ROWS:
        if row.thing:
            await world.make_things()
        # Made anew for each row, or one that is revoked would tell nothing of the rows behind.
        headers = await world.shown(caller, door)
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
    await _expect_all(world, headers, 401)


@pytest.mark.parametrize("kind", WORTHLESS_JWTS)
async def test_a_jwt_that_is_worthless_is_answered_401_everywhere(world: World, kind: str) -> None:
    match kind:
        case "unsigned":
            text = f"{world.jwt(CALLERS[7]).rpartition('.')[0]}."
        case "expired":
            text = world.issuer.token(world.now() - 7200, role="admin")
        case "of a stranger":
            stranger = RSAKey.generate_key(2048, {"kid": "rsa"})
            text = signed(stranger, world.issuer.claims(world.now(), role="admin"))
        case _:
            text = world.issuer.token(world.now(), aud="another", role="admin")
    await _expect_all(world, {"Authorization": f"Bearer {text}"}, 401)


async def _expect_all(world: World, headers: Mapping[str, str], status: int) -> None:
    """Expect an answer to everything but what is public."""
    told = {f"{row.method} {row.path}": (await world.ask(row, headers))[0] for row in ROWS}
    assert told == {
        f"{row.method} {row.path}": row.good if row.whom == "public" else status for row in ROWS
    }


async def test_headers_of_the_proxy_count_from_its_address_only(world: World) -> None:
    headers = await world.shown(CALLERS[7], Door.PROXY)
    connector = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))
    async with aiohttp.ClientSession(connector=connector) as session:
        elsewhere = World(world.url, world.services, session, world.issuer, world.now)
        elsewhere.things = world.things
        await _expect_all(elsewhere, headers, 401)
        # A token counts from there, whatever else is sent.
        known = {**headers, **await world.shown(CALLERS[0], Door.TOKEN)}
        _, content = await elsewhere.call("GET", "/v1/whoami", known)
        assert json.loads(content)["user"] == "ann"


@pytest.mark.parametrize("header", ["X-User", "X-Projects", "X-Role"])
async def test_two_headers_of_the_proxy_are_400_everywhere(world: World, header: str) -> None:
    headers = CIMultiDict(await world.shown(CALLERS[7], Door.PROXY))
    headers.add(header, "ann")
    await _expect_all(world, headers, 400)


async def test_who_has_no_role_is_known_and_403_everywhere(world: World) -> None:
    text = world.issuer.token(world.now(), role="guest", groups=["a"])
    await _expect_all(world, {"Authorization": f"Bearer {text}"}, 403)
    headers = {**await world.shown(CALLERS[0], Door.PROXY), "X-Role": "guest"}
    await _expect_all(world, headers, 403)


async def test_a_jwt_that_nobody_can_judge_is_503_and_tokens_of_ours_are_not(world: World) -> None:
    world.issuer.instead["/keys"] = web.Response(status=500)
    await _expect_all(world, await world.shown(CALLERS[0], Door.ISSUER), 503)
    status, _ = await world.call("GET", "/v1/jobs", await world.shown(CALLERS[0], Door.TOKEN))
    assert status == 200


@pytest.mark.parametrize("door", SINGLE_SIGN_ON, ids=lambda each: each.value)
async def test_who_has_no_projects_sees_nothing(world: World, door: Door) -> None:
    for role in (Role.USER, Role.LEAD):
        headers = await world.shown(Caller(name="", user="ann", role=role), door)
        for path in ("/v1/containers", "/v1/jobs", "/v1/containers?project=a"):
            status, content = await world.call("GET", path, headers)
            assert (status, json.loads(content)["items"]) == (200, [])
        for path in (f"/v1/containers/{world.things['container']}", "/v1/jobs/j-none"):
            assert (await world.call("GET", path, headers))[0] == 404
        for body in (CONTAINER, {**CONTAINER, "project": "a"}):
            assert (await world.call("POST", "/v1/containers", headers, body))[0] in (400, 403)


@pytest.mark.parametrize("door", SINGLE_SIGN_ON, ids=lambda each: each.value)
async def test_who_has_over_a_hundred_projects_is_refused(world: World, door: Door) -> None:
    for count, status in ((100, 200), (101, 403)):
        many = Caller(name="", role=Role.USER, projects=tuple(f"p{n}" for n in range(count)))
        headers = await world.shown(many, door)
        assert (await world.call("GET", "/v1/jobs", headers))[0] == status


async def test_a_proxy_counts_before_what_it_lets_through(world: World) -> None:
    headers = {**await world.shown(CALLERS[0], Door.PROXY), "Authorization": "Bearer x"}
    status, content = await world.call("GET", "/v1/whoami", headers)
    assert (status, json.loads(content)["user"]) == (200, "ann")


async def test_the_log_of_changes_says_whom_the_proxy_names(world: World) -> None:
    headers = {
        **await world.shown(CALLERS[0], Door.PROXY),
        "X-Forwarded-For": "203.0.113.9, 192.0.2.7",
    }
    assert (await world.call("POST", "/v1/containers", headers, CONTAINER))[0] == 201
    admin = await world.shown(CALLERS[7], Door.TOKEN)
    _, content = await world.call("GET", "/v1/audit", admin)
    assert json.loads(content)["items"][0]["address"] == "192.0.2.7"


async def test_a_stream_ends_with_the_jwt(world: World) -> None:
    said = {"sub": "ann", "role": "user", "groups": ["a"]}
    text = world.issuer.token(world.now(), **said, exp=world.now() - LEEWAY_S + 2)
    headers = {"Authorization": f"Bearer {text}"}
    async with (
        asyncio.timeout(20),
        aiohttp.ClientSession() as session,
        session.get(f"{world.url}/v1/events", headers=headers) as answer,
    ):
        assert answer.status == 200
        with contextlib.suppress(aiohttp.ClientError):
            await answer.content.read()


async def test_the_table_has_every_endpoint(world: World) -> None:
    _, content = await world.call("GET", "/openapi.json", {})
    document = json.loads(content)
    there = {
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method in methods
    }
    there |= {f"GET {path}" for path in ("/", *document_pages())}
    assert {f"{row.method} {row.path}" for row in ROWS} == there


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
