"""Jobs of each type on the command line: what is shown of them, and which have no end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.cli.failure import CommandFailure
from longshore.dispatcher.cli.job_terms import refuse_endless
from longshore.dispatcher.domain.containers import Container, Reason, WaitReason
from tests.fake_backend import FakeBackend
from tests.fake_cli_server import CliServer, cli_server
from tests.fake_job_commands import INSTANCE, finish, start, submitted, write

Capture = pytest.CaptureFixture[str]

TASK = {"command": ["x"]}
SYSTEM: Mapping[str, Any] = {
    "name": "shipper",
    "type": "system",
    "update": {"max_parallel": 5},
    "on_paused": True,
    "ignore_system": True,
    "tasks": [TASK],
}
PERIODIC: Mapping[str, Any] = {
    "name": "nightly",
    "periodic": {"cron": ["0 6 * * *", "30 2 * * *"], "time_zone": "Europe/Berlin"},
    "tasks": [{**TASK, "array": {"size": 9, "max_running": 3}}],
}
PARAMETERIZED: Mapping[str, Any] = {
    "type": "sysbatch",
    "late_joiners": False,
    "parameterized": {"required": ["b", "a"], "optional": {"level": "3"}},
    "tasks": [TASK],
}
ELASTIC: Mapping[str, Any] = {
    "type": "elastic",
    "mode": "malleable",
    "size": 12,
    "runtime_s": 90,
    "scale_up": True,
    "tasks": [
        {**TASK, "name": "driver"},
        {**TASK, "name": "worker", "array": 3, "role": "elastic", "startup_order": 7},
    ],
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    with cli_server() as running:
        running.do(lambda backend: backend.add_instance(INSTANCE))
        monkeypatch.setenv("LONGSHORE_URL", running.url)
        yield running


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "job.yml"


def submit(capsys: Capture, path: Path, body: Mapping[str, Any]) -> str:
    """Return the id of a job that is submitted by a file."""
    path.write_text(json.dumps(body), encoding="utf-8")
    return submitted(capsys, "-f", str(path))


def give(server: CliServer, job_id: str, instance_id: str, waits: str = "") -> str:
    """Return the id of a new container that a per-instance job has for an instance."""

    def add(backend: FakeBackend) -> Container:
        job = backend._jobs[job_id]
        backend._add(job, job.tasks[0], 0)
        added = list(backend._containers.values())[-1]
        backend.waiting[added.id] = waits
        return backend._save(replace(added, pinned_to=instance_id))

    return server.do(add).id


def shown(capsys: Capture, job_id: str) -> list[str]:
    assert main(["show", job_id]) == 0
    return re.sub(r"\d{4}-[0-9-]+T[0-9:]+Z", "WHEN", capsys.readouterr().out).splitlines()


# ---- show ---------------------------------------------------------------------------------------


def test_a_system_job_is_shown_with_its_revision_and_who_runs(
    server: CliServer, capsys: Capture, path: Path
) -> None:
    job_id = submit(capsys, path, SYSTEM)
    start(server, give(server, job_id, "i-1"))
    give(server, job_id, "i-2")
    lines = shown(capsys, job_id)
    assert lines[2:10] == [
        "type           system",
        "state          running",
        "progress       1 running, 1 queued",
        "revision       1",
        "update         5 at a time, 30 s apart",
        "on paused      on held and draining instances too",
        "ignore system  left alone where an instance drains",
        "priority       500",
    ]
    assert lines[-2:] == [
        "TASK  QUEUED  LOCKED  RUNNING  SUCCEEDED  FAILED  CANCELLED",
        "-     1       0       1        0          0       0",
    ]


def test_a_sysbatch_job_without_late_joiners_says_so(
    server: CliServer, capsys: Capture, path: Path
) -> None:
    del server
    body = {"type": "sysbatch", "late_joiners": False, "tasks": [TASK]}
    lines = shown(capsys, submit(capsys, path, body))
    assert "late joiners  not on instances that join later" in lines
    assert "progress      0/0 done" in lines
    body["late_joiners"] = True
    assert not any("late joiners" in line for line in shown(capsys, submit(capsys, path, body)))


def test_a_periodic_job_is_shown_with_its_schedule_and_its_newest_runs(
    server: CliServer, capsys: Capture, path: Path
) -> None:
    job_id = submit(capsys, path, PERIODIC)
    lines = shown(capsys, job_id)
    assert lines[1:8] == [
        "name         nightly",
        "type         batch, periodic",
        "state        pending",
        "progress     its runs are jobs of their own",
        "cron         0 6 * * *; 30 2 * * *",
        "time zone    Europe/Berlin",
        "overlap      allow",
    ]
    assert lines[8] == "next launch  WHEN"
    assert lines[-5:] == [
        "",
        "TASK  SIZE  AT ONCE  AFTER",
        "-     9     3        -",
        "",
        "It has not run yet.",
    ]
    runs = [submitted(capsys, "--array", "1", "--", "x") for _ in range(11)]

    def adopt(backend: FakeBackend) -> None:
        backend._jobs |= {each: replace(backend._jobs[each], parent=job_id) for each in runs}
        launched = replace(backend._jobs[job_id], launched_for=1_700_000_000.0)
        backend._jobs[job_id] = launched

    server.do(adopt)
    lines = shown(capsys, job_id)
    assert "last launch  WHEN" in lines
    assert lines[-13] == "its runs, newest first"
    assert lines[-12].startswith("ID ")
    assert [line.split()[0] for line in lines[-11:-1]] == runs[:0:-1]
    assert lines[-1] == f"and more: 'longshore jobs --parent {job_id}'"
    assert "run of    " + job_id in shown(capsys, runs[0])
    assert main(["jobs", "--parent", job_id, "--json"]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    assert [each["id"] for each in items] == runs[::-1]
    assert main(["jobs"]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith(job_id)]
    assert row.endswith("last launched for 2023-11-14T22:13:20Z")
    assert main(["explain", job_id]) == 0
    assert f"\n{runs[-1]} " in capsys.readouterr().out


def test_a_parameterized_job_is_shown_with_its_parameters(
    server: CliServer, capsys: Capture, path: Path
) -> None:
    del server
    job_id = submit(capsys, path, PARAMETERIZED)
    lines = shown(capsys, job_id)
    assert "type          sysbatch, parameterized" in lines
    assert "required      a, b" in lines
    assert "optional      level=3" in lines
    assert main(["jobs"]) == 0
    row = capsys.readouterr().out.splitlines()[-1]
    assert re.split(r"  +", row)[2:6] == ["sysbatch, parameterized", "pending", "500", "-"]


def test_an_elastic_job_is_shown_with_its_components(
    server: CliServer, capsys: Capture, path: Path
) -> None:
    del server
    lines = shown(capsys, submit(capsys, path, ELASTIC))
    assert {
        "mode      malleable",
        "size      12",
        "runtime   1m30s",
        "scale up  for elastic components too",
    } <= set(lines)
    assert lines[-3:] == [
        "TASK    ROLE       STARTS  SIZE  QUEUED  LOCKED  RUNNING  SUCCEEDED  FAILED  CANCELLED",
        "driver  essential  0       -     1       0       0        0          0       0",
        "worker  elastic    7       3     3       0       0        0          0       0",
    ]


# ---- ps, explain, logs --------------------------------------------------------------------------


def test_ps_says_for_which_instance_a_container_is(
    server: CliServer, capsys: Capture, path: Path
) -> None:
    job_id = submit(capsys, path, SYSTEM)
    start(server, give(server, job_id, INSTANCE))
    give(server, job_id, "i-2", "i-2 is short of cpus")
    give(server, job_id, "i-3")
    give(server, job_id, "i-4", "room is made for it")
    done = give(server, job_id, INSTANCE)
    start(server, done)
    finish(server, done, 3)
    assert main(["ps", "--job", job_id]) == 0
    rows = [re.split(r"  +", line) for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[-1] for row in rows] == [
        "i-1: It exited with 3.",
        "i-4: room is made for it",
        "i-3",
        "i-2 is short of cpus",
        "i-1",
    ]
    assert main(["show", done]) == 0
    text = capsys.readouterr().out
    assert "for instance   i-1\n" in text


def test_what_is_wrong_with_a_job_is_noted_in_the_list(
    server: CliServer, capsys: Capture, path: Path
) -> None:
    job_id = submit(capsys, path, SYSTEM)
    said = "started again and again on i-1: it exited with 1"
    server.backend.troubles[job_id] = Reason(code="started_again", message=said)
    assert main(["jobs"]) == 0
    assert said in " ".join(capsys.readouterr().out.split())
    assert f"trouble        {said}" in shown(capsys, job_id)
    assert main(["explain", job_id]) == 0
    assert f"It is in trouble: {said}.\n" in capsys.readouterr().out
    assert main(["explain", job_id, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["trouble"]
    assert told == {"code": "started_again", "message": said}
    assert main(["hold", job_id]) == 0
    capsys.readouterr()
    assert main(["jobs"]) == 0
    assert said not in " ".join(capsys.readouterr().out.split()), "it is to be on hold"


def test_explain_says_on_which_instances_a_job_waits(
    server: CliServer, capsys: Capture, path: Path
) -> None:
    job_id = submit(capsys, path, SYSTEM)
    assert main(["explain", job_id]) == 0
    assert "It is on no instance" not in capsys.readouterr().out
    nowhere = WaitReason(code="all_filtered", message="its demands filter every one of 2 instances")
    server.backend.nowhere[job_id] = nowhere
    assert main(["explain", job_id]) == 0
    assert f"It is on no instance: {nowhere.message}.\n" in capsys.readouterr().out
    lines = shown(capsys, job_id)
    assert f"waiting        {nowhere.message}" in lines
    assert "progress       none running" in lines
    del server.backend.nowhere[job_id]
    for number in range(12):
        give(server, job_id, f"i-{number}", f"i-{number} is short of cpus")
    assert main(["explain", job_id]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        f"{job_id} shipper: 12 queued; it is pending",
        "",
        "where they wait, and what for",
    ]
    assert lines[3:] == [
        *(f"  i-{number}  i-{number} is short of cpus" for number in range(10)),
        "  ...  and 2 more",
    ]
    assert main(["explain", job_id, "--json"]) == 0
    waiting = json.loads(capsys.readouterr().out)["waiting"]
    assert [each["for_instance"] for each in waiting] == ["i-0"]


def test_the_log_of_a_job_is_that_of_its_last_container_on_an_instance(
    server: CliServer, capsys: Capture, path: Path
) -> None:
    job_id = submit(capsys, path, SYSTEM)
    assert main(["logs", job_id]) == 1
    assert f"nothing of {job_id} has run. See 'longshore ps" in capsys.readouterr().err
    server.do(lambda backend: backend.add_instance("i-2"))
    for number, instance_id in enumerate(("i-1", "i-2", "i-1")):
        container_id = give(server, job_id, instance_id)
        start(server, container_id, instance_id)
        write(server, container_id, b"%d\n" % number)
        if not number:
            assert main(["logs", job_id]) == 0
            assert capsys.readouterr().out == "0\n"
        finish(server, container_id)
    assert main(["logs", job_id, "--instance", "i-1"]) == 0
    assert capsys.readouterr().out == "2\n"
    them = "--instance: i-1, i-2"
    for options, sentence in (
        ([], f"{job_id} has containers on several instances. Choose one with {them}"),
        (["--index", "0"], f"{job_id} is not an array. Leave --index out"),
    ):
        assert main(["logs", job_id, *options]) == 2
        assert capsys.readouterr().err == f"longshore: {sentence}\n"
    assert main(["logs", job_id, "--instance", "i-9"]) == 1
    assert f"nothing of {job_id} has run on i-9" in capsys.readouterr().err


def test_logs_are_not_chosen_by_instance_where_there_are_none_to_choose(
    server: CliServer, capsys: Capture, path: Path
) -> None:
    del server
    batch = submitted(capsys, "--array", "2", "--", "x")
    template = submit(capsys, path, PERIODIC)
    for arguments, sentence in (
        ([batch, "--instance", "i-1"], f"{batch} is a batch job, whose containers are not chosen"),
        ([template], f"{template} has no containers of its own. See 'longshore jobs --parent"),
        (["c-00000001", "--instance", "i-1"], "--task, --index and --instance choose a container"),
    ):
        assert main(["logs", *arguments]) == 2
        assert capsys.readouterr().err.startswith(f"longshore: {sentence}")


# ---- what has no end ----------------------------------------------------------------------------

ENDLESS = [
    (SYSTEM, "a system job runs for ever. Leave --wait out, and look at it with"),
    (
        {"type": "sysbatch", "tasks": [TASK]},
        (
            "a sysbatch job goes on with each instance that joins later. Leave --wait out, or say"
            " late_joiners: false in the file"
        ),
    ),
    (PERIODIC, "a periodic job begins again and again. Leave --wait out: its runs are jobs"),
    (PARAMETERIZED, "a parameterized job can always be dispatched again. Leave --wait out, then"),
]


@pytest.mark.parametrize(("body", "sentence"), ENDLESS)
def test_nobody_waits_for_what_does_not_end(
    server: CliServer, capsys: Capture, path: Path, body: Mapping[str, Any], sentence: str
) -> None:
    path.write_text(json.dumps(body), encoding="utf-8")
    assert main(["submit", "-f", str(path), "--wait"]) == 2
    assert capsys.readouterr().err.startswith(f"longshore: --wait would never end: {sentence}")
    assert main(["submit", "-f", str(path), "--follow"]) == 2
    assert "--follow would never end" in capsys.readouterr().err
    assert server.paths == []


@pytest.mark.parametrize(("body", "sentence"), ENDLESS)
def test_wait_says_that_only_a_cancel_ends_it(
    server: CliServer, capsys: Capture, path: Path, body: Mapping[str, Any], sentence: str
) -> None:
    job_id = submit(capsys, path, body)
    why = sentence.partition(". ")[0]
    assert main(["wait", job_id, "--timeout", "0.3"]) == 124
    told = f"longshore: waiting for {job_id} until it is cancelled: {why}\n"
    assert capsys.readouterr().err.count(told) == 1
    assert main(["cancel", job_id]) == 0
    capsys.readouterr()
    assert main(["wait", job_id]) == 1
    assert "waiting for" not in capsys.readouterr().err
    del server


def test_a_sysbatch_job_without_late_joiners_can_be_waited_for() -> None:
    body = {"type": "sysbatch", "tasks": [TASK]}
    refuse_endless({**body, "late_joiners": False}, "--wait")
    with pytest.raises(CommandFailure, match="--wait would never end"):
        refuse_endless({**body, "late_joiners": True}, "--wait")


def test_what_a_server_would_refuse_is_refused_by_the_server(
    server: CliServer, capsys: Capture, path: Path
) -> None:
    body = {"type": "sysbatch", "late_joiners": "no", "tasks": [TASK]}
    path.write_text(json.dumps(body), encoding="utf-8")
    assert main(["submit", "-f", str(path), "--wait"]) == 2
    assert f"  {path}:1: late_joiners: must be" in capsys.readouterr().err
    assert server.paths == ["/v1/jobs"]
