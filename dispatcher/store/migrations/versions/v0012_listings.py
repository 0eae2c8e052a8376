"""Indexes by which any two filters of a listing are answered, however many have ended.

They hold `ended` in the place of `state`, so that they are written once more in a life, at its end.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from longshore.dispatcher.store import migration_steps

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_FINAL = ("succeeded", "failed", "cancelled")
_TABLES = {
    "containers": (("user",), ("project",), ("name",)),
    "jobs": (("user",), ("project",), ("name",), ("parent",)),
}
_PAIRS = (("user", "project"), ("user", "name"), ("project", "name"))
_OWN = (("user", "parent"), ("project", "parent"), ("name", "parent"))


def upgrade() -> None:
    """Add the column and fill it, then make the indexes."""
    for table in _TABLES:
        column = sa.Column("ended", sa.Text, nullable=False, server_default="")
        migration_steps.add_column(table, column)
        migration_steps.commit()
        for first, last in migration_steps.ranges(table):
            _note_ended(table, first, last)
    for table, singles in _TABLES.items():
        for wanted in (*singles, *_PAIRS, *(_OWN if table == "jobs" else ())):
            name = f"{table}_by_{'_'.join(wanted)}"
            migration_steps.make_index(name, table, [*wanted, "ended", "sequence"])


def _note_ended(table: str, first: int, last: int) -> None:
    row = sa.table(table, *(sa.column(each) for each in ("rowid", "state", "ended")))
    ended = row.c.rowid.between(first, last) & row.c.state.in_(_FINAL) & (row.c.ended == "")
    op.execute(sa.update(row).where(ended).values(ended=row.c.state))
