"""Jobs of each type on the command line: what is shown of them, and which have no end."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.cli.failure import CommandFailure
from longshore.dispatcher.cli.job_terms import refuse_endless
from longshore.dispatcher.service.launching import PeriodicJobs, ServiceRuns
from tests.cli_server import CliServer, cli_server
from tests.job_commands import INSTANCE, finish, run_through, start, submitted, write
from tests.rigs.api import EPOCH, ApiRig

Capture = pytest.CaptureFixture[str]
RESTLESS = 5
"""So many ends in a row are trouble."""

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
        running.do(lambda rig: rig.add_instance(INSTANCE))
        monkeypatch.setenv("LONGSHORE_URL", running.url)
        yield running


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "job.yml"


def submit(capsys: Capture, path: Path, body: Mapping[str, Any]) -> str:
    """Return the id of a job that is submitted by a file."""
    path.write_text(json.dumps(body), encoding="utf-8")
    return submitted(capsys, "-f", str(path))


def pinned(server: CliServer, job_id: str, instance_id: str) -> str:
    """Return the id of the newest container that a per-instance job has for an instance."""
    server.do(lambda rig: rig.settled())
    mine = [each for each in server.containers() if each.job_id == job_id]
    return [each.id for each in mine if each.pinned_to == instance_id][-1]


def fill(server: CliServer, capsys: Capture, instance_id: str, priority: int) -> None:
    """Let there be an instance on which hardly any room is left, by a container that runs."""
    if instance_id != INSTANCE:
        server.do(lambda rig: rig.add_instance(instance_id))
    most = ("--cpus", "60", "--priority", str(priority))
    start(server, submitted(capsys, *most, "--", "x"), instance_id)


def shown(capsys: Capture, job_id: str) -> list[str]:
    assert main(["show", job_id]) == 0
    return re.sub(r"\d{4}-[0-9-]+T[0-9:]+Z", "WHEN", capsys.readouterr().out).splitlines()


# ---- show ---------------------------------------------------------------------------------------


def test_a_system_job_is_shown_with_its_revision_and_who_runs(
    server: CliServer, capsys: Capture, path: Path
) -> None:
    job_id = submit(capsys, path, SYSTEM)
    start(server, pinned(server, job_id, INSTANCE))
    server.do(lambda rig: rig.add_instance("i-2"))
    lines = shown(capsys, job_id)
    assert lines[2:10] == [
        "type           system",
        "state          running",
        "progress       1 running, 1 locked",
        "revision       1",
        "update         5 at a time, 30 s apart",
        "on paused      on held and draining instances too",
        "ignore system  left alone where an instance drains",
        "priority       500",
    ]
    assert lines[-2:] == [
        "TASK  QUEUED  LOCKED  RUNNING  SUCCEEDED  FAILED  CANCELLED",
        "-     0       1       1        0          0       0",
    ]


def test_a_sysbatch_job_without_late_joiners_says_so(
    server: CliServer, capsys: Capture, path: Path
) -> None:
    del server
    body = {"type": "sysbatch", "late_joiners": False, "tasks": [TASK]}
    lines = shown(capsys, submit(capsys, path, body))
    assert "late joiners  not on instances that join later" in lines
    assert "progress      0/1 done" in lines
    body["late_joiners"] = True
    assert not any("late joiners" in line for line in shown(capsys, submit(capsys, path, body)))


async def launch_for_days(rig: ApiRig, days: int) -> None:
    """Let days pass from 23:13 in Berlin, and look after each time of the schedule, twice a day."""
    periodic = PeriodicJobs(
        jobs=rig.runtime.view,
        runs=ServiceRuns(rig.services.jobs),
        wall=lambda: rig.now,
        now=lambda: rig.now,
        results=Counter(),
    )
    await periodic.begin()
    for hours in (4, 4, 16) * days:
        rig.now += 3600.0 * hours
        await periodic.look()
        await asyncio.gather(*periodic._launches)
        await rig.settled()


@pytest.fixture
def server_of_2023(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    with cli_server(rig=ApiRig(now=EPOCH)) as running:
        monkeypatch.setenv("LONGSHORE_URL", running.url)
        yield running


def test_a_periodic_job_is_shown_with_its_schedule_and_its_newest_runs(
    server_of_2023: CliServer, capsys: Capture, path: Path
) -> None:
    server = server_of_2023
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
    server.do(lambda rig: launch_for_days(rig, 6))
    runs = [each.id for each in server.jobs().values() if each.parent == job_id]
    assert len(runs) == 12
    lines = shown(capsys, job_id)
    assert "last launch  WHEN" in lines
    assert lines[-13] == "its runs, newest first"
    assert lines[-12].startswith("ID ")
    assert [line.split()[0] for line in lines[-11:-1]] == runs[:1:-1]
    assert lines[-1] == f"and more: 'longshore jobs --parent {job_id}'"
    assert "run of    " + job_id in shown(capsys, runs[0])
    assert main(["jobs", "--parent", job_id, "--json"]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    assert [each["id"] for each in items] == runs[::-1]
    assert main(["jobs"]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith(job_id)]
    assert row.endswith("last launched for 2023-11-20T05:00:00Z")
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
    server.do(lambda rig: rig.lose_instance(INSTANCE))
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
    fill(server, capsys, INSTANCE, 999)
    fill(server, capsys, "i-2", 1)
    for instance_id in ("i-3", "i-4", "i-5"):
        server.do(partial(ApiRig.add_instance, instance_id=instance_id))
    job_id = submit(capsys, path, {"type": "sysbatch", "tasks": [{**TASK, "cpus": 10}]})
    ids = [pinned(server, job_id, f"i-{number}") for number in range(1, 6)]
    done, running = ids[2:4]
    start(server, done, "i-3")
    finish(server, done, 3)
    start(server, running, "i-4")
    # What is to run on each instance for ever makes others of less priority leave.
    system = submit(capsys, path, {**SYSTEM, "tasks": [{**TASK, "cpus": 10}]})
    ids.append(pinned(server, system, "i-2"))
    assert main(["ps"]) == 0
    assert main(["ps", "--job", job_id]) == 0
    rows = [re.split(r"  +", line) for line in capsys.readouterr().out.splitlines()]
    where = {row[0]: row[-1] for row in rows}
    assert [where[each] for each in ids] == [
        "i-1 is short of cpus, and nothing there makes way",
        "i-2 is short of cpus, and nothing there makes way",
        "i-3: it exited with 3",
        "i-4",
        "i-5",
        "i-2: room is made for it: a container of lower priority must end",
    ]
    assert main(["show", done]) == 0
    text = capsys.readouterr().out
    assert "for instance   i-3\n" in text


def test_what_is_wrong_with_a_job_is_noted_in_the_list(
    server: CliServer, capsys: Capture, path: Path
) -> None:
    job_id = submit(capsys, path, SYSTEM)
    for _ in range(RESTLESS):
        run_through(server, pinned(server, job_id, INSTANCE), 1)
    trouble = server.do(lambda rig: rig.services.jobs.trouble(rig.jobs()[0]))
    assert trouble is not None
    said = trouble.message.partition(";")[0]
    assert main(["jobs"]) == 0
    assert said in " ".join(capsys.readouterr().out.split())
    assert f"trouble        {trouble.message}" in shown(capsys, job_id)
    assert main(["explain", job_id]) == 0
    assert f"It is in trouble: {trouble.message}." in " ".join(capsys.readouterr().out.split())
    assert main(["explain", job_id, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["trouble"]
    assert told == {"code": "started_again", "message": trouble.message}
    assert main(["hold", job_id]) == 0
    capsys.readouterr()
    assert main(["jobs"]) == 0
    assert said not in " ".join(capsys.readouterr().out.split()), "it is to be on hold"


def test_explain_says_on_which_instances_a_job_waits(
    server: CliServer, capsys: Capture, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = submit(capsys, path, SYSTEM)
    server.do(lambda rig: rig.settled())
    assert main(["explain", job_id]) == 0
    assert "It is on no instance" not in capsys.readouterr().out
    nowhere = "the job's demands filter every one of 1 instances"
    large = {**TASK, "constraints": {"instance_types": ["large"]}}
    filtered = submit(capsys, path, {**SYSTEM, "tasks": [large]})
    server.do(lambda rig: rig.settled())
    assert main(["explain", filtered]) == 0
    assert f"It is on no instance: {nowhere}" in capsys.readouterr().out
    lines = shown(capsys, filtered)
    assert any(line.startswith(f"waiting        {nowhere}") for line in lines)
    assert "progress       none running" in lines
    for number in (1, 2, 3):
        fill(server, capsys, f"i-{number}", 999)
    job_id = submit(capsys, path, {**SYSTEM, "tasks": [{**TASK, "cpus": 10}]})
    server.do(lambda rig: rig.settled())
    monkeypatch.setattr("longshore.dispatcher.cli.render.explain_job.INSTANCES_SHOWN", 2)
    assert main(["explain", job_id]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{job_id} shipper: 3 queued; it is pending"
    assert lines[1].startswith("It is in trouble: i-1 is short of cpus")
    assert lines[-5:] == [
        "",
        "where they wait, and what for",
        "  i-1  i-1 is short of cpus, and nothing there makes way",
        "  i-2  i-2 is short of cpus, and nothing there makes way",
        "  ...  and 1 more",
    ]
    assert main(["explain", job_id, "--json"]) == 0
    waiting = json.loads(capsys.readouterr().out)["waiting"]
    assert [each["for_instance"] for each in waiting] == ["i-1"]


def test_the_log_of_a_job_is_that_of_its_last_container_on_an_instance(
    server: CliServer, capsys: Capture, path: Path
) -> None:
    server.do(lambda rig: rig.lose_instance(INSTANCE))
    job_id = submit(capsys, path, SYSTEM)
    assert main(["logs", job_id]) == 1
    assert f"nothing of {job_id} has run. See 'longshore ps" in capsys.readouterr().err
    for number, instance_id in enumerate(("i-2", "i-3", "i-2")):
        if number < 2:
            server.do(partial(ApiRig.add_instance, instance_id=instance_id))
        container_id = pinned(server, job_id, instance_id)
        start(server, container_id, instance_id)
        write(server, container_id, b"%d\n" % number)
        if not number:
            assert main(["logs", job_id]) == 0
            assert capsys.readouterr().out == "0\n"
        finish(server, container_id)
    assert main(["logs", job_id, "--instance", "i-2"]) == 0
    assert capsys.readouterr().out == "2\n"
    them = "--instance: i-2, i-3"
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
    server.do(lambda rig: rig.lose_instance(INSTANCE))
    job_id = submit(capsys, path, body)
    why = sentence.partition(". ")[0]
    assert main(["wait", job_id, "--timeout", "0.3"]) == 124
    told = f"longshore: waiting for {job_id} until it is cancelled: {why}\n"
    assert capsys.readouterr().err.count(told) == 1
    assert main(["cancel", job_id]) == 0
    # Its end is committed behind the answer.
    assert main(["wait", job_id]) == 1
    capsys.readouterr()
    assert main(["wait", job_id]) == 1
    assert "waiting for" not in capsys.readouterr().err


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
