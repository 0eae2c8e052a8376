"""Everything that is true of SQLite only: where it lies, its lock, its pragmas, its error codes."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Connection,
    Delete,
    Engine,
    Integer,
    Table,
    bindparam,
    cast,
    create_engine,
    delete,
    event,
    func,
    literal_column,
    select,
)
from sqlalchemy.dialects import sqlite as dialect
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, QueuePool

from longshore.dispatcher.store.errors import StoreUnusable

BUSY_TIMEOUT_S = 2.0
READ_CONNECTIONS = 4
READ_TIMEOUT_S = 10.0
WAL_LIMIT_BYTES = 64 * 1024 * 1024
CACHE_KIB = 16 * 1024

# What says nothing about the statement, only about the machine at this moment.
_PASSING = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_SCHEMA,
        sqlite3.SQLITE_NOTADB,
    }
)


def _no_check() -> None:
    """Take whatever lies at a path."""


class StoreLock:
    """The exclusive right to use one store; the kernel gives it back when the process ends."""

    def __init__(self, store: Path) -> None:
        """Take the right to use `store`; raises `StoreUnusable` when another process has it."""
        self.path = store.with_name(store.name + ".lock")
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._descriptor, 32).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise StoreUnusable(
                f"{store} is in use by another Longshore (process {holder or 'unknown'}): stop it,"
                " or give this one a store of its own"
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give the right back; twice is no error.

        The file stays, since removing it would race with a new holder.
        """
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def expect_own_log(path: Path) -> None:
    """Raise `StoreUnusable` where the write-ahead log beside a file is not its own.

    A file that was put in the place of another one would get what the log left behind holds of
    that: a mixture of both, the newest marker included. Nothing in the two says that they belong
    together, so the whole is looked through, once after each crash. That connection only reads:
    another would write the mixture into the file when it is closed.
    """
    log = path.with_name(f"{path.name}-wal")
    if not log.exists() or not log.stat().st_size:
        return
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        try:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.DatabaseError as error:
            verdict = str(error)
    if verdict != "ok":
        raise StoreUnusable(
            f"the store {path} and the log beside it ({log.name}) do not belong together, or are"
            f" damaged: {' '.join(verdict.split())}. If {path.name} was put back from a backup,"
            f" move {log.name} and {path.name}-shm away and start with --accept-new-store; else"
            " restore a backup so"
        )


def make_file(path: Path) -> None:
    """Make the database file, and its directory, readable by nobody else; keep what is there."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def writing_engine(path: Path, check: Callable[[], None] = _no_check) -> Engine:
    """Return an engine whose transactions hold the write lock from their start.

    `check` is called before each connection, and may raise.
    """
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        poolclass=NullPool,
        connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False},
    )
    event.listen(engine, "do_connect", lambda *_: check())
    event.listen(engine, "connect", _prepare_writer)
    event.listen(engine, "begin", _begin_writing)
    return engine


def reading_engine(path: Path, check: Callable[[], None] = _no_check) -> Engine:
    """Return an engine with a few connections that can only read, each from one snapshot.

    `check` is called before each connection, and may raise.
    """
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        poolclass=QueuePool,
        pool_size=READ_CONNECTIONS,
        max_overflow=0,
        pool_timeout=READ_TIMEOUT_S,
        connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False},
    )
    event.listen(engine, "do_connect", lambda *_: check())
    event.listen(engine, "connect", _prepare_reader)
    event.listen(engine, "begin", _begin_reading)
    return engine


def _prepare_writer(connection: sqlite3.Connection, _record: object) -> None:
    # Transactions are begun by the listeners; sqlite3 must not begin any of its own.
    connection.isolation_level = None
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        "temp_store=MEMORY",
        f"cache_size=-{CACHE_KIB}",
        f"journal_size_limit={WAL_LIMIT_BYTES}",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _prepare_reader(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None
    for pragma in ("query_only=ON", "temp_store=MEMORY", f"cache_size=-{CACHE_KIB}"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_writing(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin_reading(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def is_passing(error: BaseException) -> bool:
    """Return whether `error` says nothing about the statement, so that trying again may help."""
    return _primary_code(error) in _PASSING


def is_outside_transaction(connection: Connection) -> bool:
    """Return whether another transaction can begin on a connection: SQLite's own word counts.

    A commit that fails may leave one open.
    """
    if connection.invalidated or connection.in_transaction():
        return False
    driver = connection.connection.driver_connection
    return isinstance(driver, sqlite3.Connection) and not driver.in_transaction


def may_have_written(error: BaseException) -> bool:
    """Return whether a transaction that failed with `error` may be on the disk all the same.

    A write or a sync that failed says nothing about what a crash would leave there.
    """
    return _primary_code(error) == sqlite3.SQLITE_IOERR


def _primary_code(error: BaseException) -> int | None:
    """Return SQLite's code of an error, without its details; None when it has none."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(cause, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None


def rows_of(rows: Sequence[Sequence[int]], names: Sequence[str]) -> CTE:
    """Return a table of numbers that is part of a query: any number of rows, in one parameter."""
    each = func.json_each(json.dumps(rows)).table_valued("value", joins_implicitly=True)
    columns = (
        cast(func.json_extract(each.c.value, f"$[{index}]"), Integer).label(name)
        for index, name in enumerate(names)
    )
    return select(*columns).cte("given").prefix_with("MATERIALIZED")


def upsert(table: Table, *, keep: tuple[str, ...], **values: Any) -> dialect.Insert:
    """Return an insert into `table` that replaces the row with the same primary key.

    `values` are columns computed by SQL; those named in `keep` stay what they were.
    """
    statement = dialect.insert(table).values(**values)
    keys = [column.name for column in table.primary_key]
    changed = {
        column.name: statement.excluded[column.name]
        for column in table.columns
        if column.name not in (*keys, *keep)
    }
    return statement.on_conflict_do_update(index_elements=keys, set_=changed)


def insert_new(table: Table) -> dialect.Insert:
    """Return an insert into `table` that leaves a row with the same key as it is."""
    return dialect.insert(table).on_conflict_do_nothing()


def count_up(table: Table, counter: str) -> dialect.Insert:
    """Return an insert into `table` that adds to `counter` where there is such a row already."""
    statement = dialect.insert(table)
    keys = [column.name for column in table.primary_key]
    more = table.c[counter] + statement.excluded[counter]
    return statement.on_conflict_do_update(index_elements=keys, set_={counter: more})


def delete_some(table: Table, condition: ColumnElement[bool]) -> Delete:
    """Return a delete of rows of `condition`, of `at_once` (a parameter) at most; which is open."""
    row = literal_column("rowid", Integer)
    return delete(table).where(
        row.in_(select(row).select_from(table).where(condition).limit(bindparam("at_once")))
    )
