"""The server's log: the words of strangers do not steer a terminal, a full disk stops no work."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from longshore.dispatcher.server import serving
from tests.store_values import url_in

ROOT = Path(__file__).parents[2]

# Its own process, since the server's loggers keep the configuration that they were first used with.
STORE_THAT_IS_LOCKED_FOR_A_WHILE = """
import sqlite3, sys, time
from longshore.dispatcher.server import serving
from longshore.dispatcher.store.store import Store

serving._configure_log()
store = Store.open(sys.argv[1])
store.write((), wait=True).result(60)
other = sqlite3.connect(sys.argv[1].removeprefix("sqlite:///"), isolation_level=None)
other.execute("BEGIN IMMEDIATE")
call = store.write((), wait=True)
deadline = time.monotonic() + 60
while not store.problem and time.monotonic() < deadline:
    time.sleep(0.01)
print(store.problem)
other.execute("ROLLBACK")
call.result(60)
print("written")
store.close()
"""

LOG_THAT_CAN_BE_WRITTEN_AGAIN = """
import os, sys
from longshore.dispatcher.server import serving

lines = serving._configure_log()
lines.write("for people")
for number in range(1000):
    serving.log.error("in vain", number=number)
os.dup2(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), 2)
serving.log.info("again")
serving.log.info("as ever")
"""

ATTACK = "\x1b]0;mine\x07\x9b2J"


class Terminal(io.StringIO):
    """A stderr that says that a person looks at it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    before = structlog.get_config()
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    serving._configure_log()
    yield made
    structlog.configure(**before)


def fail() -> None:
    raise ValueError(ATTACK)


def test_what_would_steer_a_terminal_is_shown_instead(terminal: Terminal) -> None:
    log = structlog.get_logger()
    log.warning(ATTACK, why=ATTACK, count=1)
    try:
        fail()
    except ValueError:
        log.exception("a driver raised")
    said = terminal.getvalue()
    assert "\x1b]0;" not in said
    assert "\x07" not in said
    assert "\x9b" not in said
    assert said.count("\\x1b]0;mine\\x07\\x9b2J") == 3, "event, value and error"
    assert "\nTraceback (most recent call last):\n" in said
    assert "count" in said


def run_with_full_log(script: str, argument: object) -> str:
    """Run a script whose stderr takes nothing; return what it says on stdout."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", script, str(argument)],
            stdout=subprocess.PIPE,
            stderr=full,
            timeout=100,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""},
            text=True,
            check=False,
        )
    return done.stdout


def test_a_log_that_cannot_be_written_does_not_stop_the_store(tmp_path: Path) -> None:
    said = run_with_full_log(STORE_THAT_IS_LOCKED_FOR_A_WHILE, url_in(tmp_path))
    problem, written = said.splitlines()
    assert problem.startswith("the store cannot be written, trying again: database is locked")
    assert written == "written"


def test_how_many_lines_are_missing_is_said_once_the_log_can_be_written_again(
    tmp_path: Path,
) -> None:
    run_with_full_log(LOG_THAT_CAN_BE_WRITTEN_AGAIN, tmp_path / "log")
    first, *lines = (tmp_path / "log").read_text().splitlines()
    assert first == "for people", "what the stream kept when it was refused"
    told = [json.loads(line) for line in lines]
    assert [line["event"] for line in told] == [
        "again",
        "this log could not be written; lines are missing",
        "as ever",
    ]
    assert told[1]["at_most"] == 1001
