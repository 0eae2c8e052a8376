"""Each rule of a policy x each way in: what is asked for too much is refused, by every one.

A route that takes something in, or changes it, and is no way of the table and not known to be
harmless, fails: so a new endpoint has its row before it is there.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from longshore.dispatcher.config.model import AuthConfig, AuthMode
from longshore.dispatcher.domain.containers import (
    PRIORITY_DEFAULT,
    ContainerSpec,
    Preemptible,
)
from longshore.dispatcher.domain.jobs import JobTask, JobTypeSpec, Parameters
from longshore.dispatcher.domain.policies import (
    Asked,
    Policies,
    Policy,
    PolicyRequest,
)
from longshore.dispatcher.domain.principals import Door, Principal, Role
from longshore.dispatcher.service.contracts import NewJob
from longshore.dispatcher.service.services import Services
from longshore.dispatcher.service.tokens import NewToken
from longshore.drivers.interface import InstanceType
from tests.api_server import serving
from tests.doors import doors_of
from tests.rigs.api import ApiRig
from tests.samples import ME, make_container, make_type

ANN = Principal(user="ann", role=Role.USER, door=Door.TOKEN, projects=("a",))
USERS = frozenset({Role.USER, Role.LEAD})
GOOD: dict[str, Any] = {
    "command": ["true"],
    "image": "ours/tool",
    "cpus": 1,
    "memory": "16MiB",
    "time_limit_s": 60,
    "labels": {"ours-x": "1"},
    "constraints": {
        "preemptible": "required",
        "instance_types": ["small"],
        "max_price_per_hour": 0.2,
    },
}
WITHOUT = {**GOOD, "constraints": {}}
SPEC_WAYS = ("container", "list", "job", "array", "plan", "update", "periodic", "dispatch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule, what breaks it, and how its problem is told."""

    name: str
    policy: Policy
    bad: dict[str, Any]
    path: str
    said: str
    #: The ways that this rule is for.
    ways: tuple[str, ...] = SPEC_WAYS


def policy(**rules: Any) -> Policy:
    return Policy(name="strict", roles=USERS, **rules)


