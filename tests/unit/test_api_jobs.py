"""Jobs over real HTTP: what is taken, answered, listed and steered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from longshore.dispatcher.api.validate.limits import ApiLimits
from longshore.dispatcher.domain.messages import Change, RequestJobHold, RequestJobPriority
from tests.api_server import MINIMAL, STOPPING, Client, connected
from tests.job_bodies import ONE, chain, task

COUNTS = {"queued": 0, "locked": 0, "running": 0, "succeeded": 0, "failed": 0, "cancelled": 0}
PIPELINE: dict[str, Any] = {
    "name": "pipeline",
    "type": "batch",
    "priority": 700,
    "project": "vision",
    "labels": {"team": "a"},
    "tasks": [
        task("split"),
        task("align", {"of": "split"}, array={"size": 3, "max_running": 2}),
        task("sort", {"of": "align", "on": "end", "each": True}, array=3),
        task("merge", "align", "sort"),
    ],
}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with connected() as client:
        yield client


def counts(**some: int) -> dict[str, int]:
    return {**COUNTS, **some, "total": sum(some.values())}


async def test_a_minimal_job_gets_the_defaults(client: Client) -> None:
    status, answer = await client.post("/v1/jobs", {"tasks": [ONE]})
    assert status == 201
    assert answer == {
        "id": "j-00000001",
        "name": "",
        "type": "batch",
        "user": "anonymous",
        "project": "default",
        "priority": 500,
        "labels": {},
        "state": "pending",
        "held": False,
        "cancel_requested": False,
        "exit_code": None,
        "reason": None,
        "created_at": "2023-11-14T22:13:20.000Z",
        "started_at": None,
        "finished_at": None,
        "counts": counts(queued=1),
        "parent": "",
        "revision": None,
        "periodic": None,
        "parameterized": None,
        "launched_for": None,
        "tasks": [
            {
                "name": "",
                "size": 1,
                "array": False,
                "max_running": None,
                "after": [],
                "counts": counts(queued=1),
            }
        ],
    }


async def test_a_job_says_what_waits_for_what(client: Client) -> None:
    await client.post("/v1/containers", {**MINIMAL, "project": "vision"})
    _, other = await client.post("/v1/jobs", {"project": "vision", "tasks": [task("x")]})
    of_another = f"{other['id']}/x"
    tasks = [
        *PIPELINE["tasks"][:2],
        task("sort", {"of": "align", "on": "end", "each": True}, "c-00000001", array=3),
        task("merge", "align", "sort", of_another),
    ]
    status, answer = await client.post("/v1/jobs", {**PIPELINE, "tasks": tasks})
    assert status == 201
    for key in ("name", "type", "priority", "project", "labels"):
        assert answer[key] == PIPELINE[key]
    found = [
        (one["name"], one["size"], one["array"], one["max_running"]) for one in answer["tasks"]
    ]
    assert found == [
        ("split", 1, False, None),
        ("align", 3, True, 2),
        ("sort", 3, True, None),
        ("merge", 1, False, None),
    ]
    success = {"on": "success", "each": False}
    assert [one["after"] for one in answer["tasks"]] == [
        [],
        [{"of": "split", **success}],
        [{"of": "align", "on": "end", "each": True}, {"of": "c-00000001", **success}],
        [{"of": "align", **success}, {"of": "sort", **success}, {"of": of_another, **success}],
    ]
    assert await client.call("GET", f"/v1/jobs/{answer['id']}") == (200, answer)


async def test_its_containers_say_what_they_are_part_of(client: Client) -> None:
    await client.post("/v1/containers", MINIMAL)
    _, job = await client.post("/v1/jobs", {**PIPELINE, "tasks": PIPELINE["tasks"][:2]})
    _, answer = await client.call("GET", "/v1/containers")
    parts = [
        (one["id"][-1], one["job"], one["task"], one["array_index"]) for one in answer["items"]
    ]
    assert parts == [
        ("6", job["id"], "align", 2),
        ("5", job["id"], "align", 1),
        ("4", job["id"], "align", 0),
        ("3", job["id"], "split", None),
        ("1", None, None, None),
    ]
    newest = answer["items"][0]
    assert (newest["name"], newest["priority"], newest["project"]) == ("align", 700, "vision")
    assert newest["after"] == [{"of": f"{job['id']}/split", "on": "success", "each": False}]


async def test_containers_are_found_by_their_part_of_a_job(client: Client) -> None:
    await client.post("/v1/containers", MINIMAL)
    _, first = await client.post("/v1/jobs", PIPELINE)
    _, second = await client.post("/v1/jobs", {"tasks": [{**ONE, "array": 2}]})
    known = [each.id for each in client.rig.containers()]

    async def ids(query: str) -> list[int]:
        status, answer = await client.call("GET", f"/v1/containers?{query}")
        assert status == 200
        return [known.index(one["id"]) + 1 for one in answer["items"]]

    assert await ids(f"job={first['id']}") == [9, 8, 7, 6, 5, 4, 3, 2]
    assert await ids(f"job={first['id']}&task=align") == [5, 4, 3]
    assert await ids(f"job={first['id']}&array_index=1") == [7, 4]
    assert await ids(f"job={first['id']}&task=sort&array_index=0") == [6]
    assert await ids(f"job={first['id']}&array_index=0&state=queued") == [6, 3]
    assert await ids("job=j-99999999") == []
    assert await ids(f"job={second['id']}&limit=1") == [11]


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("/v1/containers?array_index=-1", "array_index"),
        ("/v1/containers?array_index=100000", "array_index"),
        ("/v1/containers?job=%00", "job"),
        ("/v1/containers?taks=a", "taks"),
        ("/v1/jobs?state=queued", "state"),
        ("/v1/jobs?job=j-1", "job"),
        ("/v1/jobs?limit=1001", "limit"),
        ("/v1/jobs?cursor=x", "cursor"),
    ],
)
async def test_a_wrong_parameter_is_named(client: Client, path: str, wrong: str) -> None:
    status, answer = await client.call("GET", path)
    assert status == 400
    assert answer["errors"][0]["path"] == wrong


async def test_jobs_are_listed_without_tasks_by_filters_and_pages(client: Client) -> None:
    rig = client.rig
    for number in range(5):
        await client.post("/v1/jobs", {"name": f"n{number}", "tasks": [ONE]})
    await client.post("/v1/jobs", PIPELINE)
    await rig.add_instance("i-1")
    first, second, third = (each.id for each in rig.containers()[:3])
    jobs = [each.id for each in rig.jobs()]
    await rig.start(first, "i-1")
    await rig.start(second, "i-1")
    await rig.finish(second, 3)
    await rig.start(third, "i-1")
    await rig.finish(third)
    await client.post(f"/v1/jobs/{jobs[3]}/cancel", {})
    await rig.end_cancelled(rig.containers()[3].id)

    async def ids(query: str) -> list[int]:
        status, answer = await client.call("GET", f"/v1/jobs{query}")
        assert status == 200
        assert all("tasks" not in one for one in answer["items"])
        return [jobs.index(one["id"]) + 1 for one in answer["items"]]

    assert await ids("") == [6, 5, 4, 3, 2, 1]
    assert await ids("?state=pending") == [6, 5]
    assert await ids("?state=running") == [1]
    assert await ids("?state=failed&state=succeeded") == [3, 2]
    assert await ids("?state=failed,cancelled") == [4, 2]
    assert await ids("?project=vision") == [6]
    assert await ids("?name=n3&user=anonymous") == [4]
    assert await ids("?user=nobody") == []
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        _, answer = await client.call("GET", f"/v1/jobs?limit=4&cursor={cursor}")
        seen += [one["id"] for one in answer["items"]]
        cursor = answer["next_cursor"]
    assert len(seen) == len(set(seen)) == 6
    _, answer = await client.call("GET", "/v1/jobs?project=vision")
    assert answer["items"][0]["counts"] == counts(queued=7, locked=1)


async def test_pages_of_jobs_with_many_labels_are_shorter() -> None:
    async with connected(limits=ApiLimits(page_bytes=25_000)) as client:
        labels = {f"l{number}": "x" * 250 for number in range(40)}
        for _ in range(5):
            await client.post("/v1/jobs", {"tasks": [ONE], "labels": labels})
        pages: list[int] = []
        cursor: str | None = ""
        while cursor is not None:
            _, answer = await client.call("GET", f"/v1/jobs?cursor={cursor}")
            pages.append(len(answer["items"]))
            cursor = answer["next_cursor"]
    assert pages == [2, 2, 1]


async def test_the_life_of_a_job_shows(client: Client) -> None:
    rig = client.rig
    await rig.add_instance("i-1")
    await client.post("/v1/jobs", {"tasks": [{**ONE, "array": 3}]})
    await rig.start("c-00000002", "i-1")
    await rig.start("c-00000003", "i-1")
    await rig.finish("c-00000003", 7)
    _, answer = await client.call("GET", "/v1/jobs/j-00000001")
    assert (answer["state"], answer["exit_code"]) == ("running", None)
    assert answer["counts"] == counts(locked=1, running=1, failed=1)
    assert answer["tasks"][0]["counts"] == answer["counts"]
    assert answer["started_at"] is not None
    await rig.finish("c-00000002")
    await rig.start("c-00000004", "i-1")
    await rig.finish("c-00000004", 3)
    _, answer = await client.call("GET", "/v1/jobs/j-00000001")
    assert (answer["state"], answer["exit_code"]) == ("failed", 7)
    assert answer["counts"] == counts(succeeded=1, failed=2)
    assert answer["finished_at"] is not None


async def test_a_job_is_held_released_and_moved(client: Client) -> None:
    await client.post("/v1/jobs", {"tasks": [{**ONE, "array": 2}]})
    one = "/v1/jobs/j-00000001"

    async def changed(change: object) -> tuple[int, int, bool]:
        status, answer = await client.call("PATCH", one, json=change)
        assert answer["tasks"]
        return status, answer["priority"], answer["held"]

    assert await changed({"priority": 7}) == (200, 7, False)
    assert await changed({"held": True}) == (200, 7, True)
    assert await changed({"priority": 8, "held": None}) == (200, 8, True)
    assert await changed({"priority": 0, "held": False}) == (200, 0, False)
    assert await changed({"priority": 9, "held": True}) == (200, 9, True)
    _, answer = await client.call("GET", "/v1/containers?job=j-00000001")
    assert [each["priority"] for each in answer["items"]] == [9, 9]


async def test_a_job_is_held_before_it_is_moved_and_released_after(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.post("/v1/jobs", {"tasks": [ONE]})
    asked: list[object] = []
    request = client.rig.store.write

    def noting(changes: Sequence[Change], *, wait: bool = False) -> Future[None]:
        asked.extend(each.held for each in changes if isinstance(each, RequestJobHold))
        asked.extend(each.priority for each in changes if isinstance(each, RequestJobPriority))
        return request(changes, wait=wait)

    monkeypatch.setattr(client.rig.store, "write", noting)
    for change in ({"priority": 9, "held": True}, {"priority": 8, "held": False}):
        assert (await client.call("PATCH", "/v1/jobs/j-00000001", json=change))[0] == 200
    assert asked == [True, 9, 8, False]


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        ({}, "", "changes nothing: give priority, held, or both"),
        ({"priority": None, "held": None}, "", "changes nothing: give priority, held, or both"),
        ({"priority": 1001}, "priority", "must be at least 0 and at most 1000, not 1001"),
        ({"held": "yes"}, "held", "must be true or false, not text: write true"),
        ({"hold": True}, "hold", 'is not known: did you mean "held"?'),
        ([], "", "must be an object, not a list"),
    ],
)
async def test_a_change_of_nothing_or_nonsense_is_refused(
    client: Client, change: object, path: str, message: str
) -> None:
    await client.post("/v1/jobs", {"tasks": [ONE]})
    status, answer = await client.call("PATCH", "/v1/jobs/j-00000001", json=change)
    assert status == 400
    assert answer["errors"] == [{"path": path, "message": message}]


async def test_cancelling_ends_all_of_a_job_and_once(client: Client) -> None:
    await client.post("/v1/jobs", PIPELINE)
    one = "/v1/jobs/j-00000001"
    status, answer = await client.post(f"{one}/cancel", {})
    assert status == 202
    await client.rig.settled()
    _, answer = await client.call("GET", one)
    assert answer["state"] == "cancelled"
    assert answer["reason"] == {"code": "cancelled", "message": "cancelled"}
    assert answer["counts"] == counts(cancelled=8)
    status, answer = await client.post(f"{one}/cancel", {})
    assert (status, answer["detail"]) == (409, "job j-00000001 has been cancelled already")
    for change in ({"priority": 7}, {"held": True}, {"held": False}):
        assert (await client.call("PATCH", one, json=change))[0] == 409
    headers = {"Content-Type": "application/json"}
    _, second = await client.post("/v1/jobs", PIPELINE)
    path = f"/v1/jobs/{second['id']}/cancel"
    assert (await client.call("POST", path, headers=headers))[0] == 202
    status, answer = await client.post(path, {"why": "x"})
    assert status == 400


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/jobs/j-9"),
        ("GET", "/v1/jobs/%00"),
        ("GET", "/v1/jobs/" + "x" * 300),
        ("GET", "/v1/jobs/c-00000001"),
        ("POST", "/v1/jobs/j-9/cancel"),
        ("PATCH", "/v1/jobs/j-9"),
    ],
)
async def test_what_is_not_there_is_404(client: Client, method: str, path: str) -> None:
    await client.post("/v1/containers", MINIMAL)
    bodies = {"POST": {}, "PATCH": {"priority": 1}}
    given: dict[str, Any] = {"json": bodies[method]} if method in bodies else {}
    status, answer = await client.call(method, path, **given)
    assert status == 404
    assert answer["detail"].startswith("there is no job")


async def test_a_refused_job_leaves_nothing_behind(client: Client) -> None:
    tasks = [task("a"), task("b", "A", memory="4G")]
    status, answer = await client.post("/v1/jobs", {"tasks": tasks})
    assert status == 400
    assert [error["path"] for error in answer["errors"]] == ["tasks[1].memory", "tasks[1].after[0]"]
    assert (await client.call("GET", "/v1/jobs"))[1]["items"] == []
    assert (await client.call("GET", "/v1/containers"))[1]["items"] == []
    client.rig.runtime.stop()
    status, answer = await client.post("/v1/jobs", {"tasks": [ONE]})
    assert (status, answer["detail"]) == (503, STOPPING)


async def test_an_idempotency_key_makes_a_repeat_harmless(client: Client) -> None:
    key = {"Idempotency-Key": "abc"}
    _, first = await client.post("/v1/jobs", PIPELINE, **key)
    _, again = await client.post("/v1/jobs", dict(reversed(PIPELINE.items())), **key)
    assert first["id"] == again["id"]
    status, answer = await client.post("/v1/jobs", {"tasks": [ONE]}, **key)
    assert status == 422
    assert "this Idempotency-Key was used for another request" in answer["detail"]
    status, answer = await client.post("/v1/jobs", PIPELINE, **{"Idempotency-Key": "a b"})
    assert (status, answer["errors"][0]["path"]) == (400, "Idempotency-Key")
    assert len(client.rig.jobs()) == 1


async def test_a_made_job_is_told_where_it_is(client: Client) -> None:
    async with client.session.post(f"{client.url}/v1/jobs", json={"tasks": [ONE]}) as response:
        assert response.headers["Location"] == "/v1/jobs/j-00000001"


async def test_an_array_of_ten_thousand_and_a_thousand_tasks_are_taken(client: Client) -> None:
    status, answer = await client.post("/v1/jobs", {"tasks": [{**ONE, "array": 10_000}]})
    assert (status, answer["counts"]["queued"]) == (201, 10_000)
    status, answer = await client.post("/v1/jobs", {"tasks": chain(1000)})
    assert (status, len(answer["tasks"])) == (201, 1000)
    assert answer["tasks"][0]["after"] == [{"of": "t998", "on": "success", "each": False}]


async def test_the_trace_of_a_request_goes_on_in_a_batch_job_alone(client: Client) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    every_night = {"tasks": [ONE], "periodic": {"cron": "@daily"}}
    for body, env in (
        ({"tasks": [ONE]}, (("TRACEPARENT", trace),)),
        ({"tasks": [ONE], "type": "system"}, ()),
        (every_night, ()),
    ):
        status, made = await client.post("/v1/jobs", body, traceparent=trace)
        assert status == 201, made
        assert client.rig.jobs()[-1].tasks[0].spec.env == env
