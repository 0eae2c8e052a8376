"""A store whose files are taken away under it, and one that is not the one that was here before."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from longshore.dispatcher.domain.messages import InsertContainers
from longshore.dispatcher.domain.queries import ContainerFilter
from longshore.dispatcher.store.errors import StoreBusy, StoreIsAnother, StoreUnusable
from longshore.dispatcher.store.marker import MARKER_NAME, Marker, why_not_the_same
from longshore.dispatcher.store.store import Store
from tests.cli_server import await_true
from tests.store_values import container, insert, url_in

ROOT = Path(__file__).parents[2]


def new(sequence: int) -> InsertContainers:
    return InsertContainers(containers=(container(sequence),), user="ann")


def stored(store: Store) -> list[int]:
    page = store.containers(ContainerFilter(), cursor="", limit=1000)
    return sorted(each.sequence for each in page.items)


def open_in(directory: Path, *, accept_new: bool = False) -> Store:
    return Store.open(url_in(directory), data_dir=directory, accept_new=accept_new)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = open_in(tmp_path)
    insert(made, container(1))
    yield made
    made.close(timeout_s=0.1)


def another_store(directory: Path) -> Path:
    """Return the file of a store that somebody else has made."""
    (directory / "another").mkdir()
    made = open_in(directory / "another")
    insert(made, container(77))
    made.close()
    return directory / "another" / "longshore.db"


# ---- while it is open ----------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
def test_nothing_is_acknowledged_once_a_file_is_gone(
    tmp_path: Path, store: Store, ending: str
) -> None:
    path = tmp_path / f"longshore.db{ending}"
    away = tmp_path / "away"
    path.rename(away)
    call = store.write([new(2)])
    await_true(lambda: store.problem != "")
    assert f"{path} cannot be found" in store.problem
    assert "--accept-new-store" in store.problem
    assert not call.done()
    away.rename(path)
    assert call.exception(60) is None, "put back, it goes on"
    assert (store.problem, stored(store)) == ("", [1, 2])


def test_nothing_is_acknowledged_once_another_file_lies_there(tmp_path: Path, store: Store) -> None:
    path, away = tmp_path / "longshore.db", tmp_path / "away"
    other = another_store(tmp_path)
    path.rename(away)
    shutil.copy(other, path)
    call = store.write([new(2)])
    await_true(lambda: "was replaced by another" in store.problem)
    assert not call.done()
    # Whoever comes new must not read the other one for ours.
    store._reading.dispose()
    with pytest.raises(StoreBusy, match="was replaced by another"):
        stored(store)
    away.replace(path)
    assert call.exception(60) is None
    assert stored(store) == [1, 2]


def test_a_file_that_is_written_over_is_noticed_too(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "longshore.db"
    kept, other = path.read_bytes(), another_store(tmp_path).read_bytes()
    path.write_bytes(other)
    call = store.write([new(2)])
    await_true(lambda: "was overwritten by another store" in store.problem)
    assert not call.done()
    path.write_bytes(kept)
    assert call.exception(60) is None


def test_it_is_noticed_while_nobody_writes(tmp_path: Path, store: Store) -> None:
    path, away = tmp_path / "longshore.db", tmp_path / "away"
    path.rename(away)
    await_true(lambda: "cannot be found" in store.problem)
    away.rename(path)
    await_true(lambda: store.problem == "")


def test_what_went_into_a_file_that_is_gone_is_not_acknowledged(
    tmp_path: Path, store: Store
) -> None:
    """It goes between the look before the commit and the acknowledgement."""
    path, away = tmp_path / "longshore.db", tmp_path / "away"
    committed = store._writer._custody.committed

    def take_away(marker: Marker) -> None:
        committed(marker)
        path.rename(away)

    store._writer._custody.committed = take_away  # type: ignore[method-assign]  # the moment
    call = store.write([new(2)])
    await_true(lambda: "cannot be found" in store.problem)
    assert not call.done()
    assert not store.withdraw(call), "it may be there all the same"
    store._writer._custody.committed = committed  # type: ignore[method-assign]  # as above
    away.rename(path)
    assert call.exception(60) is None
    assert stored(store) == [1, 2], "it is not written twice"


# ---- at a start ----------------------------------------------------------------------------------


KNOWN = Marker(store="a" * 32, created_at=86_400.0, commits=7, written_at=90_000.0)
DATES = "made at 1970-01-02T00:00:00Z and last written at 1970-01-02T01:00:00Z"
LATER_DATES = "made at 1970-01-03T00:00:00Z and last written at 1970-01-03T00:00:00Z"
OLDER_COPY = (
    "it was last written at 1970-01-02T01:00:00Z, and the data directory knows of 2 commits after "
    "that, until 1970-01-02T03:45:00Z: it is an older copy, or has lost its write-ahead log"
)


@pytest.mark.parametrize(
    ("known", "found", "why"),
    [
        (None, None, ""),
        (None, KNOWN, ""),
        (KNOWN, KNOWN, ""),
        (KNOWN, KNOWN.counted(99_000.0), ""),
        (KNOWN, None, f"it has no marker, and the data directory knows one {DATES}"),
        (
            KNOWN,
            Marker(store="b" * 32, created_at=172_800.0, commits=9, written_at=172_800.0),
            f"it was {LATER_DATES}, and the data directory knows another, {DATES}",
        ),
        (
            KNOWN.counted(99_000.0).counted(99_900.0),
            KNOWN,
            OLDER_COPY,
        ),
    ],
)
def test_of_two_markers_it_is_told_why_they_do_not_go_together(
    known: Marker | None, found: Marker | None, why: str
) -> None:
    assert why_not_the_same(known, found) == why


def empty(directory: Path) -> None:
    (directory / "longshore.db").write_bytes(b"")


def delete(directory: Path) -> None:
    (directory / "longshore.db").unlink()


def replace_it(directory: Path) -> None:
    shutil.copy(another_store(directory), directory / "longshore.db")


@pytest.mark.parametrize("spoil", [empty, delete, replace_it])
def test_a_start_on_another_store_stops(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    first = open_in(tmp_path)
    insert(first, container(1))
    first.close()
    spoil(tmp_path)
    before = sorted(each.name for each in tmp_path.iterdir())
    with pytest.raises(StoreIsAnother, match=r"(?s)data directory knows.*--accept-new-store"):
        open_in(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == before, "nothing was made"
    accepted = open_in(tmp_path, accept_new=True)
    assert accepted.id != first.id
    insert(accepted, container(2))
    accepted.close()
    again = open_in(tmp_path)
    assert again.id == accepted.id
    again.close()


def test_a_backup_of_before_the_last_commit_is_noticed(tmp_path: Path) -> None:
    store = open_in(tmp_path)
    insert(store, container(1))
    source, copy = sqlite3.connect(tmp_path / "longshore.db"), sqlite3.connect(tmp_path / "backup")
    source.backup(copy)
    source.close()
    copy.close()
    insert(store, container(2))
    store.close()
    shutil.copy(tmp_path / "backup", tmp_path / "longshore.db")
    with pytest.raises(StoreIsAnother, match="knows of 1 commits after that"):
        open_in(tmp_path)
    accepted = open_in(tmp_path, accept_new=True)
    assert stored(accepted) == [1]
    assert accepted.id != store.id, "what runs of what it lost is not to be ended as a stray"
    accepted.close()


WRITER = """
import sys
from pathlib import Path
from longshore.dispatcher.store.store import Store
from tests.store_values import container, insert

