"""A copy of the store has all that was acknowledged, whatever is written meanwhile."""

from __future__ import annotations

import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest

from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.store.backup import back_up
from longshore.dispatcher.store.errors import StoreUnusable
from tests.synced_files import record_syncs

ROWS = 20_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a database as the store keeps it: in WAL mode, some of it not yet folded in."""
    path = tmp_path / "longshore.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute("PRAGMA journal_mode=WAL")
        made.execute("CREATE TABLE containers (id INTEGER PRIMARY KEY, spec TEXT)")
        made.executemany(
            "INSERT INTO containers (spec) VALUES (?)", [("x" * 1000,) for _ in range(ROWS)]
        )
        made.commit()
    return path


def numbers(path: Path) -> list[int]:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as opened:
        return [number for (number,) in opened.execute("SELECT id FROM containers ORDER BY id")]


def test_it_ends_while_others_commit_all_the_time_and_has_a_prefix_of_it(store: Path) -> None:
    stop, acknowledged = threading.Event(), [ROWS]

    def write() -> None:
        with closing(sqlite3.connect(store, timeout=30)) as opened:
            while not stop.is_set():
                opened.execute("INSERT INTO containers (spec) VALUES ('y')")
                opened.commit()
                acknowledged[0] += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            before = acknowledged[0]
            copied = back_up(store, store.with_name(f"backup-{number}.db"))
            found = numbers(copied.path)
            assert found == list(range(1, copied.containers + 1))
            assert before <= copied.containers <= acknowledged[0] + 1
    finally:
        stop.set()
        writer.join()
    assert acknowledged[0] > ROWS


def test_it_is_one_file_for_its_owner_alone(store: Path) -> None:
    target = store.parent / "to" / "backup.db"
    target.parent.mkdir()
    assert back_up(store, target).size_bytes == target.stat().st_size
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [each.name for each in target.parent.iterdir()] == ["backup.db"]


def test_what_is_there_is_not_replaced(store: Path) -> None:
    target = store.with_name("backup.db")
    target.write_text("mine")
    with pytest.raises(StoreUnusable, match="exists"):
        back_up(store, target)
    assert target.read_text() == "mine"


def test_a_place_that_cannot_be_written_and_a_store_that_is_not_there_are_told(
    store: Path,
) -> None:
    with pytest.raises(StoreUnusable, match="cannot write"):
        back_up(store, store.parent / "absent" / "backup.db")
    with pytest.raises(StoreUnusable, match="there is no store"):
        back_up(store.with_name("other.db"), store.with_name("backup.db"))


def test_a_damaged_store_makes_no_backup(store: Path) -> None:
    with closing(sqlite3.connect(store)) as opened:
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(store.read_bytes())
    content[4096 * 100 : 4096 * 110] = b"\xff" * 40960
    store.write_bytes(content)
    target = store.with_name("backup.db")
    with pytest.raises(StoreUnusable):
        back_up(store, target)
    assert not target.exists()
    assert not list(store.parent.glob(".backup*"))


def test_the_command_finds_the_store_by_its_configuration(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = store.with_name("longshore.yml")
    config.write_text(f"data_dir: {store.parent}\n")
    target = store.with_name("backup.db")
    assert main(["backup", "-c", str(config), str(target)]) == 0
    assert f"{target}: {ROWS} containers" in capsys.readouterr().out
    assert main(["backup", "-c", str(config), str(target)]) == 1
    assert "remove it, or name another file" in capsys.readouterr().err


def test_a_backup_is_safe_before_it_has_its_name(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, target = record_syncs(monkeypatch), store.with_name("backup.db")
    really = Path.hardlink_to

    def hardlink_to(path: Path, staged: Path) -> None:
        assert (path, synced) == (target, [staged])
        really(path, staged)

    monkeypatch.setattr(Path, "hardlink_to", hardlink_to)
    back_up(store, target)
    assert synced[1:] == [target.parent], "and so is the name, before it is told"
