"""Containers over real HTTP: what is taken, answered and listed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from longshore.dispatcher.api.render.containers import SHOWN_ATTEMPTS
from longshore.dispatcher.api.validate.limits import ApiLimits
from longshore.dispatcher.domain.queries import LISTED_ATTEMPTS
from tests.api_server import FULL, MINIMAL, Client, connected


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with connected() as client:
        yield client


async def test_a_minimal_container_gets_the_defaults(client: Client) -> None:
    status, answer = await client.post("/v1/containers", MINIMAL)
    assert status == 201
    assert answer == {
        "id": "c-00000001",
        "name": "",
        "image": "",
        "entrypoint": None,
        "init": True,
        "command": ["true"],
        "env": {},
        "secrets": [],
        "cpus": 1,
        "memory": 512 * 2**20,
        "disk": 0,
        "gpus": 0,
        "resources": {},
        "priority": 500,
        "project": "default",
        "labels": {},
        "constraints": {
            "labels": {},
            "instance_types": [],
            "preemptible": "allowed",
            "max_price_per_hour": None,
        },
        "supervisor": False,
        "api": False,
        "retries": {
            "max": 0,
            "on": ["failed"],
            "exit_codes": [],
            "delay_s": 15.0,
            "first_delay_s": 0.0,
            "lost": True,
        },
        "after": [],
        "not_before": None,
        "time_limit_s": None,
        "grace_period_s": None,
        "user": "anonymous",
        "job": None,
        "task": None,
        "array_index": None,
        "state": "queued",
        "exit_code": None,
        "reason": None,
        "created_at": "2023-11-14T22:13:20.000Z",
        "started_at": None,
        "finished_at": None,
        "instance": None,
        "instance_type": None,
        "attempts": [],
        "attempt_count": 0,
        "cost_usd": 0,
        "waiting": None,
        "waiting_for": None,
        "position": None,
        "queue_length": None,
        "doubt": None,
        "cancel_requested": False,
        "kill_at": None,
    }


async def test_a_full_container_comes_back_as_it_was_meant(client: Client) -> None:
    status, answer = await client.post("/v1/containers", FULL)
    assert status == 201
    constraints = {**FULL["constraints"], "instance_types": ["large", "small"]}
    asked = {**FULL, "memory": 4 * 2**30, "disk": 10**10, "resources": {"licence": 2}}
    asked["constraints"] = constraints
    asked["gpus"] = {"count": 2, "memory": 40 * 2**30, "model": "a100"}
    asked["retries"] = {
        **FULL["retries"],
        "on": ["exit_code", "out_of_memory"],
        "exit_codes": [3, 75],
    }
    asked["not_before"] = "2023-11-14T22:13:20.500Z"
    assert {key: answer[key] for key in asked} == asked


@pytest.mark.parametrize(
    ("wanted", "on"),
    [
        ({}, ["failed"]),
        ({"exit_codes": [75]}, ["exit_code"]),
        ({"exit_codes": [75], "on": ["out_of_memory"]}, ["exit_code", "out_of_memory"]),
        ({"exit_codes": [75], "on": ["failed"]}, ["failed"]),
    ],
)
async def test_who_names_exit_codes_means_what_exits_with_them(
    wanted: dict[str, object], on: list[str], client: Client
) -> None:
    answered = await client.post("/v1/containers", {**MINIMAL, "retries": {"max": 1, **wanted}})
    assert answered[1]["retries"]["on"] == on


async def test_what_a_container_waits_for_comes_back_in_full(client: Client) -> None:
    await client.post("/v1/containers", MINIMAL)
    job = {"tasks": [{"name": "align.v2", **MINIMAL}, {"name": "sort", **MINIMAL}]}
    _, made = await client.post("/v1/jobs", job)
    of_task = f"{made['id']}/align.v2"
    after = ["c-00000001", {"of": made["id"], "on": "end"}, {"of": of_task, "on": "success"}]
    status, answer = await client.post("/v1/containers", {**MINIMAL, "after": after})
    assert status == 201
    assert answer["after"] == [
        {"of": "c-00000001", "on": "success", "each": False},
        {"of": made["id"], "on": "end", "each": False},
        {"of": of_task, "on": "success", "each": False},
    ]


async def test_a_moment_that_has_passed_is_nothing_to_wait_for(client: Client) -> None:
    value = {**MINIMAL, "not_before": "1969-07-20T20:17:40Z"}
    assert (await client.post("/v1/containers", value))[0] == 201


async def test_the_life_of_a_container_shows(client: Client) -> None:
    rig = client.rig
    await client.post("/v1/containers", MINIMAL)
    await rig.settled()
    _, answer = await client.call("GET", "/v1/containers/c-00000001")
    assert answer["waiting"].startswith(rig.wait_reason("c-00000001"))
    assert answer["waiting"].endswith("(position 1 of 1)")
    await rig.add_instance("i-1")
    await rig.start("c-00000001", "i-1")
    rig.now += 36.0
    await rig.finish("c-00000001", 3)
    _, answer = await client.call("GET", "/v1/containers/c-00000001")
    assert (answer["state"], answer["exit_code"], answer["waiting"]) == ("failed", 3, None)
    assert answer["reason"] == {"code": "exit_code", "message": "it exited with 3"}
    assert (answer["instance"], answer["instance_type"]) == ("i-1", "small")
    assert answer["cost_usd"] == 1.561e-05, "the 64th part of 36 s, in whole milliseconds"
    attempt = answer["attempts"][0]
    assert attempt["outcome"] == "failed"
    assert attempt["price_per_hour"] == 0.1
    assert attempt["started_at"].endswith(".000Z")


async def test_of_many_attempts_the_last_are_answered_and_how_many_there_were(
    client: Client,
) -> None:
    rig = client.rig
    await client.post("/v1/containers", MINIMAL)
    await rig.remember_lost("c-00000001", SHOWN_ATTEMPTS + 5)
    _, alone = await client.call("GET", "/v1/containers/c-00000001")
    _, page = await client.call("GET", "/v1/containers")
    (listed,) = page["items"]
    last = SHOWN_ATTEMPTS + 5
    for answer, shown in (alone, SHOWN_ATTEMPTS), (listed, LISTED_ATTEMPTS):
        assert answer["attempt_count"] == last
        numbers = [attempt["number"] for attempt in answer["attempts"]]
        assert numbers == list(range(last - shown + 1, last + 1))
    assert {**listed, "attempts": alone["attempts"], "log_problem": None} == alone


async def test_a_page_is_no_shorter_for_attempts_that_it_does_not_show() -> None:
    async with connected(limits=ApiLimits(page_bytes=50_000)) as client:
        await client.post("/v1/containers", [MINIMAL] * 4)
        await client.rig.remember_lost("c-00000001", 100)
        _, page = await client.call("GET", "/v1/containers")
        assert len(page["items"]) == 4


async def test_a_list_is_all_or_nothing(client: Client) -> None:
    status, answer = await client.post("/v1/containers", [MINIMAL, FULL])
    assert status == 201
    assert [one["id"] for one in answer["items"]] == ["c-00000001", "c-00000002"]
    status, answer = await client.post(
        "/v1/containers", [MINIMAL, {"command": [], "memory": "4G"}, {"commnd": 1}]
    )
    assert status == 400
    assert [error["path"] for error in answer["errors"]] == [
        "[1].memory",
        "[1].command",
        "[2].commnd",
        "[2].command",
    ]
    assert len(client.rig.containers()) == 2


async def test_ten_thousand_containers_are_taken_at_once(client: Client) -> None:
    status, answer = await client.post("/v1/containers", [MINIMAL] * 10_000)
    assert status == 201
    assert len(answer["items"]) == 10_000


async def test_an_idempotency_key_makes_a_repeat_harmless(client: Client) -> None:
    key = {"Idempotency-Key": "abc"}
    _, first = await client.post("/v1/containers", FULL, **key)
    _, again = await client.post("/v1/containers", dict(reversed(FULL.items())), **key)
    assert first["id"] == again["id"]
    status, answer = await client.post("/v1/containers", MINIMAL, **key)
    assert status == 422
    assert "this Idempotency-Key was used for another request" in answer["detail"]
    for bad in ("", "x" * 201, "a b"):
        status, answer = await client.post("/v1/containers", MINIMAL, **{"Idempotency-Key": bad})
        assert status == 400
        assert answer["errors"][0]["path"] == "Idempotency-Key"
    assert len(client.rig.containers()) == 1


async def test_listing_filters_and_pages(client: Client) -> None:
    rig = client.rig
    await client.post("/v1/containers", [{**MINIMAL, "name": f"n{n}"} for n in range(5)])
    await client.post("/v1/containers", FULL)
    await rig.add_instance("i-1")
    await rig.start("c-00000001", "i-1")
    await rig.start("c-00000002", "i-1")
    await rig.finish("c-00000002")

    async def ids(query: str) -> list[int]:
        status, answer = await client.call("GET", f"/v1/containers{query}")
        assert status == 200
        return [int(one["id"][2:]) for one in answer["items"]]

    assert await ids("") == [6, 5, 4, 3, 2, 1]
    assert await ids("?state=running") == [1]
    assert await ids("?state=running&state=succeeded") == [2, 1]
    assert await ids("?state=running,succeeded") == [2, 1]
    assert await ids("?project=vision") == [6]
    assert await ids("?name=n3") == [4]
    assert await ids("?instance=i-1&user=anonymous") == [6, 5, 4, 3, 2, 1]
    assert await ids("?user=nobody") == []
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        _, answer = await client.call("GET", f"/v1/containers?limit=4&cursor={cursor}")
        seen += [one["id"] for one in answer["items"]]
        cursor = answer["next_cursor"]
    assert len(seen) == len(set(seen)) == 6


@pytest.mark.parametrize(
    "large",
    [{"env": {"A": "x" * 20_000}}, {"after": [f"c-{number:08d}" for number in range(1, 451)]}],
)
async def test_pages_of_large_containers_are_shorter(large: dict[str, Any]) -> None:
    limits = ApiLimits(page_bytes=50_000)
    async with connected(limits=limits) as client:
        await client.post("/v1/containers", [MINIMAL] * 450)
        large = {**MINIMAL, **large, "name": "large"}
        assert (await client.post("/v1/containers", [large] * 5))[0] == 201
        pages: list[list[str]] = []
        cursor: str | None = ""
        while cursor is not None:
            _, answer = await client.call("GET", f"/v1/containers?name=large&cursor={cursor}")
            pages.append([one["id"] for one in answer["items"]])
            cursor = answer["next_cursor"]
        assert [len(page) for page in pages] == [2, 2, 1]


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("state=runing", "state"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("job=j-1&array_index=100000000", "array_index"),
        ("limit=x", "limit"),
        ("limit=%D9%A4", "limit"),
        ("limit=1&limit=2", "limit"),
        ("cursor=x", "cursor"),
        ("nme=x", "nme"),
        ("name=%00", "name"),
        ("name=" + "x" * 300, "name"),
    ],
)
async def test_a_wrong_parameter_is_named(client: Client, query: str, path: str) -> None:
    status, answer = await client.call("GET", f"/v1/containers?{query}")
    assert status == 400
    assert answer["errors"][0]["path"] == path


async def test_the_trace_of_a_request_goes_on_in_its_containers(client: Client) -> None:
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    status, made = await client.post("/v1/containers", {**MINIMAL, "env": {"A": "b"}}, **trace)
    assert (status, made["env"]) == (201, {"A": "b", "TRACEPARENT": trace["traceparent"]})
    _, listed = await client.post("/v1/containers", [MINIMAL, MINIMAL], **trace)
    assert {each["env"]["TRACEPARENT"] for each in listed["items"]} == {trace["traceparent"]}
    _, without = await client.post("/v1/containers", MINIMAL, traceparent="no such thing")
    assert without["env"] == {}


async def test_a_repeat_within_another_trace_is_the_same_request(client: Client) -> None:
    traces = [f"00-{n:032x}-b7ad6b7169203331-01" for n in (1, 2)]
    answers = [
        await client.post("/v1/containers", MINIMAL, **{"Idempotency-Key": "k"}, traceparent=each)
        for each in traces
    ]
    assert {(status, made["id"]) for status, made in answers} == {(201, "c-00000001")}