RULES = (
    Rule(
        name="time_limit",
        policy=policy(time_limit_max_s=100.0),
        bad={**GOOD, "time_limit_s": 200},
        path="time_limit_s",
        said="is 200: at most 100 are allowed (policy strict)",
    ),
    Rule(
        name="priority",
        policy=policy(priority_max=600),
        bad=GOOD,
        path="priority",
        said="is 700: policy strict allows 600 at most",
        ways=(*SPEC_WAYS, "priority of a container", "priority of a job"),
    ),
    Rule(
        name="price",
        policy=policy(price_max_usd_per_hour=Decimal("0.5")),
        bad={**GOOD, "constraints": {"max_price_per_hour": 0.6}},
        path="constraints.max_price_per_hour",
        said="is 0.6: at most 0.5 is allowed (policy strict)",
    ),
    Rule(
        name="array_size",
        policy=policy(array_size_max=2),
        bad=GOOD,
        path="array",
        said="has 3 elements: at most 2 are allowed (policy strict)",
        ways=("array",),
    ),
    Rule(
        name="cpus",
        policy=policy(cpu_millis_max=1500),
        bad={**WITHOUT, "cpus": 2},
        path="cpus",
        said="are 2: at most 1.5 are allowed (policy strict)",
    ),
    Rule(
        name="gpus",
        policy=policy(gpus_max=0),
        bad={**WITHOUT, "gpus": 1},
        path="gpus",
        said="are 1: at most 0 are allowed (policy strict)",
    ),
    Rule(
        name="labels",
        policy=policy(label_prefixes=("ours-", "all-")),
        bad={**GOOD, "labels": {"theirs": "1"}},
        path="labels.theirs",
        said="begins with none of ours-, all- (policy strict)",
    ),
    Rule(
        name="image",
        policy=policy(image_prefixes=("ours/",)),
        bad={**GOOD, "image": "theirs/tool"},
        path="image",
        said="begins with none of ours/ (policy strict)",
    ),
    Rule(
        name="preemptible",
        policy=policy(preemptible_only=True),
        bad={**WITHOUT, "constraints": {"preemptible": "forbidden"}},
        path="constraints.preemptible",
        said="is forbidden: only instances that the cloud can take back are allowed"
        " (policy strict)",
    ),
    Rule(
        name="instance_types",
        policy=policy(instance_types=("huge", "small")),
        bad={**WITHOUT, "constraints": {"instance_types": ["large"]}},
        path="constraints.instance_types",
        said="has large: huge, small are allowed (policy strict)",
    ),
)
WAYS = (*SPEC_WAYS, "priority of a container", "priority of a job")
HARMLESS = {
    "POST /v1/cost/reconcile",
    "POST /v1/containers/{id}/cancel",
    "POST /v1/jobs/{id}/cancel",
    "PUT /v1/instances/{id}/idle-behavior",
    "POST /v1/instances/{id}/kill",
    "POST /v1/instances/{id}/strays",
    "PUT /v1/projects/{project}/secrets/{name}",
    "DELETE /v1/projects/{project}/secrets/{name}",
    "POST /v1/secret-keys/rotate",
    "POST /v1/tokens",
    "POST /v1/tokens/{id}/revoke",
}
OPEN: dict[str, Any] = {"command": ["true"], "cpus": 1, "memory": "16MiB"}
KEPT_WAYS = tuple(way for way in SPEC_WAYS if way != "plan")
"""The ways after which something is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """A rule, and what it fills in for who left it open."""

    name: str
    policy: Policy
    #: Returns what it fills in, of a specification and the priority that it is kept with.
    got: Callable[[ContainerSpec, int], Any]
    filled: Any


FILLING = (
    Filling(
        name="time_limit_default",
        policy=policy(time_limit_default_s=50.0, time_limit_max_s=100.0),
        got=lambda spec, _: spec.time_limit_s,
        filled=50,
    ),
    Filling(
        name="time_limit",
        policy=policy(time_limit_max_s=100.0),
        got=lambda spec, _: spec.time_limit_s,
        filled=100,
    ),
    Filling(
        name="priority",
        policy=policy(priority_max=400),
        got=lambda _, priority: priority,
        filled=400,
    ),
    Filling(
        name="price",
        policy=policy(price_max_usd_per_hour=Decimal("0.5")),
        got=lambda spec, _: spec.constraints.max_price_usd_per_hour,
        filled=Decimal("0.5"),
    ),
    Filling(
        name="preemptible",
        policy=policy(preemptible_only=True),
        got=lambda spec, _: spec.constraints.preemptible,
        filled=Preemptible.REQUIRED,
    ),
    Filling(
        name="instance_types",
        policy=policy(instance_types=("huge", "small")),
        got=lambda spec, _: spec.constraints.instance_types,
        filled=("huge", "small"),
    ),
)
ROUTES = {
    "container": "POST /v1/containers",
    "list": "POST /v1/containers",
    "job": "POST /v1/jobs",
    "array": "POST /v1/jobs",
    "periodic": "POST /v1/jobs",
    "plan": "POST /v1/jobs/plan",
    "update": "PUT /v1/jobs/{id}",
    "dispatch": "POST /v1/jobs/{id}/dispatch",
    "priority of a container": "PATCH /v1/containers/{id}",
    "priority of a job": "PATCH /v1/jobs/{id}",
}


class Ways:
    """Every way in, as ann, who has a user's token."""

    def __init__(
        self, url: str, services: Services, session: aiohttp.ClientSession, token: str
    ) -> None:
        self._url = url
        self.services = services
        self._session = session
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    async def send(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        async with self._session.request(
            method, self._url + path, data=json.dumps(body), headers=self._headers
        ) as answer:
            return answer.status, await answer.json(content_type=None)

    def under(self, policies: Policies) -> None:
        """Let these policies hold from now on."""
        self.services.containers._policies = policies
        self.services.jobs._policies = policies

    async def made(self, path: str, body: Any) -> str:
        status, answer = await self.send("POST", path, body)
        assert status == 201, answer
        return str(answer["id"])

    async def kept(self, answer: Any) -> list[tuple[ContainerSpec, int]]:
        """Return what is kept of the last thing that an answer has, with its priority."""
        made = answer["items"][-1]["id"] if "items" in answer else answer["id"]
        if made.startswith("c-"):
            container = await self.services.containers.container(made, caller=ME)
            return [(container.spec, container.priority)]
        job = await self.services.jobs.job(made, caller=ME)
        return [(task.spec, job.priority) for task in job.tasks]

    async def go(
        self, way: str, spec: dict[str, Any], priority: int | None, policies: Policies
    ) -> tuple[int, Any, str]:
        """Ask for a specification by a way; return what came of it, and its path in the request."""
        whole = {} if priority is None else {"priority": priority}
        self.under(Policies())
        method, path, body, place = await self._request(way, spec, whole)
        self.under(policies)
        return *await self.send(method, path, body), place

    async def _request(
        self, way: str, spec: dict[str, Any], whole: dict[str, Any]
    ) -> tuple[str, str, Any, str]:
        """Return what is sent for a way, with where the specification stands in it."""
        job: dict[str, Any] = {"tasks": [spec], **whole}
        sysbatch = {"type": "sysbatch", "tasks": [WITHOUT]}
        template = {**job, "parameterized": {"optional": {"X": ""}}}
        found: tuple[str, str, Any, str]
        match way:
            case "container":
                found = "POST", "/v1/containers", {**spec, **whole}, ""
            case "list":
                found = "POST", "/v1/containers", [GOOD, {**spec, **whole}], "[1]."
            case "job":
                found = "POST", "/v1/jobs", job, "tasks[0]."
            case "array":
                tasks = [{**spec, "array": 3}]
                found = "POST", "/v1/jobs", {**job, "tasks": tasks}, "tasks[0]."
            case "periodic":
                body = {**job, "periodic": {"cron": "@daily"}}
                found = "POST", "/v1/jobs", body, "tasks[0]."
            case "plan":
                found = "POST", "/v1/jobs/plan", job, "tasks[0]."
            case "update":
                job_id = await self.made("/v1/jobs", sysbatch)
                body = {**job, "type": "sysbatch"}
                found = "PUT", f"/v1/jobs/{job_id}", body, "tasks[0]."
            case "dispatch":
                job_id = await self.made("/v1/jobs", template)
                found = "POST", f"/v1/jobs/{job_id}/dispatch", {}, "tasks[0]."
            case "priority of a container":
                container_id = await self.made("/v1/containers", spec)
                found = "PATCH", f"/v1/containers/{container_id}", whole, ""
            case _:
                job_id = await self.made("/v1/jobs", {"tasks": [spec]})
                found = "PATCH", f"/v1/jobs/{job_id}", whole, ""
        return found


def types() -> list[InstanceType]:
    gpu = make_type(2, name="huge", price="0.45")
    return [
        make_type(1, name="small", price="0.1", preemptible=True),
        make_type(2, name="large", price="0.4"),
        replace(gpu, resources=replace(gpu.resources, gpus=1)),
    ]


@pytest_asyncio.fixture
async def ways() -> AsyncIterator[Ways]:
    rig = ApiRig(*types())
    async with rig.served() as services:
        doors = doors_of(
            services,
            mode=AuthMode.REQUIRED,
            config=AuthConfig(requests_per_s=1000, burst=10_000),
            now=lambda: rig.now,
        )
        wanted = NewToken(
            name="",
            user="ann",
            role=Role.USER,
            projects=("a",),
            default_project="",
            expires_at=None,
        )
        _, token = await services.tokens.create(wanted, caller=ME)
        async with serving(services, doors=doors) as (url, _), aiohttp.ClientSession() as session:
            yield Ways(url, services, session, token)


@pytest.mark.parametrize("rule", RULES, ids=lambda each: each.name)
async def test_each_rule_holds_for_each_way_in(ways: Ways, rule: Rule) -> None:
    policies = Policies(rules=(rule.policy,))
    for way in WAYS:
        priority = 700 if rule.name == "priority" or way.startswith("priority") else None
        status, answer, path = await ways.go(way, rule.bad, priority, policies)
        if way not in rule.ways:
            assert status in (200, 201), (way, answer)
            continue
        place = rule.path if rule.path != "priority" or way == "list" else "priority"
        whole = rule.path == "priority" and way != "list"
        where = place if whole else f"{path}{place}"
        said = {"path": where, "message": rule.said}
        assert status == 400, (way, answer)
        assert said in answer["errors"], (way, answer)


async def test_what_keeps_every_rule_is_taken_in_by_each_way(ways: Ways) -> None:
    policies = Policies(rules=tuple(each.policy for each in RULES if each.name != "array_size"))
    for way in WAYS:
        status, answer, _ = await ways.go(way, GOOD, 600, policies)
        assert status in (200, 201), (way, answer)


@pytest.mark.parametrize("rule", FILLING, ids=lambda each: each.name)
async def test_what_is_left_open_is_filled_in_by_each_way(ways: Ways, rule: Filling) -> None:
    got = {}
    for way in KEPT_WAYS:
        status, answer, _ = await ways.go(way, OPEN, None, Policies(rules=(rule.policy,)))
        assert status in (200, 201), (way, answer)
        got[way] = [rule.got(*each) for each in await ways.kept(answer)]
    assert got == {way: [rule.filled] for way in got}


async def test_a_lead_runs_the_template_of_an_admin_within_its_own_policies(ways: Ways) -> None:
    ways.under(Policies(rules=(policy(time_limit_max_s=100.0, priority_max=400),)))
    jobs = ways.services.jobs
    parameters = JobTypeSpec(parameters=Parameters())
    spec = make_container(1).spec
    template = await jobs.submit(
        NewJob(
            name="",
            priority=PRIORITY_DEFAULT,
            project="a",
            labels=(),
            tasks=(JobTask(name="t", spec=spec),),
            terms=parameters,
        ),
        caller=ME,
        idempotency_key="",
        fingerprint="",
    )
    assert (template.priority, template.tasks[0].spec.time_limit_s) == (PRIORITY_DEFAULT, None)
    lead = replace(ANN, user="lea", role=Role.LEAD)
    run = await jobs.dispatch(template.id, {}, caller=lead, idempotency_key="", fingerprint="")
    assert (run.priority, run.tasks[0].spec.time_limit_s) == (400, 100)


async def test_every_route_that_changes_something_is_a_way_or_harmless(ways: Ways) -> None:
    async with ways._session.get(f"{ways._url}/openapi.json") as answer:
        document = await answer.json()
    changing = {
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method in methods
        if method != "get"
    }
    assert changing == {*ROUTES.values(), *HARMLESS}
    assert set(ROUTES) == set(WAYS)


def asked(**changes: Any) -> Asked:
    return Asked(path="", spec=replace(make_container(1).spec, **changes))


def governed(*policies: Policy, spec: Asked, priority: int = 500) -> Any:
    return Policies(rules=policies).governed([spec], caller=ANN, project="a", priority=priority)


def test_what_is_left_open_is_filled_in() -> None:
    found = governed(
        policy(time_limit_default_s=50.0, time_limit_max_s=100.0),
        policy(
            preemptible_only=True,
            price_max_usd_per_hour=Decimal(1),
            instance_types=("a", "b"),
        ),
        policy(price_max_usd_per_hour=Decimal(2), instance_types=("b", "c"), priority_max=100),
        spec=asked(),
    )
    (spec,) = found.specs
    assert found.problems == ()
    assert found.priority == 100
    assert spec.time_limit_s == 50
    assert spec.constraints.preemptible is Preemptible.REQUIRED
    assert spec.constraints.max_price_usd_per_hour == 1
    assert spec.constraints.instance_types == ("b",)


def test_a_daemon_gets_no_time_limit() -> None:
    found = governed(
        policy(time_limit_max_s=100.0), spec=replace(asked(time_limit_s=None), is_timed=False)
    )
    assert found.specs[0].time_limit_s is None
    assert not found.problems


def test_lists_of_types_that_have_nothing_in_common_allow_nothing() -> None:
    found = governed(policy(instance_types=("a",)), policy(instance_types=("b",)), spec=asked())
    assert [said for _, said in found.problems] == [
        "has none that every policy allows: a are allowed (policy strict)",
        "has none that every policy allows: b are allowed (policy strict)",
    ]


@pytest.mark.parametrize(
    ("roles", "projects", "role", "project", "holds"),
    [
        (USERS, (), Role.USER, "x", True),
        (USERS, (), Role.ADMIN, "x", False),
        (frozenset(Role), (), Role.ADMIN, "x", True),
        (USERS, ("teach-*",), Role.LEAD, "teach-1", True),
        (USERS, ("teach-*",), Role.LEAD, "research", False),
    ],
)
def test_a_policy_is_for_some(
    roles: frozenset[Role], projects: tuple[str, ...], role: Role, project: str, holds: bool
) -> None:
    found = Policy(name="p", roles=roles, projects=projects).is_for(role, project)
    assert found is holds


async def test_a_policy_of_ones_own_refuses_in_its_own_words(ways: Ways) -> None:
    heard: list[PolicyRequest] = []

    def no_sleep(request: PolicyRequest) -> Iterable[str]:
        heard.append(request)
        if "sleep" in request.spec.command:
            yield "sleeping is done at home"

    policies = Policies(own=(("no_sleep", no_sleep),))
    for way in SPEC_WAYS:
        status, answer, path = await ways.go(
            way, {**GOOD, "command": ["sleep", "9"]}, None, policies
        )
        assert status == 400, way
        assert answer["errors"] == [
            {
                "path": path.rstrip(".") if way != "container" else "",
                "message": "sleeping is done at home (policy no_sleep)",
            }
        ], way
    assert {(each.caller.user, each.project) for each in heard} == {("ann", "a")}


async def test_nothing_is_taken_in_that_a_broken_policy_did_not_pass(ways: Ways) -> None:
    def broken(_request: PolicyRequest) -> Iterable[str]:
        raise RuntimeError("it is broken")

    for way in SPEC_WAYS:
        status, _, _ = await ways.go(way, GOOD, None, Policies(own=(("broken", broken),)))
        assert status == 500, way


async def test_a_change_that_is_refused_changes_nothing(ways: Ways) -> None:
    job_id = await ways.made("/v1/jobs", {"tasks": [GOOD]})
    ways.under(Policies(rules=(policy(priority_max=600),)))
    status, _ = await ways.send("PATCH", f"/v1/jobs/{job_id}", {"held": True, "priority": 700})
    assert status == 400
    async with ways._session.get(f"{ways._url}/v1/jobs/{job_id}", headers=ways._headers) as answer:
        assert (await answer.json())["held"] is False
