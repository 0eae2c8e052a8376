"""The times of a server's answers, as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from longshore.dispatcher.cli.answers import unreadable
from longshore.dispatcher.cli.output import duration

Moment = str | msgspec.UnsetType | None
"""A time of an answer, in RFC 3339; what is unset or None never was."""


def moment_of(text: Moment) -> datetime | None:
    """Return a time, None for never; raises `CommandFailure` for what is no time."""
    if not text:
        return None
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise unreadable(str(error)) from error
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)


def moment(text: Moment) -> str:
    """Return a moment in UTC, as it stands in the server's sentences too; "" for never."""
    when = moment_of(text)
    return "" if when is None else when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment_in(text: Moment, time_zone: str) -> str:
    """Return a moment by the clocks of an IANA time zone; in UTC where this machine lacks it."""
    when = moment_of(text)
    if when is None or time_zone == "UTC":
        return moment(text)
    try:
        return when.astimezone(ZoneInfo(time_zone)).isoformat(timespec="seconds")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return moment(text)


def span_s(since: Moment, until: Moment) -> float | None:
    """Return how many seconds are between two moments, None where one of them never was."""
    first, last = moment_of(since), moment_of(until)
    return None if first is None or last is None else (last - first).total_seconds()


def lasted_s(since: Moment, until: Moment, now: datetime | None = None) -> float | None:
    """Return the seconds from `since` until `until`, or until now; None where it never began.

    0 when the server's clock is ahead of ours.
    """
    first, last = moment_of(since), moment_of(until)
    if first is None:
        return None
    return max(0.0, ((last or now or datetime.now(UTC)) - first).total_seconds())


def age(text: Moment, now: datetime | None = None) -> str:
    """Return how long ago a moment was; "" for never."""
    when = moment_of(text)
    return "" if when is None else duration(((now or datetime.now(UTC)) - when).total_seconds())


def no_current_listing(listed_at: Moment) -> str:
    """Return why what is listed may not be all; `listed_at` is when the last listing began."""
    when = f"the last one is {age(listed_at)} old" if listed_at else "none came yet"
    return f"the server has no current listing of the cloud ({when})"
