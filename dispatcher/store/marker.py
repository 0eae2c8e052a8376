"""Which store this is, and how far it has come: a row in it, and the same in the data directory.

A store whose file was emptied, replaced by another or by an older copy, or that has lost its
write-ahead log, opens like any other: nothing in it says what is missing, and all that runs on
instances would be ended as unknown to it. So a marker is made at the first start: a random id of
the store with a count of its commits. Each commit counts it in the store, in its own transaction;
the file follows right after, before anybody is told. A file that is ahead of the store, or knows
another, therefore shows a store that has lost something. The file is written in place and synced
only now and then: a loss of power may leave it behind the store, which means nothing.

The first bytes of the store's file carry a number made of the id (`user_version`), so that one
written over it is noticed without a query.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import Connection, bindparam, delete, insert, inspect, select, update

from longshore.dispatcher.domain.timefmt import moment
from longshore.dispatcher.store.errors import StoreUnusable
from longshore.dispatcher.store.tables import store_marker

MARKER_NAME = "store-marker.json"
_FILE_BYTES = 512

_READ = select(store_marker)
_FORGET = delete(store_marker)
_MAKE = insert(store_marker)
_COUNT = update(store_marker).values(
    commits=bindparam("new_commits"), written_at=bindparam("new_written_at")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """A store: its id, when it was made, how often and when last it was written.

    Times are in seconds since the epoch.
    """

    store: str
    created_at: float
    commits: int
    written_at: float

    @property
    def number(self) -> int:
        """Return what the header of the store's file says, above 0 and below 2^31."""
        return int(self.store[:7], 16) + 1

    @property
    def dates(self) -> str:
        """Return when it was made and written, for a sentence."""
        return f"made at {moment(self.created_at)} and last written at {moment(self.written_at)}"

    def counted(self, now: float) -> Marker:
        """Return it after one more commit."""
        return replace(self, commits=self.commits + 1, written_at=now)


def why_not_the_same(known: Marker | None, found: Marker | None) -> str:
    """Return why a store (`found`) is not the one that its data directory knows, "" if it is.

    None in the directory is one of a first start; None in the store is one that has no marker.
    """
    if known is None:
        return ""
    if found is None:
        return f"it has no marker, and the data directory knows one {known.dates}"
    if found.store != known.store:
        return f"it was {found.dates}, and the data directory knows another, {known.dates}"
    if found.commits < known.commits:
        return (
            f"it was last written at {moment(found.written_at)}, and the data directory knows of "
            f"{known.commits - found.commits} commits after that, until {moment(known.written_at)}:"
            " it is an older copy, or has lost its write-ahead log"
        )
    return ""


def read_marker(connection: Connection) -> Marker | None:
    """Return the marker in a store of whatever schema, None when it has none."""
    if not inspect(connection).has_table(store_marker.name):
        return None
    row = connection.execute(_READ).one_or_none()
    if row is None:
        return None
    return Marker(
        store=row.store,
        created_at=row.created_at,
        commits=row.commits,
        written_at=row.written_at,
    )


def save_marker(connection: Connection, marker: Marker) -> None:
    """Make `marker` the one in the store."""
    connection.execute(_FORGET)
    connection.execute(
        _MAKE,
        {
            "store": marker.store,
            "created_at": marker.created_at,
            "commits": marker.commits,
            "written_at": marker.written_at,
        },
    )
    connection.exec_driver_sql(f"PRAGMA user_version = {marker.number}")


def count_commit(connection: Connection, marker: Marker) -> None:
    """Have the store say what `marker` does, as part of the transaction that it counts."""
    connection.execute(_COUNT, {"new_commits": marker.commits, "new_written_at": marker.written_at})


class MarkerFile:
    """The marker in the data directory; used by one thread at a time."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / MARKER_NAME
        self._descriptor = -1

    def read(self) -> Marker | None:
        """Return what it says, None where there is none; raises `StoreUnusable` if it is broken."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            said = json.loads(text)
            return Marker(
                store=str(said["store"]),
                created_at=float(said["created_at"]),
                commits=int(said["commits"]),
                written_at=float(said["written_at"]),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise StoreUnusable(
                f"{self.path}, which says which store belongs here, cannot be read: {error}; look "
                "whether the store is the right one, then delete that file"
            ) from error

    def make(self, marker: Marker) -> None:
        """Write it anew, whole and synced, and keep it open; raises OSError."""
        self.close()
        new = self.path.with_name(self.path.name + ".new")
        self._descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self.write(marker)
        self.sync()
        new.replace(self.path)
        directory = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def write(self, marker: Marker) -> None:
        """Say what `marker` does, in place; raises OSError."""
        said = {
            "store": marker.store,
            "created_at": marker.created_at,
            "commits": marker.commits,
            "written_at": marker.written_at,
        }
        os.pwrite(self._descriptor, json.dumps(said).encode().ljust(_FILE_BYTES - 1) + b"\n", 0)

    def sync(self) -> None:
        """Return when what it says survives a loss of power; raises OSError."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Let go of the file; twice is no error."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):  # a lagging count means nothing
                os.fsync(descriptor)
            os.close(descriptor)
