"""Updating and planning jobs over real HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest

from longshore.dispatcher.api.render.jobs import plan_answer
from longshore.dispatcher.api.render.values import encode
from longshore.dispatcher.cost.estimate import Unknown
from longshore.dispatcher.domain.containers import WaitReason
from longshore.dispatcher.scheduler.system.dry_run_counts import Counts
from longshore.dispatcher.service.dry_run_model import JobPlan, PlannedCreate, PlannedStep
from tests.api_server import Client, connected
from tests.job_bodies import ONE, task

SYSTEM: dict[str, Any] = {
    "name": "shipper",
    "type": "system",
    "project": "vision",
    "update": {"max_parallel": 5},
    "tasks": [ONE],
}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with connected() as client:
        yield client


async def put(client: Client, job_id: str, body: object) -> tuple[int, Any]:
    return await client.call("PUT", f"/v1/jobs/{job_id}", json=body)


# ---- updates -------------------------------------------------------------------------------------


async def test_a_put_is_the_next_revision_and_the_same_again_is_none(client: Client) -> None:
    await client.post("/v1/jobs", SYSTEM)
    same = await put(client, "j-00000001", SYSTEM)
    assert (same[0], same[1]["revision"]) == (200, 1)
    newer = {**SYSTEM, "name": "ship", "priority": 900, "on_paused": True, "labels": {"a": "b"}}
    for _ in range(2):
        status, answer = await put(client, "j-00000001", newer)
        assert (status, answer["revision"], answer["name"]) == (200, 2, "ship")
        found = [answer[key] for key in ("priority", "on_paused", "labels")]
        assert found == [900, True, {"a": "b"}]
    # What is left out gets the default, but a job stays in its project.
    bare = {"type": "system", "tasks": [{"command": ["false"]}]}
    status, answer = await put(client, "j-00000001", bare)
    assert (status, answer["revision"], answer["priority"]) == (200, 3, 500)
    assert (answer["project"], answer["update"]["max_parallel"]) == ("vision", 1)


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        ({"project": "web"}, "project", 'is "vision" and stays so: leave it out'),
        ({"tasks": [task("a")]}, "tasks[0].name", "is none in this job, and stays so"),
        ({"size": 3}, "size", "is for elastic jobs: leave it out, or say type: elastic"),
        ({"tasks": []}, "tasks", None),
    ],
)
async def test_what_no_revision_may_say_is_told(
    client: Client, change: dict[str, Any], path: str, message: str | None
) -> None:
    await client.post("/v1/jobs", SYSTEM)
    for answer in (
        await put(client, "j-00000001", {**SYSTEM, **change}),
        await client.post("/v1/jobs/plan?job=j-00000001", {**SYSTEM, **change}),
    ):
        assert answer[0] == 400
        [error] = answer[1]["errors"]
        assert error["path"] == path
        assert message in {None, error["message"]}
    assert (await client.call("GET", "/v1/jobs/j-00000001"))[1]["revision"] == 1


ONLY = "only system and sysbatch jobs are updated; submit another"


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            {"type": "batch"},
            {"type": "batch"},
            f"job j-00000001 is of type batch: {ONLY}",
        ),
        ({"type": "elastic"}, {"type": "system"}, f"job j-00000001 is of type elastic: {ONLY}"),
        (
            {"type": "system"},
            {"type": "sysbatch"},
            "job j-00000001 is of type system, not sysbatch: submit another",
        ),
        (
            {"type": "sysbatch", "periodic": {"cron": "0 0 * * *"}},
            {"type": "sysbatch"},
            "job j-00000001 is periodic or parameterized: cancel it and submit another",
        ),
        (
            {"type": "sysbatch"},
            {"type": "sysbatch", "parameterized": {"required": ["a"]}},
            "job j-00000001 does not become periodic or parameterized: submit another",
        ),
    ],
)
async def test_what_a_job_never_becomes_is_a_conflict(
    client: Client, first: dict[str, Any], second: dict[str, Any], message: str
) -> None:
    await client.post("/v1/jobs", {"tasks": [ONE], **first})
    status, answer = await put(client, "j-00000001", {"tasks": [ONE], **second})
    assert (status, answer["detail"]) == (409, message)
    status, answer = await client.post("/v1/jobs/plan?job=j-00000001", {"tasks": [ONE], **second})
    assert (status, answer["detail"]) == (409, message)


async def test_what_has_ended_is_not_updated(client: Client) -> None:
    await client.post("/v1/jobs", SYSTEM)
    await client.post("/v1/jobs/j-00000001/cancel", {})
    # Its end is committed behind the answer.
    for _ in range(3000):
        if (await client.call("GET", "/v1/jobs/j-00000001"))[1]["state"] == "cancelled":
            break
        await asyncio.sleep(0.01)
    status, answer = await put(client, "j-00000001", {**SYSTEM, "priority": 3})
    assert (status, answer["detail"]) == (
        409,
        "job j-00000001 has ended: it is cancelled; submit another",
    )


# ---- plans ---------------------------------------------------------------------------------------


def test_a_plan_is_told_whole() -> None:
    plan = JobPlan(
        counts=Counts(
            place=1,
            update=2,
            in_place=3,
            stop=4,
            migrate=5,
            ignore=6,
            lost=7,
            preempt=8,
            blocked=9,
            later=10,
        ),
        creates=(PlannedCreate(type_name="small", number=3, price_usd_per_hour=Decimal("0.34")),),
        least_usd_per_hour=Decimal(0),
        most_usd_per_hour=Decimal("1.02"),
        waiting=(WaitReason(code="quota", message="It waits."),),
        steps=(PlannedStep(instance_id="i-1", action="place", detail="There is room."),),
        steps_left_out=41,
        of_run=True,
    )
    assert json.loads(encode(plan_answer(plan, None, None, Unknown(why="nobody knows")))) == {
        "changes": {
            "place": 1,
            "update": 2,
            "in_place": 3,
            "stop": 4,
            "migrate": 5,
            "ignore": 6,
            "lost": 7,
            "preempt": 8,
            "blocked": 9,
            "later": 10,
        },
        "creates": [{"instance_type": "small", "number": 3, "price_per_hour": 0.34}],
        "price_change_per_hour": {"least": 0, "most": 1.02},
        "waiting": [
            {
                "code": "quota",
                "message": "It waits.",
                "limit": None,
                "behind": None,
                "behind_code": None,
                "until": None,
                "never": False,
            }
        ],
        "steps": [{"instance": "i-1", "action": "place", "detail": "There is room."}],
        "steps_left_out": 41,
        "of_run": True,
        "next_launch": None,
        "cost": {"p50_usd": None, "p90_usd": None, "at_most_usd": None, "basis": "nobody knows"},
    }


async def test_a_plan_changes_nothing(client: Client) -> None:
    await client.rig.add_instance("i-1")
    status, answer = await client.post("/v1/jobs/plan", SYSTEM)
    assert (status, answer["changes"]["place"]) == (200, 1)
    assert (await client.call("GET", "/v1/jobs"))[1]["items"] == []


async def test_an_update_is_planned_for_the_job_that_is_named(client: Client) -> None:
    rig = client.rig
    await client.post("/v1/jobs", SYSTEM)
    await rig.add_instance("i-1")
    await rig.start(rig.containers()[0].id, "i-1")
    body = {"type": "system", "tasks": [{**ONE, "command": ["false"]}]}
    _, of_it = await client.post("/v1/jobs/plan?job=j-00000001", body)
    _, of_another = await client.post("/v1/jobs/plan", body)
    planned = [
        (each["changes"]["update"], each["changes"]["place"]) for each in (of_it, of_another)
    ]
    assert planned == [(1, 0), (0, 1)]
    assert (await client.call("GET", "/v1/jobs/j-00000001"))[1]["revision"] == 1


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/jobs/plan?job=j-9", 404),
        ("POST", "/v1/jobs/plan?jbo=j-9", 400),
        ("POST", "/v1/jobs/plan?job=%00", 400),
        ("PUT", "/v1/jobs/j-9", 404),
        ("PUT", "/v1/jobs/plan", 404),
        ("PUT", "/v1/jobs", 405),
        ("GET", "/v1/jobs/plan", 404),
        ("GET", "/v1/jobs/j-9/dispatch", 405),
    ],
)
async def test_what_there_is_not_is_answered_so(
    client: Client, method: str, path: str, status: int
) -> None:
    assert (await client.call(method, path, json=SYSTEM))[0] == status
