"""What callers are told of each other: nothing, where they share no project."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

import aiohttp
import pytest

from longshore.dispatcher.api.routes.events import without_others
from longshore.dispatcher.config.model import AuthMode
from longshore.dispatcher.cost.budgets import BudgetUse, CostBudget, judge_budget
from longshore.dispatcher.domain.budgets import BudgetScope
from longshore.dispatcher.domain.containers import Reason, WaitReason
from longshore.dispatcher.domain.jobs import JobState
from longshore.dispatcher.domain.messages import Change, SaveAttempt, SaveJob
from longshore.dispatcher.domain.periods import PeriodKind
from longshore.dispatcher.domain.principals import Door, Principal, Role
from longshore.dispatcher.scheduler.system.dry_run_counts import Counts
from longshore.dispatcher.service.dry_run_model import JobPlan, PlannedStep
from longshore.dispatcher.service.telling import told_of_budget
from longshore.dispatcher.service.tokens import NewToken, TokenService
from longshore.dispatcher.service.visibility import (
    shown_container,
    shown_plan,
    shown_reason,
    shown_sentence,
)
from longshore.dispatcher.state.job_registry import JobResult
from tests.api_server import serving
from tests.doors import doors_of
from tests.rigs.api import ApiRig
from tests.samples import ME, make_container
from tests.store_values import attempt as make_attempt

PROJECTS = {"c-mine00000000": "a", "c-theirs000000": "b", "j-theirs000000": "b"}
ANN = Principal(user="ann", role=Role.USER, door=Door.TOKEN, projects=("a",))


def project_of(thing_id: str) -> str:
    return PROJECTS.get(thing_id, "")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("behind c-mine00000000, which is next", "behind c-mine00000000, which is next"),
        (
            "behind c-theirs000000, which is next in line: no room",
            "behind what is another project's, which is next in line: no room",
        ),
        ("it made way for j-theirs000000", "it made way for what is another project's"),
        ("it made way for c-gone00000000", "it made way for what is another project's"),
        ("it made way for revision 2 of its job", "it made way for revision 2 of its job"),
    ],
)
def test_a_sentence_names_what_its_reader_sees(said: str, shown: str) -> None:
    assert shown_sentence(said, ANN, project_of) == shown
    assert shown_sentence(said, ME, project_of) == said


def test_a_reason_loses_the_id_with_the_sentence() -> None:
    reason = WaitReason(code="behind", message="behind c-theirs000000: x", behind="c-theirs000000")
    shown = shown_reason(reason, ANN, project_of)
    assert shown is not None
    assert (shown.code, shown.behind) == ("behind", "")
    assert "theirs" not in shown.message
    assert shown_reason(reason, ME, project_of) is reason


def test_an_attempt_made_way_for_nobody_that_one_knows() -> None:
    reason = Reason(code="evicted", message="it made way for c-theirs000000")
    container = make_container(1)
    container = replace(container, attempts=(make_attempt(container, reason=reason),))
    (attempt,) = shown_container(container, ANN, project_of).attempts
    assert attempt.reason == Reason(
        code="evicted", message="it made way for what is another project's"
    )


async def token_of(tokens: TokenService, project: str) -> dict[str, str]:
    wanted = NewToken(
        name="",
        user=f"user of {project}",
        role=Role.USER,
        projects=(project,),
        default_project="",
        expires_at=None,
    )
    _, text = await tokens.create(wanted, caller=ME)
    return {"Authorization": f"Bearer {text}"}


async def read_until(session: aiohttp.ClientSession, url: str, headers: Any, word: bytes) -> bytes:
    """Return what a subscriber gets until `word` comes."""
    read = b""
    async with session.get(f"{url}/v1/events", headers=headers) as stream, asyncio.timeout(20):
        while word not in read:
            read += await stream.content.readany()
    return read


async def test_events_are_those_of_ones_projects() -> None:
    rig = ApiRig()
    async with rig.served() as services:
        doors = doors_of(services, mode=AuthMode.REQUIRED, now=lambda: rig.now)
        async with serving(services, doors=doors) as (url, _), aiohttp.ClientSession() as session:
            ann, eve = [await token_of(services.tokens, each) for each in ("a", "b")]
            reading = asyncio.create_task(read_until(session, url, ann, b"the-end"))
            await asyncio.sleep(0)
            while not reading.done():
                for headers, name in ((eve, "not-for-ann"), (ann, "the-end")):
                    body = json.dumps({"command": ["true"], "name": name})
                    kind = {"Content-Type": "application/json", **headers}
                    async with session.post(
                        f"{url}/v1/containers", data=body, headers=kind
                    ) as made:
                        assert made.status == 201
                await asyncio.sleep(0.05)
            read = await reading
    assert b"the-end" in read
    assert b"not-for-ann" not in read
    assert b"event: gap" not in read


def budget_step(scope: str, whose: str) -> dict[str, object]:
    budget = CostBudget(
        name="b",
        scope=BudgetScope(scope),
        whose=whose,
        limit_grains=10**15,
        period=PeriodKind.MONTH,
    )
    spent = BudgetUse(spent_grains=6 * 10**14)
    (notice,) = judge_budget(budget, spent, 0.0, None).notices
    return told_of_budget(budget, notice, 0.0).data


async def test_events_of_budgets_are_for_whom_they_concern() -> None:
    rig = ApiRig()
    async with rig.served() as services:
        doors = doors_of(services, mode=AuthMode.REQUIRED, now=lambda: rig.now)
        async with serving(services, doors=doors) as (url, _), aiohttp.ClientSession() as session:
            ann = await token_of(services.tokens, "a")
            reading = asyncio.create_task(read_until(session, url, ann, b"the-end"))
            async with asyncio.timeout(20):
                while not reading.done():
                    for scope, whose, name in (
                        ("project", "b", "not-for-ann"),
                        ("label", "user=user of a", "not-for-ann"),
                        ("user", "user of a", "her-own"),
                        ("project", "a", "the-end"),
                    ):
                        services.events.publish("budget", name, budget_step(scope, whose))
                    await asyncio.sleep(0.05)
            read = await reading
    assert b"her-own" in read
    assert b"not-for-ann" not in read


async def test_why_one_waits_names_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ApiRig()
    async with rig.served() as services:
        doors = doors_of(services, mode=AuthMode.REQUIRED, now=lambda: rig.now)
        async with serving(services, doors=doors) as (url, _), aiohttp.ClientSession() as session:
            ann, eve = [await token_of(services.tokens, each) for each in ("a", "b")]
            ids = []
            for headers, priority in ((eve, 900), (ann, 100)):
                body = json.dumps({"command": ["true"], "cpus": 1, "priority": priority})
                kind = {"Content-Type": "application/json", **headers}
                async with session.post(f"{url}/v1/containers", data=body, headers=kind) as made:
                    ids.append((await made.json())["id"])
            theirs, mine = ids
            reason = WaitReason(
                code="behind", message=f"behind {theirs}, which is next in line", behind=theirs
            )
            # Whatever the pass says.
            monkeypatch.setattr(type(rig.runtime.view), "wait_reason", lambda *_: reason)
            for path in (f"/v1/containers/{mine}", f"/v1/containers/{mine}/explain"):
                async with session.get(f"{url}{path}", headers=ann) as answer:
                    text = await answer.text()
                assert mine in text
                assert theirs not in text, path
                async with session.get(f"{url}{path}", headers=eve) as answer:
                    assert answer.status == 404


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (
            {
                "project": "a",
                "attempts": [{"reason": {"message": "it made way for j-theirs000000"}}],
            },
            {"attempts": [{"reason": {"message": "it made way for what is another project's"}}]},
        ),
        (
            {"reason": {"message": "it made way for c-theirs000000"}, "attempts": []},
            {"reason": {"message": "it made way for what is another project's"}},
        ),
        (
            {
                "waiting": "behind c-theirs000000: x (position 2 of 2)",
                "waiting_for": {"message": "behind c-theirs000000: x", "behind": "c-theirs000000"},
            },
            {
                "waiting": "behind what is another project's: x (position 2 of 2)",
                "waiting_for": {"message": "behind what is another project's: x", "behind": None},
            },
        ),
    ],
)
def test_an_event_names_what_its_reader_sees(data: dict[str, Any], shown: dict[str, Any]) -> None:
    assert without_others(data, ANN, project_of) == {**data, **shown}
    assert without_others(data, ME, project_of) is data


TASK = {"command": ["true"], "cpus": 1}
SYSBATCH = {"type": "sysbatch", "tasks": [TASK]}
RUN = {"parameterized": {"optional": {"X": ""}}, "tasks": [TASK]}
CALLS = {
    "POST /v1/containers": TASK,
    "GET /v1/containers": None,
    "GET /v1/containers/{id}": None,
    "PATCH /v1/containers/{id}": {"priority": 7},
    "POST /v1/containers/{id}/cancel": {},
    "POST /v1/jobs": {"tasks": [TASK]},
    "GET /v1/jobs": None,
    "GET /v1/jobs/{id}": None,
    "PATCH /v1/jobs/{id}": {"priority": 7},
    "PUT /v1/jobs/{id}": SYSBATCH,
    "POST /v1/jobs/{id}/dispatch": {},
    "POST /v1/jobs/{id}/cancel": {},
}
"""Every call that is answered with a container or a job, and its body."""
EXPLAINED = "GET /v1/containers/{id}/explain"
"""It has a test of its own: most of what it says is of now, and not kept."""


async def named(rig: ApiRig, thing_id: str) -> None:
    """Let a thing have a reason, in the store and to stay, that names another's container."""
    store = rig.store
    reason = Reason(code="preempted", message="it made way for c-theirs000000")
    if thing_id.startswith("j-"):
        job = store.job(thing_id)
        assert job is not None
        result = JobResult(state=JobState.FAILED, reason=reason)
        rig.engine.table.jobs.conclude(thing_id, result)
        changes: list[Change] = [SaveJob(job=replace(job, reason=reason))]
    else:
        container = store.container(thing_id)
        assert container is not None
        changes = [SaveAttempt(attempt=make_attempt(container, reason=reason))]
    await asyncio.wrap_future(store.write(changes))


