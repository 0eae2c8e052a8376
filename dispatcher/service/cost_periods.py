"""The time that a question about cost is about, and its steps, in somebody's time zone.

Stored is UTC, by the hour; a day or a month is one of the zone that is asked for, so that days
have 23, 24 or 25 hours where clocks change. In a zone that is not whole hours off UTC, an hour
belongs to the day in which it begins.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from longshore.drivers.errors import InvalidRequest

STEPS_MAX: Final = 10_000
_HOUR_S: Final = 3600
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MONTH = re.compile(r"[0-9]{4}-[0-9]{2}")
_YEAR = re.compile(r"[0-9]{4}-")
_YEARS: Final = ("1970", "9998")
"""Of which years a question may be: the epoch's clock has them, and a calendar that goes a step
further, in any zone.
"""
_MONTHS = frozenset(f"{number:02}" for number in range(1, 13))
_REMEDY = 'write a day as "2026-10-01", a month as "2026-10", or a time as "2026-10-01T12:00:00Z"'


class Step(Enum):
    """How long what one row is about is."""

    WHOLE = "whole"
    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


Moment = Callable[[str], float]
"""Reads a time in RFC 3339 as seconds since the epoch; raises `ValueError` with a sentence."""


def steps_between(
    *, since: str, until: str, time_zone: str, step: Step, now: float, moment: Moment
) -> list[tuple[int, int]]:
    """Return the steps of a time as hours since the epoch [from, until), in order.

    `since` and `until` are days or months of the zone, or times; "" for the beginning of this month
    and for now. Raises `InvalidRequest` with all that is wrong.
    """
    problems: list[tuple[str, str]] = []
    zone = _zone(time_zone, problems)
    this_month = datetime.fromtimestamp(now, zone).date().replace(day=1)
    start = _moment("from", since, zone, moment, problems, default=_begin_of(this_month, zone))
    end = _moment("to", until, zone, moment, problems, default=now)
    if not problems and start >= end:
        problems.append(("to", "must be after from"))
    if problems:
        raise InvalidRequest(problems)
    first, last = math.floor(start / _HOUR_S), math.ceil(end / _HOUR_S)
    steps: list[tuple[int, int]] = []
    at = first
    for cut in _cuts(first, last, zone, step):
        steps.append((at, cut))
        at = cut
        if len(steps) > STEPS_MAX:
            sentence = f"asks for more than {STEPS_MAX} steps: ask for less time, or longer steps"
            raise InvalidRequest([("step", sentence)])
    return steps


def month_in(month: str, *, time_zone: str, now: float) -> range:
    """Return the hours since the epoch of a month of a zone, written as 2026-10; "" for this one.

    Raises `InvalidRequest` with all that is wrong.
    """
    problems: list[tuple[str, str]] = []
    zone = _zone(time_zone, problems)
    if month and not _is_month(month):
        problems.append(("month", 'is no month: write it as "2026-10"'))
    if problems:
        raise InvalidRequest(problems)
    first = datetime.fromtimestamp(now, zone).date().replace(day=1)
    if month:
        first = date.fromisoformat(f"{month}-01")
    cuts = (_begin_of(first, zone), _begin_of(_next(first, Step.MONTH), zone))
    start, end = (math.ceil(cut / _HOUR_S) for cut in cuts)
    return range(start, end)


def _is_month(text: str) -> bool:
    """Return whether a text is a month that the epoch's clock and the calendar both know."""
    return bool(_MONTH.fullmatch(text)) and "1970-02" <= text < "9999-12" and text[5:] in _MONTHS


def _zone(name: str, problems: list[tuple[str, str]]) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        problems.append(("tz", 'is no time zone that is known: name one as in "Europe/Berlin"'))
        return ZoneInfo("UTC")


def _moment(
    name: str,
    text: str,
    zone: ZoneInfo,
    moment: Moment,
    problems: list[tuple[str, str]],
    *,
    default: float,
) -> float:
    if not text:
        return default
    if _YEAR.match(text) and not _YEARS[0] <= text[:4] <= _YEARS[1]:
        problems.append((name, f"must be in a year from {_YEARS[0]} to {_YEARS[1]}"))
        return default
    try:
        if _DATE.fullmatch(text):
            return _begin_of(date.fromisoformat(text), zone)
        if _MONTH.fullmatch(text):
            return _begin_of(date.fromisoformat(f"{text}-01"), zone)
        return moment(text)
    except ValueError:
        problems.append((name, f"is no day, month or time: {_REMEDY}"))
        return default


def _begin_of(day: date, zone: ZoneInfo) -> float:
    return datetime.combine(day, time(), zone).timestamp()


def _cuts(first: int, last: int, zone: ZoneInfo, step: Step) -> Iterator[int]:
    """Yield the ends of the steps in hours, of which the last is `last`."""
    match step:
        case Step.WHOLE:
            yield last
        case Step.HOUR:
            yield from range(first + 1, last + 1)
        case Step.DAY | Step.MONTH:
            day = datetime.fromtimestamp(first * _HOUR_S, zone).date()
            while True:
                day = _next(day, step)
                cut = math.ceil(_begin_of(day, zone) / _HOUR_S)
                if cut >= last:
                    yield last
                    return
                if cut > first:
                    yield cut


def _next(day: date, step: Step) -> date:
    if step is Step.DAY:
        return day + timedelta(days=1)
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1)


def hour_text(hour: int) -> str:
    """Return an hour since the epoch as RFC 3339 in UTC."""
    return datetime.fromtimestamp(hour * _HOUR_S, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
