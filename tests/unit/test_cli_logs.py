"""`longshore logs` and `submit --follow`: to the last byte, and honest when some are missing."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator

import pytest
from urllib3.response import BaseHTTPResponse, HTTPResponse

from longshore.dispatcher.api.schemas.containers import ContainerAnswer
from longshore.dispatcher.cli.client import CommandClient, Json, Query
from longshore.dispatcher.cli.commands import logs
from longshore.dispatcher.cli.commands.logs import PatienceAsked, look
from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.cli.failure import UNREACHABLE, CommandFailure
from tests.cli_server import CliServer, await_true, cli_server, meanwhile

Capture = pytest.CaptureFixture[str]
INSTANCE = "i-1"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    with cli_server() as running:
        running.do(lambda rig: rig.add_instance(INSTANCE))
        monkeypatch.setenv("LONGSHORE_URL", running.url)
        yield running


def begun(server: CliServer, capsys: Capture) -> str:
    """Return the id of a container that runs and has written `one`."""
    assert main(["submit", "--", "x"]) == 0
    container_id = capsys.readouterr().out.strip()
    server.do(lambda rig: rig.start(container_id, INSTANCE))
    server.do(lambda rig: rig.push_log(container_id, b"one\n"))
    return container_id


def logs_path(container_id: str) -> str:
    return f"/v1/containers/{container_id}/logs"


def test_another_attempt_is_seen_where_the_answer_has_the_last_ones_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "PAUSE_S", 0.0)
    counts, offsets = iter((150, 151)), list[str]()

    class Flaky(CommandClient):
        def get(self, path: str, query: Query = ()) -> Json:
            del query
            return {"id": path, "state": "running", "attempts": [{}], "attempt_count": next(counts)}

        def stream(self, path: str, query: Query = (), **_: object) -> BaseHTTPResponse:
            del path
            offsets.append(dict(query)["offset"])
            return HTTPResponse(b"")

        def chunks(self, response: BaseHTTPResponse) -> Iterator[bytes]:
            del response
            yield b"abc"
            if len(offsets) == 1:
                raise CommandFailure("gone", exit_code=UNREACHABLE)

    tail = logs.Tail(Flaky("http://127.0.0.1:1", ""), "c-1", "stdout")
    assert list(tail.bytes_to_the_end()) == [b"abc", b"abc"]
    assert offsets == ["0", "0"]


# ---- what is on its way -------------------------------------------------------------------------


def test_logs_of_what_has_just_ended_wait_for_the_last_byte(
    server: CliServer, capsys: Capture
) -> None:
    container_id = begun(server, capsys)
    server.do(lambda rig: rig.finish(container_id, promised=(8, 5)))

    def arrive() -> None:
        await_true(lambda: server.paths.count(logs_path(container_id)) == 2)
        server.do(lambda rig: rig.push_log(container_id, b"two\n"))
        server.do(lambda rig: rig.push_log(container_id, b"oops\n", stream="stderr"))

    with meanwhile(arrive):
        assert main(["logs", container_id]) == 0
    assert capsys.readouterr() == ("one\ntwo\n", "oops\n")


def test_logs_of_what_runs_are_what_there_is_now(server: CliServer, capsys: Capture) -> None:
    container_id = begun(server, capsys)
    assert main(["logs", container_id]) == 0
    assert capsys.readouterr() == ("one\n", "")


@pytest.mark.parametrize("options", [[], ["-f"]])
def test_bytes_that_never_came_are_counted(
    server: CliServer, capsys: Capture, options: list[str]
) -> None:
    container_id = begun(server, capsys)
    server.do(lambda rig: rig.finish(container_id, promised=(9, 5)))

    def give_up() -> None:
        await_true(lambda: server.paths.count(logs_path(container_id)) == 2)
        server.do(lambda rig: rig.lose_instance(INSTANCE))

    with meanwhile(give_up):
        assert main(["logs", *options, container_id]) == 1
    captured = capsys.readouterr()
    assert captured.out == "one\n"
    assert "longshore: 4 of 9 bytes of stdout and 0 of 5 bytes of stderr are here: " in captured.err
    assert main(["logs", "--stream", "stderr", container_id]) == 1
    assert "stdout" not in capsys.readouterr().err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("errors", [Terminal(), io.StringIO()], ids=["terminal", "file"])
def test_a_person_who_waits_for_the_rest_of_a_log_is_told_once(
    server: CliServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch, errors: io.StringIO
) -> None:
    silences: list[bool] = []

    class Counted(PatienceAsked):
        def __call__(self, began: bool) -> None:
            super().__call__(began)
            silences.append(began)

    monkeypatch.setattr("longshore.dispatcher.cli.commands.logs.LOOK_INTERVAL_S", 0.02)
    monkeypatch.setattr("longshore.dispatcher.cli.commands.logs.PatienceAsked", Counted)
    container_id = begun(server, capsys)
    server.do(lambda rig: rig.finish(container_id, promised=(8, 0)))

    def arrive() -> None:
        await_true(lambda: silences.count(True) > 2)
        server.do(lambda rig: rig.push_log(container_id, b"two\n"))

    with meanwhile(arrive), contextlib.redirect_stderr(errors):
        assert main(["logs", "--stream", "stdout", container_id]) == 0
    assert capsys.readouterr().out == "one\ntwo\n"
    assert errors.getvalue().count("on its way") == errors.isatty()


def test_follow_says_what_is_missing_and_exits_with_the_containers_code(
    server: CliServer, capsys: Capture
) -> None:
    def run() -> None:
        container_id = server.await_container()
        server.do(lambda rig: rig.start(container_id, INSTANCE))
        await_true(lambda: server.paths.count(logs_path(container_id)) == 2)
        server.do(lambda rig: rig.finish(container_id, 0, promised=(3, 0)))
        server.do(lambda rig: rig.lose_instance(INSTANCE))

    with meanwhile(run):
        assert main(["submit", "--follow", "--", "x"]) == 0
    assert "0 of 3 bytes of stdout are here" in capsys.readouterr().err


# ---- what keeps a log from coming ---------------------------------------------------------------

FULL = "logs cannot be kept: "


def fill(server: CliServer, *, full: bool) -> None:
    """Let the disk of the logs be full, or have room again."""
    server.rig.logs._min_free_bytes = 2**62 if full else 0


def test_logs_of_what_runs_say_that_more_is_kept_back(server: CliServer, capsys: Capture) -> None:
    container_id = begun(server, capsys)
    fill(server, full=True)
    assert main(["logs", container_id]) == 0
    captured = capsys.readouterr()
    told = f"longshore: the log of {container_id} is not whole here: {FULL}"
    assert (captured.out, captured.err.startswith(told)) == ("one\n", True)


@pytest.mark.parametrize("how", ["logs", "logs -f", "submit --follow"])
def test_who_waits_is_told_what_for_once_each_time(
    server: CliServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr("longshore.dispatcher.cli.commands.logs.LOOK_INTERVAL_S", 0.02)
    looks = Looks(monkeypatch, "commands.logs")
    known = "" if how == "submit --follow" else begun(server, capsys)
    if how == "logs":
        server.do(lambda rig: rig.finish(known, promised=(8, 0)))

    def a_look_more() -> None:
        before = looks.good
        await_true(lambda: looks.good > before + 1)

    def run() -> None:
        container_id = known or server.await_container()
        if not known:
            server.do(lambda rig: rig.start(container_id, INSTANCE))
        await_true(lambda: server.paths.count(logs_path(container_id)) == 2)
        for full in (True, True, False):
            fill(server, full=full)
            a_look_more()
        server.do(lambda rig: rig.cut_off(INSTANCE))
        a_look_more()
        server.do(lambda rig: rig.reach_again(INSTANCE))
        a_look_more()
        if how == "logs":
            server.do(lambda rig: rig.lose_instance(INSTANCE))
        else:
            server.do(lambda rig: rig.finish(container_id))

    commands = {"logs": ["logs", known], "logs -f": ["logs", "-f", known]}
    with meanwhile(run):
        main(commands.get(how, ["submit", "--follow", "--", "x"]))
    errors = capsys.readouterr().err
    assert errors.count(FULL) == 1
    assert errors.count("instance i-1 is not reached") == 1


# ---- a server that goes and comes back ----------------------------------------------------------


class Looks:
    """Counts the looks at a container through one module's `look`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
        self.good = 0
        self.failed = 0
        monkeypatch.setattr(f"longshore.dispatcher.cli.{module}.look", self)

    def __call__(self, client: CommandClient, container_id: str) -> ContainerAnswer:
        try:
            seen = look(client, container_id)
        except CommandFailure:
            self.failed += 1
            raise
        self.good += 1
        return seen