@pytest.mark.parametrize("call", [*CALLS, "the tree", "a list"])
async def test_no_answer_names_nobody_elses(call: str) -> None:
    rig = ApiRig()
    async with rig.served() as services:
        doors = doors_of(services, mode=AuthMode.REQUIRED, now=lambda: rig.now)
        async with serving(services, doors=doors) as (url, _), aiohttp.ClientSession() as session:
            ann = await token_of(services.tokens, "a")

            async def ask(method: str, path: str, body: Any) -> str:
                headers = {**ann, "Idempotency-Key": path} if method == "POST" else ann
                async with session.request(
                    method, url + path, json=body, headers=headers
                ) as answer:
                    text = await answer.text()
                    assert answer.status in (200, 201, 202), text
                    return text

            body: Any
            match call:
                case "the tree":
                    call, body = "POST /v1/containers/{id}/cancel", {"tree": True}
                case "a list":
                    call, body = "POST /v1/containers", [TASK, TASK]
                case _:
                    body = CALLS[call]
            method, path = call.split()
            if path.startswith("/v1/containers"):
                made = await ask("POST", "/v1/containers", body if isinstance(body, list) else TASK)
            elif path.endswith("/dispatch"):
                template = json.loads(await ask("POST", "/v1/jobs", RUN))["id"]
                path = path.replace("{id}", template)
                made = await ask("POST", path, {})
            else:
                made = await ask(
                    "POST", "/v1/jobs", SYSBATCH if method == "PUT" else {"tasks": [TASK]}
                )
            first = json.loads(made)
            thing = first["items"][0]["id"] if "items" in first else first["id"]
            await rig.settled()
            await named(rig, thing)
            text = await ask(method, path.replace("{id}", thing), body)
    assert "it made way for what is another project's" in text
    assert "theirs" not in text


