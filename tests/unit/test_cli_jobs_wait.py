"""Waiting for jobs: one line that grows, one exit code; from events, and by asking."""

from __future__ import annotations

import io
import json
import re
import signal
from collections.abc import Iterator

import pytest
from rich.console import Console

from longshore.dispatcher.api.schemas.containers import ContainerAnswer
from longshore.dispatcher.api.schemas.jobs import JobAnswer
from longshore.dispatcher.cli.answers import Awaited, exit_status, read
from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.cli.render.job_render import job_outcome_line, progress_line
from longshore.dispatcher.cli.render.progress import (
    CountProgress,
    LiveProgress,
    outcomes,
    progress_for,
)
from tests.cli_server import CliServer, await_true, cli_server, meanwhile
from tests.job_commands import INSTANCE, finish, run_job_through, start, submitted, write
from tests.unit.test_cli_wait import process, terminal

Capture = pytest.CaptureFixture[str]
EVENTS = "/v1/events"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    # Nobody asks by the clock: what is seen comes from events.
    monkeypatch.setattr("longshore.dispatcher.cli.watching.ASK_INTERVAL_S", 600.0)
    monkeypatch.setattr("longshore.dispatcher.cli.watching.GLANCE_INTERVAL_S", 600.0)
    with cli_server() as running:
        running.do(lambda rig: rig.add_instance(INSTANCE))
        monkeypatch.setenv("LONGSHORE_URL", running.url)
        yield running


def array(capsys: Capture, size: int, *options: str) -> str:
    return submitted(capsys, "--array", str(size), *options, "--", "x")


# ---- wait ---------------------------------------------------------------------------------------


FAILED = "failed with exit code 7 after 0s: 1 succeeded, 2 failed: 2 of its 3 containers failed"


@pytest.mark.parametrize(
    ("codes", "status", "told"),
    [
        ((0, 0, 0), 0, "succeeded with exit code 0 after 0s: 3 succeeded"),
        ((0, 7, 3), 7, FAILED),
    ],
)
def test_wait_exits_with_the_jobs_code(
    server: CliServer, capsys: Capture, codes: tuple[int, ...], status: int, told: str
) -> None:
    job_id = array(capsys, len(codes), "--name", "align")

    def run() -> None:
        server.await_request(EVENTS)
        run_job_through(server, job_id, *codes)

    with meanwhile(run):
        assert main(["wait", job_id]) == status
    captured = capsys.readouterr()
    assert re.sub(r"after \w+", "after 0s", captured.out) == f"{job_id} (align) {told}\n"
    assert re.match(rf"{job_id} align: [0-3]/3 done", captured.err)


def test_an_event_of_a_job_that_goes_on_is_no_question(server: CliServer, capsys: Capture) -> None:
    job_id = array(capsys, 40)
    path = f"/v1/jobs/{job_id}"

    def run() -> None:
        await_true(lambda: server.paths.count(path) == 2)
        run_job_through(server, job_id, *[0] * 40)

    with meanwhile(run):
        assert main(["wait", job_id]) == 0
    # At first, when the events came, and at its end.
    assert server.paths.count(path) == 3


def test_jobs_and_containers_are_waited_for_together(server: CliServer, capsys: Capture) -> None:
    good, bad = array(capsys, 2), array(capsys, 1)
    assert main(["submit", "--", "x"]) == 0
    container_id = capsys.readouterr().out.strip()

    def run() -> None:
        server.await_request(EVENTS)
        run_job_through(server, bad, 9)
        start(server, container_id)
        finish(server, container_id, 5)
        run_job_through(server, good, 0, 0)

    with meanwhile(run):
        assert main(["wait", good, container_id, bad, "--json"]) == 5
    items = json.loads(capsys.readouterr().out)["items"]
    assert [each["id"] for each in items] == [good, container_id, bad]
    assert [each["exit_code"] for each in items] == [0, 5, 9]
    assert len(items[0]["tasks"]) == 1
    assert main(["wait", good, bad, container_id]) == 9


def test_a_cancelled_job_counts_as_1(server: CliServer, capsys: Capture) -> None:
    server.do(lambda rig: rig.lose_instance(INSTANCE))
    job_id = array(capsys, 2)
    assert main(["cancel", job_id]) == 0
    server.do(lambda rig: rig.settled())
    capsys.readouterr()
    assert main(["wait", job_id]) == 1
    assert capsys.readouterr() == (f"{job_id} cancelled: 2 cancelled: cancelled\n", "")
    assert EVENTS not in server.paths


