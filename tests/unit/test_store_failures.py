"""The store when the disk, another process or its own past is against it."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.exc import OperationalError

from longshore.dispatcher.domain.containers import ContainerState, Dependency, Retries
from longshore.dispatcher.domain.messages import InsertContainers, SaveContainer
from longshore.dispatcher.domain.queries import ContainerFilter
from longshore.dispatcher.store import schema, sqlite
from longshore.dispatcher.store.codec import decode_spec, encode_spec
from longshore.dispatcher.store.errors import (
    NoSuchContainer,
    OutOfOrder,
    StoreBusy,
    StoreClosed,
    StoreUnusable,
    Withdrawn,
)
from longshore.dispatcher.store.store import Store
from longshore.dispatcher.store.tables import metadata
from longshore.dispatcher.store.writer import LOOK_EACH_S
from tests.samples import make_container
from tests.small_disk import fill, small_disk
from tests.store_values import SPEC, container, insert, insert_job, job, task, url_in

ROOT = Path(__file__).parents[2]

WRITER = """
import sys
from longshore.dispatcher.domain.messages import InsertContainers
from longshore.dispatcher.store.store import Store
from tests.store_values import container

store = Store.open(sys.argv[1])
while True:
    calls = []
    for sequence in store.next_sequences(20):
        call = store.write([InsertContainers(containers=(container(sequence),), user="ann")])
        calls.append((sequence, call))
    for sequence, call in calls:
        call.result()
        print(sequence, flush=True)
