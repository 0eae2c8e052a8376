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

from tests.dispatcher_process import DispatcherProcess, wait_for

ROOT = Path(__file__).parent.parent.parent
HOURS = ("00:30", "01:30", "04:00", "05:00")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DispatcherProcess]:
    with DispatcherProcess(tmp_path_factory.mktemp("examples"), {}) as process:
        yield process


def longshore(server: DispatcherProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "longshore", *arguments],
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


def test_the_workers_of_an_elastic_job_run_beside_its_driver_and_end_with_it(
    server: DispatcherProcess,
) -> None:
    code, job = run(server, "elastic.yml")
    assert (code, job["state"], job["exit_code"]) == (0, "succeeded", 0)
    assert (job["counts"]["succeeded"], job["counts"]["cancelled"]) == (1, 3)
    (driver,) = containers(server, job["id"], "driver")
    assert driver["state"] == "succeeded"
    workers = containers(server, job["id"], "worker")
    assert [each["reason"]["code"] for each in workers] == ["job_ended"] * 3
    # There is room for some at least, and they start after it.
    began = [each["started_at"] for each in workers if each["started_at"] is not None]
    assert began
    assert min(began) >= driver["started_at"]
    (index, *_) = [each["array_index"] for each in workers if each["started_at"] is not None]
    done = longshore(server, "logs", job["id"], "--task", "worker", "--index", str(index))
    assert done.stdout == f"worker {index} works for 127.0.0.1\n"
    done = longshore(server, "logs", job["id"], "--task", "driver")
    assert done.stdout == "driving\ndone\n"


# ---- jobs of the other types --------------------------------------------------------------------


@pytest.fixture
def instance(server: DispatcherProcess) -> Iterator[str]:
    """Yield an instance that is there: what runs on it keeps it, and no job for each creates any.

    All that a test submitted is cancelled after it.
    """
    keeper = server.submit("sleep", "600", cpus=0.25)
    yield str(server.wait_state(keeper, "running")["instance"])
    jobs = server.call("GET", "/v1/jobs?state=pending&state=running")["items"]
    ids = [keeper, *(each["id"] for each in jobs)]
    assert longshore(server, "cancel", *ids).returncode == 0
    ended = longshore(server, "wait", *ids, "--timeout", "60")
    assert len(ended.stdout.splitlines()) == len(ids), ended.stderr


