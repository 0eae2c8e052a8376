"""The periods in which money is counted: days, weeks, months, quarters and years of a time zone.

It works with `datetime`, as `schedules` does, but it reads no clock: all times are given, and are
seconds since the epoch. Days have 23, 24 or 25 hours. Periods of a kind
follow each other without a gap: where a clock is put back over midnight, the time that comes twice
is all of the earlier day's or all of the later one's, as it falls.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import assert_never

from longshore.dispatcher.domain.schedules import zone_of

_DAY = timedelta(days=1)


class PeriodKind(Enum):
    """For how long something is counted before it begins again."""

    DAY = "day"
    #: From Monday on.
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """One of them: from `starts_at` on, and before `ends_at`."""

    #: "2026-11-28", "2026-W48", "2026-11", "2026-Q4" or "2026".
    name: str
    #: Seconds since the epoch.
    starts_at: float
    ends_at: float
    #: The day on which the next one begins, in its time zone, as "2026-12-01".
    next_on: str


def period_at(kind: PeriodKind, time_zone: str, at: float) -> Period:
    """Return the period in which `at` is.

    `at` is in seconds since the epoch. Raises `ScheduleError` for a zone that is not known here;
    `time_zone_problem` tells before.
    """
    day = datetime.fromtimestamp(at, tz=zone_of(time_zone)).date()
    found = _of_day(kind, time_zone, day)
    while at >= found.ends_at:
        found = _of_day(kind, time_zone, date.fromisoformat(found.next_on))
    while at < found.starts_at:
        day = _first_day(kind, day) - _DAY
        found = _of_day(kind, time_zone, day)
    return found


def days_of(time_zone: str, start: float, end: float) -> tuple[Period, ...]:
    """Return the days of which any part is in [start, end), in order; () where that is empty."""
    found: list[Period] = []
    at = start
    while at < end:
        found.append(period_at(PeriodKind.DAY, time_zone, at))
        at = found[-1].ends_at
    return tuple(found)


def weekday_of(day: Period) -> int:
    """Return what a day's weekday is, 0 for Monday; raises `ValueError` for another period."""
    return date.fromisoformat(day.name).weekday()


def _of_day(kind: PeriodKind, time_zone: str, day: date) -> Period:
    first = _first_day(kind, day)
    following = _first_day(kind, _into_next(kind, first))
    return Period(
        name=_name(kind, first),
        starts_at=_midnight(first, time_zone),
        ends_at=_midnight(following, time_zone),
        next_on=following.isoformat(),
    )


def _midnight(day: date, time_zone: str) -> float:
    """Return when a day begins; a midnight that is skipped is when it would have come."""
    return datetime.combine(day, time(), tzinfo=zone_of(time_zone)).timestamp()


def _first_day(kind: PeriodKind, day: date) -> date:
    match kind:
        case PeriodKind.DAY:
            return day
        case PeriodKind.WEEK:
            return day - day.weekday() * _DAY
        case PeriodKind.MONTH:
            return day.replace(day=1)
        case PeriodKind.QUARTER:
            return day.replace(month=day.month - (day.month - 1) % 3, day=1)
        case PeriodKind.YEAR:
            return day.replace(month=1, day=1)
        case _:
            assert_never(kind)


def _into_next(kind: PeriodKind, first: date) -> date:
    """Return a day of the period after the one that begins with `first`."""
    match kind:
        case PeriodKind.DAY:
            return first + _DAY
        case PeriodKind.WEEK:
            return first + 7 * _DAY
        case PeriodKind.MONTH:
            return first + 31 * _DAY
        case PeriodKind.QUARTER:
            return first + 92 * _DAY
        case PeriodKind.YEAR:
            return first + 366 * _DAY
        case _:
            assert_never(kind)


def _name(kind: PeriodKind, first: date) -> str:
    match kind:
        case PeriodKind.DAY:
            return first.isoformat()
        case PeriodKind.WEEK:
            year, week, _ = first.isocalendar()
            return f"{year:04}-W{week:02}"
        case PeriodKind.MONTH:
            return f"{first:%Y-%m}"
        case PeriodKind.QUARTER:
            return f"{first.year:04}-Q{(first.month + 2) // 3}"
        case PeriodKind.YEAR:
            return f"{first.year:04}"
        case _:
            assert_never(kind)
