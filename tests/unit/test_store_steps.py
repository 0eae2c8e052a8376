"""Migrations in steps: they go on where a crash left them, and take little at once."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import structlog
from alembic import command
from sqlalchemy import Connection, event

from longshore.dispatcher.store import migration_steps, schema, sqlite
from longshore.dispatcher.store.store import Store
from tests.store_values import url_in

SPEC = (
    b'{"name":"old","image":"busybox","command":["true"],"env":[],"resources":'
    b'{"cpu_millis":1000,"memory_bytes":1},"constraints":{}}'
)
SAID = ("", "its job was stopped", "c-00000009", "revision 7 of its job")
CAUSES = ("nothing", "job_stopped", "for_container", "revised")
STATES = ("queued", "running", "succeeded", "failed", "cancelled")
ROWS = 57
AT_ONCE = 10
#: Migrates a store, and dies as one of its transactions is about to be committed.
DIES = f"""
import os, signal, sys
from pathlib import Path
from sqlalchemy import Engine, event
from longshore.dispatcher.store import migration_steps as steps
from longshore.dispatcher.store import schema, sqlite

steps.ROWS_AT_ONCE = {AT_ONCE}
left = 6

@event.listens_for(Engine, "commit")
def die(_connection):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

schema.migrate(sqlite.writing_engine(Path(sys.argv[1])))
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Return the directory of a store of the seventh schema."""
    engine = sqlite.writing_engine(tmp_path / "longshore.db")
    with engine.begin() as connection:
        command.upgrade(schema.config_for(connection), "0007")
        for number in range(1, ROWS + 1):
            connection.exec_driver_sql(
                "INSERT INTO containers VALUES (?, ?, 'old', 'ann', 'apollo', 500, 1.5, ?,"
                " 2.5, NULL, NULL, NULL, NULL, 0, '0', ?, '', '', NULL, '')",
                (f"c-{number}", number, STATES[number % 5], SPEC),
            )
            connection.exec_driver_sql(
                "INSERT INTO attempts VALUES (?, ?, ?, 1, 'i-1', 'small', '0.1', 2.5, 2.5,"
                " NULL, 'preempted', NULL, NULL, NULL, 0, 0, 0, 'preempted', NULL, ?, 0)",
                (f"a-{number}", f"c-{number}", number, SAID[number % 4]),
            )
    engine.dispose()
    return tmp_path


def read(directory: Path, question: str) -> list[tuple[Any, ...]]:
    database = sqlite3.connect(directory / "longshore.db")
    found = database.execute(question).fetchall()
    database.close()
    return found


def expect_all_done(directory: Path) -> None:
    causes = read(directory, "SELECT ending_cause FROM attempts ORDER BY sequence")
    assert [cause for (cause,) in causes] == [CAUSES[n % 4] for n in range(1, ROWS + 1)]
    noted = read(directory, "SELECT state, ended FROM containers")
    final = STATES[2:]
    assert all(ended == (state if state in final else "") for state, ended in noted)


def progress(directory: Path) -> tuple[str, int, int, int]:
    """Return how far a store has come: its schema, rows that are done, and indexes."""
    ((revision,),) = read(directory, "SELECT version_num FROM alembic_version")
    columns = {name for _, name, *_ in read(directory, "PRAGMA table_info(attempts)")}
    ended = {name for _, name, *_ in read(directory, "PRAGMA table_info(containers)")}
    known = "ending_cause" in columns and read(
        directory, "SELECT count(*) FROM attempts WHERE ending_cause != 'nothing'"
    )
    noted = "ended" in ended and read(
        directory, "SELECT count(*) FROM containers WHERE ended != ''"
    )
    indexes = read(
        directory, "SELECT count(*) FROM sqlite_master WHERE type = 'index' AND sql LIKE '%ended%'"
    )
    return revision, known[0][0] if known else -1, noted[0][0] if noted else -1, indexes[0][0]


def test_what_was_done_before_a_crash_counts(old: Path) -> None:
    seen = [progress(old)]
    script = [sys.executable, "-c", DIES, str(old / "longshore.db")]
    status = -signal.SIGKILL
    while status == -signal.SIGKILL and len(seen) < 60:
        status = subprocess.run(script, timeout=120, check=False).returncode
        seen.append(progress(old))
    assert status == 0
    # Each of them went further, and none did anything away.
    assert seen == sorted(seen)
    assert len(set(seen)) == len(seen)
    assert len(seen) > 6
    assert {0 < known < 42 for _, known, _, _ in seen} == {True, False}, "it died between two steps"
    expect_all_done(old)
    store = Store.open(url_in(old))
    assert len(store.recover().containers) == 23
    store.close()


def test_no_step_takes_more_than_its_rows(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration_steps, "ROWS_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(migration_steps, "TELL_EACH_ROWS", 2 * AT_ONCE)
    most: list[int] = []

    def begin(_connection: Connection) -> None:
        most.append(0)

    def count(_c: object, cursor: Any, statement: str, *_: object) -> None:
        if statement.startswith("UPDATE"):
            most[-1] += max(cursor.rowcount, 0)

    engine = sqlite.writing_engine(old / "longshore.db")
    event.listen(engine, "begin", begin)
    event.listen(engine, "after_cursor_execute", count)
    with structlog.testing.capture_logs() as lines:
        schema.migrate(engine)
    engine.dispose()
    # What is taken apart, and with the last of a revision its number.
    assert max(most) <= AT_ONCE + 1
    assert sum(most) > ROWS
    told = [(each["table"], each["rows"], each["of"]) for each in lines if "rows" in each]
    assert told == [
        (table, rows, ROWS) for table in ("attempts", "containers") for rows in (20, 40, ROWS)
    ]
    assert (lines[-1]["event"], lines[-1]["from"]) == ("store migrated", "0007")
    expect_all_done(old)