"""


def until(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    gate = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "it never became true"
        gate.wait(0.01)


def new(sequence: int) -> InsertContainers:
    return InsertContainers(containers=(container(sequence),), user="ann")


def stored(store: Store) -> list[int]:
    """Return all sequence numbers, in order; there may be at most a page of them."""
    page = store.containers(ContainerFilter(), cursor="", limit=1000)
    assert page.next_cursor is None
    return sorted(each.sequence for each in page.items)


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    acknowledged: list[int] = []
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, url_in(tmp_path)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        ) as writer:
            assert writer.stdout is not None
            wanted = len(acknowledged) + 90
            while len(acknowledged) < wanted:
                acknowledged.append(int(writer.stdout.readline()))
            writer.send_signal(signal.SIGKILL)
            rest = writer.stdout.read()
        acknowledged += [int(line) for line in rest.splitlines(keepends=True) if line[-1] == "\n"]
        store = Store.open(url_in(tmp_path))
        assert set(acknowledged) <= set(stored(store))
        assert acknowledged == sorted(set(acknowledged))
        store.close()


def test_a_full_disk_delays_writes_and_loses_none(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", size="2m") as disk:
        store = Store.open(url_in(disk), max_pending=400)
        insert(store, container(1))
        ballast = fill(disk)
        calls = [store.write([new(n)]) for n in range(2, 301)]
        until(lambda: store.problem != "")
        assert "disk is full" in store.problem
        assert not calls[-1].done()
        # The engine's decisions queue behind them, in order, beyond any limit.
        saved = store.write([SaveContainer(container=container(300))] * 200, wait=True)
        with pytest.raises(StoreBusy, match="wait to be written"):
            store.write([new(999)])
        ballast.unlink()
        assert saved.result(30) is None
        assert [call.exception(0) for call in calls] == [None] * len(calls)
        assert store.problem == ""
        assert store.pending == 0
        assert stored(store) == list(range(1, 301))
        store.close()


def test_a_locked_database_delays_writes_in_order(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    other = sqlite3.connect(tmp_path / "longshore.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    done: list[int] = []

    def note_done(number: int, _call: object) -> None:
        done.append(number)

    for n in range(1, 11):
        store.write([new(n)]).add_done_callback(partial(note_done, n))
    until(lambda: "locked" in store.problem)
    assert done == []
    other.execute("ROLLBACK")
    other.close()
    store.close()
    assert done == list(range(1, 11))


def test_closing_gives_up_on_a_disk_that_stays_full(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", size="2m") as disk:
        store = Store.open(url_in(disk))
        fill(disk)
        calls = [store.write([new(n)]) for n in range(1, 101)]
        until(lambda: store.problem != "")
        store.close(timeout_s=0.1)
        errors = [call.exception(0) for call in calls]
        assert all(isinstance(error, StoreClosed) for error in errors)
        assert "disk is full" in str(errors[0])


def test_what_builds_on_a_refused_change_is_not_written(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    known, stranger = container(1), container(2)
    insert(store, known)
    locked = replace(known, state=ContainerState.LOCKED)
    store.write([SaveContainer(container=locked)], wait=True)
    first = store.write([SaveContainer(container=stranger)], wait=True)
    second = store.write([SaveContainer(container=known)], wait=True)
    with pytest.raises(NoSuchContainer):
        first.result()
    with pytest.raises(OutOfOrder):
        second.result()
    with pytest.raises(OutOfOrder):
        store.write([SaveContainer(container=known)], wait=True).result()
    insert(store, container(3))
    assert [c.state for c in store.recover().containers] == [
        ContainerState.LOCKED,
        ContainerState.QUEUED,
    ]
    store.close()


def test_a_failing_group_is_not_half_written(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", size="2m") as disk:
        store = Store.open(url_in(disk))
        many = tuple(container(n) for n in range(1, 5000))
        call = store.write([InsertContainers(containers=many, user="ann")])
        until(lambda: store.problem != "")
        assert stored(store) == []
        store.close(timeout_s=0.1)
        assert isinstance(call.exception(0), StoreClosed)


def test_a_future_cannot_be_cancelled_once_accepted(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    call = store.write([new(1)])
    assert not call.cancel()
    call.result(30)
    assert stored(store) == [1]
    store.close()


def test_many_threads_share_commits(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path), group_limit=7)

    def submit() -> None:
        for sequence in store.next_sequences(10):
            insert(store, container(sequence))

    threads = [threading.Thread(target=submit) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stored(store) == list(range(1, 161))
    store.close()


def test_a_second_dispatcher_is_refused(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    script = (
        "import sys; from longshore.dispatcher.store.store import Store; Store.open(sys.argv[1])"
    )
    second = subprocess.run(
        [sys.executable, "-c", script, url_in(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert second.returncode != 0
    assert f"in use by another Longshore (process {os.getpid()})" in second.stderr
    with pytest.raises(StoreUnusable, match="in use by another Longshore"):
        Store.open(url_in(tmp_path))
    store.close()
    Store.open(url_in(tmp_path)).close()


def test_a_newer_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    Store.open(url_in(tmp_path)).close()
    database = sqlite3.connect(tmp_path / "longshore.db")
    (known,) = database.execute("SELECT version_num FROM alembic_version").fetchone()
    database.execute("UPDATE alembic_version SET version_num = '9999'")
    database.commit()
    with pytest.raises(StoreUnusable, match="has schema 9999, but this Longshore knows only"):
        Store.open(url_in(tmp_path))
    assert database.execute("SELECT version_num FROM alembic_version").fetchone() == ("9999",)
    database.execute("UPDATE alembic_version SET version_num = ?", (known,))
    database.commit()
    database.close()
    Store.open(url_in(tmp_path)).close()


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "longshore.db").write_bytes(b"this is not a database, not at all" * 100)
    with pytest.raises(StoreUnusable, match="not a database"):
        Store.open(url_in(tmp_path))
    (tmp_path / "file").touch()
    for url in (
        f"sqlite:///{tmp_path}/file/x.db",
        f"sqlite:///{tmp_path}",
        "sqlite://",
        "mysql://x/y",
    ):
        with pytest.raises(StoreUnusable):
            Store.open(url)


def test_the_store_is_private(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path / "new" / "directory"))
    insert(store, container(1))
    files = list((tmp_path / "new").rglob("*"))
    assert len(files) >= 4
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)
    store.close()


def test_of_several_openers_of_a_new_store_one_gets_it(tmp_path: Path) -> None:
    opened: list[Store] = []
    refused: list[str] = []
    barrier = threading.Barrier(4)

    def open_it() -> None:
        barrier.wait()
        try:
            opened.append(Store.open(url_in(tmp_path)))
        except StoreUnusable as error:
            refused.append(str(error))

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 1
    assert len(refused) == 3
    assert all("is in use by another Longshore" in message for message in refused)
    insert(opened[0], container(1))
    opened[0].close()


def test_the_migrations_make_what_the_tables_say(tmp_path: Path) -> None:
    engine = sqlite.writing_engine(tmp_path / "longshore.db")
    schema.migrate(engine)
    with engine.begin() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()
    script = ScriptDirectory(str(ROOT / "dispatcher" / "store" / "migrations"))
    assert len(script.get_heads()) == 1


def test_a_store_of_the_first_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    engine = sqlite.writing_engine(tmp_path / "longshore.db")
    with engine.begin() as connection:
        command.upgrade(schema.config_for(connection), "0001")
        connection.exec_driver_sql(
            "INSERT INTO instances VALUES ('i-1', 't', 't1', '0.1', 1.0, 'k', 'a:22', NULL, '')"
        )
    engine.dispose()
    store = Store.open(url_in(tmp_path))
    (instance,) = store.recover().instances
    assert (instance.id, instance.host_key, instance.behavior) == ("i-1", "k", "")
    assert instance.killed is None
    store.close()


def test_exit_codes_of_an_earlier_version_narrow_every_failure_as_they_did() -> None:
    now = make_container(1, retries=Retries(most=2, on=("failed",), exit_codes=(75,))).spec
    assert decode_spec(encode_spec(now)) == now
    before = encode_spec(now).replace(b',"first_delay_s":0.0', b"")
    assert before != encode_spec(now)
    assert decode_spec(before).retries == replace(now.retries, on=("exit_code",))


def test_containers_of_the_fourth_schema_are_of_no_job(tmp_path: Path) -> None:
    spec = (
        '{"name":"old","image":"busybox","command":["true"],"env":[],"resources":{"cpu_millis":1000,'
        '"memory_bytes":1,"disk_bytes":0,"gpus":0,"custom":[]},"constraints":{"labels":[],'
        '"gpu_model":"","gpu_memory_bytes":0,"instance_types":[],"preemptible":"allowed",'
        '"max_price_usd_per_hour":null},"labels":[],"retry_lost":true,"retries":{"most":2,'
        '"on":["failed"],"exit_codes":[],"delay_s":15.0},"unnamed":[],"supervisor":false}'
    )
    engine = sqlite.writing_engine(tmp_path / "longshore.db")
    with engine.begin() as connection:
        command.upgrade(schema.config_for(connection), "0004")
        for number, state in (1, "queued"), (2, "succeeded"):
            connection.exec_driver_sql(
                "INSERT INTO containers VALUES (?, ?, 'old', 'ann', 'apollo', 500, 1.5, ?, NULL,"
                " NULL, NULL, NULL, NULL, 0, '0', ?)",
                (f"c-{number}", number, state, spec.encode()),
            )
        connection.exec_driver_sql(
            "INSERT INTO attempts VALUES ('a-1', 'c-2', 2, 1, 'i-1', 'small', '0.1', 2.5, NULL,"
            " NULL, 'succeeded', 0, NULL, NULL, 0, 0, 1, NULL, NULL)"
        )
    engine.dispose()
    store = Store.open(url_in(tmp_path))
    (waiting,) = store.recover().containers
    done = store.container("c-2")
    assert done is not None
    for old in (waiting, done):
        assert (old.job_id, old.task, old.array_index) == ("", "", None)
        assert (old.spec.name, old.spec.retries.most) == ("old", 2)
        assert (old.spec.after, old.spec.not_before, old.spec.time_limit_s) == ((), None, None)
    assert [tried.id for tried in done.attempts] == ["a-1"]
    assert (store.recover().jobs, store.recover().ended) == ((), {})
    assert store.next_job_sequence() == 1
    waits = replace(SPEC, after=(Dependency(of="c-1"), Dependency(of="c-2")))
    insert_job(store, job(1, task("", 2, spec=waits)), 3)
    assert store.recover().ended == {"c-2": True}
    store.close()


def test_what_is_withdrawn_while_the_disk_is_full_is_never_written(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", size="2m") as disk:
        store = Store.open(url_in(disk))
        insert(store, container(1))
        ballast = fill(disk)
        calls = [store.write([new(n)]) for n in range(2, 301)]
        until(lambda: store.problem != "")
        stuck = calls[-1]
        assert not stuck.done()
        store.withdraw(stuck)
        ballast.unlink()
        assert calls[-2].exception(30) is None
        assert isinstance(stuck.exception(30), Withdrawn)
        assert stored(store) == list(range(1, 300))
        store.close()


def test_a_full_disk_is_told_until_something_is_written_and_not_until_all_is_withdrawn(
    tmp_path: Path,
) -> None:
    """Who gives up waiting must not end the alarm, nor must time in which nobody writes."""
    with small_disk(tmp_path / "small", size="2m") as disk:
        store = Store.open(url_in(disk))
        insert(store, container(1))
        ballast = fill(disk)
        calls = [store.write([new(n)]) for n in range(2, 301)]
        until(lambda: store.problem != "")
        until(lambda: all(call.done() or store.withdraw(call) for call in calls))
        until(lambda: all(call.done() for call in calls))
        seen: list[str] = []
        looked_until = time.monotonic() + 3 * LOOK_EACH_S
        while time.monotonic() < looked_until:
            seen.append(store.problem)
            threading.Event().wait(0.01)
        assert "" not in seen
        ballast.unlink()
        until(lambda: not store.problem)
        insert(store, container(301))
        store.close()


def test_a_store_that_cannot_be_opened_on_a_full_disk_says_that_it_is_full(tmp_path: Path) -> None:
    """SQLite calls it an I/O error, which sends whoever reads it to look for a broken disk."""
    with small_disk(tmp_path / "small", size="2m") as disk:
        Store.open(url_in(disk)).close()
        fill(disk)
        with pytest.raises(StoreUnusable, match="0 KiB are free on its disk; make room there"):
            Store.open(url_in(disk))


def test_a_commit_is_on_the_disk_before_it_is_told(tmp_path: Path) -> None:
    """In a write-ahead log NORMAL would lose what was acknowledged, when the power fails."""
    path = tmp_path / "x.db"
    sqlite.make_file(path)
    engine = sqlite.writing_engine(path)
    with engine.connect() as connection:
        asked = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "journal_size_limit")
        }
    assert asked == {
        "journal_mode": "wal",
        "synchronous": 2,  # FULL
        "foreign_keys": 1,
        "journal_size_limit": sqlite.WAL_LIMIT_BYTES,
    }


def test_who_reads_the_store_cannot_write_it(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    store.close()
    (path,) = tmp_path.glob("*.db")
    engine = sqlite.reading_engine(path)
    with engine.connect() as connection, pytest.raises(OperationalError, match="readonly"):
        connection.exec_driver_sql("DELETE FROM containers")
    engine.dispose()
