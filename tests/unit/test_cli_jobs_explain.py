"""`longshore logs` and `explain` of jobs, against the real API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.dispatcher.api.schemas.containers import ContainerAnswer
from longshore.dispatcher.api.schemas.jobs import JobAnswer
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.cli.render.explain_job import document, explanation, grouped
from tests.cli_server import CliServer, cli_server
from tests.job_commands import (
    INSTANCE,
    diamond,
    finish,
    ids_of,
    run_through,
    start,
    submitted,
    write,
)

Capture = pytest.CaptureFixture[str]
STAGES = """
name: align
tasks:
  - {name: first, command: [x], array: {size: 3, max_running: 1}}
  - {name: second, command: [x], after: [first], array: 2}
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    with cli_server() as running:
        running.do(lambda rig: rig.add_instance(INSTANCE))
        monkeypatch.setenv("LONGSHORE_URL", running.url)
        yield running


# ---- logs ---------------------------------------------------------------------------------------


def test_logs_of_one_element(
    server: CliServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = diamond(capsys, monkeypatch)
    for each in server.containers():
        said = f"{each.task} {each.array_index}\n".encode()
        start(server, each.id)
        write(server, each.id, said)
        finish(server, each.id)
    chosen = {
        ("--task", "split"): "split None\n",
        ("--task", "left", "--index", "2"): "left 2\n",
        ("--index", "0", "--task", "right"): "right 0\n",
    }
    for options, expected in chosen.items():
        assert main(["logs", job_id, *options]) == 0
        assert capsys.readouterr() == (expected, "")


def test_logs_of_a_job_with_one_container(server: CliServer, capsys: Capture) -> None:
    job_id = submitted(capsys, "--array", "1", "--", "x")
    (container_id,) = ids_of(server, job_id)
    start(server, container_id)
    write(server, container_id, b"hello\n")
    for options in ([], ["--index", "0"]):
        assert main(["logs", job_id, *options]) == 0
        assert capsys.readouterr() == ("hello\n", "")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["j-00000001"],
            'j-00000001 has 4 tasks. Choose one with --task NAME: "split", "left", "right", "join"',
        ),
        (
            ["j-00000001", "--index", "1"],
            'j-00000001 has 4 tasks. Choose one with --task NAME: "split", "left", "right", "join"',
        ),
        (
            ["j-00000001", "--task", "rigth"],
            "j-00000001 has no task 'rigth'. Did you mean \"right\"?",
        ),
        (
            ["j-00000001", "--task", "left"],
            "j-00000001/left has 3 containers. Choose one with --index N, from 0 to 2",
        ),
        (
            ["j-00000001", "--task", "left", "--index", "3"],
            "j-00000001/left has no container 3. Its indices go from 0 to 2",
        ),
        (
            ["j-00000001", "--task", "join", "--index", "0"],
            "j-00000001/join is not an array. Leave --index out",
        ),
        (
            ["c-00000001", "--index", "0"],
            (
                "--task, --index and --instance choose a container of a job: give a job's id. "
                "See 'longshore logs --help'"
            ),
        ),
    ],
)
def test_which_log_is_meant_must_be_said(
    server: CliServer,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    sentence: str,
) -> None:
    diamond(capsys, monkeypatch)
    del server
    assert main(["logs", *arguments]) == 2
    assert capsys.readouterr() == ("", f"longshore: {sentence}\n")


# ---- explain ------------------------------------------------------------------------------------


def test_explain_groups_what_waits_by_reason(
    server: CliServer, capsys: Capture, tmp_path: Path
) -> None:
    path = tmp_path / "job.yml"
    path.write_text(STAGES, encoding="utf-8")
    job_id = submitted(capsys, "-f", str(path))
    ids = ids_of(server, job_id)
    start(server, ids[0])
    assert main(["explain", job_id]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "j-00000001 align: 0/5 done, 1 running; it is running",
        "",
        "what they wait for",
        "  2  like c-00000005: it waits for j-00000001/first to succeed",
        "  2  like c-00000003: as many elements of its array run as may at once (1)",
    ]
    assert main(["explain", job_id, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "id": job_id,
        "state": "running",
        "held": False,
        "sentence": "j-00000001 align: 0/5 done, 1 running; it is running",
        "queued": 4,
        "locked": 0,
        "examined": 4,
        "waiting": [
            {
                "code": "after",
                "behind_code": None,
                "limit": None,
                "count": 2,
                "example": "c-00000005",
                "message": "it waits for j-00000001/first to succeed",
            },
            {
                "code": "max_running",
                "behind_code": None,
                "limit": "max_running",
                "count": 2,
                "example": "c-00000003",
                "message": "as many elements of its array run as may at once (1)",
            },
        ],
    }


def test_explain_looks_at_a_limited_number(
    server: CliServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.dispatcher.cli.render.explain_job.EXAMINED_MOST", 2)
    server.do(lambda rig: rig.lose_instance(INSTANCE))
    job_id = submitted(capsys, "--array", "3", "--", "x")
    assert main(["hold", job_id]) == 0
    capsys.readouterr()
    assert main(["explain", job_id]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "j-00000001: 0/3 done (held); it is pending",
        "It is held and starts nothing new: 'longshore release j-00000001' ends that.",
        "3 wait; these are the newest 2.",
        "",
        "what they wait for",
        (
            "  2  like c-00000003: its job j-00000001 is held, and starts nothing until it is"
            " released"
        ),
    ]
    assert server.paths.count("/v1/containers") == 1


def test_explain_tells_what_became_of_a_job(server: CliServer, capsys: Capture) -> None:
    job_id = submitted(capsys, "--array", "2", "--name", "align", "--", "x")
    first, second = ids_of(server, job_id)
    run_through(server, first)
    start(server, second)
    assert main(["explain", job_id]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "j-00000001 align: 1/2 done, 1 running; it is running",
        "None of its containers waits in the queue.",
    ]
    finish(server, second, 3)
    assert main(["explain", job_id]) == 0
    assert capsys.readouterr().out == (
        "j-00000001 align has ended: failed, 2/2 done, 1 failed: 1 of its 2 containers failed\n"
    )


def test_what_nobody_has_looked_at_is_a_group_of_its_own() -> None:
    looked_at: dict[str, object] = {
        "waiting": "no room",
        "waiting_for": {"code": "no_room", "message": "no room"},
    }
    seen: list[dict[str, object]] = [{"id": "c-3"}, {"id": "c-2", **looked_at}, {"id": "c-1"}]
    groups = grouped([read({**each, "state": "queued"}, ContainerAnswer) for each in seen])
    assert [(each.code, each.count, each.example, each.message) for each in groups] == [
        ("not_planned", 2, "c-1", "nobody has looked for a place for it yet"),
        ("no_room", 1, "c-2", "no room"),
    ]


def test_of_a_periodic_job_the_next_launch_is_told() -> None:
    due = "2026-01-31T02:30:00Z"
    raw = {"id": "j-1", "state": "pending", "periodic": {"cron": ["30 2 * * *"]}}
    seen = read({**raw, "next_launch": due}, JobAnswer)
    assert explanation(seen, [], 0)[1:] == [f"Its next launch is at {due}."]
    assert document(seen, [], 0)["next_launch"] == due
    never = read({**raw, "next_launch": None}, JobAnswer)
    assert len(explanation(never, [], 0)) == 1
    assert "next_launch" not in document(never, [], 0)
