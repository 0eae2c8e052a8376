"""What operators watch of a server's own disk, as values; pure."""

from __future__ import annotations

from dataclasses import dataclass

from longshore.pool.histogram import Histogram


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRoom:
    """What is free where `directory` lies, for us: what root keeps for itself is not.

    `free_inodes` is None where the file system has no fixed number of files, which is `inodes`, 0.
    """

    directory: str
    free_bytes: int
    free_inodes: int | None
    inodes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreVitals:
    """A store at one moment.

    `problem` is why it cannot be written, "" when it can. `wal_bytes` is the log of what is
    committed and not in the database yet, `pending` how many containers and changes wait to be
    committed. `commit_s` has the seconds of each commit since the process began; it is no copy.
    """

    problem: str
    pending: int
    database_bytes: int
    wal_bytes: int
    commit_s: Histogram
    room: DiskRoom


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """What operators watch of the server's own disk; `logs` is the room that logs have."""

    store: StoreVitals
    logs: DiskRoom
