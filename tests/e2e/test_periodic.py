"""Must show: a periodic job's runs are made on time, once each, whatever becomes of the server."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.dispatcher_process import DispatcherProcess, wait_for

EACH_SECOND = "* * * * * *"


def submit(server: DispatcherProcess, command: str, **periodic: Any) -> str:
    """Submit a periodic job of one container; return its id."""
    task = {"command": ["sh", "-c", command], "cpus": 0.1, "memory": "16MiB"}
    job = server.call("POST", "/v1/jobs", {"name": "tick", "tasks": [task], "periodic": periodic})
    return str(job["id"])


def runs_of(server: DispatcherProcess, job_id: str) -> dict[str, dict[str, Any]]:
    """Return a job's runs by id."""
    page = server.call("GET", f"/v1/jobs?parent={job_id}&limit=1000")
    return {run["id"]: run for run in page["items"]}


def launches(server: DispatcherProcess) -> dict[str, float]:
    """Return what came of the times of schedules since the server started."""
    return {
        sample.labels["result"]: sample.value
        for family in text_string_to_metric_families(server.metrics())
        for sample in family.samples
        if sample.name == "longshore_periodic_launches_total"
    }


def time_of(server: DispatcherProcess, run_id: str) -> datetime:
    """Return the time of the schedule that a run found in its environment."""
    (container,) = server.call("GET", f"/v1/containers?job={run_id}")["items"]
    assert server.wait_final(container["id"])["state"] == "succeeded"
    return datetime.fromisoformat(server.log(container["id"]).decode().strip())


def test_each_time_has_one_run_across_a_crash_and_none_while_the_job_is_held(
    tmp_path: Path,
) -> None:
    with DispatcherProcess(tmp_path / "server", {}) as server:
        job_id = submit(server, 'echo "$LONGSHORE_PERIODIC_TIME"', cron=EACH_SECOND)
        wait_for(lambda: len(runs_of(server, job_id)) >= 3, "three runs are made")
        server.kill()
        server.start()
        before = set(runs_of(server, job_id))
        wait_for(lambda: len(runs_of(server, job_id)) >= len(before) + 3, "it goes on")
        server.call("PATCH", f"/v1/jobs/{job_id}", {"held": True})
        wait_for(lambda: launches(server)["held"] >= 1, "it is known to be held")
        runs = runs_of(server, job_id)
        wait_for(lambda: launches(server)["held"] >= 3, "times pass")
        assert set(runs_of(server, job_id)) == set(runs)
        times = [time_of(server, run_id) for run_id in runs]
        assert len(set(times)) == len(times), "none was made twice"
        for time, run in zip(times, runs.values(), strict=True):
            late = datetime.fromisoformat(run["created_at"]) - time
            assert timedelta(seconds=-1) < late < timedelta(seconds=60)
            assert time.utcoffset() == timedelta()
            assert time.microsecond == 0
        job = server.call("GET", f"/v1/jobs/{job_id}")
        assert datetime.fromisoformat(job["launched_for"]) == max(times)
        server.call("POST", f"/v1/jobs/{job_id}/cancel", {})
        wait_for(
            lambda: server.call("GET", f"/v1/jobs/{job_id}")["state"] == "cancelled", "it ends"
        )


def test_while_a_run_has_not_ended_no_other_is_made_where_overlap_is_forbidden(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    with DispatcherProcess(tmp_path / "server", {}) as server:
        waits = f"until [ -e {gate} ]; do sleep 0.05; done"
        job_id = submit(server, waits, cron=[EACH_SECOND], overlap="forbid", time_zone="Asia/Tokyo")
        wait_for(lambda: launches(server)["overlap"] >= 2, "times are skipped")
        (first,) = runs_of(server, job_id)
        gate.touch()
        wait_for(lambda: len(runs_of(server, job_id)) >= 2, "another is made once it has ended")
        server.call("POST", f"/v1/jobs/{job_id}/cancel", {})
        runs = sorted(runs_of(server, job_id).values(), key=lambda run: str(run["created_at"]))
        assert runs[0]["id"] == first
        for earlier, later in pairwise(runs):
            assert earlier["finished_at"] <= later["created_at"]
