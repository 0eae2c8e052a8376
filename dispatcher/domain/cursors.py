"""Cursors: where the next page of a listing begins, as text that only we make; pure."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import TypeVar

from longshore.drivers.errors import InvalidRequest

T = TypeVar("T")


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
