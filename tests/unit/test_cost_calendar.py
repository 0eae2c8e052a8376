"""Months, days and times of clouds' files are those of the calendar, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from longshore.dispatcher.cost.utc_calendar import month_hours, month_of, seconds_of, utc_hour_text


@pytest.mark.parametrize("year", [1970, 1999, 2000, 2024, 2026, 2100])
def test_months_are_those_of_the_standard_library(year: int) -> None:
    for month in range(1, 13):
        hours = month_hours(f"{year}-{month:02}")
        following = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
        assert hours.start * 3600 == datetime(year, month, 1, tzinfo=UTC).timestamp()
        assert hours.stop * 3600 == following.timestamp()
        assert month_of(hours.start) == month_of(hours[-1]) == hours
        assert month_of(hours.stop) != hours


@pytest.mark.parametrize("month", ["2026-13", "2026-1", "2026", "1969-12", "2026-10-01", "", "x"])
def test_what_is_no_month_is_refused_with_an_example(month: str) -> None:
    with pytest.raises(ValueError, match="such as 2026-10"):
        month_hours(month)


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("2026-10-01T05:00:00Z", "2026-10-01T05:00:00Z"),
        ("2026-10-01T05:00:00.000Z", "2026-10-01T05:00:00Z"),
        ("2026-10-01 05:00:00 UTC", "2026-10-01T05:00:00Z"),
        ("2026-10-01 05:00:00", "2026-10-01T05:00:00Z"),
        ("2026-10-01T05:59Z", "2026-10-01T05:00:00Z"),
        ("2026-10-01 05:00:00+00:00", "2026-10-01T05:00:00Z"),
        ("2024-02-29", "2024-02-29T00:00:00Z"),
    ],
)
def test_a_time_is_read(text: str, hour: str) -> None:
    assert utc_hour_text(seconds_of(text) // 3600) == hour


@pytest.mark.parametrize(
    "text",
    [
        *("", "today", "2026-10-01T05:00:00+02:00", "2026-10-01T24:00:00Z", "2026-02-29"),
        *("2026-04-31T00:00:00Z", "2026-10-01T05:61:00Z", "1969-12-31T23:59:59Z", "1e9"),
        *("2026-00-10", "2026-13-10", "9" * 5000, "2026-10-01T05:00:00Z\n"),
    ],
)
def test_what_is_no_time_in_utc_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no"):
        seconds_of(text)
