"""Must show: jobs on every instance are planned, updated and ended over HTTP; parameters arrive.

Against the real server, with real processes on this machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.dispatcher_process import ApiError, DispatcherProcess, wait_for

SMALL: dict[str, Any] = {"cpus": 0.1, "memory": "10MiB"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DispatcherProcess]:
    with DispatcherProcess(tmp_path_factory.mktemp("job-types"), {}) as process:
        yield process


def containers(server: DispatcherProcess, job_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.call("GET", f"/v1/containers?job={job_id}")["items"]
    return found


def state_of(server: DispatcherProcess, job_id: str) -> str:
    return str(server.call("GET", f"/v1/jobs/{job_id}")["state"])


def test_a_parameterized_job_runs_with_what_it_is_dispatched_with(
    server: DispatcherProcess,
) -> None:
    print_both = 'printf "%s/%s" "$LONGSHORE_PARAMETER_INPUT" "$LONGSHORE_PARAMETER_WIDTH"'
    template = server.call(
        "POST",
        "/v1/jobs",
        {
            "parameterized": {"required": ["input"], "optional": {"width": "640"}},
            "tasks": [{"command": ["sh", "-c", print_both], **SMALL}],
        },
    )["id"]
    with pytest.raises(ApiError) as caught:
        server.call("POST", f"/v1/jobs/{template}/dispatch", {"parameters": {"inptu": "x"}})
    assert [error["path"] for error in caught.value.body["errors"]] == [
        "parameters.input",
        "parameters.inptu",
    ]
    given = {"parameters": {"input": 'a "b"\n$(c)'}}
    run = server.call("POST", f"/v1/jobs/{template}/dispatch", given)["id"]
    wait_for(lambda: state_of(server, run) == "succeeded", "the run has succeeded")
    [one] = containers(server, run)
    assert server.log(one["id"]) == b'a "b"\n$(c)/640'
    runs = server.call("GET", f"/v1/jobs?parent={template}")["items"]
    assert [(each["id"], each["parent"]) for each in runs] == [(run, template)]
    server.call("POST", f"/v1/jobs/{template}/cancel", {})
    wait_for(lambda: state_of(server, template) == "cancelled", "the template has ended")
    with pytest.raises(ApiError) as caught:
        server.call("POST", f"/v1/jobs/{template}/dispatch", given)
    assert caught.value.status == 409


def test_a_system_job_is_planned_updated_and_ended_where_it_runs(
    server: DispatcherProcess,
) -> None:
    def body(command: str, **more: Any) -> dict[str, Any]:
        return {"type": "system", "tasks": [{"command": ["sleep", command], **SMALL}], **more}

    # An instance is there as long as somebody has work for it.
    work = server.call("POST", "/v1/containers", {"command": ["sleep", "600"], **SMALL})["id"]
    job = server.call("POST", "/v1/jobs", body("601"))["id"]

    def revisions() -> list[int]:
        found = containers(server, job)
        if [each["state"] for each in found] != ["running"]:
            return []
        assert found[0]["for_instance"] == found[0]["instance"]
        return [attempt["revision"] for attempt in found[0]["attempts"]]

    wait_for(lambda: revisions() == [1], "it runs")
    planned = server.call("POST", f"/v1/jobs/plan?job={job}", body("602"))
    assert (planned["changes"]["update"], planned["changes"]["place"]) == (1, 0)
    assert [step["action"] for step in planned["steps"]] == ["update"]
    assert server.call("PUT", f"/v1/jobs/{job}", body("601"))["revision"] == 1
    assert server.call("PUT", f"/v1/jobs/{job}", body("602"))["revision"] == 2
    wait_for(lambda: revisions() == [1, 2], "it runs at its second revision")
    in_place = body("602", labels={"team": "a"}, priority=700)
    assert server.call("PUT", f"/v1/jobs/{job}", in_place)["revision"] == 3
    assert containers(server, job)[0]["priority"] == 700
    server.call("POST", f"/v1/jobs/{job}/cancel", {})
    wait_for(lambda: state_of(server, job) == "cancelled", "the job has ended")
    server.call("POST", f"/v1/containers/{work}/cancel", {})
