"""What the tests of jobs on the command line share: jobs that are there, and how they go on."""

from __future__ import annotations

import io

import msgspec
import pytest

from longshore.dispatcher.api.render.jobs import job_answer
from longshore.dispatcher.cli.commands.main import main
from tests.fake_backend import FakeBackend
from tests.fake_cli_server import CliServer

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


def start(server: CliServer, container_id: str, instance_id: str = INSTANCE) -> None:
    """Let a container run."""
    server.do(lambda backend: backend.start(container_id, instance_id))


def finish(server: CliServer, container_id: str, code: int = 0) -> None:
    """Let a container that runs end."""
    server.do(lambda backend: backend.finish(container_id, code))


def run_through(server: CliServer, container_id: str, code: int = 0) -> None:
    """Let a container run and end."""
    start(server, container_id)
    finish(server, container_id, code)


def write(server: CliServer, container_id: str, said: bytes) -> None:
    """Let a container write to stdout."""
    server.do(lambda backend: backend.push_log(container_id, said))


def tell(server: CliServer, job_id: str) -> None:
    """Let the server say how a job is, as the dispatcher does: without its tasks."""

    def publish(backend: FakeBackend) -> None:
        answer = job_answer(backend._as_it_is(backend._jobs[job_id]), with_tasks=False)
        backend.publish("job", job_id, msgspec.to_builtins(answer))

    server.do(publish)


def run_job_through(server: CliServer, job_id: str, *codes: int) -> None:
    """Let a job's containers end with these codes, one after the other, and tell of each."""
    mine = [each.id for each in server.containers() if each.job_id == job_id]
    for container_id, code in zip(mine, codes, strict=True):
        start(server, container_id)
        tell(server, job_id)
        finish(server, container_id, code)
        tell(server, job_id)
