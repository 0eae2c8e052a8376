"""What `longshore submit --estimate` tells, from the command line to the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.dispatcher.cli.commands.main import main
from tests.cli_server import CliServer, cli_server

Capture = pytest.CaptureFixture[str]
BOUND = "at most $0.100000, upper bound: time limit 1h; what is lost with an instance, and"
NOTHING = "longshore: nothing was submitted\n"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    with cli_server() as running:
        monkeypatch.setenv("LONGSHORE_URL", running.url)
        yield running


def test_a_container_is_estimated_and_not_submitted(server: CliServer, capsys: Capture) -> None:
    arguments = ["submit", "--estimate", "--name", "fit", "--cpus", "64", "--time-limit", "1h"]
    assert main([*arguments, "--", "true"]) == 0
    told = capsys.readouterr()
    assert told.out.startswith(BOUND)
    assert told.err == NOTHING
    assert main([*arguments, "--json", "--", "true"]) == 0
    assert json.loads(capsys.readouterr().out)["at_most_usd"] == 0.1
    assert (server.containers(), server.jobs()) == ([], {})


def test_an_array_is_estimated_as_a_whole(server: CliServer, capsys: Capture) -> None:
    arguments = ["submit", "--estimate", "--array", "20", "--cpus", "64", "--time-limit", "1h"]
    assert main([*arguments, "--", "true"]) == 0
    assert capsys.readouterr().out.startswith("at most $2.00, upper bound: ")
    assert server.jobs() == {}


def test_each_of_several_containers_is_estimated(
    server: CliServer, capsys: Capture, tmp_path: Path
) -> None:
    path = tmp_path / "list.yml"
    path.write_text(
        "- {name: one, command: [x], cpus: 64, time_limit_s: 3600}\n- {name: two, command: [x]}\n",
        encoding="utf-8",
    )
    assert main(["submit", "--estimate", "-f", str(path)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"one: {BOUND}")
    assert second.startswith("two: unknown: ")
    assert "set time_limit_s" in second
    assert server.containers() == []


def test_what_would_be_refused_is_refused_where_it_stands(
    server: CliServer, capsys: Capture, tmp_path: Path
) -> None:
    path = tmp_path / "one.yml"
    path.write_text("command: [x]\ncpus: many\n", encoding="utf-8")
    assert main(["submit", "--estimate", "-f", str(path)]) == 2
    assert f"  {path}:2: cpus: " in capsys.readouterr().err
    path.write_text("- command: [x]\n- command: [x]\n  cpus: many\n", encoding="utf-8")
    assert main(["submit", "--estimate", "-f", str(path)]) == 2
    assert f"  {path}:3: [1].cpus: " in capsys.readouterr().err
    assert server.containers() == []
