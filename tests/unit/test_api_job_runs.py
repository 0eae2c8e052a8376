"""Jobs of the newer types over real HTTP: as they are answered, and the runs of templates."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from longshore.dispatcher.api.render.containers import container_answer
from longshore.dispatcher.api.render.values import encode
from longshore.dispatcher.api.validate.limits import ApiLimits
from longshore.dispatcher.domain.containers import Attempt
from tests.api_server import Client, connected
from tests.job_bodies import ONE, task
from tests.samples import make_container

SYSTEM: dict[str, Any] = {
    "name": "shipper",
    "type": "system",
    "project": "vision",
    "update": {"max_parallel": 5},
    "tasks": [ONE],
}
PARAMETERIZED: dict[str, Any] = {
    "name": "resize",
    "priority": 700,
    "project": "vision",
    "labels": {"team": "a"},
    "parameterized": {"required": ["input"], "optional": {"Width": "640"}},
    "tasks": [
        task("split", env={"A": "1"}),
        task("each", "split", array=3),
    ],
}
OF_OTHER_TYPES = {
    "batch": {"periodic", "parameterized", "launched_for"},
    "system": {"update", "late_joiners", "on_paused", "ignore_system"},
    "sysbatch": {
        *("update", "late_joiners", "on_paused", "ignore_system"),
        *("periodic", "parameterized", "launched_for"),
    },
    "elastic": {"mode", "size", "runtime_s", "scale_up"},
}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with connected() as client:
        yield client


# ---- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", OF_OTHER_TYPES)
async def test_a_job_says_what_is_for_its_type_only(client: Client, kind: str) -> None:
    _, answer = await client.post("/v1/jobs", {"type": kind, "tasks": [ONE]})
    every = set().union(*OF_OTHER_TYPES.values())
    assert answer.keys() & every == OF_OTHER_TYPES[kind]
    assert answer["type"] == kind
    assert answer["revision"] == (1 if "update" in OF_OTHER_TYPES[kind] else None)
    _, listed = await client.call("GET", "/v1/jobs")
    tasks = answer.pop("tasks")
    in_lists = {"trouble": None} if "update" in OF_OTHER_TYPES[kind] else {}
    assert listed["items"] == [answer | in_lists]
    [only] = tasks
    in_elastic = {"role": "essential", "startup_order": 0} if kind == "elastic" else {}
    assert {key: only[key] for key in ("role", "startup_order") if key in only} == in_elastic


async def test_a_system_job_is_answered_as_it_was_submitted(client: Client) -> None:
    status, answer = await client.post("/v1/jobs", {**SYSTEM, "late_joiners": False})
    assert status == 201
    assert answer["update"] == {"max_parallel": 5, "stagger_s": 30.0}
    assert [answer[key] for key in ("late_joiners", "on_paused", "ignore_system")] == [False] * 3
    assert answer["counts"]["total"] == 0
    assert [(one["size"], one["counts"]["total"]) for one in answer["tasks"]] == [(0, 0)]


def test_a_container_says_for_which_instance_it_is_and_at_which_revision_it_runs() -> None:
    attempt = Attempt(
        id="c-1-1",
        container_id="c-1",
        number=1,
        instance_id="i-7",
        instance_type="small",
        price_usd_per_hour=Decimal("0.34"),
        created_at=0.0,
        revision=3,
    )
    own = replace(make_container(1), pinned_to="i-7", attempts=(attempt,))
    answer = json.loads(encode(container_answer(own)))
    assert (answer["for_instance"], answer["attempts"][0]["revision"]) == ("i-7", 3)
    other = replace(make_container(1), attempts=(replace(attempt, revision=0),))
    answer = json.loads(encode(container_answer(other)))
    assert "for_instance" not in answer
    assert "revision" not in answer["attempts"][0]


async def test_pages_of_jobs_with_many_parameters_are_shorter() -> None:
    async with connected(limits=ApiLimits(page_bytes=130_000)) as client:
        large = {"tasks": [ONE], "parameterized": {"optional": {"a": "x" * 60_000}}}
        for _ in range(3):
            await client.post("/v1/jobs", large)
        _, answer = await client.call("GET", "/v1/jobs")
        assert len(answer["items"]) == 2


async def test_an_elastic_job_says_how_it_grows(client: Client) -> None:
    tasks = [task("a"), task("b", array=3, role="elastic", startup_order=7)]
    body = {"type": "elastic", "mode": "rigid", "size": 2, "scale_up": True, "tasks": tasks}
    _, answer = await client.post("/v1/jobs", body)
    found = (answer["mode"], answer["size"], answer["runtime_s"], answer["scale_up"])
    assert found == ("rigid", 2, None, True)
    assert [(one["role"], one["startup_order"]) for one in answer["tasks"]] == [
        ("essential", 0),
        ("elastic", 7),
    ]
    assert answer["counts"]["queued"] == 4


async def test_a_periodic_job_has_no_containers(client: Client) -> None:
    periodic = {"cron": "0 6 * * *", "time_zone": "Europe/Berlin", "overlap": "forbid"}
    _, answer = await client.post(
        "/v1/jobs", {"periodic": periodic, "tasks": [{**ONE, "array": 9}]}
    )
    assert answer["periodic"] == {**periodic, "cron": ["0 6 * * *"]}
    assert (answer["parameterized"], answer["launched_for"], answer["parent"]) == (None, None, "")
    assert [(one["size"], one["counts"]["total"]) for one in answer["tasks"]] == [(9, 0)]
    assert (await client.call("GET", "/v1/containers"))[1]["items"] == []


async def test_a_periodic_job_says_when_it_is_launched_next_where_it_is_looked_at(
    client: Client,
) -> None:
    # The tests' clock stands at 2023-11-14T22:13:20Z.
    periodic = {"cron": ["0 6 * * *", "30 * * * *"], "time_zone": "Europe/Berlin"}
    _, made = await client.post("/v1/jobs", {"periodic": periodic, "tasks": [ONE]})
    path = f"/v1/jobs/{made['id']}"
    assert made["next_launch"] == "2023-11-14T22:30:00.000Z"
    assert (await client.call("GET", path))[1]["next_launch"] == made["next_launch"]
    await client.call("PATCH", path, json={"held": True})
    assert (await client.call("GET", path))[1]["next_launch"] is None
    await client.call("PATCH", path, json={"held": False})
    await client.post(f"{path}/cancel", {})
    assert (await client.call("GET", path))[1]["next_launch"] is None
    _, other = await client.post("/v1/jobs", {"tasks": [ONE]})
    answers = [
        *(await client.call("GET", "/v1/jobs"))[1]["items"],
        (await client.call("GET", f"/v1/jobs/{other['id']}"))[1],
    ]
    assert not any("next_launch" in each for each in answers)


# ---- runs ----------------------------------------------------------------------------------------


async def test_a_dispatched_job_is_a_run_of_its_own(client: Client) -> None:
    await client.post("/v1/containers", {**ONE, "project": "vision"})
    _, other = await client.post("/v1/jobs", {"project": "vision", "tasks": [task("x")]})
    after = ("split", "c-00000001", f"{other['id']}/x")
    tasks = [PARAMETERIZED["tasks"][0], task("each", *after, array=3)]
    _, made = await client.post("/v1/jobs", {**PARAMETERIZED, "tasks": tasks})
    status, run = await client.post(
        f"/v1/jobs/{made['id']}/dispatch", {"parameters": {"input": "a b\n", "Width": ""}}
    )
    assert (status, run["parent"]) == (201, made["id"])
    for key in ("name", "priority", "project", "labels"):
        assert run[key] == PARAMETERIZED[key]
    assert (run["periodic"], run["parameterized"], run["counts"]["queued"]) == (None, None, 4)
    success = {"on": "success", "each": False}
    assert run["tasks"][1]["after"] == [{"of": each, **success} for each in after]
    _, listed = await client.call("GET", f"/v1/containers?job={run['id']}&task=split")
    [split] = listed["items"]
    given = {"LONGSHORE_PARAMETER_INPUT": "a b\n", "LONGSHORE_PARAMETER_WIDTH": ""}
    assert split["env"] == {"A": "1", **given}
    _, listed = await client.call("GET", f"/v1/containers?job={run['id']}&task=each")
    assert [one["env"] for one in listed["items"]] == [given] * 3
    assert listed["items"][0]["after"][0]["of"] == f"{run['id']}/split"


async def test_what_may_be_left_out_has_a_value_then(client: Client) -> None:
    await client.post("/v1/jobs", PARAMETERIZED)
    _, run = await client.post("/v1/jobs/j-00000001/dispatch", {"parameters": {"input": "x"}})
    _, listed = await client.call("GET", f"/v1/containers?job={run['id']}&task=split")
    assert listed["items"][0]["env"]["LONGSHORE_PARAMETER_WIDTH"] == "640"


async def test_runs_are_found_by_their_parent(client: Client) -> None:
    for _ in range(2):
        await client.post("/v1/jobs", PARAMETERIZED)
    for number in (1, 2, 1):
        await client.post(f"/v1/jobs/j-0000000{number}/dispatch", {"parameters": {"input": "x"}})
    _, answer = await client.call("GET", "/v1/jobs?parent=j-00000001")
    assert [one["id"] for one in answer["items"]] == ["j-00000013", "j-00000003"]
    assert (await client.call("GET", "/v1/jobs?parent=j-9"))[1]["items"] == []


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        (
            {},
            {"parameters.input": "is missing: the job cannot run without it"},
        ),
        (
            {"parameters": {"Input": "x", "\0": "", "Width": "\0"}},
            {
                "parameters.input": "is missing: the job cannot run without it",
                "parameters.Input": 'is not a parameter of this job: did you mean "input"?',
                'parameters["\\u0000"]': (
                    'is not a parameter of this job: known are "Width", "input"'
                ),
                "parameters.Width": "contains a NUL byte: no program can get one",
            },
        ),
        (
            {"parameters": {"input": "x" * 65_536}},
            {
                "parameters": (
                    "are 65605 bytes as JSON, at most 65536 are allowed: pass a file instead"
                )
            },
        ),
        (
            {"parameters": {"input": 3}},
            {"parameters.input": "must be text, not 3: put it in quotes"},
        ),
        ({"parameters": []}, {"parameters": "must be an object, not a list"}),
        ({"input": "x"}, {"input": 'is not known: known are "parameters"'}),
    ],
)
async def test_what_is_wrong_with_parameters_is_told_at_once(
    client: Client, body: object, errors: dict[str, str]
) -> None:
    await client.post("/v1/jobs", PARAMETERIZED)
    status, answer = await client.post("/v1/jobs/j-00000001/dispatch", body)
    assert status == 400
    assert {each["path"]: each["message"] for each in answer["errors"]} == errors
    assert len(client.rig.jobs()) == 1


async def test_who_cannot_be_dispatched_is_a_conflict(client: Client) -> None:
    given = {"parameters": {"input": "x"}}

    async def refused(number: int) -> str:
        status, answer = await client.post(f"/v1/jobs/j-0000000{number}/dispatch", given)
        assert status == 409
        return str(answer["detail"])

    await client.post("/v1/jobs", PARAMETERIZED)
    await client.post("/v1/jobs", {"tasks": [ONE]})
    assert await refused(2) == (
        "job j-00000002 is not parameterized, and runs without being dispatched"
    )
    await client.call("PATCH", "/v1/jobs/j-00000001", json={"held": True})
    assert await refused(1) == "job j-00000001 is held: release it first"
    await client.call("PATCH", "/v1/jobs/j-00000001", json={"held": False})
    status, run = await client.post("/v1/jobs/j-00000001/dispatch", given)
    assert status == 201
    await client.post("/v1/jobs/j-00000001/cancel", {})
    await client.rig.settled()
    assert await refused(1) == "job j-00000001 has ended: it is cancelled; submit another"
    # Its runs go on.
    assert (await client.call("GET", f"/v1/jobs/{run['id']}"))[1]["state"] == "pending"
    assert (await client.post("/v1/jobs/j-9/dispatch", given))[0] == 404


async def test_a_repeated_dispatch_with_a_key_makes_one_run(client: Client) -> None:
    for _ in range(2):
        await client.post("/v1/jobs", PARAMETERIZED)
    key = {"Idempotency-Key": "abc"}
    path, given = "/v1/jobs/j-00000001/dispatch", {"parameters": {"input": "x"}}
    _, first = await client.post(path, given, **key)
    _, again = await client.post(path, given, **key)
    assert first["id"] == again["id"] == "j-00000003"
    other = {"parameters": {"input": "y"}}
    assert (await client.post(path, other, **key))[0] == 422
    # The same parameters mean something else to another job.
    assert (await client.post("/v1/jobs/j-00000002/dispatch", given, **key))[0] == 422