def test_a_timeout_says_that_the_job_goes_on(server: CliServer, capsys: Capture) -> None:
    job_id = array(capsys, 2)
    assert main(["wait", job_id, "--timeout", "0.2"]) == 124
    assert f"not ended within 0.2 s: {job_id}. It goes on" in capsys.readouterr().err
    del server


def test_without_events_it_asks(
    server: CliServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.dispatcher.cli.watching.ASK_INTERVAL_S", 0.02)
    monkeypatch.setattr("longshore.dispatcher.cli.events.EVENTS_PATH", "/v1/no-such-thing")
    job_id = array(capsys, 1)

    def run() -> None:
        await_true(lambda: server.paths.count(f"/v1/jobs/{job_id}") > 3)
        run_job_through(server, job_id, 4)

    with meanwhile(run):
        assert main(["wait", job_id]) == 4


# ---- submit --wait and --follow -----------------------------------------------------------------


def test_submit_wait_of_a_job_has_one_line_and_one_code(server: CliServer, capsys: Capture) -> None:
    def run() -> None:
        server.await_request(EVENTS)
        run_job_through(server, "j-00000001", 0, 2)

    with meanwhile(run):
        assert main(["submit", "--array", "2", "--wait", "--", "x"]) == 2
    captured = capsys.readouterr()
    assert captured.out == "j-00000001\n"
    lines = captured.err.splitlines()
    assert re.match("j-00000001: [0-2]/2 done", lines[0])
    assert lines[-1].startswith("j-00000001 failed with exit code 2 after ")
    assert lines[-1].endswith(": 1 succeeded, 1 failed: 1 of its 2 containers failed")


def test_submit_wait_json_is_one_document_of_the_end(server: CliServer, capsys: Capture) -> None:
    def run() -> None:
        server.await_request(EVENTS)
        run_job_through(server, "j-00000001", 0, 0)

    with meanwhile(run):
        assert main(["submit", "--array", "2", "--wait", "--json", "--", "x"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["id"], document["state"]) == ("j-00000001", "succeeded")
    assert document["tasks"][0]["counts"]["succeeded"] == 2


def test_follow_writes_the_output_of_a_jobs_only_container(
    server: CliServer, capsys: Capture
) -> None:
    def run() -> None:
        container_id = server.await_container()
        start(server, container_id)
        await_true(lambda: server.paths.count(f"/v1/containers/{container_id}/logs") == 2)
        write(server, container_id, b"one\n")
        finish(server, container_id, 2)

    with meanwhile(run):
        assert main(["submit", "--array", "1", "--follow", "--", "x"]) == 2
    captured = capsys.readouterr()
    assert captured.out == "one\n"
    assert captured.err.splitlines()[0] == "j-00000001"


def test_follow_of_a_job_with_several_waits_and_says_how_to_see_one(
    server: CliServer, capsys: Capture
) -> None:
    def run() -> None:
        server.await_request(EVENTS)
        run_job_through(server, "j-00000001", 0, 6)

    with meanwhile(run):
        assert main(["submit", "--array", "2", "--follow", "--", "x"]) == 6
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[:2] == [
        "j-00000001",
        (
            "longshore: j-00000001 has several containers; see the output of one with "
            "'longshore logs -f j-00000001 --index N', or --task NAME"
        ),
    ]


def test_ctrl_c_says_that_the_job_goes_on(server: CliServer) -> None:
    with process("submit", "--array", "2", "--wait", "--", "x") as started:
        server.await_request(EVENTS)
        started.send_signal(signal.SIGINT)
        _, errors = started.communicate(timeout=60)
    assert started.returncode == 130
    assert "interrupted; the job goes on (j-00000001)" in errors.decode()
    assert b"Traceback" not in errors
    assert not any(each.cancel_requested for each in server.containers())


def test_on_a_terminal_a_job_is_a_bar(server: CliServer, capsys: Capture) -> None:
    job_id = array(capsys, 3, "--name", "align")
    with (
        terminal(100) as (end, environment, drawn),
        process("wait", job_id, stdout=end, stderr=end, env=environment) as started,
    ):
        await_true(lambda: f"{job_id} align: 0/3 done".encode() in drawn)
        run_job_through(server, job_id, 0, 0, 3)
        assert started.wait(60) == 3
    assert b"\x1b[" in drawn
    assert b"failed with exit code 3" in drawn


# ---- lines and pictures -------------------------------------------------------------------------


def job(
    identifier: str = "j-1", counts: dict[str, int] | None = None, **others: object
) -> JobAnswer:
    numbers = {"total": 100, **(counts or {})}
    return read({"id": identifier, "state": "running", "counts": numbers, **others}, JobAnswer)


def container(identifier: str, state: str) -> ContainerAnswer:
    return read({"id": identifier, "state": state}, ContainerAnswer)


@pytest.mark.parametrize(
    ("seen", "line"),
    [
        (
            job(name="align", counts={"succeeded": 36, "running": 12, "failed": 1}),
            "j-1 align: 37/100 done, 12 running, 1 failed",
        ),
        (job(counts={"queued": 100}), "j-1: 0/100 done"),
        (job(counts={"cancelled": 4}, held=True), "j-1: 4/100 done, 4 cancelled (held)"),
        (
            job(counts={"succeeded": 100}, state="succeeded", held=True),
            "j-1: 100/100 done",
        ),
        (job(name="\x1b[2J"), "j-1 \\x1b[2J: 0/100 done"),
    ],
)
def test_the_line_of_a_job(seen: JobAnswer, line: str) -> None:
    assert progress_line(seen) == line


def test_the_outcome_of_a_job_tells_all() -> None:
    seen = job(
        name="align",
        state="failed",
        exit_code=3,
        counts={"succeeded": 97, "failed": 2, "cancelled": 1},
        started_at="2024-01-01T00:00:00Z",
        finished_at="2024-01-01T00:01:05Z",
        reason={"code": "x", "message": "Two failed."},
    )
    assert job_outcome_line(seen) == (
        "j-1 (align) failed with exit code 3 after 1m05s: "
        "97 succeeded, 2 failed, 1 cancelled: Two failed."
    )


@pytest.mark.parametrize(
    ("state", "exit_code", "status"),
    [
        ("succeeded", 0, 0),
        ("failed", 3, 3),
        ("failed", None, 1),
        ("failed", 256, 1),
        ("cancelled", None, 1),
        ("running", None, 1),
    ],
)
def test_the_status_is_the_jobs(state: str, exit_code: int | None, status: int) -> None:
    assert exit_status(job(state=state, exit_code=exit_code)) == status


def test_a_job_has_a_line_when_it_changed_and_containers_beside_it_one_together(
    capsys: Capture,
) -> None:
    progress = progress_for(["j-1", "j-2", "c-1"])
    assert isinstance(progress, CountProgress)
    progress.changed(job("j-1"))
    progress.changed(container("c-1", "queued"))
    progress._write()
    assert capsys.readouterr().err == ""
    progress.changed(job("j-2", name="two"))
    progress._write()
    progress._write()
    assert capsys.readouterr().err.splitlines() == [
        "j-1: 0/100 done",
        "j-2 two: 0/100 done",
        "1 queued",
    ]
    progress.changed(job("j-2", name="two", counts={"running": 1}))
    progress._write()
    assert capsys.readouterr().err == "j-2 two: 0/100 done, 1 running\n"


def test_the_picture_has_bars_for_jobs_above_the_table() -> None:
    progress = LiveProgress(["j-1", "c-1"])
    progress.changed(job("j-1", name="align", counts={"succeeded": 50, "running": 2}))
    console = Console(file=io.StringIO(), width=100)
    console.print(progress._drawing(5))
    progress.changed(container("c-1", "running"))
    console.print(progress._drawing(1))
    assert isinstance(console.file, io.StringIO)
    first, bar_again, header, row, counts = console.file.getvalue().splitlines()
    assert first.startswith("j-1 align: 50/100 done, 2 running ")
    assert first.rstrip().endswith("━" * 14)
    assert bar_again == first
    assert header.split()[0] == "CONTAINER"
    assert row.split()[:2] == ["c-1", "running"]
    assert counts.strip() == "1 running"


def test_outcomes_of_jobs_come_first_and_each_is_told() -> None:
    ended: list[Awaited] = [
        container("c-1", "succeeded"),
        job("j-1", state="succeeded", exit_code=0, counts={"succeeded": 100}),
    ]
    assert outcomes(ended) == [
        "j-1 succeeded with exit code 0: 100 succeeded",
        "c-1 succeeded",
    ]
