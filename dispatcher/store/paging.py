"""Pages of rows, each from the walk of an index or a few.

Containers and jobs go by falling sequence number, instances that are gone by when they went.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import islice

from sqlalchemy import Connection, Select, select, tuple_

from longshore.dispatcher.domain.cursors import decode_cursor, encode_cursor, not_our_cursor
from longshore.dispatcher.domain.queries import InstancePage
from longshore.dispatcher.store import codec
from longshore.dispatcher.store.tables import instances
from longshore.drivers.errors import InvalidRequest

PAGE_LIMIT = 1000
_BEFORE = "before"
_GONE = "gone"


def page_of(
    connection: Connection, queries: Sequence[Select[int]], *, cursor: str, limit: int
) -> tuple[list[int], str | None]:
    """Return up to `limit` sequence numbers of `queries`, falling, and the next page's cursor.

    Each query has one column, the sequence number; no two of them find the same one. Raises
    `InvalidRequest` for a limit that is too large, or a cursor that is not ours.
    """
    expect_limit(limit)
    before = _sequence_in(cursor) if cursor else None
    streams = [
        connection.execute(_below(query, before).limit(limit + 1)).scalars().all()
        for query in queries
    ]
    found = list(islice(heapq.merge(*streams, reverse=True), limit + 1))
    shown = found[:limit]
    return shown, encode_cursor(_BEFORE, str(shown[-1])) if len(found) > limit else None


def expect_limit(limit: int) -> None:
    """Raise `InvalidRequest` for a limit that no page may have."""
    if not 1 <= limit <= PAGE_LIMIT:
        raise InvalidRequest([("limit", f"must be from 1 to {PAGE_LIMIT}")])


def _below(query: Select[int], before: int | None) -> Select[int]:
    column = query.selected_columns[0]
    if before is not None:
        query = query.where(column < before)
    return query.order_by(column.desc())


def _sequence_in(cursor: str) -> int:
    place = decode_cursor(_BEFORE, cursor)
    if not place.isdecimal() or str(int(place)) != place or int(place) >= 2**63:
        raise not_our_cursor()
    return int(place)


def fetch_gone(connection: Connection, *, cursor: str, limit: int) -> InstancePage:
    """Return up to `limit` of those that are gone, the last gone first, by their ids at one time.

    Raises `InvalidRequest` for a limit that is too large, or a cursor that is not ours.
    """
    expect_limit(limit)
    place = tuple_(instances.c.gone_at, instances.c.id)
    query = (
        select(instances)
        .where(instances.c.gone_at.is_not(None))
        .order_by(instances.c.gone_at.desc(), instances.c.id.desc())
        .limit(limit + 1)
    )
    if cursor:
        query = query.where(place < tuple_(*_gone_in(cursor)))
    found = [codec.instance_from_row(row) for row in connection.execute(query)]
    shown = tuple(found[:limit])
    more = len(found) > limit
    following = encode_cursor(_GONE, f"{shown[-1].gone_at!r} {shown[-1].id}") if more else None
    return InstancePage(items=shown, next_cursor=following)


def _gone_in(cursor: str) -> tuple[float, str]:
    gone_at, _, instance_id = decode_cursor(_GONE, cursor).partition(" ")
    try:
        return float(gone_at), instance_id
    except ValueError:
        raise not_our_cursor() from None
