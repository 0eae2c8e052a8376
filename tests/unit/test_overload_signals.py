"""Who says that too much runs, and when: the store's writer, and a runner on a full disk."""

from __future__ import annotations

import errno
import os
import queue
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from longshore.dispatcher.domain.messages import InsertContainers, SaveContainer
from longshore.dispatcher.store import writer
from longshore.dispatcher.store.store import Store
from longshore.pool.runner import launch
from longshore.pool.runner.engines import ContainerEngine
from longshore.pool.runner.spool import Spool, SpoolPaths
from longshore.pool.runner.wire import Refusal, StartOrder
from tests.small_disk import fill, small_disk
from tests.store_values import container, insert, url_in

KNOWN = container(1)


class Opened:
    """A store with one container, and what it said of overload."""

    def __init__(self, tmp_path: Path, *, max_pending: int = 1000) -> None:
        self.store = Store.open(url_in(tmp_path), max_pending=max_pending, group_limit=1)
        insert(self.store, KNOWN)
        self.said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.store.on_overload(self.said.put)

    def all_said(self) -> list[str]:
        """Close the store, which ends its thread, and return all that it said."""
        assert self.store.close(30)
        said = []
        while not self.said.empty():
            said.append(self.said.get())
        return said


def test_a_slow_commit_is_overload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "SLOW_COMMIT_S", 0.0)
    opened = Opened(tmp_path)
    opened.store.write([SaveContainer(container=KNOWN)], wait=True).result(30)
    [sentence] = opened.all_said()
    assert sentence.startswith("a commit of the store's took ")


def test_a_usual_commit_is_none(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    opened.store.write([SaveContainer(container=KNOWN)], wait=True).result(30)
    assert opened.all_said() == []


def test_it_is_said_once_a_second_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "SLOW_COMMIT_S", 0.0)
    monkeypatch.setattr(writer, "TELL_EVERY_S", 3600.0)
    opened = Opened(tmp_path)
    for _ in range(5):
        opened.store.write([SaveContainer(container=KNOWN)], wait=True).result(30)
    assert len(opened.all_said()) == 1


def crowd(opened: Opened, tmp_path: Path, *, engines: int, users: int) -> list[str]:
    """Let changes wait while another connection keeps the store; return what it says then."""
    [file] = tmp_path.rglob("*.db")
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for _ in range(engines):
            opened.store.write([SaveContainer(container=KNOWN)], wait=True)
        for number in range(users):
            new = InsertContainers(containers=(container(number + 2),), user="ann")
            opened.store.write([new])
        other.execute("ROLLBACK")
    return opened.all_said()


def test_many_changes_of_the_engines_that_wait_are_overload(tmp_path: Path) -> None:
    [sentence] = crowd(Opened(tmp_path, max_pending=8), tmp_path, engines=8, users=0)
    assert sentence == "7 changes wait to be written to the store"


def test_as_many_as_usual_are_none(tmp_path: Path) -> None:
    assert crowd(Opened(tmp_path, max_pending=8), tmp_path, engines=7, users=0) == []


def test_what_users_send_is_none(tmp_path: Path) -> None:
    assert crowd(Opened(tmp_path, max_pending=8), tmp_path, engines=0, users=8) == []


# ---- the runner ----------------------------------------------------------------------------------


@pytest.fixture
def _reserved() -> Iterator[None]:
    """Low descriptors are in use, as in the runner, and given back."""
    kept: list[int] = []
    while not kept or kept[-1] < 10:
        kept.append(os.open(os.devnull, os.O_RDONLY))
    yield
    for descriptor in kept:
        os.close(descriptor)


def launcher_in(base: Path) -> launch.Launcher:
    places = SpoolPaths(
        str(base),
        f"{base}/spool",
        f"{base}/logs",
        f"{base}/c/work",
        "longshore-t",
        f"{base}/apart",
    )
    spool = Spool(places)
    return launch.Launcher(spool, ContainerEngine("process", work=places.work), dict(os.environ))


ORDER = StartOrder("a", "c", "", (b"true",), ((b"filler", b"x" * 100_000),), 0, 0)


@pytest.mark.usefixtures("_reserved")
def test_a_start_on_a_full_disk_is_refused_as_overloaded(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small") as disk:
        launcher = launcher_in(disk)
        fill(disk)
        with pytest.raises(Refusal, match="No space left on device") as refusal:
            launcher.start(ORDER)
        assert refusal.value.code == "overloaded"


@pytest.mark.usefixtures("_reserved")
@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.EAGAIN, "overloaded"),
        (errno.ENOMEM, "overloaded"),
        (errno.ENOSPC, "overloaded"),
        (errno.EMFILE, "overloaded"),
        (errno.EACCES, "spawn"),
        (errno.EIO, "spawn"),
    ],
)
def test_a_process_that_cannot_be_made_for_want_of_something_is_refused_as_overloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str
) -> None:
    def fail(*_arguments: object) -> int:
        raise OSError(number, os.strerror(number))

    for name in ("spawn", "spawn_gathering"):
        monkeypatch.setattr(launch, name, fail)
    launcher = launcher_in(tmp_path)
    with pytest.raises(Refusal) as refusal:
        launcher.start(ORDER)
    assert refusal.value.code == code
    assert launcher.reap() == []
