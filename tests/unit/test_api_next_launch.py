"""When a periodic job is launched next, over real HTTP."""

from __future__ import annotations

from tests.api_server import connected

TASKS = [{"command": ["true"]}]


async def test_a_periodic_job_says_when_it_is_launched_next_where_it_is_looked_at() -> None:
    # The clock of these tests stands at 2023-11-14T22:13:20Z.
    periodic = {"cron": ["0 6 * * *", "30 * * * *"], "time_zone": "Europe/Berlin"}
    async with connected() as client:
        _, made = await client.post("/v1/jobs", {"periodic": periodic, "tasks": TASKS})
        path = f"/v1/jobs/{made['id']}"
        told = [made["next_launch"]]
        for change in ({}, {"held": True}, {"held": False}):
            if change:
                await client.call("PATCH", path, json=change)
            told.append((await client.call("GET", path))[1]["next_launch"])
        await client.post(f"{path}/cancel", {})
        told.append((await client.call("GET", path))[1]["next_launch"])
        assert told == ["2023-11-14T22:30:00.000Z"] * 2 + [None, "2023-11-14T22:30:00.000Z", None]
        _, listed = await client.call("GET", "/v1/jobs")
        assert not any("next_launch" in each for each in listed["items"])


async def test_other_jobs_say_nothing_of_launches() -> None:
    async with connected() as client:
        _, made = await client.post("/v1/jobs", {"tasks": TASKS})
        _, seen = await client.call("GET", f"/v1/jobs/{made['id']}")
        assert "next_launch" not in seen
