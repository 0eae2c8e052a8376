"""The API inside of containers, at the server's end: who is let in, and what there is for it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from msgspec import UNSET

from longshore.client import AsyncClient
from longshore.dispatcher.api.inside import ContainerDoor
from longshore.dispatcher.config.model import AuthConfig, AuthMode
from longshore.dispatcher.domain.audit import AuditFilter
from longshore.dispatcher.domain.principals import Door, Principal, Role
from longshore.dispatcher.service.services import Services
from longshore.dispatcher.service.tokens import NewToken
from longshore.pool.remote.api_relay import ApiAnswer, InsideCall
from tests.api_server import serving
from tests.doors import doors_of
from tests.rigs.api import ApiRig
from tests.unit.test_access_table import ROWS, Row

ADMIN = Principal(user="root", role=Role.ADMIN, door=Door.SOCKET)
CONTAINER = {"command": ["true"], "cpus": 0.5, "memory": "16MiB"}
DAEMON = {"type": "sysbatch", "tasks": [CONTAINER]}
TEMPLATE = {"parameterized": {"optional": {"SAMPLE": "x"}}, "tasks": [CONTAINER]}
THINGS = {
    "container": ("/v1/containers", CONTAINER),
    "job": ("/v1/jobs", {"tasks": [CONTAINER]}),
    "daemon": ("/v1/jobs", DAEMON),
    "template": ("/v1/jobs", TEMPLATE),
}


@dataclass(slots=True, kw_only=True)
class Inside:
    """A container of ann's that runs on i-1 and has the API inside, and a way to ask there."""

    rig: ApiRig
    services: Services
    door: ContainerDoor
    url: str
    session: aiohttp.ClientSession
    token: str = ""
    parent: str = ""
    #: The paths of what has ended at the server.
    ended: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        attempt: str = "",
        worker: str = "i-1",
        **headers: str,
    ) -> tuple[int, Any]:
        """Return the status and the JSON of what is answered inside."""
        answer = await self.answered(method, path, body, attempt=attempt, worker=worker, **headers)
        is_json = "json" in dict(answer.headers).get("content-type", "")
        return answer.status, json.loads(answer.body) if answer.body and is_json else None

    async def answered(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        attempt: str = "",
        worker: str = "i-1",
        **headers: str,
    ) -> ApiAnswer:
        """Return what is answered inside."""
        answered: asyncio.Future[ApiAnswer] = asyncio.get_running_loop().create_future()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            given["content-type"] = "application/json"
        call = InsideCall(
            worker_id=worker,
            attempt_id=attempt or f"{self.parent}-1",
            method=method,
            path=path,
            headers=tuple(sorted(given.items())),
            body=b"" if body is None else json.dumps(body).encode(),
        )
        self.door.call(call, answered.set_result, lambda: self.ended.put_nowait(call.path))
        return await answered

    async def outside(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return what ann is answered who asks from outside, by her token."""
        headers = {"Authorization": f"Bearer {self.token}"}
        async with self.session.request(
            method, self.url + path, json=body, headers=headers
        ) as answer:
            return answer.status, await answer.json(content_type=None)

    async def made(self, path: str, body: Any, *, inside: bool = True) -> str:
        """Submit something and return its id."""
        status, answer = await (self.ask if inside else self.outside)("POST", path, body)
        assert status == 201, answer
        return str(answer["id"])

    async def started(self, **fields: Any) -> str:
        """Return a new container of ann's that runs on i-1."""
        made = await self.made("/v1/containers", {**CONTAINER, **fields}, inside=False)
        await self.rig.start(made, "i-1")
        return made


@pytest_asyncio.fixture
async def inside() -> AsyncIterator[Inside]:
    rig = ApiRig()
    async with rig.served() as services, aiohttp.ClientSession() as session:
        door = ContainerDoor(rig.runtime.view, asyncio.get_running_loop())
        doors = doors_of(
            services,
            mode=AuthMode.REQUIRED,
            config=AuthConfig(requests_per_s=1000, burst=100_000),
            now=lambda: rig.now,
            inside=door.caller,
        )
        async with serving(services, doors=doors) as (url, runner):
            door.serve_by(runner)
            made = Inside(rig=rig, services=services, door=door, url=url, session=session)
            new = NewToken(
                name="",
                user="ann",
                role=Role.USER,
                projects=("a", "b"),
                default_project="a",
                expires_at=None,
            )
            _, made.token = await services.tokens.create(new, caller=ADMIN)
            await rig.add_instance("i-1")
            made.parent = await made.started(api=True)
            yield made
            await door.close()


async def test_a_child_is_its_users_in_its_project_and_has_its_parent(inside: Inside) -> None:
    child = await inside.made("/v1/containers", CONTAINER)
    _, seen = await inside.outside("GET", f"/v1/containers/{child}")
    assert (seen["user"], seen["project"], seen["parent"]) == ("ann", "a", inside.parent)
    job = await inside.made("/v1/jobs", {"tasks": [CONTAINER]})
    _, seen = await inside.outside("GET", f"/v1/jobs/{job}")
    assert (seen["user"], seen["project"], seen["parent"]) == ("ann", "a", inside.parent)
    _, me = await inside.ask("GET", "/v1/whoami")
    assert (me["user"], me["role"], me["projects"]) == ("ann", "user", ["a"])


@pytest.mark.parametrize("own", [True, False], ids=["own", "another's"])
async def test_each_endpoint_answers_inside_as_it_should(inside: Inside, *, own: bool) -> None:
    told, expected = {}, {}
    for row in ROWS:
        thing = "i-none" if row.thing == "instance" else "t-none"
        if row.thing in THINGS:
            thing = await inside.made(*THINGS[row.thing], inside=own)
        key = f"{row.method} {row.path}"
        path = row.path.replace("{id}", thing).replace("{project}", "a").replace("{name}", "db")
        told[key] = (await inside.ask(row.method, path, row.body))[0]
        expected[key] = _expected(row, own=own)
    assert told == expected


def _expected(row: Row, *, own: bool) -> int:
    if row.whom in ("admin", "monitor") or row.path.endswith(("/secrets", "/events")):
        return 403
    if row.path.startswith(("/v1/cost", "/v1/budgets", "/v1/efficiency", "/v1/overview")):
        return 403  # they tell of more than a container and what it submitted
    if "{project}" in row.path:
        return row.good if row.whom == "see" else 403
    return 404 if row.whom in ("see", "act") and not own else row.good


async def test_lists_have_children_alone_and_those_of_children(inside: Inside) -> None:
    child = await inside.made("/v1/containers", CONTAINER)
    await inside.made("/v1/containers", CONTAINER, inside=False)
    job = await inside.made("/v1/jobs", {"tasks": [{**CONTAINER, "array": 2}]})
    other = await inside.made("/v1/jobs", {"tasks": [CONTAINER]}, inside=False)

    async def ids(path: str) -> list[str]:
        status, page = await inside.ask("GET", path)
        assert status == 200, page
        return [each["id"] for each in page["items"]]

    assert await ids("/v1/containers") == [child]
    assert await ids(f"/v1/containers?parent={inside.parent}") == [child]
    assert await ids("/v1/jobs") == [job]
    assert len(await ids(f"/v1/containers?job={job}")) == 2
    for path in (
        f"/v1/containers?job={other}",
        "/v1/containers?parent=c-none",
        f"/v1/jobs?parent={other}",
    ):
        assert (await inside.ask("GET", path))[0] == 404


@pytest.mark.parametrize(
    "lie", ["another worker", "an unknown attempt", "one that ended", "one without the api"]
)
async def test_an_instance_speaks_for_what_runs_there_alone(inside: Inside, lie: str) -> None:
    attempt, worker = f"{inside.parent}-1", "i-1"
    match lie:
        case "another worker":
            await inside.rig.add_instance("i-2")
            worker = "i-2"
        case "an unknown attempt":
            attempt = f"{inside.parent}-2"
        case "one that ended":
            await inside.rig.finish(inside.parent)
        case _:
            attempt = f"{await inside.started()}-1"
    status, _ = await inside.ask(
        "POST", "/v1/containers", CONTAINER, attempt=attempt, worker=worker
    )
    assert status == 401
    _, page = await inside.outside("GET", "/v1/containers")
    assert not [each for each in page["items"] if "parent" in each]


async def test_a_supervisor_has_the_api_inside(inside: Inside) -> None:
    supervisor = await inside.started(supervisor=True)
    status, answer = await inside.ask(
        "POST", "/v1/containers", CONTAINER, attempt=f"{supervisor}-1"
    )
    assert (status, answer["parent"]) == (201, supervisor)


async def test_a_key_is_its_containers_own(inside: Inside) -> None:
    async def child(parent: str) -> str:
        status, answer = await inside.ask(
            "POST", "/v1/containers", CONTAINER, attempt=f"{parent}-1", idempotency_key="k"
        )
        assert status == 201
        return str(answer["id"])

    other = await inside.started(api=True)
    first = await child(inside.parent)
    assert await child(inside.parent) == first
    assert await child(other) != first


async def test_who_is_being_cancelled_submits_nothing(inside: Inside) -> None:
    assert (await inside.outside("POST", f"/v1/containers/{inside.parent}/cancel", {}))[0] == 202
    status, answer = await inside.ask("POST", "/v1/containers", CONTAINER)
    assert (status, answer["detail"]) == (
        409,
        f"container {inside.parent} is being cancelled: it submits nothing more",
    )
    assert (await inside.ask("POST", "/v1/jobs", {"tasks": [CONTAINER]}))[0] == 409


async def test_nobody_waits_for_what_is_not_its_own(inside: Inside) -> None:
    other = await inside.made("/v1/containers", CONTAINER, inside=False)
    told = []
    for of in (other, "c-none"):
        status, answer = await inside.ask("POST", "/v1/containers", {**CONTAINER, "after": [of]})
        told.append((status, answer["errors"][0]["message"].replace(of, "ID")))
    assert told == [(400, "there is no ID in the project 'a'")] * 2
    child = await inside.made("/v1/containers", CONTAINER)
    await inside.made("/v1/containers", {**CONTAINER, "after": [child]})


async def test_another_project_of_its_user_is_none_inside(inside: Inside) -> None:
    status, _ = await inside.ask("POST", "/v1/containers", {**CONTAINER, "project": "b"})
    assert status == 400


async def test_a_tree_is_cancelled_whole_and_told_what_it_costs(inside: Inside) -> None:
    child = await inside.made("/v1/containers", {**CONTAINER, "api": True})
    await inside.rig.start(child, "i-1")
    attempt = f"{child}-1"
    status, grandchild = await inside.ask("POST", "/v1/containers", CONTAINER, attempt=attempt)
    assert status == 201
    job = await inside.made("/v1/jobs", {"tasks": [{**CONTAINER, "array": 3}]})
    bystander = await inside.made("/v1/containers", CONTAINER, inside=False)
    await inside.rig.pass_time(3600)
    await inside.rig.finish(child)
    _, seen = await inside.outside("GET", f"/v1/containers/{inside.parent}?tree=true")
    _, spent = await inside.outside("GET", f"/v1/containers/{child}")
    assert "cost_of_tree_usd" not in spent
    assert 0 < seen["cost_of_tree_usd"] == spent["cost_usd"]
    async with AsyncClient(inside.url, inside.token) as client:
        told = [await client.container(inside.parent, tree=tree) for tree in (True, False)]
    assert [each.cost_of_tree_usd for each in told] == [Decimal(str(spent["cost_usd"])), UNSET]
    path = f"/v1/containers/{inside.parent}/cancel"
    assert (await inside.outside("POST", path, {"tree": True}))[0] == 202
    await inside.rig.settled()
    for each in (inside.parent, grandchild["id"]):
        assert (await inside.outside("GET", f"/v1/containers/{each}"))[1]["cancel_requested"]
    assert (await inside.outside("GET", f"/v1/jobs/{job}"))[1]["cancel_requested"]
    assert not (await inside.outside("GET", f"/v1/containers/{bystander}"))[1]["cancel_requested"]
    alone = await inside.outside("GET", f"/v1/containers/{bystander}?tree=true")
    assert "cost_of_tree_usd" not in alone[1]


async def test_what_an_ended_container_left_is_cancelled_with_its_tree(inside: Inside) -> None:
    child = await inside.made("/v1/containers", CONTAINER)
    await inside.rig.finish(inside.parent)
    path = f"/v1/containers/{inside.parent}/cancel"
    assert (await inside.outside("POST", path, {}))[0] == 409
    assert (await inside.outside("POST", path, {"tree": True}))[0] == 202
    assert (await inside.outside("GET", f"/v1/containers/{child}"))[1]["cancel_requested"]


async def test_the_output_of_a_child_is_read_and_not_followed(inside: Inside) -> None:
    child = await inside.made("/v1/containers", CONTAINER)
    await inside.rig.start(child, "i-1")
    inside.rig.push_log(child, b"half way\n")
    path = f"/v1/containers/{child}/logs"
    for query in ("", "?follow=false", "?offset=0&follow=0"):
        answer = await inside.answered("GET", path + query)
        assert (answer.status, answer.body) == (200, b"half way\n")
    for query in ("?follow=true", "?follow=1", "?follow=false&follow=true"):
        assert (await inside.ask("GET", path + query))[0] == 403
    own = await inside.ask("GET", f"/v1/containers/{inside.parent}/logs")
    assert own[0] == 404


async def test_the_names_of_secrets_are_not_told_inside(inside: Inside) -> None:
    for project in ("a", "b"):
        status, answer = await inside.ask("GET", f"/v1/projects/{project}/secrets")
        assert (status, "items" in answer) == (403, False)


async def test_a_tree_has_so_many_generations(inside: Inside) -> None:
    parent, statuses = inside.parent, []
    for _ in range(16):
        status, answer = await inside.ask(
            "POST", "/v1/containers", {**CONTAINER, "api": True}, attempt=f"{parent}-1"
        )
        statuses.append(status)
        if status == 201:
            parent = answer["id"]
            await inside.rig.start(parent, "i-1")
    assert statuses == [201] * 15 + [409]


async def test_the_audit_log_says_which_attempt_asked(inside: Inside) -> None:
    await inside.made("/v1/containers", CONTAINER)
    page = inside.rig.store.audit(AuditFilter(), cursor="", limit=10)
    assert (page.items[0].door, page.items[0].address) == ("container", f"{inside.parent}-1")


async def test_no_instance_shuts_out_the_others(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.dispatcher.api.inside.AT_ONCE_MOST", 8)
    await inside.rig.add_instance("i-2")
    own = [inside.ask("GET", "/v1/whoami") for _ in range(8)]
    others = [inside.ask("GET", "/v1/whoami", worker=f"i-{n}") for n in (2, 3, 2, 3)]
    told = [status for status, _ in await asyncio.gather(*own, *others)]
    # Half of them, and the others half of what is left, in turn: who is let in has no attempt.
    assert told == [200] * 4 + [503] * 4 + [401, 401, 401, 503]
    for _ in told:
        await inside.ended.get()
    assert (await inside.ask("GET", "/v1/whoami"))[0] == 200, "all of them have ended"


async def test_what_takes_too_long_counts_until_it_has_ended(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.dispatcher.api.inside.ANSWER_PATIENCE_S", 0.05)
    monkeypatch.setattr("longshore.dispatcher.api.inside.AT_ONCE_MOST", 1)
    with closing(sqlite3.connect(inside.rig.directory / "longshore.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        status, answer = await inside.ask("POST", "/v1/containers", CONTAINER)
        assert (status, answer["detail"]) == (503, "The server took too long: ask again.")
        status, answer = await inside.ask("GET", "/v1/whoami")
        assert (status, answer["detail"]) == (503, "The server is busy: ask again.")
        assert (await inside.ended.get(), inside.ended.empty()) == ("/v1/whoami", True)
    assert await inside.ended.get() == "/v1/containers"
    _, page = await inside.ask("GET", "/v1/containers")
    assert len(page["items"]) == 1, "it was done all the same"


async def test_a_server_that_stops_gives_up_what_takes_too_long(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.dispatcher.api.inside.ANSWER_PATIENCE_S", 0.05)
    inside.services.containers._admission._write_patience_s = 60.0
    with closing(sqlite3.connect(inside.rig.directory / "longshore.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        assert (await inside.ask("POST", "/v1/containers", CONTAINER))[0] == 503
        async with asyncio.timeout(10):
            await inside.door.close()
        assert inside.ended.get_nowait() == "/v1/containers"
