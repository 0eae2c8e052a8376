"""Moments as people write them: RFC 3339, with their time zone."""

from __future__ import annotations

import re
from datetime import datetime

from longshore.dispatcher.input.problems import quoted

AHEAD_MAX_S = 366 * 86_400
"""How far ahead a moment may lie for which something is to wait."""

_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})?"
)
_REMEDY = 'write it like "2026-01-31T18:00:00Z" or "2026-01-31T18:00:00+02:00"'


def parse_moment(text: str) -> float:
    """Return the seconds since the epoch of a moment in RFC 3339.

    Raises `ValueError` with a sentence for anything else, and without a time zone: the server's own
    is nobody's.
    """
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError(f"{quoted(text)} is not a moment: {_REMEDY}")
    if match.group(2) is None:
        raise ValueError(f"{quoted(text)} has no time zone: add Z for UTC, or an offset as +02:00")
    try:
        return datetime.fromisoformat(text.upper()).timestamp()
    except ValueError:
        raise ValueError(f"{quoted(text)} is not in the calendar: {_REMEDY}") from None


def end_problem(text: str, now: float | None) -> str:
    """Return why nothing can end at the moment `text`, in one sentence; "" when it can.

    `now` is in seconds since the epoch, None for those who do not know it.
    """
    try:
        at = parse_moment(text)
    except ValueError as error:
        return str(error)
    if now is not None and at <= now:
        return f"{quoted(text)} is over already: name a moment to come"
    if now is not None and at > now + AHEAD_MAX_S:
        return f"{quoted(text)} is over a year ahead: leave it out for a hold without an end"
    return ""


def start_problem(text: str, now: float | None) -> str:
    """Return why nothing can wait for the moment `text`, in one sentence; "" when it can.

    `now` is in seconds since the epoch, None for those who do not know it: to them nothing is too
    far ahead.
    """
    try:
        at = parse_moment(text)
    except ValueError as error:
        return str(error)
    if now is not None and at > now + AHEAD_MAX_S:
        return f"{quoted(text)} is over a year ahead: submit it later, or hold it (priority 0)"
    return ""
