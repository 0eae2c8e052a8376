"""Pages of rows by falling sequence number, each from the walk of an index or a few."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import islice

from sqlalchemy import Connection, Select

from longshore.dispatcher.domain.cursors import decode_cursor, encode_cursor, not_our_cursor
from longshore.drivers.errors import InvalidRequest

PAGE_LIMIT = 1000
_BEFORE = "before"


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
