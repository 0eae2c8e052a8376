"""Waiting and following: exit codes, events, polling, lost servers, Ctrl-C, broken pipes."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from longshore.dispatcher.cli.commands.main import main
from tests.cli_server import CliServer, await_true, cli_server, meanwhile

ROOT = Path(__file__).parent.parent.parent
Capture = pytest.CaptureFixture[str]
EVENTS = "/v1/events"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    with cli_server() as running:
        running.do(lambda rig: rig.add_instance("i-1"))
        monkeypatch.setenv("LONGSHORE_URL", running.url)
        yield running


def submit(server: CliServer, capsys: Capture, count: int = 1) -> list[str]:
    for _ in range(count):
        assert main(["submit", "--", "x"]) == 0
    del server
    return capsys.readouterr().out.split()


def run_through(server: CliServer, container_id: str, code: int) -> None:
    server.do(lambda rig: rig.start(container_id, "i-1"))
    server.do(lambda rig: rig.finish(container_id, code))


@contextmanager
def process(*arguments: str, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """A command as a process of its own, in its own process group, killed at the end."""
    settings: dict[str, object] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    command = [sys.executable, "-m", "longshore", *arguments]
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True, **settings) as started:  # type: ignore[call-overload]  # the options are a mapping
        try:
            yield started
        finally:
            started.kill()


# ---- wait ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "word"), [(0, "succeeded"), (3, "failed"), (137, "failed")])
def test_wait_exits_with_the_containers_code(
    server: CliServer, capsys: Capture, code: int, word: str
) -> None:
    (container_id,) = submit(server, capsys)

    def run() -> None:
        server.await_request(EVENTS)
        run_through(server, container_id, code)

    with meanwhile(run):
        assert main(["wait", container_id]) == code
    captured = capsys.readouterr()
    assert captured.out.startswith(f"{container_id} {word} with exit code {code} after ")
    # Which of its states is the first that is seen is a matter of a moment.
    first = captured.err.split()[:2]
    assert first[0] == container_id
    assert first[1].rstrip(":") in {"queued", "locked", "running"}


def test_wait_for_what_has_ended_returns_at_once(server: CliServer, capsys: Capture) -> None:
    (container_id,) = submit(server, capsys)
    run_through(server, container_id, 7)
    assert main(["wait", container_id]) == 7
    assert EVENTS not in server.paths


def test_wait_for_several_gives_the_first_bad_code_in_the_order_given(
    server: CliServer, capsys: Capture
) -> None:
    good, five, nine = submit(server, capsys, 3)

    def run() -> None:
        server.await_request(EVENTS)
        for container_id, code in ((nine, 9), (five, 5), (good, 0)):
            run_through(server, container_id, code)

    with meanwhile(run):
        assert main(["wait", good, five, nine, good, "--json"]) == 5
    items = json.loads(capsys.readouterr().out)["items"]
    assert [each["id"] for each in items] == [good, five, nine]
    assert main(["wait", nine, five]) == 9


def test_a_cancelled_one_counts_as_1(server: CliServer, capsys: Capture) -> None:
    server.do(lambda rig: rig.lose_instance("i-1"))
    (container_id,) = submit(server, capsys)
    assert main(["cancel", container_id]) == 0
    assert main(["wait", container_id]) == 1
    assert f"{container_id} cancelled" in capsys.readouterr().out


def test_a_timeout_exits_with_124_and_says_that_it_goes_on(
    server: CliServer, capsys: Capture
) -> None:
    one, two = submit(server, capsys, 2)
    run_through(server, one, 0)
    assert main(["wait", one, two, "--timeout", "0.3"]) == 124
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"not ended within 0.3 s: {two}. It goes on" in captured.err


def test_without_events_it_asks(
    server: CliServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.dispatcher.cli.watching.ASK_INTERVAL_S", 0.02)
    monkeypatch.setattr("longshore.dispatcher.cli.events.EVENTS_PATH", "/v1/no-such-thing")
    (container_id,) = submit(server, capsys)
    path = f"/v1/containers/{container_id}"

    def run() -> None:
        await_true(lambda: server.paths.count(path) > 3)
        run_through(server, container_id, 4)

    with meanwhile(run):
        assert main(["wait", container_id]) == 4
    assert server.paths.count("/v1/no-such-thing") == 1


def test_wait_survives_a_restart_of_the_server(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody asks by the clock: the second look is that of somebody who hears the events.
    monkeypatch.setattr("longshore.dispatcher.cli.watching.ASK_INTERVAL_S", 600.0)
    first = CliServer()
    first.start()
    monkeypatch.setenv("LONGSHORE_URL", first.url)
    first.do(lambda rig: rig.add_instance("i-1"))
    (container_id,) = submit(first, capsys)
    path = f"/v1/containers/{container_id}"
    second: list[CliServer] = []

    def run() -> None:
        await_true(lambda: first.paths.count(path) == 2)
        first.stop()
        second.append(CliServer(port=first.port, rig=first.rig))
        second[0].start()
        second[0].await_request(EVENTS)
        run_through(second[0], container_id, 6)

    try:
        with meanwhile(run):
            assert main(["wait", container_id]) == 6
    finally:
        for each in second:
            each.stop()
    assert "trying again" in capsys.readouterr().err


def test_a_server_that_stays_away_is_given_up(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.dispatcher.cli.watching.ASK_INTERVAL_S", 0.05)
    monkeypatch.setattr("longshore.dispatcher.cli.watching.PATIENCE_S", 0.2)
    server = CliServer()
    server.start()
    monkeypatch.setenv("LONGSHORE_URL", server.url)
    (container_id,) = submit(server, capsys)

    path = f"/v1/containers/{container_id}"

    def run() -> None:
        await_true(lambda: server.paths.count(path) >= 2)
        server.stop()

    with meanwhile(run):
        assert main(["wait", container_id]) == 3
    assert "cannot reach the server" in capsys.readouterr().err


# ---- submit --wait and --follow -----------------------------------------------------------------


def test_submit_wait_exits_with_the_code_and_prints_the_id_alone(
    server: CliServer, capsys: Capture
) -> None:
    def run() -> None:
        container_id = server.await_container()
        server.await_request(EVENTS)
        run_through(server, container_id, 3)

    with meanwhile(run):
        assert main(["submit", "--wait", "--", "x"]) == 3
    captured = capsys.readouterr()
    container_id = server.containers()[0].id
    assert captured.out == f"{container_id}\n"
    assert f"{container_id} failed with exit code 3" in captured.err


def test_submit_wait_json_is_one_document_of_the_end(server: CliServer, capsys: Capture) -> None:
    def run() -> None:
        container_id = server.await_container()
        server.await_request(EVENTS)
        run_through(server, container_id, 0)

    with meanwhile(run):
        assert main(["submit", "--wait", "--json", "--", "x"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["state"], document["exit_code"]) == ("succeeded", 0)


def test_submit_wait_of_many_counts_them(
    server: CliServer, capsys: Capture, tmp_path: Path
) -> None:
    many = tmp_path / "many.json"
    many.write_text(json.dumps([{"command": ["x"]}] * 60), encoding="utf-8")

    def run() -> None:
        server.await_container(60)
        server.await_request(EVENTS)
        for number, each in enumerate(server.containers()):
            run_through(server, each.id, 7 if number == 20 else 0)

    with meanwhile(run):
        assert main(["submit", "-f", str(many), "--wait"]) == 7
    captured = capsys.readouterr()
    assert len(captured.out.split()) == 60
    lines = captured.err.splitlines()
    assert len(lines) < 30
    assert lines[-2].startswith(f"{captured.out.split()[20]} failed with exit code 7")
    assert lines[-1] == "59 succeeded, 1 failed"


def test_submit_follow_writes_the_output_as_it_comes(server: CliServer, capsys: Capture) -> None:
    def run() -> None:
        container_id = server.await_container()
        server.do(lambda rig: rig.start(container_id, "i-1"))
        logs = f"/v1/containers/{container_id}/logs"
        await_true(lambda: server.paths.count(logs) == 2)
        server.do(lambda rig: rig.push_log(container_id, b"one\n"))
        server.do(lambda rig: rig.push_log(container_id, b"oops\n", stream="stderr"))
        server.do(lambda rig: rig.push_log(container_id, b"two\n"))
        server.do(lambda rig: rig.finish(container_id, 2))

    with meanwhile(run):
        assert main(["submit", "--follow", "--", "x"]) == 2
    captured = capsys.readouterr()
    assert captured.out == "one\ntwo\n"
    assert "oops\n" in captured.err


def test_logs_follow_goes_on_where_it_was_after_a_restart_of_the_server(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.dispatcher.cli.commands.logs.PAUSE_S", 0.05)
    first = CliServer()
    first.start()
    monkeypatch.setenv("LONGSHORE_URL", first.url)
    first.do(lambda rig: rig.add_instance("i-1"))
    (container_id,) = submit(first, capsys)
    logs = f"/v1/containers/{container_id}/logs"
    first.do(lambda rig: rig.start(container_id, "i-1"))
    first.do(lambda rig: rig.push_log(container_id, b"one\n"))
    second: list[CliServer] = []

    def run() -> None:
        await_true(lambda: first.paths.count(logs) == 2)
        first.stop()
        second.append(CliServer(port=first.port, rig=first.rig))
        second[0].start()
        second[0].await_request(logs)
        second[0].do(lambda rig: rig.push_log(container_id, b"two\n"))
        second[0].do(lambda rig: rig.finish(container_id))

    try:
        with meanwhile(run):
            assert main(["logs", "-f", container_id]) == 0
    finally:
        for each in second:
            each.stop()
    assert capsys.readouterr().out == "one\ntwo\n"


# ---- signals, pipes, terminals ------------------------------------------------------------------


@pytest.mark.parametrize("command", ["wait", "logs", "submit", "follow"])
def test_ctrl_c_exits_with_130_and_says_that_the_container_goes_on(
    server: CliServer, capsys: Capture, command: str
) -> None:
    if command in {"wait", "logs"}:
        (container_id,) = submit(server, capsys)
    arguments = {
        "wait": ["wait", "c-00000001"],
        "logs": ["logs", "-f", "c-00000001"],
        "submit": ["submit", "--wait", "--", "x"],
        "follow": ["submit", "--follow", "--", "x"],
    }[command]
    with process(*arguments) as started:
        container_id = server.await_container()
        waited_for = f"/v1/containers/{container_id}/logs"
        server.await_request(EVENTS if command in {"wait", "submit"} else waited_for)
        started.send_signal(signal.SIGINT)
        _, errors = started.communicate(timeout=60)
    assert started.returncode == 130
    assert f"interrupted; the container goes on ({container_id})" in errors.decode()
    assert b"Traceback" not in errors
    assert not server.containers()[0].cancel_requested


def test_a_reader_that_has_enough_of_the_log_is_no_error(
    server: CliServer, capsys: Capture
) -> None:
    (container_id,) = submit(server, capsys)
    server.do(lambda rig: rig.start(container_id, "i-1"))
    server.do(lambda rig: rig.push_log(container_id, b"x" * 5_000_000))
    with process("logs", "-f", container_id) as started:
        assert started.stdout is not None
        assert started.stdout.read(10) == b"x" * 10
        started.stdout.close()
        assert started.stderr is not None
        assert started.stderr.read() == b""
        assert started.wait(60) == 1


@contextmanager
def terminal(columns: int) -> Iterator[tuple[int, dict[str, str], bytearray]]:
    """Yield a terminal's file descriptor, an environment for it, and what was drawn on it."""
    controller, end = pty.openpty()
    drawn = bytearray()

    def read() -> None:
        try:
            while chunk := os.read(controller, 65536):
                drawn.extend(chunk)
        except OSError:
            # Linux says EIO when the last writer has closed its end.
            return

    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns), "LINES": "30"}
    with meanwhile(read):
        try:
            yield end, environment, drawn
        finally:
            os.close(end)
    os.close(controller)


