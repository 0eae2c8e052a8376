"""The rest of the API over real HTTP: changes, instances, errors, documents."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.domain.views import ProblemKind
from longshore.drivers.errors import CloudAuthError
from longshore.drivers.interface import Leftover
from longshore.pool.leaks import LeftBehind, LeftoverReport
from longshore.pool.messages import ListingFailed, ListInstances
from longshore.pool.model import AttemptReport
from tests.api_server import FULL, MINIMAL, Client, connected, raw_exchange
from tests.rigs.api import SYNC_S
from tests.rigs.engine import last_commands


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with connected() as client:
        yield client


async def test_priority_and_cancel(client: Client) -> None:
    rig = client.rig
    await client.post("/v1/containers", [MINIMAL] * 2)
    one = "/v1/containers/c-00000001"
    assert (await client.call("PATCH", one, json={"priority": 7}))[1]["priority"] == 7
    refused: list[object] = [{}, {"priority": 1.5}, {"priority": 1001}, {"prio": 3}, []]
    for bad in refused:
        assert (await client.call("PATCH", one, json=bad))[0] == 400
    status, answer = await client.post(f"{one}/cancel", {})
    assert status == 202
    await rig.settled()
    status, answer = await client.post(f"{one}/cancel", {})
    assert status == 409
    assert "cancelled" in answer["detail"]
    assert (await client.call("PATCH", one, json={"priority": 7}))[0] == 409
    headers = {"Content-Type": "application/json"}
    path = "/v1/containers/c-00000002/cancel"
    assert (await client.call("POST", path, headers=headers))[0] == 202
    assert rig.containers()[1].cancel_requested


async def test_instances_are_listed_and_steered(client: Client) -> None:
    await client.rig.add_instance("i-2")
    await client.rig.add_instance("i-1", instance_type="large")
    _, answer = await client.call("GET", "/v1/instances")
    assert [one["id"] for one in answer["items"]] == ["i-1", "i-2"]
    assert answer["items"][1] == {
        "id": "i-2",
        "address": "i-2:22",
        "state": "idle",
        "idle_behavior": "run",
        "instance_type": "small",
        "provider_type": "cloud.small",
        "price_usd_per_hour": 0.1,
        "running": [],
        "last_container": "",
        "created_at": "2023-11-14T22:13:21.000Z",
        "last_busy_at": None,
        "last_contact_at": "2023-11-14T22:13:22.000Z",
        "broken": "",
        "last_error": "",
        "taken_back_at": None,
        "missing_since": None,
        "cloud_says": None,
        "gone_at": None,
        "advice": None,
        "idle_behavior_note": None,
        "machine": None,
        "shortfall": "",
        "room": {"cpus": 64, "disk": 1073741824000, "gpus": 8, "memory": 274877906944},
        "places": [],
    }
    one = "/v1/instances/i-1"
    assert (await client.call("GET", one))[1]["instance_type"] == "large"
    status, answer = await client.call(
        "PUT", f"{one}/idle-behavior", json={"idle_behavior": "hold"}
    )
    assert (status, answer["idle_behavior"]) == (200, "hold")
    status, answer = await client.call("PUT", f"{one}/idle-behavior", json={"idle_behavior": "x"})
    assert status == 400
    status, answer = await client.post(f"{one}/kill", {"reason": "too old"})
    assert (status, answer["id"]) == (202, "i-1")
    _, answer = await client.call("GET", one)
    assert answer["state"] == "shutdown"
    headers = {"Content-Type": "application/json"}
    assert (await client.call("POST", "/v1/instances/i-2/kill", headers=headers))[0] == 202


async def test_leaks_and_strays_come_in_pages_as_other_listings_do(client: Client) -> None:
    rig = client.rig
    there = [Leftover(kind="volume", id=f"d-{number}") for number in range(1, 5)]
    items = tuple(LeftBehind(leftover=each, since=5.0, looks=9) for each in there)
    rig.leftovers = LeftoverReport(items=items)
    rig.boot("small", instance_id="i-1")
    for number in range(1, 6):
        report = AttemptReport(
            attempt_id=f"c-{number}-1", container_id=f"c-{number}", store="another"
        )
        rig.on_instance["i-1"][report.attempt_id] = report
    await rig.pass_time(SYNC_S)
    for path, key, wanted in (
        ("/v1/leaks", "resource", [None, *(f"d-{number}" for number in range(1, 5))]),
        ("/v1/strays", "attempt", [f"c-{number}-1" for number in range(1, 6)]),
    ):
        found, cursor = [], ""
        while True:
            status, page = await client.call("GET", f"{path}?limit=2{cursor}")
            assert status == 200
            found.append([one[key] for one in page["items"]])
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert found == [wanted[:2], wanted[2:4], wanted[4:]]
        for bad in ("limit=0", "limit=1001", "cursor=%00", "cursor=YWZ0ZXIgaS0x", "gone=true"):
            assert (await client.call("GET", f"{path}?{bad}"))[0] == 400, bad


async def test_instances_come_in_pages_and_those_that_are_gone_apart(client: Client) -> None:
    for number in range(1, 6):
        await client.rig.add_instance(f"i-{number}")
    await client.rig.lose_instance("i-2")
    assert (await client.post("/v1/instances/i-4/kill", {"reason": "old"}))[0] == 202
    await client.rig.pass_time(SYNC_S)
    found, cursor = [], ""
    while True:
        _, page = await client.call("GET", f"/v1/instances?limit=2{cursor}")
        found.append([one["id"] for one in page["items"]])
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert found == [["i-1", "i-3"], ["i-5"]]
    _, page = await client.call("GET", "/v1/instances?gone=true")
    told = [(one["id"], one["state"], one["last_error"]) for one in page["items"]]
    assert told == [
        ("i-4", "gone", "an admin ended it: old"),
        ("i-2", "gone", "no contact for probe_timeout: session: reset"),
    ]
    assert all(one["gone_at"] for one in page["items"])
    _, one = await client.call("GET", "/v1/instances/i-2")
    assert one == page["items"][1]
    for bad in ("limit=0", "limit=1001", "gone=maybe", "cursor=%00", "cursor=a&cursor=b", "all=1"):
        assert (await client.call("GET", f"/v1/instances?{bad}"))[0] == 400, bad


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1"),
        ("GET", "/assets/none.js"),
        ("GET", "/assets/..%2Fdashboard.py"),
        ("GET", "/v1/container"),
        ("GET", "/v1/containers/"),
        ("GET", "/v1/containers/c-9"),
        ("GET", "/v1/containers/%00"),
        ("GET", "/v1/containers/" + "x" * 300),
        ("GET", "/v1/containers/c-9/logs"),
        ("GET", "/v1/instances/i-9"),
        ("POST", "/v1/containers/c-9/cancel"),
        ("POST", "/v1/instances/i-9/kill"),
    ],
)
async def test_what_is_not_there_is_404(client: Client, method: str, path: str) -> None:
    given: dict[str, Any] = {"json": {}} if method == "POST" else {}
    assert (await client.call(method, path, **given))[0] == 404


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/containers", "GET,HEAD,POST"),
        ("PUT", "/v1/containers/c-1", "GET,HEAD,PATCH"),
        ("GET", "/v1/containers/c-1/cancel", "POST"),
        ("POST", "/v1/events", "GET"),
        ("OPTIONS", "/v1/containers", "GET,HEAD,POST"),
        ("MKCOL", "/metrics", "GET,HEAD"),
    ],
)
async def test_a_wrong_method_is_405_and_told_the_right_ones(
    client: Client, method: str, path: str, allowed: str
) -> None:
    headers = {"Content-Type": "application/json"}
    async with client.session.request(method, client.url + path, headers=headers) as response:
        assert response.status == 405
        assert response.headers["Allow"] == allowed
        assert response.content_type == "application/problem+json"


async def test_a_wrong_method_is_told_before_a_body_that_is_no_json(client: Client) -> None:
    for method, path, status in (("PUT", "/v1/jobs", 405), ("POST", "/v1/nothing", 404)):
        async with client.session.request(method, client.url + path, data=b"x=1") as response:
            assert response.status == status
    async with client.session.post(f"{client.url}/v1/jobs", data=b"x=1") as response:
        assert response.status == 415


async def test_what_cannot_be_taken_now_is_503_with_a_time(client: Client) -> None:
    client.rig.runtime.stop()
    async with client.session.post(f"{client.url}/v1/containers", json=MINIMAL) as response:
        assert response.status == 503
        assert int(response.headers["Retry-After"]) > 0
        assert (await response.json(content_type=None))["detail"].startswith(
            "the server is stopping"
        )


async def test_the_unexpected_is_500_with_an_id_that_is_in_the_log(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(container_id: str) -> Container:
        raise RuntimeError(f"a secret of the inside of {container_id}")

    monkeypatch.setattr(client.rig.store, "container", failing)
    with capture_logs() as logs:
        status, answer = await client.call("GET", "/v1/containers/c-1")
    assert status == 500
    assert "secret" not in str(answer)
    assert "Traceback" not in str(answer)
    assert [entry["event"] for entry in logs] == ["request_failed"]
    assert logs[0]["error_id"] in answer["detail"]


async def test_health_and_metrics(client: Client) -> None:
    assert await client.call("GET", "/health/live") == (200, {"live": True})
    well = {"ready": True, "degraded": False, "problems": [], "advice": []}
    assert await client.call("GET", "/health/ready") == (200, well)
    status, answer = await client.call("GET", "/v1/health")
    assert status == 200
    assert {key: answer[key] for key in well} == well
    assert set(answer) - set(well) == {"store", "logs"}
    assert answer["store"]["free_bytes"] == pytest.approx(answer["logs"]["free_bytes"], rel=0.1)
    assert answer["store"]["pending_writes"] == 0
    rig = client.rig
    rig.silent.add(ListInstances)
    await rig.pass_time(SYNC_S)
    (listing,) = last_commands(rig, ListInstances)[-1:]
    rig.give(ListingFailed(op_id=listing.op_id, error=CloudAuthError("refused")))
    await rig.settled()
    for kind, ready in ((ProblemKind.CREDENTIALS, True), (ProblemKind.STOPPING, False)):
        if not ready:
            rig.runtime.stop()
        for path in ("/health/ready", "/v1/health"):
            status, answer = await client.call("GET", path)
            assert (answer["ready"], answer["degraded"]) == (ready, True)
            assert status == (503 if not ready and path == "/health/ready" else 200)
            told = {each["kind"]: each for each in answer["problems"]}
            assert told[kind.value]["since"] == "2023-11-14T22:13:21.000Z"
            assert told[kind.value]["message"]
    assert (await client.call("GET", "/v1/health?x=1"))[0] == 400
    async with client.session.get(f"{client.url}/metrics") as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert b"longshore_containers" in await response.read()
        assert response.headers["Server"] == "longshore/0.0.1"


async def test_the_openapi_document_names_every_route_and_resolves(client: Client) -> None:
    _, document = await client.call("GET", "/openapi.json")
    assert set(document["paths"]) == {
        "/v1/containers",
        "/v1/containers/{id}",
        "/v1/containers/{id}/cancel",
        "/v1/containers/{id}/explain",
        "/v1/containers/{id}/logs",
        "/v1/jobs",
        "/v1/jobs/{id}",
        "/v1/jobs/{id}/cancel",
        "/v1/jobs/{id}/dispatch",
        "/v1/jobs/plan",
        "/v1/instances",
        "/v1/instances/{id}",
        "/v1/instances/{id}/idle-behavior",
        "/v1/instances/{id}/kill",
        "/v1/instances/{id}/strays",
        "/v1/leaks",
        "/v1/strays",
        "/v1/projects/{project}/secrets",
        "/v1/projects/{project}/secrets/{name}",
        "/v1/secret-keys/rotate",
        "/v1/tokens",
        "/v1/tokens/{id}",
        "/v1/tokens/{id}/revoke",
        "/v1/whoami",
        "/v1/cost",
        "/v1/cost/forecast",
        "/v1/cost/runs",
        "/v1/prices",
        "/v1/budgets",
        "/v1/cost/export",
        "/v1/cost/reconcile",
        "/v1/audit",
        "/v1/efficiency",
        "/v1/overview",
        "/v1/holds",
        "/v1/decisions",
        "/v1/timeline",
        "/v1/events",
        "/v1/health",
        "/health/live",
        "/health/ready",
        "/metrics",
    }
    schemas = document["components"]["schemas"]
    assert set(schemas["ContainerRequest"]["properties"]) == {*FULL, "after", "secrets"}
    ours = {"name", "type", "priority", "project", "labels", "tasks"}
    by_type = {
        *("update", "late_joiners", "on_paused", "ignore_system"),
        *("mode", "size", "runtime_s", "scale_up", "periodic", "parameterized"),
    }
    assert set(schemas["JobRequest"]["properties"]) == ours | by_type
    of_a_task = {*FULL, "after", "secrets", "array", "role", "startup_order"} - {
        "priority",
        "project",
    }
    assert set(schemas["TaskRequest"]["properties"]) == of_a_task
    references = {
        part.split('"')[0] for part in json.dumps(document).split('"#/components/schemas/')[1:]
    }
    assert references <= set(schemas)
    assert document["info"]["version"] == "0.0.1"


@pytest.mark.parametrize(
    "data",
    [
        b"NONSENSE\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
    ],
)
async def test_malformed_http_is_a_problem_document_too(client: Client, data: bytes) -> None:
    answer = await raw_exchange(client.port, data)
    if data.startswith(b"\x16") and not answer:
        return
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400"))
    assert b"application/problem+json" in answer
    assert b"Traceback" not in answer


async def test_an_odd_expectation_is_a_problem_document_too(client: Client) -> None:
    data = (
        b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nExpect: tea\r\nConnection: close\r\n\r\n"
    )
    answer = await raw_exchange(client.port, data)
    assert answer.startswith(b"HTTP/1.1 417")
    assert b"application/problem+json" in answer


@pytest.mark.parametrize("odd", ["%00", "%0a", "%20", "%C3%A9", "x" * 300])
async def test_what_can_be_no_id_never_reaches_the_backend(client: Client, odd: str) -> None:
    _, answer = await client.call("GET", f"/v1/containers/{odd}")
    assert answer["detail"] == "there is no container with that id"
