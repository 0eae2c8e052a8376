"""The server's log: the words of strangers do not steer a terminal, a full disk stops no work."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from longshore.dispatcher.api.render.events import RENDERING
from longshore.dispatcher.domain.messages import (
    Publication,
    PublishContainer,
    PublishInstance,
    PublishJob,
    PublishStray,
    StrayAction,
)
from longshore.dispatcher.server.log_lines import Entry, LogLines, configure_log
from longshore.dispatcher.service.events import Broker, ContainerNotifier, publish_event
from longshore.pool.model import SecretKind, SecretUse
from tests.rigs.engine import Rig
from tests.store_values import attempt, container, instance, job, task, url_in

ROOT = Path(__file__).parents[2]

# Its own process, since the server's loggers keep the configuration that they were first used with.
STORE_THAT_IS_LOCKED_FOR_A_WHILE = """
import sqlite3, sys, time
from longshore.dispatcher.server.log_lines import configure_log
from longshore.dispatcher.store.store import Store

configure_log()
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
from longshore.dispatcher.server.log_lines import configure_log

lines = configure_log()
lines.write("for people")
for number in range(1000):
    serving.log.error("in vain", number=number)
assert lines.flush(60)
os.dup2(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), 2)
serving.log.info("again")
serving.log.info("as ever")
"""

ATTACK = "\x1b]0;mine\x07\x9b2J"


class Terminal(io.StringIO):
    """A stderr that says that a person looks at it."""

    lines: LogLines

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    before = structlog.get_config()
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    made.lines = configure_log()
    structlog.configure(cache_logger_on_first_use=False)  # else loggers keep it for other tests
    yield made
    made.lines.close()
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
    assert terminal.lines.flush(60)
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


# ---- what a line has, and what it costs who logs -------------------------------------------------


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Yield what reads the lines that were logged until then, as JSON."""
    before = structlog.get_config()
    made = io.StringIO()
    monkeypatch.setattr(sys, "stderr", made)
    lines = configure_log()
    structlog.configure(cache_logger_on_first_use=False)  # as above

    def read() -> list[dict[str, Any]]:
        assert lines.flush(60)
        return [json.loads(line) for line in made.getvalue().splitlines()]

    yield read
    lines.close()
    structlog.configure(**before)


Read = Callable[[], list[dict[str, Any]]]


def test_a_line_has_its_severity_and_says_whose_its_ids_are(piped: Read) -> None:
    log = structlog.get_logger()
    log.info("a", container="c-1", attempt="c-1-1", instance=None, job="j-1", containers=3)
    log.warning("b")
    log.error("c", exc_info=ValueError("no"))
    first, *others = piped()
    assert first.pop("timestamp").endswith("Z")
    assert first == {
        "event": "a",
        "severity": "INFO",
        "container_id": "c-1",
        "attempt_id": "c-1-1",
        "instance_id": None,
        "job_id": "j-1",
        "containers": 3,
    }
    assert [each["severity"] for each in others] == ["WARNING", "ERROR"]
    assert others[1]["exception"][0]["exc_value"] == "no"


SECRET_WORDS = (
    "lsh_0123456789_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ",
    "whsec_YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXo=",
    "Authorization: Bearer abcdefghijklmnop",
    "basic abcdefghijklmnop",
    "https://ann:abcdefghijklmnop@registry.example.org/v2",
    "https://abcdefghijklmnop@registry.example.org/v2",
    "docker login --password=abcdefghijklmnop",
    "?token=abcdefghijklmnop&x=1",
)


@pytest.mark.parametrize("words", SECRET_WORDS)
def test_what_looks_like_a_secret_is_hidden_in_every_field(piped: Read, words: str) -> None:
    log = structlog.get_logger()
    log.info(words, why=words, deep=[{"error": words}])
    log.error("failed", exc_info=ValueError(words))
    text = json.dumps(piped())
    assert text.count("(hidden)") == 4
    assert "abcdefghijklmnop" not in text
    assert "YWJj" not in text


