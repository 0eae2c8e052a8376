"""What the store's writer says in the log, and when."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from longshore.dispatcher.domain.messages import InsertContainers
from longshore.dispatcher.store import writer
from longshore.dispatcher.store.store import Store
from tests.store_values import container, url_in

PROBLEM = "the store cannot be written, trying again: database is locked"


def until(condition: Callable[[], bool]) -> None:
    deadline, gate = time.monotonic() + 60, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "it never became true"
        gate.wait(0.01)


def test_a_line_of_the_log_is_the_last_that_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever becomes of the line: the health is told before it, and nobody waits for it."""
    so_far: list[tuple[str, str, bool]] = []
    calls: list[Future[None]] = []

    class Log:
        def error(self, event: str, **_: object) -> None:
            so_far.append((event, store.problem, calls[-1].done()))

        info = error

        def warning(self, _event: str, **_: object) -> None:
            """Take what upkeep says: it finds the store locked, and nobody waits for it."""

    monkeypatch.setattr(writer, "_log", Log())
    store = Store.open(url_in(tmp_path))
    other = sqlite3.connect(tmp_path / "longshore.db", isolation_level=None)
    for end in (lambda: other.execute("ROLLBACK"), lambda: store.close(0.1)):
        other.execute("BEGIN IMMEDIATE")
        new = InsertContainers(containers=(container(len(calls)),), user="ann")
        calls.append(store.write([new]))
        until(lambda: store.problem != "")
        end()
        until(lambda: len(so_far) == 2 * len(calls))
    other.close()
    store.close()
    assert so_far == [
        ("store_not_writable", PROBLEM, False),
        ("store_writable_again", "", True),
        ("store_not_writable", PROBLEM, False),
        ("store_closed_unwritten", PROBLEM, True),
    ]
