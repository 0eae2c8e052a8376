"""Pages of rows by falling sequence number, each from the walk of an index or a few."""

from __future__ import annotations

import base64
import binascii
import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TypeVar

from sqlalchemy import Connection, Select

from longshore.drivers.errors import InvalidRequest

T = TypeVar("T")

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


def slice_of(
    items: Iterable[T], place: Callable[[T], str], *, word: str, cursor: str, limit: int
) -> tuple[list[T], str | None]:
    """Return up to `limit` items behind a cursor, in the order of their places, and the next one.

    For what is at hand as a whole: what comes or goes meanwhile moves no other. Raises
    `InvalidRequest` for a cursor that is not of the listing that `word` stands for.
    """
    ordered = sorted(items, key=place)
    first = bisect_right(ordered, decode_cursor(word, cursor), key=place) if cursor else 0
    shown = ordered[first : first + limit]
    more = len(ordered) > first + limit
    return shown, encode_cursor(word, place(shown[-1])) if more else None


def expect_limit(limit: int) -> None:
    """Raise `InvalidRequest` for a limit that no page may have."""
    if not 1 <= limit <= PAGE_LIMIT:
        raise InvalidRequest([("limit", f"must be from 1 to {PAGE_LIMIT}")])


def encode_cursor(word: str, place: str) -> str:
    """Return the cursor for what comes behind `place` in the listing that `word` stands for."""
    return base64.urlsafe_b64encode(f"{word} {place}".encode()).decode()


def decode_cursor(word: str, cursor: str) -> str:
    """Return the place in a cursor; raises `InvalidRequest` for one of another listing."""
    try:
        text = base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        text = ""
    found, _, place = text.partition(" ")
    if found != word or encode_cursor(word, place) != cursor:
        raise not_our_cursor()
    return place


def not_our_cursor() -> InvalidRequest:
    """Return what is said of a cursor that leads nowhere."""
    said = "is not one that this server gave: take next_cursor of the page before"
    return InvalidRequest([("cursor", said)])


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
