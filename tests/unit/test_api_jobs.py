"""Jobs over real HTTP: what is taken, answered, listed and steered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from longshore.dispatcher.api.validate.limits import ApiLimits
from longshore.dispatcher.domain.jobs import Job
from tests.api_server import MINIMAL, Client, connected, serving
from tests.fake_backend import FakeBackend
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
        task("sort", {"of": "align", "on": "end", "each": True}, "c-9", array=3),
        task("merge", "align", "sort", "j-8/x"),
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
    status, answer = await client.post("/v1/jobs", PIPELINE)
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
        [{"of": "align", "on": "end", "each": True}, {"of": "c-9", **success}],
        [{"of": "align", **success}, {"of": "sort", **success}, {"of": "j-8/x", **success}],
    ]
    assert await client.call("GET", "/v1/jobs/j-00000001") == (200, answer)


async def test_its_containers_say_what_they_are_part_of(client: Client) -> None:
    await client.post("/v1/containers", MINIMAL)
    await client.post("/v1/jobs", {**PIPELINE, "tasks": PIPELINE["tasks"][:2]})
    _, answer = await client.call("GET", "/v1/containers")
    parts = [
        (one["id"][-1], one["job"], one["task"], one["array_index"]) for one in answer["items"]
    ]
    assert parts == [
        ("5", "j-00000001", "align", 2),
        ("4", "j-00000001", "align", 1),
        ("3", "j-00000001", "align", 0),
        ("2", "j-00000001", "split", None),
        ("1", None, None, None),
    ]
    newest = answer["items"][0]
    assert (newest["name"], newest["priority"], newest["project"]) == ("align", 700, "vision")
    assert newest["after"] == [{"of": "j-00000001/split", "on": "success", "each": False}]


async def test_containers_are_found_by_their_part_of_a_job(client: Client) -> None:
    await client.post("/v1/containers", MINIMAL)
    await client.post("/v1/jobs", PIPELINE)
    await client.post("/v1/jobs", {"tasks": [{**ONE, "array": 2}]})

    async def ids(query: str) -> list[int]:
        status, answer = await client.call("GET", f"/v1/containers?{query}")
        assert status == 200
        return [int(one["id"][2:]) for one in answer["items"]]

    assert await ids("job=j-00000001") == [9, 8, 7, 6, 5, 4, 3, 2]
    assert await ids("job=j-00000001&task=align") == [5, 4, 3]
    assert await ids("job=j-00000001&array_index=1") == [7, 4]
    assert await ids("job=j-00000001&task=sort&array_index=0") == [6]
    assert await ids("array_index=0&state=queued") == [10, 6, 3]
    assert await ids("job=j-00000003") == []
    assert await ids("job=j-00000002&limit=1") == [11]


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
    backend = client.backend
    backend.add_instance("i-1")
    for number in range(5):
        await client.post("/v1/jobs", {"name": f"n{number}", "tasks": [ONE]})
    await client.post("/v1/jobs", PIPELINE)
    backend.start("c-00000001", "i-1")
    backend.start("c-00000002", "i-1")
    backend.finish("c-00000002", 3)
    backend.start("c-00000003", "i-1")
    backend.finish("c-00000003")
    await client.post("/v1/jobs/j-00000004/cancel", {})

    async def ids(query: str) -> list[int]:
        status, answer = await client.call("GET", f"/v1/jobs{query}")
        assert status == 200
        assert all("tasks" not in one for one in answer["items"])
        return [int(one["id"][2:]) for one in answer["items"]]

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
    assert answer["items"][0]["counts"] == counts(queued=8)


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
    backend = client.backend
    backend.add_instance("i-1")
    await client.post("/v1/jobs", {"tasks": [{**ONE, "array": 3}]})
    backend.start("c-00000001", "i-1")
    backend.start("c-00000002", "i-1")
    backend.finish("c-00000002", 7)
    _, answer = await client.call("GET", "/v1/jobs/j-00000001")
    assert (answer["state"], answer["exit_code"]) == ("running", None)
    assert answer["counts"] == counts(queued=1, running=1, failed=1)
    assert answer["tasks"][0]["counts"] == answer["counts"]
    assert answer["started_at"] is not None
    backend.finish("c-00000001")
    backend.start("c-00000003", "i-1")
    backend.finish("c-00000003", 3)
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


class NotingBackend(FakeBackend):
    """Notes in which order a job is changed."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[object] = []

    async def set_job_priority(self, job_id: str, priority: int) -> Job:
        self.asked.append(priority)
        return await super().set_job_priority(job_id, priority)

    async def hold_job(self, job_id: str, *, held: bool) -> Job:
        self.asked.append(held)
        return await super().hold_job(job_id, held=held)


async def test_a_job_is_held_before_it_is_moved_and_released_after() -> None:
    backend = NotingBackend()
    async with serving(backend) as (url, _), aiohttp.ClientSession() as session:
        client = Client(session, url, backend)
        await client.post("/v1/jobs", {"tasks": [ONE]})
        for change in ({"priority": 9, "held": True}, {"priority": 8, "held": False}):
            assert (await client.call("PATCH", "/v1/jobs/j-00000001", json=change))[0] == 200
    assert backend.asked == [True, 9, 8, False]


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
    assert (status, answer["state"]) == (202, "cancelled")
    assert answer["reason"] == {"code": "cancelled", "message": "A user cancelled it."}
    assert answer["counts"] == counts(cancelled=8)
    status, answer = await client.post(f"{one}/cancel", {})
    assert (status, answer["detail"]) == (409, "job j-00000001 has ended: it is cancelled")
    for change in ({"priority": 7}, {"held": True}, {"held": False}):
        assert (await client.call("PATCH", one, json=change))[0] == 409
    headers = {"Content-Type": "application/json"}
    await client.post("/v1/jobs", PIPELINE)
    path = "/v1/jobs/j-00000002/cancel"
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
    client.backend.unavailable = "The inbox is full."
    status, answer = await client.post("/v1/jobs", {"tasks": [ONE]})
    assert (status, answer["detail"]) == (503, "The inbox is full.")


async def test_an_idempotency_key_makes_a_repeat_harmless(client: Client) -> None:
    key = {"Idempotency-Key": "abc"}
    _, first = await client.post("/v1/jobs", PIPELINE, **key)
    _, again = await client.post("/v1/jobs", dict(reversed(PIPELINE.items())), **key)
    assert first["id"] == again["id"]
    status, answer = await client.post("/v1/jobs", {"tasks": [ONE]}, **key)
    assert status == 409
    assert "abc" in answer["detail"]
    status, answer = await client.post("/v1/jobs", PIPELINE, **{"Idempotency-Key": "a b"})
    assert (status, answer["errors"][0]["path"]) == (400, "Idempotency-Key")
    assert client.backend.submissions == 1


async def test_a_made_job_is_told_where_it_is(client: Client) -> None:
    async with client.session.post(f"{client.url}/v1/jobs", json={"tasks": [ONE]}) as response:
        assert response.headers["Location"] == "/v1/jobs/j-00000001"


async def test_an_array_of_ten_thousand_and_a_thousand_tasks_are_taken(client: Client) -> None:
    status, answer = await client.post("/v1/jobs", {"tasks": [{**ONE, "array": 10_000}]})
    assert (status, answer["counts"]["queued"]) == (201, 10_000)
    status, answer = await client.post("/v1/jobs", {"tasks": chain(1000)})
    assert (status, len(answer["tasks"])) == (201, 1000)
    assert answer["tasks"][0]["after"] == [{"of": "t998", "on": "success", "each": False}]