store = Store.open(sys.argv[1], data_dir=Path(sys.argv[2]))
for sequence in store.next_sequences(40):
    insert(store, container(sequence))
    print(sequence, flush=True)
sys.stdin.read()
"""


def test_a_log_that_was_lost_is_noticed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, url_in(tmp_path), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    ) as writer:
        assert writer.stdout is not None
        for _ in range(40):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
    (tmp_path / "longshore.db-wal").unlink()
    with pytest.raises(StoreIsAnother, match="knows of 40 commits after that"):
        open_in(tmp_path)


def test_after_a_kill_the_store_is_the_same(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, url_in(tmp_path), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    ) as writer:
        assert writer.stdout is not None
        for _ in range(17):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
    store = open_in(tmp_path)
    assert len(stored(store)) >= 17
    store.close()


def test_a_store_without_a_marker_in_the_directory_is_taken(tmp_path: Path) -> None:
    store = open_in(tmp_path)
    store.close()
    (tmp_path / MARKER_NAME).unlink()
    again = open_in(tmp_path)
    assert again.id == store.id
    again.close()
    (tmp_path / MARKER_NAME).write_text("{")
    with pytest.raises(StoreUnusable, match="look whether the store is the right one"):
        open_in(tmp_path)


def test_an_older_file_beside_the_log_of_a_newer_is_refused_and_nothing_is_changed(
    tmp_path: Path,
) -> None:
    """`kill -9` leaves the log. Over a backup it made a mixture, with the newest marker in it."""
    live, crashed, mixed = (tmp_path / name for name in ("live", "crashed", "mixed"))
    made = open_in(live)
    for sequence in range(1, 400):
        insert(made, container(sequence))
    assert made.close()
    shutil.copy(live / "longshore.db", tmp_path / "backup.db")
    made = open_in(live)
    for sequence in range(400, 1200):
        insert(made, container(sequence))
    # What a crash leaves: the files as they are while the server has them open.
    shutil.copytree(live, crashed)
    assert made.close()
    shutil.copytree(crashed, mixed)
    again = open_in(crashed)
    assert stored(again)[-1] == 1199, "the log is its own"
    assert again.close()

    shutil.copy(tmp_path / "backup.db", mixed / "longshore.db")
    before = {each.name: each.read_bytes() for each in mixed.iterdir() if each.suffix != ".db-shm"}
    with pytest.raises(StoreUnusable, match="do not belong together") as caught:
        open_in(mixed)
    assert "longshore.db-wal" in str(caught.value)
    after = {name: (mixed / name).read_bytes() for name in before if not name.endswith("-shm")}
    assert after == {name: data for name, data in before.items() if not name.endswith("-shm")}
    for ending in ("-wal", "-shm"):
        (mixed / f"longshore.db{ending}").unlink()
    with pytest.raises(StoreIsAnother):
        open_in(mixed)
    assert open_in(mixed, accept_new=True).close()