def test_what_only_resembles_one_stays(piped: Read) -> None:
    words = "the token lsh_0123456789 is basic here; see https://example.org/a@b, no secret"
    structlog.get_logger().info(words)
    assert piped()[0]["event"] == words


def fail_with(kept: str) -> None:
    raise ValueError(len(kept))


def test_a_trace_has_no_values_of_variables(piped: Read) -> None:
    try:
        fail_with("hunter2")
    except ValueError:
        structlog.get_logger().exception("a driver raised")
    assert "hunter2" not in json.dumps(piped())


def publish(what: Publication) -> None:
    publish_event(
        what,
        view=Rig().view,
        broker=Broker(),
        watchers=ContainerNotifier(),
        heard_at=lambda _worker_id: 0.0,
        rendering=RENDERING,
    )


def test_each_change_is_one_line_with_ids_and_nothing_that_its_user_keeps(piped: Read) -> None:
    kept = "hunter2"
    made = container(1, job_id="j-1")
    spec = replace(
        made.spec,
        command=("login", kept),
        entrypoint=(kept,),
        env=(("KEY", kept),),
        sealed_env=(("SEALED", kept),),
        labels=(("label", kept),),
        secrets=(SecretUse(secret="s", kind=SecretKind.ENV, target=kept),),
    )
    made = replace(made, spec=spec, attempts=(attempt(made, warning=kept),))
    job_ = replace(job(1, task()), labels=(("label", kept),), tasks=(replace(task(), spec=spec),))
    record = instance("i-1", host_key=kept, gone_at=5.0)
    gone = PublishInstance(worker_id="i-1", state="gone", reason="it was idle", gone=record)
    stray = PublishStray(
        action=StrayAction.KILLED, worker_id="i-1", attempt_id="a", container_id="c"
    )
    for each in (PublishContainer(container=made), PublishJob(job=job_), gone, stray):
        publish(each)
    told = piped()
    assert [each["event"] for each in told] == [
        *("container queued", "job pending", "instance gone", "stray killed"),
    ]
    ids = ("container_id", "attempt_id", "instance_id", "job_id")
    assert [[name for name in ids if name in each] for each in told] == [
        [*ids],
        ["job_id"],
        ["instance_id"],
        ["container_id", "attempt_id", "instance_id"],
    ]
    assert kept not in json.dumps(told)


def test_a_line_is_made_text_by_nobody_who_logs() -> None:
    threads: list[int] = []

    def render(entry: Entry) -> str:
        threads.append(threading.get_ident())
        return str(entry["event"])

    stream = io.StringIO()
    lines = LogLines(stream, render)
    lines.info({"event": "a"})
    assert lines.flush(60)
    assert threads != [threading.get_ident()]
    lines.close()
    lines.info({"event": "b"})
    assert stream.getvalue() == "a\nb\n"


class Stuck(io.StringIO):
    """A stream whose reader does not read until it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = threading.Event()

    def write(self, text: str) -> int:
        assert self.may_go_on.wait(60)
        return super().write(text)


def test_a_reader_that_does_not_read_keeps_nobody_and_little() -> None:
    stream = Stuck()
    lines = LogLines(stream, lambda entry: str(entry["event"]), most_waiting=3)
    lines.info({"event": "first"})
    for number in range(100):
        lines.info({"event": str(number)})
    assert not lines.flush(0)
    stream.may_go_on.set()
    lines.close()
    said = stream.getvalue().splitlines()
    assert said[0] == "first"
    assert len(said) <= 6
    assert "this log could not be written; lines are missing" in said


def test_what_cannot_be_made_text_is_said() -> None:
    def render(entry: Entry) -> str:
        raise ValueError(str(entry["event"]))

    stream = io.StringIO()
    lines = LogLines(stream, render)
    lines.info({"event": "odd"})
    lines.close()
    [said] = map(json.loads, stream.getvalue().splitlines())
    assert (said["event"], said["why"]) == ("a line could not be made text", "odd")
