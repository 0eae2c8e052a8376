"""The examples are what the server takes, without an image, and each is looked at here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.dispatcher.cli.commands.main import main
from tests.cli_server import CliServer, cli_server

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = sorted(ROOT.joinpath("examples").glob("*.yml"))
TASKS = {
    "array.yml": {"": 20},
    "dag.yml": {"split": 1, "count": 4, "check": 4, "survey": 1, "join": 1, "report": 1},
    "elastic.yml": {"driver": 1, "worker": 3},
    "parameterized.yml": {"": 1},
    "periodic.yml": {"": 1},
    # What each instance has, none at first.
    "sysbatch.yml": {"": 0},
    "system.yml": {"": 0},
    "time_limit.yml": {"endless": 1, "report": 1},
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    with cli_server() as running:
        monkeypatch.setenv("LONGSHORE_URL", running.url)
        yield running


@pytest.mark.parametrize("name", sorted(TASKS))
def test_an_example_is_taken_as_a_job(
    server: CliServer, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main(["submit", "-f", str(ROOT / "examples" / name)]) == 0, capsys.readouterr().err
    (job,) = server.do(lambda rig: rig.jobs())
    assert {task.name: task.size for task in job.tasks} == TASKS[name]
    assert job.name
    for task in job.tasks:
        assert task.spec.image == ""
        assert task.spec.resources.cpu_millis == 250
        assert task.spec.resources.memory_bytes == 64 * 2**20


def test_every_job_among_the_examples_is_looked_at() -> None:
    jobs = {path.name for path in EXAMPLES if "\ntasks:" in path.read_text(encoding="utf-8")}
    assert jobs == set(TASKS)
