"""What one call of a group means for the others, and which errors say nothing about a call."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from longshore.dispatcher.domain.audit import AuditEntry, AuditFilter
from longshore.dispatcher.domain.messages import InsertContainers, SaveAudit, SaveContainer
from longshore.dispatcher.domain.queries import ContainerFilter
from longshore.dispatcher.store.errors import NoSuchContainer, OutOfOrder, StoreBusy
from longshore.dispatcher.store.sqlite import is_passing, may_have_written
from longshore.dispatcher.store.store import Store
from tests.dispatcher_process import wait_for
from tests.store_values import container, url_in

NOBODY = SaveContainer(container=container(999))
ENTRY = AuditEntry(
    sequence=0,
    at=time.time(),
    user="ann",
    role="user",
    door="token",
    token_id="t",
    address="127.0.0.1",
    action="POST /v1/containers",
)


def new(sequence: int) -> InsertContainers:
    return InsertContainers(containers=(container(sequence),), user="ann")


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep the store from writing, so that what is queued meanwhile becomes one group."""
    (path,) = directory.glob("*.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def stored(store: Store) -> list[int]:
    page = store.containers(ContainerFilter(), cursor="", limit=1000)
    return sorted(each.sequence for each in page.items)


def test_a_call_that_is_refused_in_a_group_leaves_nothing_and_harms_no_other(
    tmp_path: Path,
) -> None:
    store = Store.open(url_in(tmp_path))
    with locked(tmp_path):
        first = store.write([new(1)])
        refused = store.write([new(2), NOBODY])
        last = store.write([new(3)])
    assert isinstance(refused.exception(60), NoSuchContainer)
    assert (first.exception(60), last.exception(60)) == (None, None)
    assert stored(store) == [1, 3]
    store.close()


def test_what_builds_on_a_refused_change_is_refused_in_later_groups_too(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    assert isinstance(store.write([NOBODY], wait=True).exception(60), NoSuchContainer)
    assert isinstance(store.write([new(1)], wait=True).exception(60), OutOfOrder)
    assert store.write([new(2)]).exception(60) is None, "users build on nothing"
    assert stored(store) == [2]
    store.close()


def test_the_engine_is_never_refused_for_how_much_waits(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path), max_pending=2)
    with locked(tmp_path):
        calls = [store.write([new(number)], wait=True) for number in range(1, 6)]
        with pytest.raises(StoreBusy):
            store.write([new(6)])
    assert [call.exception(60) for call in calls] == [None] * 5
    assert stored(store) == [1, 2, 3, 4, 5]
    store.close()


def noted(store: Store) -> list[int]:
    return [each.sequence for each in store.audit(AuditFilter(), cursor="", limit=10).items]


def note(sequence: int) -> SaveAudit:
    return SaveAudit(entry=replace(ENTRY, sequence=sequence))


def test_what_nobody_waits_for_goes_with_what_comes_next_and_never_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.dispatcher.store.store.BEHIND_S", 3600.0)
    store = Store.open(url_in(tmp_path))
    store.write_behind([note(1)])
    store.write_behind([note(2)])
    time.sleep(0.2)  # in which nothing may happen
    assert noted(store) == []
    assert store.write([new(1)]).exception(60) is None
    assert (noted(store), stored(store)) == ([2, 1], [1])
    assert store.vitals().commit_s.count == 1
    store.write_behind([note(3)])
    assert store.close(), "what waits is written at the end"
    store = Store.open(url_in(tmp_path))
    assert noted(store) == [3, 2, 1]
    store.close()


def test_what_nobody_waits_for_is_written_soon_when_nothing_comes(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    store.write_behind([note(1)])
    wait_for(lambda: noted(store) == [1], "the entry is written", timeout_s=20)
    store.close()


def fault(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("what SQLite says")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    "name", ["BUSY", "LOCKED", "NOMEM", "READONLY", "IOERR", "FULL", "CANTOPEN"]
)
def test_what_a_machine_lacks_for_a_moment_says_nothing_about_a_call(name: str) -> None:
    code = getattr(sqlite3, f"SQLITE_{name}")
    assert is_passing(fault(code))
    assert is_passing(fault(code | 3 << 8)), "with details too"
    assert may_have_written(fault(code)) is (name == "IOERR")


def test_what_is_wrong_with_a_call_does_not_pass() -> None:
    for code in (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG):
        assert not is_passing(fault(code))
    assert not is_passing(ValueError("no error of SQLite's"))
