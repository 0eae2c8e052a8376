"""When a periodic job begins: the times of its cron expressions in its time zone.

No part of the pure core, since it works with `datetime`, but it reads no clock: all times are
given, and are seconds since the epoch. Time zones are the machine's, or else those of `tzdata`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from longshore.dispatcher.domain.jobs import Schedule

_MOST_EXPRESSIONS = 20
_LONGEST_EXPRESSION = 200
# All that a calendar can do it does within 50 years of this, which is how far is looked.
_IN_2010 = 1_262_304_000.0
_FIELDS = "minute, hour, day of month, month, day of week; of six fields the first is the second"
#: What cron(8) calls its times. Not those of a machine's start, or of a rate.
_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class ScheduleError(Exception):
    """A schedule cannot be read here, though it could when it was submitted; the message says why.

    What it is read with comes with updates of the machine and of the dispatcher.
    """


def check(cron: Sequence[str], time_zone: str) -> str:
    """Return what is wrong with a schedule, "" for nothing."""
    if why := time_zone_problem(time_zone):
        return why
    if not cron:
        return "no cron expression is given"
    if len(cron) > _MOST_EXPRESSIONS:
        return f"{len(cron)} cron expressions are given, and {_MOST_EXPRESSIONS} are the most"
    return next(filter(None, (_wrong_with(each, time_zone) for each in cron)), "")


def time_zone_problem(name: str) -> str:
    """Return why a name is none of a time zone that this machine knows, "" for nothing."""
    if name in _time_zones():
        return ""
    return f'there is no time zone {name[:60]!r}; name one as in "Europe/Berlin"'


def next_after(schedule: Schedule, after: float) -> float | None:
    """Return the first time later than `after`, None when none comes within 50 years.

    Raises `ScheduleError`.
    """
    start = datetime.fromtimestamp(math.floor(after), tz=zone_of(schedule.time_zone))
    times = [_next_of(expression, start, after) for expression in schedule.cron]
    return min((each for each in times if each is not None), default=None)


def latest_missed(schedule: Schedule, since: float, now: float) -> float | None:
    """Return the last time later than `since` and not later than `now`, None for none.

    It is looked for by halves: who begins each second may have been asleep for years.
    Raises `ScheduleError`.
    """
    found = next_after(schedule, since)
    if found is None or found > now:
        return None
    end = math.floor(now)
    while found < end:
        middle = (found + end) // 2
        later = next_after(schedule, middle)
        if later is None or later > end:
            end = math.floor(middle)
        else:
            found = later
    return found


def _wrong_with(expression: str, time_zone: str) -> str:
    if len(expression) > _LONGEST_EXPRESSION:
        return f"a cron expression has at most {_LONGEST_EXPRESSION} characters"
    try:
        first = next_after(Schedule(cron=(expression,), time_zone=time_zone), _IN_2010)
    except ScheduleError as error:
        return f"{error} ({_FIELDS})"
    return "" if first is not None else f"{expression!r} never comes"


def _next_of(expression: str, start: datetime, after: float) -> float | None:
    try:
        times = CronSim(_spelled_out(expression), start)
    except CronSimError as error:
        why = str(error)
        raise ScheduleError(f"{expression!r}: {why[:1].lower()}{why[1:]}") from error
    # Where a clock is put back an hour comes twice, and its first time may be over already.
    return next((each.timestamp() for each in times if each.timestamp() > after), None)


def _spelled_out(expression: str) -> str:
    """Return the fields that an expression stands for; raises `ScheduleError` for an unknown name.

    A cron of any system that people come from knows these names, and each reads other ones.
    """
    if not expression.startswith("@"):
        return expression
    if expression.lower() not in _NAMED:
        known = ", ".join(_NAMED)
        raise ScheduleError(f"{expression!r} is not one of {known}")
    return _NAMED[expression.lower()]


@cache
def _time_zones() -> frozenset[str]:
    return frozenset(available_timezones())


@cache
def zone_of(name: str) -> tzinfo:
    """Return the time zone of a name; raises `ScheduleError` where this machine has none."""
    if name not in _time_zones():
        raise ScheduleError(f"this machine has no time zone {name!r}")
    return UTC if name == "UTC" else ZoneInfo(name)
