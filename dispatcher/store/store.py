"""The store as the rest of the dispatcher sees it."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Self

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import DatabaseError

from longshore.dispatcher.config.disk_room import room_at
from longshore.dispatcher.config.model import AuditConfig
from longshore.dispatcher.config.store_url import store_path
from longshore.dispatcher.domain.audit import AuditFilter, AuditPage
from longshore.dispatcher.domain.containers import Container, Dependency, InstanceRecord
from longshore.dispatcher.domain.efficiency import EfficiencyFilter, MeasuredRuns
from longshore.dispatcher.domain.jobs import Job
from longshore.dispatcher.domain.messages import Change
from longshore.dispatcher.domain.queries import (
    Awaited,
    ContainerFilter,
    InstancePage,
    JobFilter,
    JobPage,
    KeptSecrets,
    Page,
    Recovered,
)
from longshore.dispatcher.domain.tokens import Token
from longshore.dispatcher.domain.vitals import StoreVitals
from longshore.dispatcher.store import sqlite
from longshore.dispatcher.store.custody import Custody, StoreFiles
from longshore.dispatcher.store.errors import (
    StoreBusy,
    StoreClosed,
    StoreIsAnother,
    StoreUnusable,
)
from longshore.dispatcher.store.idempotency import of_job
from longshore.dispatcher.store.kinship import OpenBelow
from longshore.dispatcher.store.ledger_reader import LedgerReader
from longshore.dispatcher.store.marker import (
    Marker,
    MarkerFile,
    read_marker,
    save_marker,
    why_not_the_same,
)
from longshore.dispatcher.store.reader import Reader
from longshore.dispatcher.store.schema import migrate
from longshore.dispatcher.store.trace_reader import TraceReader
from longshore.dispatcher.store.usage_reader import fetch_measured_runs
from longshore.dispatcher.store.writer import BEHIND_S, GROUP_LIMIT, MAX_PENDING, Writer

CLOSE_TIMEOUT_S = 30.0
_ROOM_TO_OPEN_BYTES = 1024**2
_KEPT_BY_DEFAULT = AuditConfig()

_log = structlog.get_logger("longshore.store")


class Store:
    """Containers, jobs, attempts, launches and instances, kept in SQL.

    `id` is the one in its marker, which it has had `since` then, in seconds since the epoch. Every
    method may be called from any thread. `write`, `next_…` and the properties never block on I/O
    (but for a `stat`); the reading methods do and belong into a thread (`asyncio.to_thread`).
    """

    def __init__(
        self,
        path: Path,
        *,
        wall_clock: Callable[[], float],
        max_pending: int,
        group_limit: int,
        audit: AuditConfig,
        data_dir: Path | None,
        accept_new: bool,
    ) -> None:
        """Open the store in `path`; use `open`."""
        file = None if data_dir is None else MarkerFile(data_dir)
        known = None if file is None or accept_new else file.read()
        _expect_file(path, known)
        sqlite.make_file(path)
        self._lock = sqlite.StoreLock(path)
        try:
            sqlite.expect_own_log(path)
        except BaseException:
            self._lock.release()
            raise
        self._path = path
        files = StoreFiles(path)
        self._files = files
        self._writing = sqlite.writing_engine(path, files.check)
        self._reading = sqlite.reading_engine(path, files.check)
        self._marker_file = file
        try:
            _expect_same(path, self._writing, known)
            migrate(self._writing)
            marker = _marked(self._writing, now=wall_clock(), anew=accept_new)
            files.settle(marker.number)
            if file is not None:
                file.make(marker)
            self._reader = Reader(self._reading)
            #: What is read of the ledger.
            self.ledger = LedgerReader(self._reader.snapshot)
            #: What is read of it for traces.
            self.traces = TraceReader(self._reader.snapshot)
            self._next_sequence = self._reader.last_sequence() + 1
            self._next_job_sequence = self._reader.last_job_sequence() + 1
        except BaseException:
            self._let_go()
            raise
        self.id = marker.store
        self.since = marker.created_at
        self._sequence_lock = threading.Lock()
        self._writer = Writer(
            self._writing,
            Custody(files, marker, file),
            wall_clock=wall_clock,
            audit=audit,
            max_pending=max_pending,
            group_limit=group_limit,
        )

    @classmethod
    def open(
        cls,
        url: str,
        *,
        wall_clock: Callable[[], float] = time.time,
        max_pending: int = MAX_PENDING,
        group_limit: int = GROUP_LIMIT,
        audit: AuditConfig = _KEPT_BY_DEFAULT,
        data_dir: Path | None = None,
        accept_new: bool = False,
    ) -> Self:
        """Open the store at `url` ("sqlite:///PATH"), making it and its directory when absent.

        Missing migrations are run. `wall_clock` returns seconds since the epoch; `max_pending` is
        how many changes may wait before `write` refuses more, `group_limit` how many share one
        transaction, `audit` what is kept of the audit log. Starts a thread: the caller must `close`
        it. `data_dir` is where a marker says which store belongs here (see `marker`), None for
        nowhere; with `accept_new` whatever is in `url` does from now on, under a new id.

        Raises `StoreIsAnother`, with both dates, when it is not the one that the marker says, or an
        older copy of it: nothing was changed then. Raises `StoreUnusable` when another process uses
        it, when a newer Longshore wrote it, or when it cannot be read and written; the message says
        what an operator can do.
        """
        try:
            path = store_path(url)
        except ValueError as error:
            raise StoreUnusable(f"the store's URL {error}") from None
        try:
            return cls(
                path.absolute(),
                wall_clock=wall_clock,
                max_pending=max_pending,
                group_limit=group_limit,
                audit=audit,
                data_dir=data_dir,
                accept_new=accept_new,
            )
        except OSError as error:
            raise StoreUnusable(f"cannot open the store {path}: {error.strerror}") from error
        except (DatabaseError, sqlite3.DatabaseError) as error:
            cause = getattr(error, "orig", None) or error
            told = f"cannot open the store {path}: {cause}{_remedy(path, str(cause))}"
            raise StoreUnusable(told) from error

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> bool:
        """Write what is pending, then end the thread and let go of the files; blocks.

        What cannot be written within `timeout_s` fails with `StoreClosed`; returns whether all was
        written. Twice is no error.
        """
        self._writer.close(timeout_s)
        if self.replaced:
            # SQLite would remove the log's files by name: those of the store that lies there now.
            self._lock.release()
        else:
            self._let_go()
        return not self._writer.abandoned

    @property
    def replaced(self) -> bool:
        """Return whether other files lie in the place of those that are open, or none.

        After `close` such a process should end without closing them: see `os._exit`.
        """
        return not self._files.closed and self._files.problem() != ""

    def _let_go(self) -> None:
        self._reading.dispose()
        self._writing.dispose()
        self._files.close()
        if self._marker_file is not None:
            self._marker_file.close()
        self._lock.release()

    @property
    def problem(self) -> str:
        """Return why nothing can be written at present, in one sentence; "" when all is well."""
        return self._writer.problem

    @property
    def pending(self) -> int:
        """Return how many containers and changes wait to be committed."""
        return self._writer.pending

    def vitals(self) -> StoreVitals:
        """Return how large it is, how much room it has, and what waits; a few `stat`, no more."""
        return StoreVitals(
            problem=self._writer.problem,
            pending=self._writer.pending,
            database_bytes=_size_of(self._path),
            wal_bytes=_size_of(self._path.with_name(f"{self._path.name}-wal")),
            commit_s=self._writer.commit_s,
            room=room_at(self._path.parent),
        )

    def on_overload(self, tell: Callable[[str], None]) -> None:
        """Have `tell` called with a sentence when the store cannot keep up with what runs.

        On the thread that writes, after any group of which that is true: it must not block.
        """
        self._writer.on_overload = tell

    def write(self, changes: Sequence[Change], *, wait: bool = False) -> Future[None]:
        """Queue `changes` to be written as one, all or nothing, and return at once.

        The future is done only after the commit. It fails with what the changes are refused with
        (`IdempotentRepeat`, `IdempotencyConflict`, `NoSuchContainer`, `NoSuchJob`,
        `AlreadyFinal`, `RevisionConflict`, an error of the database about these very changes), or
        with `StoreClosed`.
        Calls are committed in the order of their making; an accepted one is written even when
        nobody waits for it any more.

        With `wait` the call queues however much is pending: for the engine, whose decisions are
        made already. Each such call builds on those before it: once one is refused, the later ones
        fail with `OutOfOrder`. Without it, `StoreBusy` is raised when too much is. Raises
        `StoreClosed`.
        """
        return self._writer.write(changes, wait=wait)

    def write_behind(self, changes: Sequence[Change]) -> Future[None]:
        """Queue `changes` as `write` does, for whom their commit is worth no commit of its own.

        They are committed with whatever is queued next, never after it, and within `BEHIND_S` when
        nothing is; the future is done then, and before that of any call behind it. Raises
        `StoreBusy` when too much is pending, and `StoreClosed`.
        """
        return self._writer.write(changes, wait=False, within_s=BEHIND_S)

    async def committed(self, *, within_s: float) -> None:
        """Wait until all is committed that is queued by now, or for so long."""
        with suppress(TimeoutError, StoreBusy, StoreClosed):
            await asyncio.wait_for(asyncio.wrap_future(self.write([])), within_s)

    def withdraw(self, future: Future[None]) -> bool:
        """Take a `write` back, and return whether that is certain: it fails with `Withdrawn` then.

        It is not once it is being committed, or is done: the future tells what comes of it, and
        until then nobody knows.
        """
        return self._writer.withdraw(future)

    def next_sequences(self, count: int) -> range:
        """Reserve `count` sequence numbers, above all that any container ever got."""
        with self._sequence_lock:
            first = self._next_sequence
            self._next_sequence += count
            return range(first, first + count)

    def next_job_sequence(self) -> int:
        """Reserve a sequence number for a job, above all that any job ever got."""
        with self._sequence_lock:
            self._next_job_sequence += 1
            return self._next_job_sequence - 1

    def container(self, container_id: str) -> Container | None:
        """Return one container with all its attempts, or None; raises `StoreBusy`."""
        return self._reader.container(container_id)

    def made_by(
        self, *, user: str, key: str, fingerprint: str, now: float, is_job: bool
    ) -> tuple[str, ...]:
        """Return the ids that a user's request with this key made before, () if it is not known.

        That is of a job (`is_job`) its own. `now` is in seconds since the epoch; raises
        `StoreBusy`.
        """
        known_as = of_job(fingerprint) if is_job else fingerprint
        return self._reader.made_by(user=user, key=key, fingerprint=known_as, now=now)

    def containers_of(self, ids: Sequence[str]) -> list[Container]:
        """Return those of `ids` that there are, in their order; raises `StoreBusy`.

        They have their last few attempts.
        """
        return self._reader.containers_of(ids)

    def containers(self, which: ContainerFilter, *, cursor: str, limit: int) -> Page:
        """Return up to `limit` (1 to 1000) containers of `which`, newest first.

        They have their last few attempts. `cursor` is "" for the first page, else the `next_cursor`
        of the page before. Raises `InvalidRequest` for a cursor that is not ours, and for a task or
        an array index without their job; `StoreBusy` when it cannot be read now.
        """
        return self._reader.containers(which, cursor=cursor, limit=limit)

    def job(self, job_id: str) -> Job | None:
        """Return one job with its tasks, as it was saved last, or None; raises `StoreBusy`."""
        return self._reader.job(job_id)

    def jobs(self, which: JobFilter, *, cursor: str, limit: int) -> JobPage:
        """Return up to `limit` (1 to 1000) jobs of `which`, newest first, without their tasks.

        `cursor` and what is raised are as for `containers`.
        """
        return self._reader.jobs(which, cursor=cursor, limit=limit)

    def dependency_status(self, dependencies: Sequence[Dependency]) -> dict[str, Awaited]:
        """Return what is known of the things to wait for, by their `of`; raises `StoreBusy`.

        What is not among the keys does not exist.
        """
        return self._reader.dependency_status(dependencies)

    def ancestors(self, thing_id: str) -> tuple[str, ...]:
        """Return who submitted a container or job from inside, and who those, the nearest first.

        Between containers are the jobs that they are of. () for what nobody submitted so, or there
        is not.
        """
        return self._reader.ancestors(thing_id)

    def open_below(self, container_id: str) -> OpenBelow:
        """Return what a container submitted from inside, and what those did, and has not ended.

        It takes as long as all of that is large, ended or not; raises `StoreBusy`.
        """
        return self._reader.open_below(container_id)

    def cost_below_usd(self, container_id: str) -> Decimal | None:
        """Return what all cost that a container, and what that submitted, submitted from inside.

        None where it submitted no containers. It takes as long as `open_below`; raises `StoreBusy`.
        """
        return self._reader.cost_below_usd(container_id)

    def recover(self) -> Recovered:
        """Return what a restart must know, before anything is written; raises `StoreBusy`."""
        bills, intervals, listed_ms = self.ledger.still_open()
        recovered = self._reader.recover()
        return replace(recovered, bills=bills, intervals=intervals, listed_ms=listed_ms)

    def tokens(self) -> list[Token]:
        """Return all tokens, whatever their state, by id; raises `StoreBusy`."""
        return self._reader.tokens()

    def audit(self, which: AuditFilter, *, cursor: str, limit: int) -> AuditPage:
        """Return up to `limit` (1 to 1000) entries of the audit log, newest first.

        `cursor` and what is raised are as for `containers`.
        """
        return self._reader.audit(which, cursor=cursor, limit=limit)

    def measured_runs(self, which: EfficiencyFilter) -> MeasuredRuns:
        """Return what succeeded and was measured, the latest that was submitted first.

        It looks at no more than the latest 20,000 that succeeded. Raises `StoreBusy`.
        """
        return self._reader.ask(partial(fetch_measured_runs, which=which))

    def last_audit_sequence(self) -> int:
        """Return the highest number of the audit log, 0 without any; raises `StoreBusy`."""
        return self._reader.last_audit_sequence()

    def secrets(self) -> KeptSecrets:
        """Return all secrets, encrypted, and all of their data keys; raises `StoreBusy`."""
        return self._reader.secrets()

    def instance(self, instance_id: str) -> InstanceRecord | None:
        """Return what is kept of an instance, gone or not, or None; raises `StoreBusy`."""
        return self._reader.instance(instance_id)

    def gone_instances(self, *, cursor: str, limit: int) -> InstancePage:
        """Return up to `limit` (1 to 1000) instances that are gone, the last gone first.

        `cursor` and what is raised are as for `containers`.
        """
        return self._reader.gone_instances(cursor=cursor, limit=limit)


def _size_of(path: Path) -> int:
    """Return a file's size, 0 where there is none to look at: a WAL comes and goes."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _expect_file(path: Path, known: Marker | None) -> None:
    """Raise `StoreIsAnother` where a store is known and nothing lies in its place."""
    if known is None or (path.exists() and path.stat().st_size):
        return
    there = "is empty" if path.exists() else "does not exist"
    raise _another(path, f"it {there}, and the data directory knows one {known.dates}")


