"""`longshore strays` and its routes over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from longshore.dispatcher.cli.commands.main import main
from longshore.pool.model import AttemptReport
from tests.api_server import connected
from tests.cli_server import CliServer, cli_server
from tests.rigs.api import SYNC_S, ApiRig

Capture = pytest.CaptureFixture[str]


async def begin_anew(rig: ApiRig) -> None:
    """Let an instance be found on which another store has started two attempts."""
    rig.boot("small", instance_id="i-7")
    for number, container_id in ((1, ""), (2, "c-2")):
        report = AttemptReport(
            attempt_id=f"c-{number}-1", container_id=container_id, store="f" * 32
        )
        rig.on_instance["i-7"][report.attempt_id] = report
    await rig.pass_time(SYNC_S)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    with cli_server() as running:
        monkeypatch.setenv("LONGSHORE_URL", running.url)
        running.do(begin_anew)
        yield running


@pytest.mark.usefixtures("server")
def test_they_are_listed_and_decided_about(capsys: Capture) -> None:
    assert main(["strays", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["INSTANCE", "ATTEMPT"],
        ["i-7", "c-1-1"],
        ["i-7", "c-2-1"],
    ]
    assert main(["strays", "adopt", "i-7", "c-1-1"]) == 0
    assert capsys.readouterr().out == "c-1-1 on i-7 is left to its own end\n"
    assert main(["strays", "kill", "i-7"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "c-1-1 on i-7 is being ended",
        "c-2-1 on i-7 is being ended",
    ]
    assert main(["strays", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["items"]
    assert [(each["container"], each["fate"]) for each in listed] == [
        (None, "killed"),
        ("c-2", "killed"),
    ]


def test_none_is_said_and_what_is_not_there_fails(server: CliServer, capsys: Capture) -> None:
    server.do(lambda rig: rig.lose_instance("i-7"))
    server.do(lambda rig: rig.add_instance("i-8"))
    assert main(["strays", "list"]) == 0
    assert capsys.readouterr().out == "nothing of another store is kept\n"
    assert main(["strays", "kill", "i-8"]) == 1
    assert "no strays are kept on i-8" in capsys.readouterr().err
    assert main(["strays", "kill"]) == 2


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "fate"),
        ({"fate": "leave"}, "fate"),
        ({"fate": "kill", "attempts": [""]}, "attempts[0]"),
        ({"fate": "kill", "attempt": "c-1-1"}, "attempt"),
    ],
)
async def test_what_is_wrong_with_a_decision_is_told(body: object, path: str) -> None:
    async with connected() as client:
        status, answer = await client.post("/v1/instances/i-7/strays", body)
        assert status == 400
        assert [each["path"] for each in answer["errors"]] == [path]
