"""Must show: every example does what its first lines say, on a real server with real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from tests.dispatcher_process import DispatcherProcess

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DispatcherProcess]:
    with DispatcherProcess(tmp_path_factory.mktemp("examples"), {}) as process:
        yield process


def longshore(server: DispatcherProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dispatcher", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=ROOT,
        env={**os.environ, "LONGSHORE_URL": server.url},
        stdin=subprocess.DEVNULL,
    )


def run(server: DispatcherProcess, name: str) -> tuple[int, dict[str, Any]]:
    """Run an example to its end; return the exit code of the command, and the job."""
    done = longshore(server, "submit", "-f", f"examples/{name}", "--wait", "--json")
    assert done.stdout, done.stderr
    job: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, job


def containers(server: DispatcherProcess, job_id: str, task: str = "") -> list[dict[str, Any]]:
    """Return a job's containers in the order of their places."""
    options = ["--task", task] if task else []
    done = longshore(server, "ps", "--json", "--job", job_id, *options)
    assert done.returncode == 0, done.stderr
    items: list[dict[str, Any]] = json.loads(done.stdout)["items"]
    return sorted(items, key=lambda each: (each["task"], each["array_index"] or 0))


def test_an_array_runs_five_at_once_and_each_knows_its_place(server: DispatcherProcess) -> None:
    code, job = run(server, "array.yml")
    assert (code, job["state"], job["exit_code"]) == (0, "succeeded", 0)
    assert (job["counts"]["succeeded"], job["counts"]["total"]) == (20, 20)
    ran = containers(server, job["id"])
    assert [each["array_index"] for each in ran] == list(range(20))
    starts = [(each["started_at"], 1) for each in ran]
    ends = [(each["finished_at"], -1) for each in ran]
    at_once = list(accumulate(step for _, step in sorted(starts + ends)))
    assert max(at_once) <= 5
    for index in (0, 7, 19):
        done = longshore(server, "logs", job["id"], "--index", str(index))
        assert (done.returncode, done.stdout) == (0, f"{index} squared is {index * index}\n")


def test_the_tasks_of_a_dag_wait_for_each_other(server: DispatcherProcess) -> None:
    code, job = run(server, "dag.yml")
    assert (code, job["state"]) == (0, "succeeded")
    assert job["counts"]["succeeded"] == 12
    ran = {(each["task"], each["array_index"]): each for each in containers(server, job["id"])}

    def before(first: tuple[str, int | None], then: tuple[str, int | None]) -> bool:
        return str(ran[first]["finished_at"]) <= str(ran[then]["started_at"])

    for index in range(4):
        assert before(("split", None), ("count", index))
        assert before(("count", index), ("check", index))
        assert before(("check", index), ("join", None))
    assert before(("split", None), ("survey", None))
    assert before(("survey", None), ("join", None))
    assert before(("join", None), ("report", None))
    done = longshore(server, "logs", job["id"], "--task", "check", "--index", "2")
    assert done.stdout == "checking part 2\n"


def test_what_runs_too_long_is_ended_and_what_waits_for_any_end_runs(
    server: DispatcherProcess,
) -> None:
    code, job = run(server, "time_limit.yml")
    assert code != 0
    assert (job["state"], job["counts"]["failed"], job["counts"]["succeeded"]) == ("failed", 1, 1)
    (endless,) = containers(server, job["id"], "endless")
    assert endless["reason"]["code"] == "time_limit"
    assert [each["outcome"] for each in endless["attempts"]] == ["failed", "failed"]
    (report,) = containers(server, job["id"], "report")
    assert report["state"] == "succeeded"
    assert report["started_at"] >= endless["finished_at"]
    done = longshore(server, "logs", job["id"], "--task", "endless")
    assert (done.returncode, done.stdout) == (0, "saving what there is\n")
    done = longshore(server, "explain", job["id"])
    assert done.returncode == 0
    assert done.stdout.startswith(f"{job['id']} time-limit has ended: failed, 2/2 done, 1 failed")