async def test_every_call_that_answers_a_container_or_a_job_is_tried() -> None:
    rig = ApiRig()
    async with (
        rig.served() as services,
        serving(services) as (url, _),
        aiohttp.ClientSession() as session,
        session.get(f"{url}/openapi.json") as answer,
    ):
        paths = (await answer.json())["paths"]
    telling = {
        f"{method.upper()} {path}"
        for path, methods in paths.items()
        for method, operation in methods.items()
        if re.search(
            r"/(Container|Job)(Answer|List)\"|/ExplanationAnswer\"",
            json.dumps(operation["responses"]),
        )
    }
    assert telling == {*CALLS, EXPLAINED}


def test_a_plan_names_nobody_elses() -> None:
    zero = Counts()
    waits = WaitReason(code="behind", message="behind c-theirs000000: x", behind="c-theirs000000")
    steps = tuple(
        PlannedStep(instance_id="i-1", action=action, detail=detail)
        for action, detail in (
            ("preempt", "c-mine00000000-1, c-theirs000000-2 must make way for it"),
            ("wait", "behind c-theirs000000: x"),
        )
    )
    plan = JobPlan(
        counts=zero,
        creates=(),
        least_usd_per_hour=Decimal(0),
        most_usd_per_hour=Decimal(0),
        waiting=(waits,),
        steps=steps,
        steps_left_out=0,
    )
    shown = shown_plan(plan, ANN, project_of)
    assert [each.detail for each in shown.steps] == [
        "c-mine00000000-1, an attempt of another project must make way for it",
        "behind what is another project's: x",
    ]
    assert shown.waiting[0].behind == ""
    assert "theirs" not in shown.waiting[0].message
    assert shown_plan(plan, ME, project_of) is plan


async def test_one_key_is_anothers_in_another_project() -> None:
    rig = ApiRig()
    async with rig.served() as services:
        doors = doors_of(services, mode=AuthMode.REQUIRED, now=lambda: rig.now)
        async with serving(services, doors=doors) as (url, _), aiohttp.ClientSession() as session:
            statuses = []
            for project in ("a", "b"):
                wanted = NewToken(
                    name="",
                    user="ann",
                    role=Role.USER,
                    projects=(project,),
                    default_project="",
                    expires_at=None,
                )
                _, text = await services.tokens.create(wanted, caller=ME)
                headers = {"Authorization": f"Bearer {text}", "Idempotency-Key": "k"}
                async with session.post(
                    f"{url}/v1/containers", json={"command": ["true"]}, headers=headers
                ) as made:
                    statuses.append((made.status, (await made.json()).get("project")))
    assert statuses == [(201, "a"), (422, None)]
