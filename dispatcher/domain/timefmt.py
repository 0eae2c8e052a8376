"""How a moment is written in a sentence, wherever one is: in UTC, as in the API's JSON; pure."""

from __future__ import annotations

_DAY_S = 86_400
_DAYS_TO_1970 = 719_468
_DAYS_OF_400_YEARS = 146_097


def moment(at: float) -> str:
    """Return a time, in seconds since the epoch, as ISO 8601 in UTC, whole seconds: ending in Z."""
    days, seconds = divmod(int(at), _DAY_S)
    year, month, day = _date(days)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{year:04}-{month:02}-{day:02}T{clock}Z"


def _date(days: int) -> tuple[int, int, int]:
    """Return year, month and day of so many days after the first of January 1970.

    Years are counted from the first of March here, so that a leap day is the last of its year.
    """
    eras, day = divmod(days + _DAYS_TO_1970, _DAYS_OF_400_YEARS)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day += 1 - (153 * month + 2) // 5
    month += 3 if month < 10 else -9
    return eras * 400 + year + (month <= 2), month, day
