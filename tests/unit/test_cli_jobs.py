"""Jobs on the command line against the real API: what is sent, printed, and how it exits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from longshore.client import Client
from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.domain.containers import ContainerState, Dependency, DependencyOn
from longshore.dispatcher.domain.messages import InsertContainers, SaveContainer
from tests.cli_server import CliServer, cli_server
from tests.job_commands import (
    INSTANCE,
    diamond,
    ids_of,
    run_job_through,
    run_through,
    start,
    submitted,
)
from tests.store_values import container

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    with cli_server() as running:
        running.do(lambda rig: rig.add_instance(INSTANCE))
        monkeypatch.setenv("LONGSHORE_URL", running.url)
        yield running


def without_times(text: str) -> str:
    """Return a text without what depends on when it was written."""
    text = re.sub(r"[0-9]{4}-[0-9-]+T[0-9:]+Z", "WHEN", text)
    return re.sub(r"(?<= )[0-9]+s(?= )", "AGE", text)


# ---- submit -------------------------------------------------------------------------------------


def test_an_array_is_a_job_of_one_task(server: CliServer, capsys: Capture) -> None:
    first = submitted(capsys, "--project", "science", "--", "x")
    job_id = submitted(
        capsys,
        *("--array", "4%2", "--name", "align", "--project", "science", "--priority", "700"),
        *("--label", "team=x", "--cpus", "2", "--retries", "1", "--after", f"{first}:end"),
        *("--time-limit", "1h30m", "--grace-period", "20", "--not-before", "2020-01-01T00:00:00Z"),
        *("--", "align", "--help"),
    )
    (job,) = server.jobs().values()
    assert job.id == job_id
    (task,) = job.tasks
    assert (job.name, job.project, job.priority) == ("align", "science", 700)
    assert job.labels == task.spec.labels == (("team", "x"),)
    assert (task.name, task.size, task.is_array, task.max_running) == ("", 4, True, 2)
    assert task.spec.command == ("align", "--help")
    assert task.spec.resources.cpu_millis == 2000
    assert task.spec.retries.most == 1
    assert task.spec.after == (Dependency(of=first, on=DependencyOn.END),)
    assert (task.spec.time_limit_s, task.spec.grace_period_s) == (5400, 20)
    assert task.spec.not_before == 1_577_836_800.0
    assert [each.array_index for each in server.containers()[1:]] == [0, 1, 2, 3]


def test_one_container_has_the_new_options_too(server: CliServer, capsys: Capture) -> None:
    job_id = submitted(capsys, "--array", "2", "--", "x")
    container_id = submitted(
        capsys, "--after", job_id, "--after", "c-00000002", "--time-limit", "1.5", "--", "y"
    )
    made = server.containers()[-1]
    assert made.id == container_id
    assert made.spec.after == (Dependency(of=job_id), Dependency(of="c-00000002"))
    assert made.spec.time_limit_s == 1.5
    assert main(["show", container_id]) == 0
    text = capsys.readouterr().out
    assert "after       j-00000001, c-00000002\n" in text
    assert "time limit  2s\n" in text


def test_a_submitted_job_is_one_json_document(server: CliServer, capsys: Capture) -> None:
    document = json.loads(submitted(capsys, "--json", "--array", "2", "--", "true"))
    assert (document["id"], document["state"]) == ("j-00000001", "pending")
    assert document["tasks"][0]["size"] == 2
    assert len(server.containers()) == 2


def test_what_a_server_refuses_of_an_array_is_told_field_by_field(
    server: CliServer, capsys: Capture
) -> None:
    assert main(["submit", "--array", "0", "--memory", "4 potatoes", "--", "x"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("longshore: ")
    assert sorted(line.split(":")[0] for line in lines[1:]) == [
        "  tasks[0].array",
        "  tasks[0].memory",
    ]
    assert server.containers() == []


# ---- jobs, show, ps -----------------------------------------------------------------------------


def test_jobs_are_listed_newest_first(server: CliServer, capsys: Capture) -> None:
    submitted(capsys, "--array", "3", "--name", "one", "--", "x")
    submitted(capsys, "--array", "2", "--name", "two", "--priority", "7", "--", "x")
    first, second, third = ids_of(server, "j-00000001")
    run_through(server, first)
    run_through(server, second, 9)
    start(server, third)
    assert main(["hold", "j-00000005"]) == 0
    capsys.readouterr()
    assert main(["jobs"]) == 0
    assert without_times(capsys.readouterr().out).splitlines() == [
        (
            "ID          NAME  TYPE   STATE    PRIO  DONE  RUNNING  FAILED  USER       AGE  EXIT  "
            "NOTE"
        ),
        (
            "j-00000005  two   batch  pending  7     0/2   0        0       anonymous  AGE   -     "
            "held"
        ),
        "j-00000001  one   batch  running  500   2/3   1        1       anonymous  AGE   -     -",
    ]
    assert main(["jobs", "--json"]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    assert [(each["id"], each["held"]) for each in items] == [
        ("j-00000005", True),
        ("j-00000001", False),
    ]


def test_jobs_are_filtered(server: CliServer, capsys: Capture) -> None:
    one = submitted(capsys, "--array", "1", "--name", "one", "--project", "science", "--", "x")
    two = submitted(capsys, "--array", "1", "--name", "two", "--", "x")
    run_job_through(server, two, 0)
    listed: dict[tuple[str, ...], list[str]] = {
        (): [one],
        ("--all",): [two, one],
        ("--state", "succeeded"): [two],
        ("--state", "pending", "--state", "running"): [one],
        ("--name", "one"): [one],
        ("--project", "science"): [one],
        ("--user", "nobody"): [],
        ("--all", "--limit", "1"): [two],
    }
    for options, expected in listed.items():
        assert main(["jobs", "--json", *options]) == 0
        captured = capsys.readouterr()
        assert [each["id"] for each in json.loads(captured.out)["items"]] == expected
        assert ("there are more; these are the newest 1" in captured.err) == ("--limit" in options)


@pytest.mark.usefixtures("server")
def test_what_lives_on_is_listed_before_its_runs(capsys: Capture, tmp_path: Path) -> None:
    """A template submitted long ago stood behind 500 of its own runs."""
    path = tmp_path / "job.yml"
    path.write_text(
        "parameterized: {optional: {a: b}}\ntasks: [{command: [x]}]\n", encoding="utf-8"
    )
    template, runs = submitted(capsys, "-f", str(path)), []
    for _ in range(4):
        assert main(["dispatch", template]) == 0
        runs.append(capsys.readouterr().out.strip())
    assert main(["jobs", "--json", "--limit", "2"]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    assert [each["id"] for each in items] == [template, runs[-1]]
    assert main(["jobs", "--json"]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    assert [each["id"] for each in items] == [template, *runs[::-1]]


def test_ps_lists_what_a_container_has_submitted_from_inside(
    server: CliServer, capsys: Capture
) -> None:
    parent = submitted(capsys, "--", "x")
    submitted(capsys, "--", "x")
    made = container(99, id="c-child", parent=parent)
    ended = replace(made, state=ContainerState.CANCELLED)
    server.rig.store.write(
        [InsertContainers(containers=(made,), user="u"), SaveContainer(container=ended)]
    ).result(timeout=10)
    assert main(["ps", "--parent", parent, "--json"]) == 0
    (child,) = json.loads(capsys.readouterr().out)["items"]
    assert (child["id"], child["state"]) == (made.id, "cancelled")
    assert main(["ps", "--parent", parent, "--state", "failed", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"items": []}
    with Client(server.url) as client:
        assert [each.id for each in client.containers(parent=parent)] == [made.id]
    assert main(["ps", "--parent", "c-typo"]) == 1
    captured = capsys.readouterr()
    assert (captured.out, "there is no container c-typo" in captured.err) == ("", True)


def test_containers_of_a_job_that_is_not_there_are_not_none(
    server: CliServer, capsys: Capture
) -> None:
    assert main(["ps", "--job", "j-typo"]) == 1
    captured = capsys.readouterr()
    assert (captured.out, "there is no job j-typo" in captured.err) == ("", True)
    job_id = submitted(capsys, "--array", "1", "--", "x")
    assert main(["ps", "--job", job_id, "--state", "failed", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"items": []}
    assert server.paths[-1].startswith(f"/v1/jobs/{job_id}")


def test_show_tells_of_a_job_with_its_tasks(
    server: CliServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = diamond(capsys, monkeypatch)
    split, *left = ids_of(server, job_id)[:3]
    run_through(server, split)
    start(server, left[0])
    run_through(server, left[1], 4)
    assert main(["show", job_id]) == 0
    text = re.sub(r"(?<=ran for   )\S+", "AGE", without_times(capsys.readouterr().out))
    assert text.splitlines() == [
        "id        j-00000001",
        "name      diamond",
        "type      batch",
        "state     running",
        "progress  3/8 done, 1 running, 1 failed, 1 cancelled",
        "priority  500",
        "user      anonymous",
        "project   default",
        "created   WHEN",
        "started   WHEN",
        "ran for   AGE",
        "",
        "TASK   SIZE  AT ONCE  QUEUED  LOCKED  RUNNING  SUCCEEDED  FAILED  CANCELLED  AFTER",
        "split  -     -        0       0       0        1          0       0          -",
        "left   3     2        0       1       1        0          1       0          split",
        (
            "right  3     -        2       0       0        0          0       1          "
            "left (element by element)"
        ),
        (
            "join   -     -        1       0       0        0          0       0          "
            "left, right (any end)"
        ),
    ]
    assert main(["show", job_id, "--json"]) == 0
    tasks = json.loads(capsys.readouterr().out)["tasks"]
    assert [each["name"] for each in tasks] == ["split", "left", "right", "join"]


def test_show_tells_of_a_container_what_it_is_of_a_job(
    server: CliServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    diamond(capsys, monkeypatch)
    assert main(["show", ids_of(server, "j-00000001")[5]]) == 0
    lines = capsys.readouterr().out.splitlines()
    wanted = {
        "name         right",
        "job          j-00000001",
        "task         right",
        "array index  1",
        "after        left (element by element)",
    }
    assert wanted <= set(lines)


def test_ps_lists_a_job_of_all_states(
    server: CliServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = diamond(capsys, monkeypatch)
    submitted(capsys, "--", "x")
    ids = ids_of(server, job_id)
    run_through(server, ids[0])
    listed: dict[tuple[str, ...], list[int]] = {
        ("--job", job_id): [7, 6, 5, 4, 3, 2, 1, 0],
        ("--job", job_id, "--state", "queued", "--task", "left"): [3],
        ("--job", job_id, "--state", "locked", "--task", "left"): [2, 1],
        ("--job", job_id, "--task", "right", "--index", "0"): [4],
        ("--job", job_id, "--index", "2"): [6, 3],
        ("--job", job_id, "--limit", "1"): [7],
    }
    for options, expected in listed.items():
        assert main(["ps", "--json", *options]) == 0
        items = json.loads(capsys.readouterr().out)["items"]
        assert [each["id"] for each in items] == [ids[number] for number in expected]
    assert main(["ps", "--job", job_id, "--index", "2"]) == 0
    _, right, left = capsys.readouterr().out.splitlines()
    assert (right.split()[1], left.split()[1]) == ("right[2]", "left[2]")


# ---- steering -----------------------------------------------------------------------------------


def test_jobs_and_containers_are_steered_by_one_command(server: CliServer, capsys: Capture) -> None:
    job_id = submitted(capsys, "--array", "2", "--", "x")
    container_id = submitted(capsys, "--", "x")
    steps: list[tuple[list[str], str]] = [
        (["hold", job_id], f"{job_id} is held\n"),
        (["release", job_id], f"{job_id} is released\n"),
        (["priority", job_id, "9"], f"{job_id} has priority 9\n"),
        (["priority", container_id, "8"], f"{container_id} has priority 8\n"),
    ]
    held = []
    for arguments, said in steps:
        assert main(arguments) == 0
        assert capsys.readouterr() == (said, "")
        held.append(server.jobs()[job_id].held)
    assert held == [True, False, False, False]
    assert [each.priority for each in server.containers()] == [9, 9, 8]
    assert main(["cancel", job_id, container_id, job_id]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{job_id} is being cancelled",
        f"{container_id} is being cancelled",
    ]
    assert all(each.cancel_requested for each in server.containers())


def test_steering_goes_on_after_what_cannot_be_steered(server: CliServer, capsys: Capture) -> None:
    ended = submitted(capsys, "--array", "1", "--", "x")
    run_job_through(server, ended, 0)
    other = submitted(capsys, "--array", "1", "--", "x")
    for command, said in (("hold", "held"), ("release", "released"), ("cancel", "being cancelled")):
        assert main([command, ended, "j-9", other]) == 1
        captured = capsys.readouterr()
        assert captured.out == f"{other} is {said}\n"
        assert [line.split(".")[0] for line in captured.err.splitlines()] == [
            f"longshore: job {ended} has succeeded already",
            "longshore: there is no job j-9",
        ]


@pytest.mark.parametrize("command", ["hold", "release"])
def test_only_jobs_are_held(server: CliServer, capsys: Capture, command: str) -> None:
    assert main([command, "j-1", "c-1"]) == 2
    assert capsys.readouterr().err == (
        "longshore: c-1 is not a job's id, and only jobs are held and released. "
        "Hold a container back with 'longshore priority ID 0'\n"
    )
    assert server.paths == []


def test_what_does_not_exist_is_one_sentence(server: CliServer, capsys: Capture) -> None:
    del server
    for arguments in (
        ["show", "j-9"],
        ["logs", "j-9"],
        ["wait", "j-9"],
        ["cancel", "j-9"],
        ["priority", "j-9", "1"],
        ["hold", "j-9"],
        ["explain", "j-9"],
    ):
        assert main(arguments) == 1
        assert capsys.readouterr() == ("", "longshore: there is no job j-9\n")
