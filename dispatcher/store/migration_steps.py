"""Migrations in steps, each committed for itself: a store may have millions of rows.

What a step did before a crash counts: the next start goes on with the migration that was under way
where it was. So each looks whether it is done already, and takes so many rows at most that neither
memory nor the log beside the store grows with the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
import structlog
from alembic import op

IN_STEPS = "in_steps"
"""The setting of Alembic's that says that the connection may be committed meanwhile."""
ROWS_AT_ONCE = 10_000
TELL_EACH_ROWS = 100_000

_PROGRESS = sa.Table(
    "migration_progress",
    sa.MetaData(),
    sa.Column("step", sa.Text, primary_key=True),
    sa.Column("done", sa.BigInteger, nullable=False),
)
"""Which rows of which table are done; it is there only while a revision is under way."""

_log = structlog.get_logger("longshore.store")


def commit() -> None:
    """End a step: what was done so far is kept, whatever happens to the rest."""
    context = op.get_context()
    if context.config is not None and context.config.attributes.get(IN_STEPS):
        op.get_bind().commit()


def add_column(table: str, column: sa.Column[Any]) -> None:
    """Add a column, unless it is there."""
    if column.name not in {each["name"] for each in sa.inspect(op.get_bind()).get_columns(table)}:
        op.add_column(table, column)


def ranges(table: str) -> Iterator[tuple[int, int]]:
    """Yield the first and the last `rowid` of parts of a table, and commit after each.

    Goes on behind the last part that was committed before a crash, once for each table of a
    revision. Says in the log how far it is, where that takes a while.
    """
    connection = op.get_bind()
    _PROGRESS.create(connection, checkfirst=True)
    known = sa.select(_PROGRESS.c.done).where(_PROGRESS.c.step == table)
    done, last = connection.execute(known).scalar() or 0, _last_row(table)
    for first in range(done + 1, last + 1, ROWS_AT_ONCE):
        end = min(first + ROWS_AT_ONCE - 1, last)
        yield first, end
        connection.execute(sa.delete(_PROGRESS).where(_PROGRESS.c.step == table))
        connection.execute(sa.insert(_PROGRESS).values(step=table, done=end))
        commit()
        if last > TELL_EACH_ROWS and (end % TELL_EACH_ROWS == 0 or end == last):
            _tell(table=table, rows=end, of=last)


def end_revision() -> None:
    """Forget how far its steps were, and commit it with its number."""
    _PROGRESS.drop(op.get_bind(), checkfirst=True)
    commit()


def make_index(name: str, table: str, columns: Sequence[str]) -> None:
    """Make an index, in the place of another one of that name, unless it is there."""
    known = {each["name"]: each["column_names"] for each in _indexes(table)}
    if known.get(name) == list(columns):
        return
    if name in known:
        op.drop_index(name, table)
    op.create_index(name, table, list(columns))
    commit()
    if _last_row(table) > TELL_EACH_ROWS:
        _tell(index=name)


def _indexes(table: str) -> Sequence[sa.engine.interfaces.ReflectedIndex]:
    return sa.inspect(op.get_bind()).get_indexes(table)


def _last_row(table: str) -> int:
    rows = sa.table(table, sa.column("rowid", sa.Integer))
    return op.get_bind().execute(sa.select(sa.func.max(rows.c.rowid))).scalar() or 0


def _tell(**what: object) -> None:
    """Write a line of progress; only ends of steps are told, so what it says is committed."""
    _log.info("store is being migrated", **what)
