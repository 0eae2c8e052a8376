"""`longshore efficiency` over real HTTP: what it asks for, and how it shows what is answered."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.domain.containers import AttemptOutcome, ContainerState
from longshore.dispatcher.domain.messages import SaveAttempt
from longshore.pool.usage import AttemptUsage
from tests.cli_server import CliServer, cli_server
from tests.rigs.api import ApiRig
from tests.store_values import attempt, container, insert

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    with cli_server() as server:
        monkeypatch.setenv("LONGSHORE_URL", server.url)
        yield server


def fill(rig: ApiRig) -> None:
    """Keep two runs that succeeded, of which one took memory that nobody measured."""
    assert rig.store is not None
    for sequence, peak_bytes in enumerate((200 * 2**20, None), 1):
        done = container(sequence, state=ContainerState.SUCCEEDED)
        insert(rig.store, done)
        made = attempt(
            done,
            outcome=AttemptOutcome.SUCCEEDED,
            started_at=3000.0,
            finished_at=3100.0,
            usage=AttemptUsage(peak_memory_bytes=peak_bytes, cpu_seconds=50.0),
        )
        rig.store.write([SaveAttempt(attempt=made)]).result(30)


@pytest.mark.usefixtures("server")
def test_nothing_measured_is_said(capsys: Capture) -> None:
    assert main(["efficiency", "--user", "nobody"]) == 0
    assert capsys.readouterr().out == "nothing that was measured has succeeded\n"


def test_what_is_asked_for_stands_beside_what_is_taken(server: CliServer, capsys: Capture) -> None:
    server.do(fill)
    assert main(["efficiency", "--name", "demo", "--since", "1970-01-01T00:00:00Z"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert " ".join(head.split()) == "NAME USER PROJECT RUNS MEMORY P95 CPUS P95 ADVICE"
    assert " ".join(row.split()) == "demo ann apollo 2 1GiB 200MiB 1 0.50 18 more runs needed"
    assert main(["efficiency", "--project", "apollo", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["complete"] is True
    assert document["items"] == [
        {
            "user": "ann",
            "project": "apollo",
            "name": "demo",
            "task": None,
            "asked": {"cpus": 1, "memory": 2**30, "disk": 0, "gpus": 0, "resources": {}},
            "runs": 2,
            "runs_missing": 18,
            "peak_memory_p95_bytes": 200 * 2**20,
            "cpus_p95": 0.5,
            "suggested": None,
            "saving": None,
        }
    ]
