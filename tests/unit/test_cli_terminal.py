"""Whatever a server says, in whatever place, nothing in it acts on the terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from longshore.dispatcher.cli import output
from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.cli.failure import CommandFailure
from longshore.dispatcher.cli.render.progress import LineProgress, LiveProgress

ROOT = Path(__file__).parent.parent.parent
EVIL = "x\x1b]0;owned\x07\x9b31m\u202ey\x7f"
VISIBLE = r"x\x1b]0;owned\x07\x9b31m\u202ey\x7f"
RAW = ("\x1b]0;", "\x07", "\x9b", "\u202e", "\x7f")
ATTEMPT = {"id": EVIL, "instance": EVIL, "instance_type": EVIL, "reason": {"message": EVIL}}
CONTAINER: dict[str, Any] = {
    "id": EVIL,
    "state": "failed",
    "name": EVIL,
    "user": EVIL,
    "project": EVIL,
    "image": EVIL,
    "command": [EVIL, "b"],
    "labels": {EVIL: EVIL},
    "reason": {"code": EVIL, "message": EVIL},
    "instance": EVIL,
    "instance_type": EVIL,
    "attempts": [{**ATTEMPT, "outcome": EVIL}],
    "job": EVIL,
    "task": EVIL,
    "after": [{"of": EVIL}],
    "exit_code": 3,
}
DEPENDENCY = {"of": EVIL, "on": "end", "each": True}
JOB: dict[str, Any] = {
    "id": EVIL,
    "state": "failed",
    "name": EVIL,
    "type": EVIL,
    "user": EVIL,
    "project": EVIL,
    "labels": {EVIL: EVIL},
    "reason": {"code": EVIL, "message": EVIL},
    "counts": {"failed": 1, "total": 1},
    "tasks": [{"name": EVIL, "after": [DEPENDENCY]}],
    "exit_code": 3,
}
INSTANCE = {
    "id": EVIL,
    "state": EVIL,
    "instance_type": EVIL,
    "idle_behavior": EVIL,
    "broken": EVIL,
    "last_error": EVIL,
}
PROBLEM = {
    "title": EVIL,
    "detail": EVIL,
    "status": 400,
    "errors": [{"path": EVIL, "message": EVIL}],
}
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("ps", "-a"),
    ("show", "c-1"),
    ("wait", "c-1"),
    ("submit", "--", "true"),
    ("submit", "--wait", "--", "true"),
    ("submit", "--follow", "--", "true"),
    ("priority", "c-1", "5"),
    ("cancel", "c-1"),
    ("instances",),
    ("instance", "hold", "i-1"),
    ("instance", "kill", "i-1"),
    ("jobs",),
    ("show", "j-1"),
    ("wait", "j-1"),
    ("explain", "j-1"),
    ("priority", "j-1", "5"),
    ("hold", "j-1"),
    ("logs", "j-1", "--task", "x"),
    ("submit", "--array", "2", "--wait", "--", "true"),
)
SAYING_NOTHING = (("cancel", "c-1"), ("instance", "kill", "i-1"), ("hold", "j-1"))
JSON_COMMANDS = (
    ("ps", "-a", "--json"),
    ("show", "c-1", "--json"),
    ("wait", "c-1", "--json"),
    ("instances", "--json"),
    ("jobs", "--json"),
    ("explain", "j-1", "--json"),
)


class Liar(BaseHTTPRequestHandler):
    """Answers everything with `status` and a document full of escapes."""

    protocol_version = "HTTP/1.1"
    status: ClassVar[int] = 200
    log: ClassVar[bytes] = b""

    def handle_any(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = self.log if "/logs" in self.path else json.dumps(self.document()).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def document(self) -> object:
        if self.status != 200:
            return PROBLEM
        kinds = {"instances": INSTANCE, "jobs": JOB}
        one = kinds.get(self.path.partition("?")[0].split("/")[2], CONTAINER)
        listed = self.command == "GET" and self.path.partition("?")[0].count("/") == 2
        return {"items": [one]} if listed else one

    do_GET = do_POST = do_PUT = do_PATCH = handle_any  # noqa: N815 - http.server fixes the names

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def liar(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Liar]]:
    Liar.status = 200
    Liar.log = b""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Liar)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    monkeypatch.setenv("LONGSHORE_URL", f"http://127.0.0.1:{server.server_address[1]}")
    yield Liar
    server.shutdown()
    server.server_close()
    thread.join()


def harmless(text: str) -> bool:
    return not any(raw in text for raw in RAW)


def on_terminal(arguments: Sequence[str], *, stderr_too: bool) -> str:
    """Return what a command draws on a terminal that is its stdout, and perhaps its stderr."""
    controller, end = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "400", "LINES": "30"}
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "longshore", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=end,
            stderr=end if stderr_too else subprocess.DEVNULL,
            env={**environment, "PYTHONIOENCODING": "utf-8"},
            cwd=ROOT,
        )
    finally:
        os.close(end)
    drawn = b""
    try:
        while chunk := os.read(controller, 65536):
            drawn += chunk
    except OSError:
        # Linux says EIO when the last writer has closed its end.
        assert drawn
    finally:
        os.close(controller)
        process.wait(60)
    return drawn.decode()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("status", [200, 400])
def test_nothing_that_a_server_says_is_written_as_it_is(
    liar: type[Liar], capsys: pytest.CaptureFixture[str], command: tuple[str, ...], status: int
) -> None:
    liar.status = status
    main(command)
    captured = capsys.readouterr()
    assert harmless(captured.out + captured.err)
    told = status != 200 or command not in SAYING_NOTHING
    assert (r"\x1b]0;owned" in captured.out + captured.err) == told


@pytest.mark.parametrize("command", [*COMMANDS[:3], COMMANDS[8]], ids=" ".join)
def test_nor_on_a_terminal(liar: type[Liar], command: tuple[str, ...]) -> None:
    del liar
    drawn = on_terminal(command, stderr_too=True)
    assert harmless(drawn)
    assert r"\x1b]0;owned" in drawn


@pytest.mark.parametrize("command", JSON_COMMANDS, ids=" ".join)
def test_json_on_a_terminal_is_ascii_and_means_the_same(
    liar: type[Liar], capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    del liar
    drawn = on_terminal(command, stderr_too=False)
    assert harmless(drawn)
    assert drawn.isascii()
    main(command)
    assert json.loads(drawn) == json.loads(capsys.readouterr().out)


def test_json_elsewhere_is_as_it_is(liar: type[Liar], capsys: pytest.CaptureFixture[str]) -> None:
    del liar
    main(["show", "c-1", "--json"])
    assert "\u202e" in capsys.readouterr().out


def test_sentences_and_failures_are_made_visible(capsys: pytest.CaptureFixture[str]) -> None:
    output.say(EVIL)
    LineProgress().say(f"{EVIL}\nlonghsore: forged")
    assert capsys.readouterr().err.splitlines() == [
        f"longshore: {VISIBLE}",
        rf"longshore: {VISIBLE}\nlonghsore: forged",
    ]
    failure = CommandFailure(EVIL, remedy=EVIL, problems=[(EVIL, EVIL), ("", EVIL)])
    assert failure.lines() == [
        f"longshore: {VISIBLE}. {VISIBLE}",
        f"  {VISIBLE}: {VISIBLE}",
        f"  {VISIBLE}",
    ]


def test_the_live_picture_shows_sentences_visibly() -> None:
    from rich.console import Console

    progress = LiveProgress(["c-1"])
    progress.say(EVIL)
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(progress._drawing(10))
    text = console.export_text()
    assert harmless(text)
    assert VISIBLE in text


@pytest.mark.parametrize("stderr_too", [False, True])
def test_a_log_is_shown_on_a_terminal_and_obeyed_only_when_asked_to(
    liar: type[Liar], *, stderr_too: bool
) -> None:
    liar.log = EVIL.encode()
    for follow in ((), ("--follow",)):
        drawn = on_terminal(("logs", "c-1", *follow), stderr_too=stderr_too)
        assert harmless(drawn)
        assert VISIBLE in drawn
    assert not harmless(on_terminal(("logs", "c-1", "--raw"), stderr_too=stderr_too))