def _expect_same(path: Path, engine: Engine, known: Marker | None) -> None:
    """Raise `StoreIsAnother` unless the store behind `engine` is the one that is known."""
    if known is None:
        return
    with engine.begin() as connection:
        found = read_marker(connection)
    if why := why_not_the_same(known, found):
        raise _another(path, why)


def _another(path: Path, why: str) -> StoreIsAnother:
    return StoreIsAnother(
        f"the store {path} is not the one that was here before: {why}. Put that one back, with its"
        " -wal beside it, or start with --accept-new-store: what only the other one knew is gone"
        " then; what runs of that on instances is kept, and shown by 'longshore strays list'"
    )


def _marked(engine: Engine, *, now: float, anew: bool) -> Marker:
    """Return the store's marker, which it gets if it has none, or if it is to begin `anew`."""
    with engine.begin() as connection:
        found = read_marker(connection)
        if found is not None and not anew:
            return found
        marker = Marker(
            store=secrets.token_hex(16),
            created_at=now,
            commits=1 if found is None else found.commits + 1,
            written_at=now,
        )
        save_marker(connection, marker)
    if found is not None:
        _log.warning("store accepted as a new one", store=marker.store, before=found.store)
    return marker


def _remedy(path: Path, cause: str) -> str:
    """Return what an operator can do about a store that SQLite cannot open, "" if nobody knows.

    SQLite needs some room to open one, and calls a full disk an I/O error then.
    """
    if "malformed" in cause or "not a database" in cause:
        return "; restore a backup, or move it away"
    try:
        free_bytes = room_at(path.parent).free_bytes
    except OSError as error:
        return f"; its disk cannot be looked at: {error.strerror}"
    if free_bytes < _ROOM_TO_OPEN_BYTES:
        return f": {free_bytes // 1024} KiB are free on its disk; make room there"
    if "readonly" in cause or "read-only" in cause:
        return "; make its disk and its files writable for the server's user"
    return ""
