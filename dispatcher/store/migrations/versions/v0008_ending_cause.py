"""For what attempts were told to end, as a cause and what belongs to it, no longer in words."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from longshore.dispatcher.store import migration_steps
from longshore.dispatcher.store.errors import StoreUnusable

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_ATTEMPTS = sa.table(
    "attempts",
    sa.column("rowid", sa.Integer),
    sa.column("id", sa.Text),
    sa.column("ending_for", sa.Text),
    sa.column("ending_cause", sa.Text),
    sa.column("ending_detail", sa.Text),
)
_BEGINNINGS = (("c-", "for_container"), ("j-", "for_job"))
_WHOLE = {
    "its job was stopped": "job_stopped",
    "its job is no longer there": "job_gone",
    "node draining": "node_draining",
    "its job changed, and nothing is updated on a held instance": "revised_while_held",
    "another one runs there": "superfluous",
    "its instance is shut down": "instance_shut_down",
}
_NAMES = ("ending_cause", "ending_for", "ending_detail")
_REVISION = ("revision ", " of its job")
_NO_MATCH = "its instance no longer matches: "
_LOST = "the next start of its job, which lost essential "
_ENDED = "its job "
_STATES = ("succeeded", "failed", "cancelled")


def upgrade() -> None:
    """Add the columns, and take what was said in words apart."""
    for name, default in (("ending_cause", "nothing"), ("ending_detail", "")):
        column = sa.Column(name, sa.Text, nullable=False, server_default=default)
        migration_steps.add_column("attempts", column)
    migration_steps.commit()
    for first, last in migration_steps.ranges("attempts"):
        _take_apart(op.get_bind(), first, last)


def _take_apart(connection: sa.Connection, first: int, last: int) -> None:
    """Take apart what is said of the attempts in rows from `first` to `last`, where it is whole."""
    whole = _ATTEMPTS.c.rowid.between(first, last) & (_ATTEMPTS.c.ending_cause == "nothing")
    for beginning, cause in _BEGINNINGS:
        by_id = whole & _ATTEMPTS.c.ending_for.startswith(beginning)
        connection.execute(sa.update(_ATTEMPTS).where(by_id).values(ending_cause=cause))
    in_words = whole & (_ATTEMPTS.c.ending_for != "")
    found = connection.execute(
        sa.select(_ATTEMPTS.c.id, _ATTEMPTS.c.ending_for).where(in_words)
    ).all()
    rows = [{"attempt_id": id_, **_apart(id_, said)} for id_, said in found]
    if rows:
        connection.execute(
            sa.update(_ATTEMPTS)
            .where(_ATTEMPTS.c.id == sa.bindparam("attempt_id"))
            .values({name: sa.bindparam(f"new_{name}") for name in _NAMES}),
            rows,
        )


def _apart(attempt_id: str, said: str) -> dict[str, str]:
    """Return the columns of what is said of an attempt; raises for what nobody has ever said."""
    before, after = _REVISION
    number = said.removeprefix(before).removesuffix(after)
    task, _, lost = said.removeprefix(_LOST).partition(": ")
    state, _, why = said.removeprefix(_ENDED).partition(": ")
    if said in _WHOLE:
        values = (_WHOLE[said], "", "")
    elif said == before + number + after and number.isdecimal():
        values = ("revised", number, "")
    elif said.startswith(_NO_MATCH):
        values = ("no_match", "", said.removeprefix(_NO_MATCH))
    elif said.startswith(_LOST):
        values = ("job_begins_anew", task, lost)
    elif said.startswith(_ENDED) and state in _STATES:
        values = ("job_ended", state, why)
    else:
        raise StoreUnusable(f"attempt {attempt_id} ended for {said!r}, which says nothing to us")
    return {f"new_{name}": value for name, value in zip(_NAMES, values, strict=True)}