def submit(server: DispatcherProcess, path: Path | str) -> str:
    """Return the id of the job that a file describes."""
    done = longshore(server, "submit", "-f", str(path))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def said(server: DispatcherProcess, *arguments: str) -> str:
    """Return what a command that is to succeed writes."""
    done = longshore(server, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def changed(tmp_path: Path, name: str, *changes: tuple[str, str]) -> Path:
    """Return a copy of an example in which some of its text is another."""
    text = (ROOT / "examples" / name).read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def only_container(server: DispatcherProcess, job_id: str) -> dict[str, Any]:
    """Return the only container of a job once it runs and has written something."""

    def look() -> dict[str, Any] | None:
        found = containers(server, job_id)
        ready = len(found) == 1 and found[0]["state"] == "running"
        return found[0] if ready and server.log(found[0]["id"], follow=False) else None

    found = wait_for(look, f"{job_id} runs on the instance")
    assert found is not None
    return found


def test_a_log_shipper_runs_on_the_instance_and_is_updated(
    server: DispatcherProcess, instance: str, tmp_path: Path
) -> None:
    job_id = submit(server, "examples/system.yml")
    first = only_container(server, job_id)
    assert (first["for_instance"], first["instance"]) == (instance, instance)
    told = said(server, "logs", job_id, "--instance", instance)
    assert set(told.splitlines()) == {f"shipping from {instance}"}

    # What the program does not see changes while it runs.
    path = changed(tmp_path, "system.yml", ("labels: {example: system}", "priority: 700"))
    assert " in place " in said(server, "plan", "-f", str(path), "--job", job_id)
    assert said(server, "update", job_id, "-f", str(path)) == f"{job_id} is at revision 2\n"
    again = said(server, "update", job_id, "-f", str(path))
    assert again == f"nothing changed: {job_id} is at revision 2\n"
    same = wait_for(
        lambda: [each for each in containers(server, job_id) if each["priority"] == 700],
        "the priority is that of the revision",
    )
    assert [(each["id"], len(each["attempts"])) for each in same] == [(first["id"], 1)]

    # Another program is another attempt.
    path = changed(tmp_path, "system.yml", ("shipping", "sending"))
    assert " update " in said(server, "plan", "-f", str(path), "--job", job_id)
    said(server, "update", job_id, "-f", str(path))

    def sends() -> bool:
        return b"sending" in server.log(first["id"], follow=False)

    wait_for(sends, "what runs is the last revision")
    attempts = server.container(first["id"])["attempts"]
    assert [(each["outcome"], each["revision"]) for each in attempts] == [
        ("preempted", 2),
        (None, 3),
    ]
    shown = said(server, "show", job_id)
    assert "revision  3\n" in shown
    assert "progress  1 running\n" in shown
    assert said(server, "cancel", job_id) == f"{job_id} is being cancelled\n"
    done = longshore(server, "wait", job_id, "--timeout", "60")
    assert (done.returncode, f"{job_id} (shipper) cancelled" in done.stdout) == (1, True)
    assert server.wait_final(first["id"])["state"] == "cancelled"


def test_what_cleans_up_runs_once_on_the_instance(server: DispatcherProcess, instance: str) -> None:
    code, job = run(server, "sysbatch.yml")
    assert (code, job["state"], job["counts"]["succeeded"]) == (0, "succeeded", 1)
    assert said(server, "logs", job["id"]) == f"cleaning {instance}\n"


def test_a_periodic_job_is_launched_by_its_schedule_unless_it_is_held(
    server: DispatcherProcess, instance: str, tmp_path: Path
) -> None:
    del instance
    template = submit(server, "examples/periodic.yml")
    seen = json.loads(said(server, "show", template, "--json"))
    assert (seen["state"], seen["launched_for"], seen["counts"]["total"]) == ("pending", None, 0)
    # Half past two or six in Berlin, by summer time or not.
    assert seen["next_launch"][11:] in {f"{hour}:00.000Z" for hour in HOURS}
    shown = said(server, "show", template)
    assert f"next launch  {seen['next_launch'][:19]}Z\n" in shown
    assert shown.endswith("\nIt has not run yet.\n")
    assert said(server, "hold", template) == f"{template} is held\n"
    assert "next launch" not in said(server, "show", template)

    # Every second, so that nobody waits for half past two.
    path = changed(
        tmp_path, "periodic.yml", ('["30 2 * * MON-FRI", "0 6 * * SAT,SUN"]', '"* * * * * *"')
    )
    each_second = submit(server, path)

    def runs() -> list[dict[str, Any]]:
        told = json.loads(said(server, "jobs", "--parent", each_second, "--json"))
        found: list[dict[str, Any]] = told["items"]
        return [each for each in found if each["state"] == "succeeded"]

    first, second = (
        wait_for(lambda: len(runs()) > 1 and runs()[-2:][::-1], "it has run twice") or []
    )
    said(server, "hold", each_second)
    made_for = [said(server, "logs", each["id"]).split()[-1] for each in (first, second)]
    assert made_for == sorted(set(made_for))
    assert json.loads(said(server, "jobs", "--parent", template, "--json"))["items"] == []
    assert first["id"] in said(server, "jobs", "--parent", each_second)
    assert "its runs, newest first" in said(server, "show", each_second)


def test_a_parameterized_job_runs_whenever_it_is_dispatched(
    server: DispatcherProcess, instance: str
) -> None:
    del instance
    template = submit(server, "examples/parameterized.yml")
    done = longshore(server, "dispatch", template)
    assert (done.returncode, done.stdout) == (2, "")
    assert "parameters.sample: is missing" in done.stderr
    runs = [
        said(server, "dispatch", template, "--wait", *parameters).strip()
        for parameters in (("-p", "sample=S1"), ("-p", "sample=S2", "-p", "level=9"))
    ]
    assert [said(server, "logs", each) for each in runs] == [
        "measuring S1 at level 3\n",
        "measuring S2 at level 9\n",
    ]
    listed = json.loads(said(server, "jobs", "--parent", template, "--json"))["items"]
    assert [each["id"] for each in listed] == runs[::-1]
