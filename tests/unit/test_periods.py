"""The periods in which money is counted: their bounds, as literal times, and that they tile."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.dispatcher.domain.periods import (
    Period,
    PeriodKind,
    days_of,
    period_at,
    weekday_of,
)
from longshore.dispatcher.domain.schedules import ScheduleError

BERLIN = "Europe/Berlin"
# Clocks that jump at midnight, over midnight, by half an hour, and over a whole day.
ZONES = ("UTC", BERLIN, "America/Sao_Paulo", "America/St_Johns", "Pacific/Apia", "Asia/Kathmandu")


def at(text: str, zone: str = BERLIN) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("kind", "name", "start", "end"),
    [
        (PeriodKind.DAY, "2026-11-28", "2026-11-28", "2026-11-29"),
        (PeriodKind.WEEK, "2026-W48", "2026-11-23", "2026-11-30"),
        (PeriodKind.MONTH, "2026-11", "2026-11-01", "2026-12-01"),
        (PeriodKind.QUARTER, "2026-Q4", "2026-10-01", "2027-01-01"),
        (PeriodKind.YEAR, "2026", "2026-01-01", "2027-01-01"),
    ],
)
def test_a_period_has_its_name_and_its_bounds(
    kind: PeriodKind, name: str, start: str, end: str
) -> None:
    expected = Period(name=name, starts_at=at(start), ends_at=at(end), next_on=end)
    assert period_at(kind, BERLIN, at("2026-11-28T19:00")) == expected
    assert period_at(kind, BERLIN, at(start)) == expected
    assert period_at(kind, BERLIN, at(end) - 0.001) == expected
    assert period_at(kind, BERLIN, at(end)).starts_at == at(end)


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-11-01", 24)]
)
def test_days_are_as_long_as_their_clock_makes_them(day: str, hours: int) -> None:
    found = period_at(PeriodKind.DAY, BERLIN, at(f"{day}T12:00"))
    assert (found.name, (found.ends_at - found.starts_at) / 3600) == (day, hours)


def test_weeks_are_those_of_iso_8601_over_the_turn_of_a_year() -> None:
    assert period_at(PeriodKind.WEEK, "UTC", at("2027-01-02", "UTC")).name == "2026-W53"


def test_the_days_of_a_month_are_all_of_it() -> None:
    month = period_at(PeriodKind.MONTH, BERLIN, at("2026-10-10"))
    days = days_of(BERLIN, month.starts_at, month.ends_at)
    assert len(days) == 31
    assert (days[0].starts_at, days[-1].ends_at) == (month.starts_at, month.ends_at)
    assert [weekday_of(each) for each in days[:5]] == [3, 4, 5, 6, 0]
    assert days_of(BERLIN, month.starts_at, month.starts_at) == ()


def test_a_zone_that_is_not_known_is_told() -> None:
    with pytest.raises(ScheduleError, match="no time zone 'Mars/Base'"):
        period_at(PeriodKind.DAY, "Mars/Base", 0.0)


@given(
    st.sampled_from(PeriodKind),
    st.sampled_from(ZONES),
    st.floats(min_value=0, max_value=4e9, allow_nan=False),
)
def test_periods_follow_each_other_without_a_gap(kind: PeriodKind, zone: str, when: float) -> None:
    found = period_at(kind, zone, when)
    assert found.starts_at <= when < found.ends_at
    assert period_at(kind, zone, found.starts_at) == found
    following = period_at(kind, zone, found.ends_at)
    assert (following.starts_at, following.name) != (found.starts_at, found.name)
    assert following.starts_at == found.ends_at


@pytest.mark.parametrize(
    ("zone", "turn"),
    [
        ("America/St_Johns", "2009-11-01"),
        ("America/Sao_Paulo", "2015-02-22"),
        ("America/Sao_Paulo", "2015-10-18"),
        ("Pacific/Apia", "2011-12-31"),
    ],
)
def test_days_tile_where_a_clock_jumps_around_midnight(zone: str, turn: str) -> None:
    middle = at(turn, zone)
    for minutes in range(-36 * 60, 36 * 60, 7):
        when = middle + 60.0 * minutes
        found = period_at(PeriodKind.DAY, zone, when)
        assert found.starts_at <= when < found.ends_at
