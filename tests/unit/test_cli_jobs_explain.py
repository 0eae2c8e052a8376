"""`longshore logs` and `explain` of jobs, against the real API."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from longshore.dispatcher.api.schemas.jobs import JobAnswer
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.cli.render.explain_job import document, explanation
from tests.fake_cli_server import CliServer, cli_server
from tests.fake_job_commands import INSTANCE, diamond, finish, run_through, start, submitted, write

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    with cli_server() as running:
        running.do(lambda backend: backend.add_instance(INSTANCE))
        monkeypatch.setenv("LONGSHORE_URL", running.url)
        yield running


# ---- logs ---------------------------------------------------------------------------------------


def test_logs_of_one_element(
    server: CliServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = diamond(capsys, monkeypatch)
    for each in server.containers():
        said = f"{each.task} {each.array_index}\n".encode()
        write(server, each.id, said)
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
    write(server, "c-00000001", b"hello\n")
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


def test_explain_groups_what_waits_by_reason(server: CliServer, capsys: Capture) -> None:
    job_id = submitted(capsys, "--array", "5", "--name", "align", "--", "x")
    ids = [each.id for each in server.containers()]
    start(server, ids[0])
    server.do(
        lambda backend: backend.waiting.update(
            {ids[1]: "at most 1 of its array", ids[2]: "at most 1 of its array"}
        )
    )
    assert main(["explain", job_id]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "j-00000001 align: 0/5 done, 1 running; it is running",
        "",
        "what they wait for",
        "  2  like c-00000004: nobody has looked for a place for it yet",
        "  2  like c-00000002: at most 1 of its array",
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
                "code": "not_planned",
                "behind_code": None,
                "limit": None,
                "count": 2,
                "example": "c-00000004",
                "message": "nobody has looked for a place for it yet",
            },
            {
                "code": "waits",
                "behind_code": None,
                "limit": None,
                "count": 2,
                "example": "c-00000002",
                "message": "at most 1 of its array",
            },
        ],
    }


def test_explain_looks_at_a_limited_number(
    server: CliServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.dispatcher.cli.render.explain_job.EXAMINED_MOST", 2)
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
        "  2  like c-00000002: nobody has looked for a place for it yet",
    ]
    assert server.paths.count("/v1/containers") == 1


def test_explain_tells_what_became_of_a_job(server: CliServer, capsys: Capture) -> None:
    job_id = submitted(capsys, "--array", "2", "--name", "align", "--", "x")
    run_through(server, "c-00000001")
    start(server, "c-00000002")
    assert main(["explain", job_id]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "j-00000001 align: 1/2 done, 1 running; it is running",
        "None of its containers waits in the queue.",
    ]
    finish(server, "c-00000002", 3)
    assert main(["explain", job_id]) == 0
    assert capsys.readouterr().out == ("j-00000001 align has ended: failed, 2/2 done, 1 failed\n")


def test_of_a_periodic_job_the_next_launch_is_told() -> None:
    due = "2026-01-31T02:30:00Z"
    raw = {"id": "j-1", "state": "pending", "periodic": {"cron": ["30 2 * * *"]}}
    seen = read({**raw, "next_launch": due}, JobAnswer)
    assert explanation(seen, [], 0)[1:] == [f"Its next launch is at {due}."]
    assert document(seen, [], 0)["next_launch"] == due
    never = read({**raw, "next_launch": None}, JobAnswer)
    assert len(explanation(never, [], 0)) == 1
    assert "next_launch" not in document(never, [], 0)
