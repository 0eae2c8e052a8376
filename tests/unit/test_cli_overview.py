"""`longshore overview` over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from longshore.dispatcher.cli.commands.main import main
from tests.cli_server import CliServer, cli_server
from tests.rigs.api import ApiRig

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    with cli_server() as server:
        monkeypatch.setenv("LONGSHORE_URL", server.url)
        yield server


async def hold_one(rig: ApiRig) -> None:
    await rig.add_instance("i-1")


def test_it_shows_numbers_and_why_those_wait_that_do(server: CliServer, capsys: Capture) -> None:
    server.do(hold_one)
    assert main(["submit", "--priority", "0", "--", "true"]) == 0
    held = capsys.readouterr().out.strip()
    assert main(["overview"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "containers 1 queued, 0 locked, 0 running" in lines
    assert "instances 1 idle; $0.10/h" in lines
    assert lines[-1] == f"1 held held back: its priority is 0 - {held}"
    assert main(["overview", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["count"] for each in document["waiting"]] == [1]


@pytest.mark.usefixtures("server")
def test_holds_and_limits_are_shown_by_their_settings(capsys: Capture) -> None:
    assert main(["submit", "--", "true"]) == 0
    capsys.readouterr()
    assert main(["holds"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "no creates are held"
    assert "max_hourly_spend - 0 0 something waits for it" in lines
    assert main(["holds", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["holds"] == []
