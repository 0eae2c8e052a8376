"""`longshore plan`, `update` and `dispatch` against the real API."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from longshore.dispatcher.api.render.jobs import plan_answer
from longshore.dispatcher.api.render.values import encode
from longshore.dispatcher.api.schemas.jobs import PlanAnswer
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.cli.commands.plan import price_change, print_plan
from longshore.dispatcher.cost.estimate import FromRuns
from longshore.dispatcher.domain.containers import WaitReason
from longshore.dispatcher.scheduler.system.dry_run_counts import Counts
from longshore.dispatcher.service.dry_run_model import JobPlan, PlannedCreate, PlannedStep
from tests.cli_server import CliServer, cli_server, meanwhile
from tests.job_commands import INSTANCE, ids_of, run_job_through, start, submitted

Capture = pytest.CaptureFixture[str]

SYSTEM = "name: shipper\ntype: system\ntasks:\n  - command: [ship]\n"
NIGHTLY = "periodic: {cron: '0 2 * * *'}\ntasks:\n  - command: [x]\n"
TEMPLATE = (
    "parameterized:\n  required: [sample]\n  optional: {level: '3'}\ntasks:\n  - command: [x]\n"
)
STEPS = tuple(
    PlannedStep(instance_id=f"i-{number:02}", action="update", detail="command changed")
    for number in range(25)
)
PLANNED = JobPlan(
    counts=Counts(place=2, update=25, in_place=3, preempt=1, blocked=4, later=20),
    creates=(PlannedCreate(type_name="small", number=3, price_usd_per_hour=Decimal("0.05")),),
    least_usd_per_hour=Decimal(0),
    most_usd_per_hour=Decimal("0.15"),
    waiting=(WaitReason(code="no_room", message="i-3 is short of cpus"),),
    steps=STEPS[:2],
    steps_left_out=0,
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    with cli_server() as running:
        running.do(lambda rig: rig.add_instance(INSTANCE))
        monkeypatch.setenv("LONGSHORE_URL", running.url)
        yield running


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "job.yml"


def submit(capsys: Capture, path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return submitted(capsys, "-f", str(path))


# ---- update -------------------------------------------------------------------------------------


def test_an_update_is_the_next_revision_unless_nothing_changed(
    server: CliServer, capsys: Capture, path: Path
) -> None:
    job_id = submit(capsys, path, SYSTEM)
    path.write_text(SYSTEM + "priority: 700\n", encoding="utf-8")
    for said in (
        f"{job_id} is at revision 2\n",
        f"nothing changed: {job_id} is at revision 2\n",
    ):
        assert main(["update", job_id, "-f", str(path)]) == 0
        assert capsys.readouterr() == (said, "")
    assert server.jobs()[job_id].priority == 700
    path.write_text(SYSTEM, encoding="utf-8")
    assert main(["update", job_id, "-f", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["id"], told["revision"], told["priority"]) == (job_id, 3, 500)
    assert main(["jobs"]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("  revision 3")


def test_an_update_comes_from_stdin_too(
    server: CliServer, capsys: Capture, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del server
    job_id = submit(capsys, path, SYSTEM)
    text = SYSTEM.replace("[ship]", "[send]")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["update", job_id, "-f", "-"]) == 0
    assert capsys.readouterr().out == f"{job_id} is at revision 2\n"


def test_what_cannot_be_updated_says_why(server: CliServer, capsys: Capture, path: Path) -> None:
    batch = submitted(capsys, "--array", "1", "--", "x")
    system = submit(capsys, path, SYSTEM)
    refusals: list[tuple[str, int, str]] = [
        (batch, 1, f"job {batch} is of type batch: only system and sysbatch jobs are updated"),
        ("j-9", 1, "there is no job j-9"),
        ("c-9", 2, "c-9 is not a job's id, and only jobs are updated. See 'longshore jobs'"),
        ("", 2, " is not a job's id"),
    ]
    for identifier, code, sentence in refusals:
        assert main(["update", identifier, "-f", str(path)]) == code
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith(f"longshore: {sentence}")
    path.write_text(SYSTEM.replace("[ship]", "[ship]\n    cpus: many"), encoding="utf-8")
    assert main(["update", system, "-f", str(path)]) == 2
    assert f"  {path}:5: tasks[0].cpus: " in capsys.readouterr().err
    assert server.jobs()[system].terms.per_instance.revision == 1  # type: ignore[union-attr] # of a system job


@pytest.mark.parametrize("arguments", [["plan"], ["update", "j-1"]])
def test_only_a_job_is_taken_from_a_file(
    server: CliServer, capsys: Capture, path: Path, arguments: list[str]
) -> None:
    for text in ("command: [x]\n", "- command: [x]\n", "a: 1\n---\nb: 2\n"):
        path.write_text(text, encoding="utf-8")
        assert main([*arguments, "-f", str(path)]) == 2
        assert capsys.readouterr().err == (
            f"longshore: {path} describes no job. Write containers into the tasks of one object\n"
        )
    assert main(arguments) == 2
    assert "Missing option '-f'" in capsys.readouterr().err
    assert server.paths == []


# ---- plan ---------------------------------------------------------------------------------------


COST = FromRuns(p50_usd=Decimal("0.5"), p90_usd=Decimal("1.2"), runs=63, days=30)


def told_of(capsys: Capture, plan: JobPlan, *, all_steps: bool = False) -> list[str]:
    """Return the lines that the command line writes of a plan, as the API renders it."""
    answer = read(json.loads(encode(plan_answer(plan, None, None, COST))), PlanAnswer)
    print_plan(answer, all_steps=all_steps)
    return capsys.readouterr().out.splitlines()


def test_a_plan_tells_what_would_change_and_what_it_costs(capsys: Capture) -> None:
    assert told_of(capsys, PLANNED) == [
        "PLACE  UPDATE  IN PLACE  STOP  MIGRATE  IGNORE  LOST  PREEMPT  BLOCKED  LATER",
        "2      25      3         0     0        0       0     1        4        20",
        "",
        "price  +0.00 to +0.15 USD/h",
        "cost   $0.500000 (p50) to $1.20 (p90), from 63 runs of the last 30 days",
        "",
        "instances more or less",
        "TYPE   NUMBER  PRICE",
        "small  +3      $0.05/h",
        "",
        "what waits",
        "  no room  i-3 is short of cpus",
        "",
        "steps",
        "INSTANCE  ACTION  DETAIL",
        "i-00      update  command changed",
        "i-01      update  command changed",
        "",
        "Nothing was changed.",
    ]


def test_a_plan_is_asked_for_and_changes_nothing(
    server: CliServer, capsys: Capture, path: Path
) -> None:
    path.write_text(SYSTEM, encoding="utf-8")
    assert main(["plan", "-f", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (lines[1].split()[0], lines[-1]) == ("1", "Nothing was changed.")
    assert any(line.startswith("i-1 ") and " place " in line for line in lines)
    assert main(["plan", "-f", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["changes"]["place"], len(told["steps"])) == (1, 1)
    assert server.jobs() == {}


@pytest.mark.parametrize(
    ("all_steps", "steps", "left_out", "number", "told"),
    [
        (False, 20, 0, 20, ""),
        (False, 25, 7, 20, "and 5 more (--steps)"),
        (True, 25, 0, 25, ""),
        (True, 25, 7, 25, "and 7 more that are not shown"),
    ],
)
def test_of_many_steps_the_first_are_told(
    capsys: Capture, *, all_steps: bool, steps: int, left_out: int, number: int, told: str
) -> None:
    plan = replace(PLANNED, steps=STEPS[:steps], steps_left_out=left_out)
    lines = told_of(capsys, plan, all_steps=all_steps)
    assert len([line for line in lines if line.endswith("  command changed")]) == number
    assert [line for line in lines if " more" in line and line != "instances more or less"] == (
        [told] if told else []
    )


def test_all_steps_are_shown_if_asked_for(
    server: CliServer, capsys: Capture, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.dispatcher.cli.commands.plan.STEPS_SHOWN", 1)
    server.do(lambda rig: rig.add_instance("i-2"))
    path.write_text(SYSTEM, encoding="utf-8")
    for options, shown in (([], 1), (["--steps"], 2)):
        assert main(["plan", "-f", str(path), *options]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len([line for line in lines if line.startswith("i-")]) == shown
        assert ("and 1 more (--steps)" in lines) == (not options)


def test_an_update_is_planned_as_one(server: CliServer, capsys: Capture, path: Path) -> None:
    job_id = submit(capsys, path, SYSTEM)
    start(server, *ids_of(server, job_id))
    path.write_text(SYSTEM.replace("[ship]", "[send]"), encoding="utf-8")
    for options, change in (["--job", job_id], "update"), ([], "place"):
        assert main(["plan", "-f", str(path), *options, "--json"]) == 0
        changes = json.loads(capsys.readouterr().out)["changes"]
        assert [name for name, number in changes.items() if number] == [change]
    refusals: list[tuple[str, int, str]] = [
        ("j-9", 1, "there is no job j-9"),
        ("j-1&x=/..", 1, "there is no job j-1&x=/.."),
        ("c-1", 2, "c-1 is not a job's id, and only jobs are planned"),
    ]
    for identifier, code, sentence in refusals:
        assert main(["plan", "-f", str(path), "--job", identifier]) == code
        assert capsys.readouterr().err.startswith(f"longshore: {sentence}")
    path.write_text(SYSTEM.replace("ship]", 'ship, "\\0"]'), encoding="utf-8")
    assert main(["plan", "-f", str(path)]) == 2
    assert f"  {path}:4: tasks[0].command" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("least", "most", "told"),
    [
        ("0", "0", "+0.00 USD/h"),
        ("0", "1.2", "+0.00 to +1.20 USD/h"),
        ("-0.5", "-0.5", "-0.50 USD/h"),
        ("-0.0035", "0.0160", "-0.0035 to +0.016 USD/h"),
        ("20", "1000.00", "+20.00 to +1000.00 USD/h"),
    ],
)
def test_a_change_of_price_has_its_sign(least: str, most: str, told: str) -> None:
    assert price_change(Decimal(least), Decimal(most)) == told


# ---- dispatch -----------------------------------------------------------------------------------


def test_a_dispatch_prints_the_run(server: CliServer, capsys: Capture, path: Path) -> None:
    template = submit(capsys, path, TEMPLATE)
    assert main(["dispatch", template, "--param", "sample=a=b", "-p", "level="]) == 0
    assert capsys.readouterr() == ("j-00000002\n", "")
    run = server.jobs()["j-00000002"]
    assert dict(run.tasks[0].spec.env) == {
        "LONGSHORE_PARAMETER_SAMPLE": "a=b",
        "LONGSHORE_PARAMETER_LEVEL": "",
    }
    assert main(["dispatch", template, "--param", "sample=a=b", "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    # The same again is another run.
    assert (told["id"], told["parent"]) == ("j-00000004", template)


@pytest.mark.parametrize("code", [0, 7])
def test_a_dispatch_waits_and_exits_with_the_code_of_the_run(
    server: CliServer, capsys: Capture, path: Path, code: int
) -> None:
    template = submit(capsys, path, TEMPLATE)

    def end() -> None:
        server.await_container()
        run_job_through(server, "j-00000002", code)

    with meanwhile(end):
        assert main(["dispatch", template, "-p", "sample=S1", "--wait"]) == code
    captured = capsys.readouterr()
    assert captured.out == "j-00000002\n"
    state = "failed" if code else "succeeded"
    assert f"j-00000002 {state} with exit code {code}" in captured.err


def test_a_dispatch_that_waits_is_one_json_document(
    server: CliServer, capsys: Capture, path: Path
) -> None:
    template = submit(capsys, path, TEMPLATE)

    def end() -> None:
        server.await_container()
        run_job_through(server, "j-00000002", 0)

    with meanwhile(end):
        assert main(["dispatch", template, "-p", "sample=S1", "--wait", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "succeeded"


def test_what_cannot_be_dispatched_says_why(server: CliServer, capsys: Capture, path: Path) -> None:
    batch = submitted(capsys, "--array", "1", "--", "x")
    template = submit(capsys, path, TEMPLATE)
    refusals: list[tuple[list[str], int, str]] = [
        ([batch], 1, f"job {batch} is not parameterized"),
        (["j-9"], 1, "there is no job j-9"),
        (["j-9", "--wait"], 1, "there is no job j-9"),
        (["c-9"], 2, "c-9 is not a job's id, and only jobs are dispatched"),
        ([template, "-p", "sample"], 2, "--param 'sample' is not KEY=VALUE"),
        ([template], 2, "The request has one problem.\n  parameters.sample: is missing"),
        (
            [template, "-p", "sample=1", "-p", "sample=2"],
            2,
            "--param names a parameter twice. Give each one value",
        ),
    ]
    for arguments, code, sentence in refusals:
        assert main(["dispatch", *arguments]) == code
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith(f"longshore: {sentence}")
    assert len(server.jobs()) == 2


def test_a_run_without_end_is_not_waited_for(
    server: CliServer, capsys: Capture, path: Path
) -> None:
    template = submit(capsys, path, "type: sysbatch\n" + TEMPLATE)
    assert main(["dispatch", template, "-p", "sample=S1", "--wait"]) == 2
    assert "--wait would never end: a sysbatch job goes on" in capsys.readouterr().err
    assert len(server.jobs()) == 1


@pytest.mark.parametrize(
    "arguments", [["plan", "-f", "F"], ["update", "j-1", "-f", "F"], ["dispatch", "j-1"]]
)
def test_without_a_server_the_code_is_3(
    capsys: Capture, path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    path.write_text(SYSTEM, encoding="utf-8")
    monkeypatch.setenv("LONGSHORE_URL", "http://127.0.0.1:1")
    assert main([str(path) if each == "F" else each for each in arguments]) == 3
    assert "cannot reach the server at http://127.0.0.1:1" in capsys.readouterr().err


@pytest.mark.usefixtures("server")
def test_a_plan_of_a_template_says_that_nothing_starts_now(capsys: Capture, path: Path) -> None:
    path.write_text(NIGHTLY, encoding="utf-8")
    assert main(["plan", "-f", str(path)]) == 0
    told = capsys.readouterr().out.splitlines()
    launched = "Nothing starts when it is submitted: its schedule launches it first at "
    assert told[0].startswith(launched)
    assert told[0].endswith("T02:00:00Z.")
    assert told[1] == "One run, launched now, would be:"
    path.write_text(TEMPLATE, encoding="utf-8")
    assert main(["plan", "-f", str(path)]) == 0
    assert "it is run on demand (longshore dispatch)" in capsys.readouterr().out
