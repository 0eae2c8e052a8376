"""What containers and jobs have in common: the engine saves them, and users ask for changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, Update, bindparam, select, update

from longshore.dispatcher.domain.containers import ContainerState
from longshore.dispatcher.domain.jobs import JobState
from longshore.dispatcher.store.errors import AlreadyFinal, NoSuchContainer, NoSuchJob, StoreError
from longshore.drivers.errors import BugError

_PROGRESS = ("state", "started_at", "finished_at", "exit_code", "reason_code", "reason_message")


class Records:
    """The rows of one table that go their way to a final state: containers, or jobs.

    Statements about one of them find it by the parameter `of`, its id.
    """

    def __init__(
        self,
        table: Table,
        *,
        what: str,
        states: type[ContainerState | JobState],
        missing: type[NoSuchContainer | NoSuchJob],
        progress: tuple[str, ...],
    ) -> None:
        """`progress` names the columns that the engine owns beside those that both tables have."""
        self._what = what
        self._states = states
        self._missing = missing
        self.one = update(table).where(table.c.id == bindparam("of"))
        self.unfinished = self.one.where(
            table.c.state.not_in(sorted(state.value for state in states if state.final))
        )
        names = _PROGRESS + progress
        self._progress = self.one.values({name: bindparam(name) for name in names})
        self._end = self.one.values({name: bindparam(name) for name in (*names, "ended")})
        self._state = select(table.c.state).where(table.c.id == bindparam("id"))

    def save_progress(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write what the engine decided, in order; raises the error of one that is missing.

        Only the end of one touches `ended`, and with it the indexes for listings: nothing goes on
        after its end, so that those that go on come first.
        """
        ends = [row for row in rows if row["ended"]]
        others = [
            {k: v for k, v in row.items() if k != "ended"} for row in rows if not row["ended"]
        ]
        for statement, batch in ((self._progress, others), (self._end, ends)):
            if batch:
                self.save(connection, statement, batch)

    def save(
        self, connection: Connection, statement: Update, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Carry out an update for each row, in order; raises the error of one that is missing."""
        if connection.execute(statement, rows).rowcount != len(rows):
            for row in rows:
                if self._state_of(connection, row["of"]) is None:
                    raise self._missing(row["of"])
            raise BugError(f"a {self._what} was saved, but its row did not change")

    def request(
        self,
        connection: Connection,
        record_id: str,
        statement: Update,
        values: Mapping[str, object],
    ) -> None:
        """Carry out an update of one that is `unfinished`.

        Raises `AlreadyFinal` when it has ended, and the error of one that is missing.
        """
        if not connection.execute(statement, {"of": record_id, **values}).rowcount:
            raise self.refusal(connection, record_id)

    def refusal(self, connection: Connection, record_id: str) -> StoreError:
        """Return the error for one that is missing, or has ended."""
        state = self._state_of(connection, record_id)
        if state is None:
            return self._missing(record_id)
        return AlreadyFinal(f"{self._what} {record_id}", self._states(state))

    def _state_of(self, connection: Connection, record_id: str) -> str | None:
        return connection.execute(self._state, {"id": record_id}).scalar_one_or_none()