@pytest.mark.parametrize("output_at_once", [True, False], ids=["output", "silence"])
def test_follow_survives_a_restart_of_the_server(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, output_at_once: bool
) -> None:
    monkeypatch.setattr("longshore.dispatcher.cli.commands.logs.LOOK_INTERVAL_S", 0.05)
    monkeypatch.setattr("longshore.dispatcher.cli.commands.logs.PAUSE_S", 0.2)
    of_tails, of_follow = Looks(monkeypatch, "commands.logs"), Looks(monkeypatch, "commands.submit")
    first = CliServer()
    first.start()
    monkeypatch.setenv("LONGSHORE_URL", first.url)
    first.do(lambda rig: rig.add_instance(INSTANCE))
    second = CliServer(rig=first.rig)

    def run() -> None:
        container_id = first.await_container()
        await_true(lambda: first.paths.count(logs_path(container_id)) == 2)
        if output_at_once:
            first.do(lambda rig: rig.start(container_id, INSTANCE))
            first.do(lambda rig: rig.push_log(container_id, b"one\n"))
            await_true(lambda: capsys.readouterr().out == "one\n")
        first.stop()
        # Each of the two tails has looked in vain, paused, and looked again.
        await_true(lambda: of_tails.failed >= 4)
        if not output_at_once:
            await_true(lambda: of_follow.failed >= 1)
        second.port = first.port
        second.start()
        await_true(lambda: second.paths.count(logs_path(container_id)) == 2)
        if not output_at_once:
            before = of_follow.good
            await_true(lambda: of_follow.good > before)
            second.do(lambda rig: rig.start(container_id, INSTANCE))
        second.do(lambda rig: rig.push_log(container_id, b"two\n"))
        second.do(lambda rig: rig.finish(container_id, 5))

    try:
        with meanwhile(run):
            assert main(["submit", "--follow", "--", "x"]) == 5
    finally:
        if second.port:
            second.stop()
    assert capsys.readouterr().out == "two\n"
    if output_at_once:
        assert of_follow.failed == 0


def test_who_never_started_has_no_output_and_that_is_said(
    server: CliServer, capsys: Capture
) -> None:
    server.do(lambda rig: rig.lose_instance(INSTANCE))
    assert main(["submit", "--", "x"]) == 0
    container_id = capsys.readouterr().out.strip()
    assert main(["logs", container_id]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert f"{container_id} has no output yet: it has not started (queued" in told.err
    assert main(["cancel", container_id]) == 0
    assert main(["wait", container_id]) == 1
    capsys.readouterr()
    assert main(["logs", container_id]) == 0
    assert f"{container_id} has no output: it never started (cancelled" in capsys.readouterr().err


def test_who_runs_and_has_written_nothing_is_left_alone(server: CliServer, capsys: Capture) -> None:
    assert main(["submit", "--", "x"]) == 0
    container_id = capsys.readouterr().out.strip()
    server.do(lambda rig: rig.start(container_id, INSTANCE))
    assert main(["logs", container_id]) == 0
    assert capsys.readouterr().err == ""
