"""What operators watch of a server itself, its disk and its engine, as values; pure."""

from __future__ import annotations

from dataclasses import dataclass

from longshore.pool.histogram import Histogram


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRoom:
    """What is free on a disk for us: what root keeps for itself is not."""

    #: A directory on it.
    directory: str
    free_bytes: int
    #: None where the file system has no fixed number of files.
    free_inodes: int | None
    #: That number, 0 where there is none.
    inodes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreVitals:
    """A store at one moment."""

    #: Why it cannot be written, "" when it can.
    problem: str
    #: How many containers and changes wait to be committed.
    pending: int
    database_bytes: int
    #: The log of what is committed and not in the database yet.
    wal_bytes: int
    #: The seconds of each commit since the process began; no copy.
    commit_s: Histogram
    room: DiskRoom


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceVitals:
    """How traces are sent, since the process began."""

    #: Spans that a collector has taken.
    sent: int = 0
    #: Containers and instances whose spans were dropped.
    dropped: int = 0
    #: Containers and instances whose spans wait to be sent.
    waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """What operators watch of the server's own disk; `logs` is the room that logs have."""

    store: StoreVitals
    logs: DiskRoom


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineVitals:
    """How the loop around the engine does; the histograms are no copies."""

    #: How many events wait to be handled.
    inbox_events: int
    #: The seconds of each planning pass, and of each turn of the loop, in which many events may be.
    pass_s: Histogram
    turn_s: Histogram


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessVitals:
    """What operators watch of the process."""

    engine: EngineVitals
    #: The seconds by which the event loop was late; no copy.
    loop_delay_s: Histogram
