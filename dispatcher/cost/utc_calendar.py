"""Hours, days and months in UTC, as clouds bill them; pure.

Hours are counted from the epoch, as those of lines are. No zone and no leap second enters: clouds'
months are UTC, and so is the ledger (COST of the design, time).
"""

from __future__ import annotations

import re
from typing import Final

from longshore.dispatcher.domain.timefmt import moment

HOUR_S: Final = 3600
_DAY_HOURS: Final = 24
_DAYS_TO_1970: Final = 719_468
_DAYS_OF_400_YEARS: Final = 146_097
_MONTH = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])")
_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?)?"
    r"(?:Z| ?UTC|\+00:?00)?"
)


def utc_hour_text(hour: int) -> str:
    """Return the beginning of an hour as ISO 8601 in UTC."""
    return moment(hour * HOUR_S)


def month_hours(month: str) -> range:
    """Return the hours of a month that is written as 2026-10.

    Raises ValueError with a sentence for whoever wrote it.
    """
    match = _MONTH.fullmatch(month)
    if not match or int(match.group(1)) < 1970:
        raise ValueError("a month must be written as YYYY-MM, such as 2026-10")
    year, number = int(match.group(1)), int(match.group(2))
    first = _days(year, number, 1)
    end = _days(year + number // 12, number % 12 + 1, 1)
    return range(first * _DAY_HOURS, end * _DAY_HOURS)


def month_of(hour: int) -> range:
    """Return the hours of the month that an hour is in."""
    return month_hours(utc_hour_text(hour)[:7])


def seconds_of(text: str) -> int:
    """Return a time in UTC as whole seconds since the epoch; parts of a second are left out.

    It is written as ISO 8601 says, with a `T` or a blank, and ends in `Z`, `UTC`, `+00:00` or in
    nothing, which is UTC too. Raises ValueError for any other text, and for a day that is none.
    """
    match = _TIME.fullmatch(text)
    if not match:
        raise ValueError("it is no time in UTC")
    year, month, day, hour, minute, second = (int(each or 0) for each in match.groups()[:6])
    seconds = _days(year, month, day) * 86_400 + hour * HOUR_S + minute * 60 + second
    # What is no day of its month, or no minute of its hour, would come out as another.
    wanted = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
    if year < 1970 or moment(seconds) != wanted:
        raise ValueError("there is no such day or no such time of the day")
    return seconds


def _days(year: int, month: int, day: int) -> int:
    """Return how many days after the first of January 1970 a date is.

    Years are counted from the first of March here, so that a leap day is the last of its year.
    """
    year -= month <= 2
    eras, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return (
        eras * _DAYS_OF_400_YEARS
        + of_era * 365
        + of_era // 4
        - of_era // 100
        + (of_year - _DAYS_TO_1970)
    )
