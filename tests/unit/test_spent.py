"""What containers and jobs have cost up to now: from the ledger, over the real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from longshore.dispatcher.store import spent_records
from tests.api_server import Client, connected

HALF = {"command": ["true"], "cpus": 32}
"""Half of a small instance, which costs 0.1 an hour."""
HOUR_S = 3600.0


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with connected() as made:
        await made.rig.add_instance("i-1")
        yield made


async def shown(client: Client, path: str) -> Any:
    status, answer = await client.call("GET", path)
    assert status == 200, answer
    return answer


async def begun(client: Client, **fields: Any) -> str:
    """Return a container that runs on the instance."""
    _, made = await client.post("/v1/containers", {**HALF, **fields})
    await client.rig.start(made["id"], "i-1")
    return str(made["id"])


async def test_what_runs_says_what_it_has_cost_up_to_now(client: Client) -> None:
    container_id = await begun(client)
    before = client.rig.now
    await client.rig.pass_time(2 * HOUR_S)
    answer = await shown(client, f"/v1/containers/{container_id}?costs=true")
    assert client.rig.now == before + 2 * HOUR_S
    assert answer["cost_usd"] == 0
    assert answer["cost_so_far_usd"] == pytest.approx(0.1, abs=1e-4)
    assert answer["attempts"][0]["cost_usd"] == answer["cost_so_far_usd"]


async def test_costs_are_told_only_where_they_are_asked_for(client: Client) -> None:
    container_id = await begun(client)
    answer = await shown(client, f"/v1/containers/{container_id}")
    assert "cost_so_far_usd" not in answer
    assert "cost_usd" not in answer["attempts"][0]
    (listed,) = (await shown(client, "/v1/containers"))["items"]
    assert "cost_so_far_usd" not in listed


async def test_a_crowded_instance_costs_each_less_than_its_share(client: Client) -> None:
    # 3/4 of the cpus and 3/4 of the memory: the shares are 1.5 together, and each pays half.
    first = await begun(client, cpus=48, memory="1GiB")
    second = await begun(client, cpus=1, memory="192GiB")
    await client.rig.pass_time(HOUR_S)
    for container_id in (first, second):
        answer = await shown(client, f"/v1/containers/{container_id}?costs=true")
        assert answer["cost_so_far_usd"] == pytest.approx(0.05, abs=1e-4)


async def test_where_too_much_else_was_there_nobody_knows(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    container_id = await begun(client)
    monkeypatch.setattr(spent_records, "MOST_INTERVALS", 2)
    answer = await shown(client, f"/v1/containers/{container_id}?costs=true")
    assert answer["cost_so_far_usd"] is answer["attempts"][0]["cost_usd"] is None


async def job_with_a_failure(client: Client) -> str:
    """Return a job of an array of two, of which one has succeeded and one has failed."""
    tasks = [{**HALF, "name": "fit", "array": 2}, {**HALF, "name": "sum", "after": ["fit"]}]
    _, job = await client.post("/v1/jobs", {"name": "night", "tasks": tasks})
    rig = client.rig
    listed = (await shown(client, f"/v1/containers?job={job['id']}&task=fit"))["items"]
    by_index = {each["array_index"]: each["id"] for each in listed}
    for container_id in by_index.values():
        await rig.start(container_id, "i-1")
    await rig.pass_time(HOUR_S)
    await rig.finish(by_index[0], exit_code=0)
    await rig.pass_time(HOUR_S)
    await rig.finish(by_index[1], exit_code=1)
    return str(job["id"])


async def test_a_jobs_cost_is_told_by_task_and_by_index(client: Client) -> None:
    job_id = await job_with_a_failure(client)
    assert "costs" not in await shown(client, f"/v1/jobs/{job_id}")
    costs = (await shown(client, f"/v1/jobs/{job_id}?costs=task"))["costs"]
    assert costs["elements"] == []
    assert [each["task"] for each in costs["tasks"]] == ["fit", "sum"]
    assert costs["total_usd"] == pytest.approx(0.15, abs=1e-4)
    assert costs["total_usd"] == pytest.approx(sum(each["cost_usd"] for each in costs["tasks"]))
    assert costs["lost_work_usd"] == pytest.approx(0.1, abs=1e-4)
    costs = (await shown(client, f"/v1/jobs/{job_id}?costs=index"))["costs"]
    told = [(each["array_index"], round(each["cost_usd"], 2)) for each in costs["elements"]]
    assert told == [(1, 0.1), (0, 0.05)]


async def test_what_is_lost_is_unknown_where_it_is_too_much(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await job_with_a_failure(client)
    monkeypatch.setattr(spent_records, "MOST_INTERVALS", 2)
    costs = (await shown(client, f"/v1/jobs/{job_id}?costs=task"))["costs"]
    assert costs["lost_work_usd"] is None
    assert costs["total_usd"] > 0