def test_on_a_narrow_terminal_ids_stay_whole(server: CliServer, capsys: Capture) -> None:
    ids = submit(server, capsys, 2)
    with (
        terminal(40) as (end, environment, drawn),
        process("ps", stdout=end, stderr=end, env=environment) as started,
    ):
        assert started.wait(60) == 0
    assert all(container_id.encode() in drawn for container_id in ids)
    assert b"\x1b[" in drawn


def test_on_a_terminal_waiting_is_a_picture(server: CliServer, capsys: Capture) -> None:
    server.do(lambda rig: rig.lose_instance("i-1"))
    (container_id,) = submit(server, capsys)
    with (
        terminal(100) as (end, environment, drawn),
        process("wait", container_id, stdout=end, stderr=end, env=environment) as started,
    ):
        await_true(lambda: b"the cluster" in drawn)
        server.do(lambda rig: rig.add_instance("i-2"))
        server.do(lambda rig: rig.start(container_id, "i-2"))
        await_true(lambda: b"running" in drawn)
        server.do(lambda rig: rig.finish(container_id, 3))
        assert started.wait(60) == 3
    assert b"\x1b[" in drawn
    assert b"failed with exit code 3" in drawn


def test_who_waits_is_told_once_each_time_that_nobody_knows_how_it_goes(
    server: CliServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.dispatcher.cli.watching.GLANCE_INTERVAL_S", 0.0)
    monkeypatch.setattr("longshore.dispatcher.cli.watching.ASK_INTERVAL_S", 0.02)
    (container_id,) = submit(server, capsys)
    path = f"/v1/containers/{container_id}"
    server.do(lambda rig: rig.start(container_id, "i-1"))

    def look_on() -> None:
        before = server.paths.count(path)
        await_true(lambda: server.paths.count(path) > before + 1)

    def run() -> None:
        for _ in range(2):
            server.do(lambda rig: rig.cut_off("i-1"))
            look_on()
            server.do(lambda rig: rig.reach_again("i-1"))
            look_on()
        server.do(lambda rig: rig.finish(container_id))

    with meanwhile(run):
        assert main(["wait", container_id]) == 0
    errors = capsys.readouterr().err
    assert errors.count(f"{container_id} is in doubt: instance i-1 is not reached") == 2
