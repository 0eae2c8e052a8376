"""Reading the store: one container, pages of them, and what a restart must know."""

from __future__ import annotations

import base64
import binascii
import heapq
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby, islice
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Select, false, func, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from dispatcher.model import Attempt, Container, ContainerState, InstanceRecord
from dispatcher.queries import ContainerFilter, Page, Recovered
from dispatcher.store import codec
from dispatcher.store.errors import StoreBusy
from dispatcher.store.tables import attempts, containers, instances, launches
from drivers.errors import InvalidRequest

PAGE_LIMIT = 1000

_UNFINISHED = [state.value for state in ContainerState if not state.final]


class Reader:
    """Answers from a few read-only connections; every method blocks and suits any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def _snapshot(self) -> Iterator[Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except PoolTimeoutError:
            raise StoreBusy("too many requests read the store at once: try again later") from None
        except OperationalError as error:
            raise StoreBusy(f"the store cannot be read now: {error.orig}") from error

    def container(self, container_id: str) -> Container | None:
        """Return one container with all its attempts, or None."""
        with self._snapshot() as connection:
            found = _fetch(connection, containers.c.id == container_id)
        return found[0] if found else None

    def containers(self, which: ContainerFilter, *, cursor: str, limit: int) -> Page:
        """Return a page of containers; see `Store.containers`."""
        if not 1 <= limit <= PAGE_LIMIT:
            raise InvalidRequest([("limit", f"must be from 1 to {PAGE_LIMIT}")])
        before = _decode_cursor(cursor) if cursor else None
        with self._snapshot() as connection:
            sequences = _newest(connection, which, before, limit + 1)
            shown = sequences[:limit]
            items = _fetch(connection, containers.c.sequence.in_(shown)) if shown else []
        items.reverse()
        more = len(sequences) > limit
        return Page(items=tuple(items), next_cursor=_encode_cursor(shown[-1]) if more else None)

    def recover(self) -> Recovered:
        """Return what is unfinished, from one snapshot."""
        with self._snapshot() as connection:
            unfinished = _fetch(connection, containers.c.state.in_(_UNFINISHED))
            pending = connection.execute(select(launches).order_by(launches.c.token)).all()
            present = connection.execute(
                select(instances).where(instances.c.gone_at.is_(None)).order_by(instances.c.id)
            ).all()
            ended = connection.execute(_with_logs_on_the_way()).all()
        return Recovered(
            containers=tuple(unfinished),
            unreleased=tuple(codec.attempt_from_row(row) for row in ended),
            launches=tuple(codec.launch_from_row(row) for row in pending),
            instances=tuple(codec.instance_from_row(row) for row in present),
        )

    def instance(self, instance_id: str) -> InstanceRecord | None:
        """Return what is kept of an instance, gone or not, or None."""
        with self._snapshot() as connection:
            row = connection.execute(
                select(instances).where(instances.c.id == instance_id)
            ).one_or_none()
        return None if row is None else codec.instance_from_row(row)

    def last_sequence(self) -> int:
        """Return the highest sequence number of any container, 0 for none."""
        with self._snapshot() as connection:
            return connection.execute(select(func.max(containers.c.sequence))).scalar() or 0


def _with_logs_on_the_way() -> Select[Any]:
    """Return the query for ended attempts whose log is not complete, on instances not gone."""
    present = select(instances.c.id).where(instances.c.gone_at.is_(None))
    return (
        select(attempts)
        .where(attempts.c.instance_id.in_(present))
        .where(attempts.c.log_complete == false())
        .where(attempts.c.outcome.is_not(None))
        .order_by(attempts.c.id)
    )


def _fetch(connection: Connection, condition: ColumnElement[bool]) -> list[Container]:
    """Return the containers of `condition` by sequence, with their attempts by number."""
    rows = connection.execute(
        select(containers).where(condition).order_by(containers.c.sequence)
    ).all()
    tried: dict[str, tuple[Attempt, ...]] = {}
    if rows:
        # By a subquery, so that the index leads from these containers to their attempts.
        query = (
            select(attempts)
            .where(attempts.c.container_id.in_(select(containers.c.id).where(condition)))
            .order_by(attempts.c.container_id, attempts.c.number)
        )
        found = connection.execute(query)
        for container_id, group in groupby(found, key=lambda row: str(row.container_id)):
            tried[container_id] = tuple(codec.attempt_from_row(row) for row in group)
    return [codec.container_from_row(row, tried.get(row.id, ())) for row in rows]


def _newest(
    connection: Connection, which: ContainerFilter, before: int | None, limit: int
) -> list[int]:
    """Return up to `limit` sequence numbers, falling, below `before`."""
    streams = [
        connection.execute(_below(query, before).limit(limit)).scalars().all()
        for query in _queries(which)
    ]
    return list(islice(heapq.merge(*streams, reverse=True), limit))


def _below(query: Select[int], before: int | None) -> Select[int]:
    column = query.selected_columns[0]
    if before is not None:
        query = query.where(column < before)
    return query.order_by(column.desc())


def _queries(which: ContainerFilter) -> list[Select[int]]:
    """Return queries that together cover `which`, each answered in order from one index.

    Every index ends in (state, sequence), so that one query a state never sorts or skips, however
    many containers have finished.
    """
    conditions: list[ColumnElement[bool]] = [
        column == wanted
        for column, wanted in (
            (containers.c.user, which.user),
            (containers.c.project, which.project),
            (containers.c.name, which.name),
        )
        if wanted
    ]
    states = [state.value for state in which.states]
    if which.instance_id:
        query = (
            select(attempts.c.sequence)
            .distinct()
            .join(containers, containers.c.id == attempts.c.container_id)
            .where(attempts.c.instance_id == which.instance_id, *conditions)
        )
        return [query.where(containers.c.state.in_(states)) if states else query]
    if not states and not conditions:
        return [select(containers.c.sequence)]
    every = states or [state.value for state in ContainerState]
    return [
        select(containers.c.sequence).where(containers.c.state == state, *conditions)
        for state in dict.fromkeys(every)
    ]


def _encode_cursor(sequence: int) -> str:
    return base64.urlsafe_b64encode(f"before {sequence}".encode()).decode()


def _decode_cursor(cursor: str) -> int:
    try:
        word, number = base64.b64decode(cursor, altchars=b"-_", validate=True).decode().split(" ")
        sequence = int(number)
    except (binascii.Error, ValueError):
        word, sequence = "", 0
    if word != "before" or _encode_cursor(sequence) != cursor or sequence >= 2**63:
        raise InvalidRequest(
            [("cursor", "is not one that this server gave: take next_cursor of the page before")]
        )
    return sequence
