"""A copy of the store while a server writes to it.

It is read in one step, in one transaction: SQLite's backup by pages begins anew after each commit
of another process, and never ends where two of these come a second. Writers do not wait for readers
(https://www.sqlite.org/wal.html); the write-ahead log grows meanwhile, and is folded in afterwards.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from longshore.dispatcher.store.errors import StoreUnusable

_BUSY_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What a backup has come to."""

    #: Where it is.
    path: Path
    size_bytes: int
    #: Rows of the table of containers, finished ones included.
    containers: int


def back_up(store: Path, target: Path) -> Copied:
    """Copy the store in the file `store` to the new file `target`, with mode 0600, and check it.

    Everything that was acknowledged before the call is in it. Nothing is at `target` unless all of
    it is. Raises `StoreUnusable`, with the remedy, when `store` is no store, when `target` exists
    or cannot be written, and for a copy that is damaged.
    """
    if not store.is_file():
        raise StoreUnusable(f"there is no store at {store}: name its configuration with -c")
    if target.exists():
        raise StoreUnusable(f"{target} exists: remove it, or name another file")
    staged = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        os.close(os.open(staged, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreUnusable(f"cannot write {staged}: {error.strerror or error}") from error
    try:
        containers = _copy(store, staged)
        _persist(staged)
        # A link, unlike a rename, replaces nothing that came meanwhile.
        target.hardlink_to(staged)
        _persist(target.parent)
        return Copied(path=target, size_bytes=target.stat().st_size, containers=containers)
    except sqlite3.Error as error:
        raise StoreUnusable(f"cannot copy {store}: {error}") from error
    except OSError as error:
        raise StoreUnusable(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        for left in (staged, staged.with_name(f"{staged.name}-journal")):
            with suppress(FileNotFoundError):
                left.unlink()


def _copy(store: Path, staged: Path) -> int:
    with (
        closing(
            sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True, timeout=_BUSY_TIMEOUT_S)
        ) as source,
        closing(sqlite3.connect(staged)) as copy,
    ):
        source.backup(copy, pages=-1)
        # So that one file is all there is to it, wherever it is taken.
        copy.execute("PRAGMA journal_mode=DELETE")
        (verdict,) = copy.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise StoreUnusable(f"the copy of {store} is damaged, as the store may be: {verdict}")
        (containers,) = copy.execute("SELECT count(*) FROM containers").fetchone()
        return int(containers)


def _persist(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
