"""Must show: jobs for each instance run on all there are, come back when killed, and outlive us."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.dispatcher_process import DispatcherProcess, wait_for

ROOT = Path(__file__).parent.parent.parent
STAGGER_S = 3
CONFIG: dict[str, Any] = {
    "driver": {"name": "simulated", "parameters": {"boot_time_s": 0.2}},
    "instance_types": {
        "node": {
            "provider_type": "sim.large",
            "cpus": 3,
            "memory": "4GiB",
            "price_per_hour": 0.1,
        }
    },
    "engine": {"name": "process"},
    "pool": {"idle_timeout_s": 120, "sync_interval_s": 0.5, "shutdown_timeout_s": 1},
    "scheduler": {"max_instances": 3},
}

pytestmark = pytest.mark.timeout(400)


def longshore(server: DispatcherProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "longshore", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
        env={**os.environ, "LONGSHORE_URL": server.url},
        stdin=subprocess.DEVNULL,
    )


def said(server: DispatcherProcess, *arguments: str) -> str:
    """Return what a command that is to succeed writes."""
    done = longshore(server, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def job_file(directory: Path, script: str, **fields: object) -> str:
    """Write a system job that runs a script on each instance, and return the path."""
    path = directory / "job.json"
    task = {"command": ["sh", "-c", script], "cpus": 0.5, "memory": "64MiB"}
    body = {"name": "daemon", "type": "system", "tasks": [{**task, **fields}]}
    update = {"max_parallel": 1, "stagger_s": STAGGER_S}
    path.write_text(json.dumps({**body, "update": update}), encoding="utf-8")
    return str(path)


def busy_instance(server: DispatcherProcess, cpus: float) -> tuple[str, str]:
    """Return a container that runs until it is cancelled, and the instance that it keeps."""
    container_id = server.submit("sleep", "600", cpus=cpus, memory="64MiB")
    running = server.wait_state(container_id, "running", timeout_s=120)
    return container_id, str(running["instance"])


def runs(server: DispatcherProcess, job_id: str, revision: int) -> dict[str, dict[str, Any]]:
    """Return the attempts of a job that run at a revision, by their instances."""
    items = json.loads(said(server, "ps", "--job", job_id, "--json"))["items"]
    last = [each["attempts"][-1] for each in items if each["state"] == "running"]
    return {each["instance"]: each for each in last if each["revision"] == revision}


def await_runs(
    server: DispatcherProcess, job_id: str, instances: set[str], revision: int = 1
) -> dict[str, dict[str, Any]]:
    """Wait until a job runs at a revision on just these instances; return its attempts there."""

    def look() -> dict[str, dict[str, Any]]:
        found = runs(server, job_id, revision)
        return found if found.keys() == instances else {}

    return wait_for(look, f"{job_id} runs at revision {revision} on {sorted(instances)}")


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[DispatcherProcess]:
    with DispatcherProcess(tmp_path / "cloud", CONFIG) as process:
        yield process


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[DispatcherProcess]:
    with DispatcherProcess(tmp_path / "machine", {}) as process:
        yield process


def test_a_system_job_is_on_each_instance_and_is_updated_in_rounds(
    cloud: DispatcherProcess, tmp_path: Path
) -> None:
    places = {busy_instance(cloud, 2)[1] for _ in range(2)}
    assert len(places) == 2
    path = job_file(tmp_path, "echo one; exec sleep 600")
    assert said(cloud, "plan", "-f", path).split("\n")[1].split()[:1] == ["2"]
    job_id = said(cloud, "submit", "-f", path).strip()
    await_runs(cloud, job_id, places)
    # Whoever comes later has it, too, and nobody submits it again.
    places.add(busy_instance(cloud, 2)[1])
    assert len(places) == 3
    await_runs(cloud, job_id, places)

    path = job_file(tmp_path, "echo two; exec sleep 600")
    plan = json.loads(said(cloud, "plan", "-f", path, "--job", job_id, "--json"))
    assert (plan["changes"]["update"], plan["changes"]["later"]) == (3, 2)
    assert {each["instance"] for each in plan["steps"]} == places
    assert runs(cloud, job_id, 1).keys() == places
    assert said(cloud, "update", job_id, "-f", path) == f"{job_id} is at revision 2\n"
    updated = await_runs(cloud, job_id, places, revision=2)
    began = sorted(datetime.fromisoformat(each["started_at"]) for each in updated.values())
    pauses = [(b - a).total_seconds() for a, b in pairwise(began)]
    # The rounds are apart, whatever each takes to stop and to start.
    assert min(pauses) > STAGGER_S - 1.5, pauses
    for place in sorted(places):
        assert said(cloud, "logs", job_id, "--instance", place) == "two\n"
    said(cloud, "cancel", job_id)
    assert longshore(cloud, "wait", job_id, "--timeout", "60").returncode == 1
    assert runs(cloud, job_id, 2) == {}


def test_who_finds_no_room_says_where_and_is_placed_once_there_is_some(
    cloud: DispatcherProcess, tmp_path: Path
) -> None:
    full, crowded = busy_instance(cloud, 2.75)
    _, roomy = busy_instance(cloud, 2)
    assert crowded != roomy
    path = job_file(tmp_path, "exec sleep 600")
    plan = json.loads(said(cloud, "plan", "-f", path, "--json"))
    assert (plan["changes"]["place"], plan["changes"]["blocked"]) == (1, 1)
    assert [each["code"] for each in plan["waiting"]] == ["no_room"]
    job_id = said(cloud, "submit", "-f", path).strip()
    await_runs(cloud, job_id, {roomy})
    told = said(cloud, "explain", job_id)
    assert "1 running, 1 queued" in told
    assert f"  {crowded}  {crowded} is short of cpu" in told
    waits = said(cloud, "ps", "--job", job_id, "--state", "queued").splitlines()
    assert len(waits) == 2
    assert f"{crowded} is short of cpu" in waits[1]
    said(cloud, "cancel", full)
    await_runs(cloud, job_id, {crowded, roomy})
    assert "None of its containers waits" in said(cloud, "explain", job_id)


def test_a_daemon_that_is_killed_comes_back_and_outlives_the_server(
    machine: DispatcherProcess, tmp_path: Path
) -> None:
    keeper, place = busy_instance(machine, 0.25)
    path = job_file(tmp_path, "echo $$; exec sleep 600", cpus=0.25)
    job_id = said(machine, "submit", "-f", path).strip()
    first = await_runs(machine, job_id, {place})[place]

    def pid() -> int:
        return int(wait_for(lambda: said(machine, "logs", job_id), "it has written its number"))

    os.kill(pid(), signal.SIGKILL)

    def restarted() -> dict[str, Any]:
        attempt = runs(machine, job_id, 1).get(place, {})
        return attempt if attempt.get("number", 0) > first["number"] else {}

    second = wait_for(restarted, "it is started again")
    (container,) = json.loads(said(machine, "ps", "--job", job_id, "--json"))["items"]
    assert [each["outcome"] for each in container["attempts"]] == ["failed", None]
    assert container["attempts"][0]["exit_code"] == 137

    alive = pid()
    machine.kill()
    os.kill(alive, 0)
    machine.start()
    assert await_runs(machine, job_id, {place})[place]["id"] == second["id"]
    assert pid() == alive
    # What is submitted, updated and ended after the crash is as before it.
    path = job_file(tmp_path, "echo $$; exec sleep 500", cpus=0.25)
    assert said(machine, "update", job_id, "-f", path) == f"{job_id} is at revision 2\n"
    await_runs(machine, job_id, {place}, revision=2)
    with pytest.raises(ProcessLookupError):
        os.kill(alive, 0)
    said(machine, "cancel", job_id, keeper)
    wait_for(lambda: not runs(machine, job_id, 2), "the daemon has ended")
