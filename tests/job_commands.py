"""What the tests of jobs on the command line share: jobs that are there, and how they go on."""

from __future__ import annotations

import io

import pytest

from longshore.dispatcher.cli.commands.main import main
from tests.cli_server import CliServer

INSTANCE = "i-1"
DIAMOND = """
name: diamond
tasks:
  - {name: split, command: [a]}
  - {name: left, command: [b], after: [split], array: {size: 3, max_running: 2}}
  - {name: right, command: [c], after: [{of: left, each: true}], array: 3}
  - {name: join, command: [d], after: [left, {of: right, on: end}]}
"""


def submitted(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the id that `submit` printed."""
    assert main(["submit", *arguments]) == 0
    return capsys.readouterr().out.strip()


def diamond(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the id of a job of four tasks and eight containers."""
    stdin = io.TextIOWrapper(io.BytesIO(DIAMOND.encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    return submitted(capsys, "-f", "-")


def ids_of(server: CliServer, job_id: str) -> list[str]:
    """Return the ids of a job's containers, the oldest first, once nothing is to be done."""
    server.do(lambda rig: rig.settled())
    return [each.id for each in server.containers() if each.job_id == job_id]


def start(server: CliServer, container_id: str, instance_id: str = INSTANCE) -> None:
    """Let a container run."""
    server.do(lambda rig: rig.start(container_id, instance_id))


def finish(server: CliServer, container_id: str, code: int = 0) -> None:
    """Let a container that runs end."""
    server.do(lambda rig: rig.finish(container_id, code))


def run_through(server: CliServer, container_id: str, code: int = 0) -> None:
    """Let a container run and end."""
    start(server, container_id)
    finish(server, container_id, code)


def write(server: CliServer, container_id: str, said: bytes) -> None:
    """Let a container write to stdout."""
    server.do(lambda rig: rig.push_log(container_id, said))


def run_job_through(server: CliServer, job_id: str, *codes: int) -> None:
    """Let a job's containers end with these codes, one after the other."""
    for container_id, code in zip(ids_of(server, job_id), codes, strict=True):
        start(server, container_id)
        finish(server, container_id, code)
