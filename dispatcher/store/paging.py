"""Pages of rows by falling sequence number, each from the walk of an index or a few."""

from __future__ import annotations

import base64
import binascii
import heapq
from collections.abc import Sequence
from itertools import islice

from sqlalchemy import Connection, Select

from drivers.errors import InvalidRequest

PAGE_LIMIT = 1000


def page_of(
    connection: Connection, queries: Sequence[Select[int]], *, cursor: str, limit: int
) -> tuple[list[int], str | None]:
    """Return up to `limit` sequence numbers of `queries`, falling, and the next page's cursor.

    Each query has one column, the sequence number; no two of them find the same one. Raises
    `InvalidRequest` for a limit that is too large, or a cursor that is not ours.
    """
    if not 1 <= limit <= PAGE_LIMIT:
        raise InvalidRequest([("limit", f"must be from 1 to {PAGE_LIMIT}")])
    before = _decode_cursor(cursor) if cursor else None
    streams = [
        connection.execute(_below(query, before).limit(limit + 1)).scalars().all()
        for query in queries
    ]
    found = list(islice(heapq.merge(*streams, reverse=True), limit + 1))
    shown = found[:limit]
    return shown, _encode_cursor(shown[-1]) if len(found) > limit else None


def _below(query: Select[int], before: int | None) -> Select[int]:
    column = query.selected_columns[0]
    if before is not None:
        query = query.where(column < before)
    return query.order_by(column.desc())


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
