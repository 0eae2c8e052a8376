"""Whether the files of an open store are still there, and how far it has come since.

SQLite holds its files open: deleted or replaced they go on to be written, and all of that is gone
with the process. So before a commit is acknowledged the paths are compared with what was opened (a
`stat` each), the header of the file with the store's number. An idle connection keeps the log's
files from being made anew while the store is open: they stay the ones that were found first.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import structlog
from sqlalchemy import Connection

from longshore.dispatcher.store.errors import StoreReplaced
from longshore.dispatcher.store.marker import Marker, MarkerFile, count_commit

_NUMBER_AT = 60
_NUMBER_BYTES = 4
_Identity = tuple[int, int]

_log = structlog.get_logger("longshore.store")


class StoreFiles:
    """The files of one open store; `check` from any thread once `settle` was called."""

    def __init__(self, path: Path) -> None:
        """Take the file at `path` for the store's: it exists, and nobody here has it open yet."""
        self._path = path
        # Closed only after all connections: SQLite's locks would go with it.
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        found = os.fstat(self._descriptor)
        self._opened: dict[Path, _Identity] = {path: (found.st_dev, found.st_ino)}
        self._numbers: frozenset[bytes] | None = None
        self._anchor: sqlite3.Connection | None = None

    def settle(self, number: int) -> None:
        """Take the log's files, too, for the store's; `number` is that of its marker."""
        anchor = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._anchor = anchor
        anchor.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
        anchor.execute("SELECT count(*) FROM sqlite_master").close()
        for ending in ("-wal", "-shm"):
            log = self._path.with_name(self._path.name + ending)
            found = log.stat()
            self._opened[log] = (found.st_dev, found.st_ino)
        # Where the checkpoint had to wait for somebody, the header changes later.
        self._numbers = frozenset({number.to_bytes(_NUMBER_BYTES), self._number()})

    def check(self) -> None:
        """Raise `StoreReplaced` unless the files are those that were opened."""
        if what := self.problem():
            raise StoreReplaced(
                f"the store's file {what}, and the server has the one open that was there before: "
                "nothing is acknowledged any more. Put back the very file (mv), or stop the server,"
                " restore a backup and start it with --accept-new-store"
            )

    def problem(self) -> str:
        """Return which file is not the one that was opened, and why, "" when all are."""
        for path, opened in self._opened.items():
            try:
                found = path.stat()
            except OSError as error:
                return f"{path} cannot be found: {error.strerror}"
            if (found.st_dev, found.st_ino) != opened:
                return f"{path} was replaced by another"
        if self._numbers is not None and self._number() not in self._numbers:
            return f"{self._path} was overwritten by another store"
        return ""

    @property
    def closed(self) -> bool:
        """Return whether `close` was called."""
        return self._descriptor < 0

    def close(self) -> None:
        """Let go of the files, after all other connections; twice is no error."""
        anchor, self._anchor = self._anchor, None
        if anchor is not None:
            anchor.close()
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _number(self) -> bytes:
        return os.pread(self._descriptor, _NUMBER_BYTES, _NUMBER_AT)


class Custody:
    """An open store's files and its marker; but for `check`, used by the thread that writes.

    `marker` is how far it has come. Without a file in a data directory only the store counts.
    """

    def __init__(self, files: StoreFiles, marker: Marker, file: MarkerFile | None) -> None:
        self.marker = marker
        self._files = files
        self._file = file
        self._in_trouble = False

    def check(self) -> None:
        """Raise `StoreReplaced` unless the files are those that were opened."""
        self._files.check()

    def count(self, connection: Connection, now: float) -> Marker:
        """Count the transaction of `connection`; return what `committed` is told when it is."""
        marker = self.marker.counted(now)
        count_commit(connection, marker)
        return marker

    def committed(self, marker: Marker) -> None:
        """Note that a transaction is committed that was counted as `marker`."""
        self.marker = marker
        if self._file is None:
            return
        try:
            self._file.write(marker)
        except OSError as error:
            self._tell(error)
        else:
            self._in_trouble = False

    def sync(self) -> None:
        """Have the marker in the data directory survive a loss of power."""
        if self._file is None:
            return
        try:
            self._file.sync()
        except OSError as error:
            self._tell(error)

    def _tell(self, error: OSError) -> None:
        """Say once that the file lags behind: the store itself is not in danger by that."""
        if not self._in_trouble:
            _log.warning("store_marker_not_written", error=error.strerror)
        self._in_trouble = True
