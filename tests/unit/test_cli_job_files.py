"""Job files: what is taken for a job, and where in the file stands what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.cli.failure import CommandFailure
from longshore.dispatcher.cli.file_lines import Source, located
from longshore.dispatcher.cli.submission import content
from tests.cli_server import CliServer, cli_server

Capture = pytest.CaptureFixture[str]

DAG = """\
# A diamond.
name: diamond
tasks:
  - name: split
    command: [split]
  - name: left
    command: [left]
    after:
      - split
      - {of: splot, on: end}
    env:
      LONGSHORE_X: "1"
  - name: right
    cpus: many
    after: [left]
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    with cli_server() as running:
        monkeypatch.setenv("LONGSHORE_URL", running.url)
        yield running


def source(text: str, name: str = "job.yml") -> Source:
    return Source(name=name, path=name, text=text)


# ---- what a file asks for -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("job.yml", "name: one\ntasks:\n  - {command: [a], array: 2}\n"),
        ("job.json", '{"name": "one", "tasks": [{"command": ["a"], "array": 2}]}'),
    ],
)
def test_an_object_with_tasks_is_a_job(
    server: CliServer, capsys: Capture, tmp_path: Path, name: str, text: str
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert main(["submit", "-f", str(path)]) == 0
    assert capsys.readouterr().out == "j-00000001\n"
    assert [each.job_id for each in server.containers()] == ["j-00000001"] * 2
    assert "/v1/containers" not in server.paths


def test_an_object_that_names_its_type_is_a_job_too(
    server: CliServer, capsys: Capture, tmp_path: Path
) -> None:
    path = tmp_path / "job.yml"
    path.write_text("type: batch\ncommand: [a]\n", encoding="utf-8")
    assert main(["submit", "-f", str(path)]) == 2
    captured = capsys.readouterr()
    assert f"  {path}:1: tasks: " in captured.err
    assert f"  {path}:2: command: " in captured.err
    assert server.paths == ["/v1/jobs"]


@pytest.mark.parametrize(
    "texts",
    [
        ["- {tasks: [{command: [a]}]}\n"],
        ["tasks: [{command: [a]}]\n---\ncommand: [b]\n"],
        ["command: [b]\n", "tasks: [{command: [a]}]\n"],
    ],
)
def test_a_job_is_submitted_alone(texts: list[str]) -> None:
    with pytest.raises(CommandFailure, match="is a job, and a job is submitted alone") as caught:
        content([source(text) for text in texts])
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("text", ["tasks: &a [*a]\n", "[" * 100_000], ids=["itself", "deep"])
def test_what_holds_itself_is_one_sentence(text: str) -> None:
    with pytest.raises(CommandFailure, match="nested too deeply, or holds itself") as caught:
        content([source(text)])
    assert caught.value.exit_code == 2


def test_words_of_yaml_and_moments_stay_what_they_are() -> None:
    text = "tasks: [{after: [{of: a, on: end}], not_before: 2026-01-31T12:00:00+01:00}]\n"
    assert content([source(text)]) == {
        "tasks": [{"after": [{"of": "a", "on": "end"}], "not_before": "2026-01-31T12:00:00+01:00"}]
    }


# ---- where it is wrong --------------------------------------------------------------------------


def test_all_errors_come_at_once_with_path_and_line(
    server: CliServer, capsys: Capture, tmp_path: Path
) -> None:
    path = tmp_path / "dag.yml"
    path.write_text(DAG, encoding="utf-8")
    assert main(["submit", "-f", str(path), "--wait"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert lines[0].startswith("longshore: ")
    places = {line.split(": ")[0].strip() + " " + line.split(": ")[1] for line in lines[1:]}
    assert places == {
        f"{path}:10 tasks[1].after[1].of",
        f"{path}:12 tasks[1].env.LONGSHORE_X",
        f"{path}:13 tasks[2].command",
        f"{path}:14 tasks[2].cpus",
    }
    assert server.containers() == []


def test_a_cycle_is_told_by_names(server: CliServer, capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "dag.yml"
    path.write_text(
        "tasks:\n"
        "- {name: a, command: [x], after: [c]}\n"
        "- {name: b, command: [x], after: [a]}\n"
        "- {name: c, command: [x], after: [b]}\n",
        encoding="utf-8",
    )
    assert main(["submit", "-f", str(path)]) == 2
    (told,) = [line for line in capsys.readouterr().err.splitlines() if " -> " in line]
    assert told.startswith(f"  {path}:")
    assert server.containers() == []


CONTAINERS = "- command: [a]\n- command: [b]\n  cpus: many\n"


@pytest.mark.parametrize(
    ("texts", "path", "place"),
    [
        ([DAG], "name", "job.yml:2: name"),
        ([DAG], "tasks[0].command[0]", "job.yml:5: tasks[0].command[0]"),
        ([DAG], "tasks[1].env.LONGSHORE_X", "job.yml:12: tasks[1].env.LONGSHORE_X"),
        ([DAG], "tasks[1].after[0]", "job.yml:9: tasks[1].after[0]"),
        # What is missing is missed where it should be.
        ([DAG], "tasks[2].command", "job.yml:13: tasks[2].command"),
        ([DAG], "tasks[9].command", "job.yml:3: tasks[9].command"),
        ([DAG], "", "job.yml:2"),
        (['{"a": {"odd key": 1,\n"it\\"s": 2}}'], 'a["it\\"s"]', 'job.yml:2: a["it\\"s"]'),
        ([CONTAINERS], "[1].cpus", "job.yml:3: [1].cpus"),
        ([CONTAINERS, "command: []\n"], "[1].cpus", "job.yml:3: [1].cpus"),
        ([CONTAINERS, "\ncommand: []\n"], "[2].command", "other.yml:2: [2].command"),
        ([CONTAINERS, "command: []\n"], "[7].command", "[7].command"),
        (["a: 1\n---\n---\n\nb: 2\n"], "[1].b", "job.yml:5: [1].b"),
        (['{\n\t"a":1}'], "a", "job.yml:2: a"),
        # JSON that is no YAML; of those after it nobody knows their numbers.
        (['{"a": "\\ud83d\\ude00"}'], "a", "a"),
        (['[{"a": "\\ud83d\\ude00"}]', CONTAINERS], "[1].command", "[1].command"),
    ],
)
def test_each_problem_has_its_line(texts: list[str], path: str, place: str) -> None:
    names = ["job.yml", "other.yml"]
    sources = [source(text, name) for text, name in zip(texts, names, strict=False)]
    failure = CommandFailure(
        "no", problems=[(path, "is wrong")], exit_code=2, status=400, remedy="Mend"
    )
    told = located(failure, sources)
    assert told.problems == ((place, "is wrong"),)
    assert (told.sentence, told.remedy, told.exit_code, told.status) == ("no", "Mend", 2, 400)


def test_a_failure_without_problems_or_files_stays_as_it_is() -> None:
    plain = CommandFailure("no")
    assert located(plain, [source(DAG)]) is plain
    listed = CommandFailure("no", problems=[("a", "b")])
    assert located(listed, []) is listed


def test_large_files_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longshore.dispatcher.cli.file_lines.MAX_LOCATED_CHARACTERS", 10)
    told = located(
        CommandFailure("no", problems=[("tasks", "b")]), [source(json.dumps({"tasks": []}))]
    )
    assert told.problems == (("tasks", "b"),)


def test_a_star_without_quotes_is_told_to_need_some(
    server: CliServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "job.yml"
    path.write_text("periodic:\n  cron: */5 * * * *\ntasks: [{command: [x]}]\n", encoding="utf-8")
    assert main(["submit", "-f", str(path)]) == 2
    told = capsys.readouterr().err
    assert f"cannot read {path}:2:10: not YAML" in told
    assert "what begins with a star needs quotes. " in told
    assert server.paths == []


def test_each_problem_of_the_newer_keys_has_its_line(
    server: CliServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "job.yml"
    path.write_text(
        "periodic:\n"
        "  cron:\n"
        '    - "*/5 * * * *"\n'
        '    - "61 * * * *"\n'
        "  time_zone: Mars\n"
        "update: {max_parallel: 0}\n"
        "tasks:\n"
        "  - command: [x]\n"
        "    role: elastic\n",
        encoding="utf-8",
    )
    assert main(["submit", "-f", str(path)]) == 2
    places = [
        line.strip().removeprefix(f"{path}:").split(": ")[:2]
        for line in capsys.readouterr().err.splitlines()[1:]
    ]
    assert sorted(places) == [
        ["4", "periodic.cron[1]"],
        ["5", "periodic.time_zone"],
        ["6", "update"],
        ["9", "tasks[0].role"],
    ]
    assert server.paths == ["/v1/jobs"]


def test_a_periodic_job_tells_its_next_time_and_what_six_fields_mean(
    server: CliServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "job.yml"
    for cron, told in (
        ("@yearly", "-01-01T00:00:00Z\n"),
        ("0 0 0 1 1 *", "-01-01T00:00:00Z (of six fields of a cron expression, the first is"),
    ):
        text = f"periodic: {{cron: '{cron}'}}\ntasks: [{{command: [x]}}]\n"
        path.write_text(text, encoding="utf-8")
        assert main(["submit", "-f", str(path)]) == 0
        said = capsys.readouterr()
        assert told in said.err
        assert server.paths.pop() == "/v1/jobs"
        assert f"longshore: {said.out.strip()} runs next at 20" in said.err


def test_an_argument_that_is_not_utf_8_is_refused_with_its_number(
    server: CliServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["submit", "--", "cat", "a\udcffb"]) == 2
    assert "argument 4 is not UTF-8: b'a\\xffb'" in capsys.readouterr().err
    monkeypatch.setenv("ODD", "a\udcffb")
    assert main(["submit", "--env", "ODD", "--", "cat"]) == 2
    assert "--env ODD is not UTF-8" in capsys.readouterr().err
    assert server.paths == []


def test_memory_without_a_unit_is_no_megabytes(
    server: CliServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", "--memory", "4096", "--", "x"]) == 2
    assert "is 4096 bytes, too little to start anything" in capsys.readouterr().err
    assert server.containers() == []
