"""When periodic jobs begin: on ordinary days, on the two odd ones of each year, and never."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.dispatcher.domain.jobs import Schedule
from longshore.dispatcher.domain.schedules import ScheduleError, check, latest_missed, next_after


def at(text: str) -> float:
    """Return a time in UTC as seconds since the epoch."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def shown(time: float | None) -> str:
    """Return seconds since the epoch as a time in UTC, "never" for None."""
    return "never" if time is None else f"{datetime.fromtimestamp(time, tz=UTC):%Y-%m-%d %H:%M:%S}"


def coming(schedule: Schedule, after: str, number: int) -> list[str]:
    """Return the next times of a schedule."""
    found: list[str] = []
    time: float | None = at(after)
    while time is not None and len(found) < number:
        time = next_after(schedule, time)
        found.append(shown(time))
    return found


ORDINARY = [
    ("*/15 * * * *", "2026-01-01 00:00:00", "2026-01-01 00:15:00"),
    ("*/15 * * * *", "2026-01-01 00:14:59.9", "2026-01-01 00:15:00"),
    ("*/15 * * * *", "2026-01-01 00:15:00.1", "2026-01-01 00:30:00"),
    ("0 6 * * MON-FRI", "2026-01-02 06:00:00", "2026-01-05 06:00:00"),
    ("0 0 L * *", "2026-02-01 00:00:00", "2026-02-28 00:00:00"),
    ("0 0 29 2 *", "2026-01-01 00:00:00", "2028-02-29 00:00:00"),
    ("0 0 29 2 *", "2096-03-01 00:00:00", "2104-02-29 00:00:00"),
    ("0 0 * 2 MON#5", "2026-01-01 00:00:00", "2044-02-29 00:00:00"),
    ("59 59 23 31 12 *", "2026-12-31 23:59:58", "2026-12-31 23:59:59"),
    ("*/10 * * * * *", "2026-01-01 00:00:51", "2026-01-01 00:01:00"),
    ("@daily", "2026-01-01 00:00:00", "2026-01-02 00:00:00"),
    ("@Weekly", "2026-01-01 00:00:00", "2026-01-04 00:00:00"),
    ("@hourly", "2026-01-01 00:00:00", "2026-01-01 01:00:00"),
    ("0 0 13 * FRI", "2026-01-01 00:00:00", "2026-01-02 00:00:00"),
]


@pytest.mark.parametrize(("cron", "after", "expected"), ORDINARY)
def test_the_next_time_is_the_first_later_one(cron: str, after: str, expected: str) -> None:
    assert shown(next_after(Schedule(cron=(cron,)), at(after))) == expected


def test_of_several_expressions_each_brings_its_times_and_a_common_one_comes_once() -> None:
    schedule = Schedule(cron=("0 12 * * *", "0 */6 * * *"))
    assert coming(schedule, "2026-01-01 00:00:00", 4) == [
        "2026-01-01 06:00:00",
        "2026-01-01 12:00:00",
        "2026-01-01 18:00:00",
        "2026-01-02 00:00:00",
    ]


BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
# Berlin: 2026-03-29 02:00 is 03:00, 2026-10-25 03:00 is 02:00 again; UTC is one or two hours less.
# New York: 2026-03-08 02:00 is 03:00, 2026-11-01 02:00 is 01:00 again; four or five hours more.
ODD_DAYS = [
    # A time of day that is left out comes when the clock goes on, and all of that hour once.
    (BERLIN, "30 2 * * *", "2026-03-28 12:00:00", ["2026-03-29 01:00:00", "2026-03-30 00:30:00"]),
    (BERLIN, "0,30 2 * * *", "2026-03-28 12:00:00", ["2026-03-29 01:00:00", "2026-03-30 00:00:00"]),
    (NEW_YORK, "30 2 * * *", "2026-03-07 12:00:00", ["2026-03-08 07:00:00", "2026-03-09 06:30:00"]),
    # One that comes twice counts the first time only.
    (BERLIN, "30 2 * * *", "2026-10-24 12:00:00", ["2026-10-25 00:30:00", "2026-10-26 01:30:00"]),
    (NEW_YORK, "30 1 * * *", "2026-10-31 12:00:00", ["2026-11-01 05:30:00", "2026-11-02 06:30:00"]),
    (BERLIN, "0,30 2 * * *", "2026-10-24 12:00:00", ["2026-10-25 00:00:00", "2026-10-25 00:30:00"]),
    # Also when it is the second time already.
    (BERLIN, "30 2 * * *", "2026-10-25 01:10:00", ["2026-10-26 01:30:00", "2026-10-27 01:30:00"]),
    (BERLIN, "0,30 2 * * *", "2026-10-25 01:10:00", ["2026-10-26 01:00:00", "2026-10-26 01:30:00"]),
    (NEW_YORK, "30 1 * * *", "2026-11-01 06:10:00", ["2026-11-02 06:30:00", "2026-11-03 06:30:00"]),
    # What comes each hour or more often comes as time passes.
    (BERLIN, "30 * * * *", "2026-03-29 00:00:00", ["2026-03-29 00:30:00", "2026-03-29 01:30:00"]),
    (BERLIN, "30 * * * *", "2026-10-25 00:00:00", ["2026-10-25 00:30:00", "2026-10-25 01:30:00"]),
    (BERLIN, "*/30 2 * * *", "2026-03-28 12:00:00", ["2026-03-30 00:00:00", "2026-03-30 00:30:00"]),
    (
        BERLIN,
        "*/30 2 * * *",
        "2026-10-24 12:00:00",
        [
            "2026-10-25 00:00:00",
            "2026-10-25 00:30:00",
            "2026-10-25 01:00:00",
            "2026-10-25 01:30:00",
            "2026-10-26 01:00:00",
        ],
    ),
    # With seconds nothing is moved: what is left out does not come, what comes twice does.
    (BERLIN, "0 30 2 * * *", "2026-03-28 12:00:00", ["2026-03-30 00:30:00", "2026-03-31 00:30:00"]),
    (
        NEW_YORK,
        "0 30 1 * * *",
        "2026-10-31 12:00:00",
        ["2026-11-01 05:30:00", "2026-11-01 06:30:00", "2026-11-02 06:30:00"],
    ),
]


@pytest.mark.parametrize(("zone", "cron", "after", "expected"), ODD_DAYS)
def test_on_the_days_when_clocks_are_changed(
    zone: str, cron: str, after: str, expected: list[str]
) -> None:
    schedule = Schedule(cron=(cron,), time_zone=zone)
    assert coming(schedule, after, len(expected)) == expected


# On a second Sunday of March there is no 2:30 in New York.
NEVER = [("UTC", "* * */20 * 1L"), (NEW_YORK, "0 30 2 */2 3 SUN#2")]


@pytest.mark.parametrize(("zone", "cron"), NEVER)
def test_one_that_never_comes_has_no_next_time_and_is_refused(zone: str, cron: str) -> None:
    schedule = Schedule(cron=(cron,), time_zone=zone)
    assert next_after(schedule, at("2026-01-01")) is None
    assert latest_missed(schedule, at("2010-01-01"), at("2026-01-01")) is None
    assert check([cron], zone) == f"{cron!r} never comes"


MISSED = [
    ("0 * * * *", "2026-01-01 00:00:00", "2026-01-01 00:59:59", "never"),
    ("0 * * * *", "2026-01-01 00:00:00", "2026-01-01 01:00:00", "2026-01-01 01:00:00"),
    ("0 * * * *", "2026-01-01 00:00:00", "2026-01-01 09:59:59.9", "2026-01-01 09:00:00"),
    ("0 * * * *", "2026-01-01 09:00:00", "2026-01-01 09:00:00.5", "never"),
    ("0 * * * *", "2026-01-01 09:00:00", "2026-01-01 07:00:00", "never"),
    ("0 0 29 2 *", "1999-01-01 00:00:00", "2027-12-31 00:00:00", "2024-02-29 00:00:00"),
    ("* * * 1 1 *", "1990-01-01 00:00:00", "2026-12-31 00:00:00", "2026-01-01 23:59:59"),
]


@pytest.mark.parametrize(("cron", "since", "now", "expected"), MISSED)
def test_of_what_was_missed_the_latest_is_found(
    cron: str, since: str, now: str, expected: str
) -> None:
    assert shown(latest_missed(Schedule(cron=(cron,)), at(since), at(now))) == expected


def test_of_what_was_missed_an_hour_that_came_twice_counts_once() -> None:
    schedule = Schedule(cron=("30 2 * * *",), time_zone=BERLIN)
    missed = latest_missed(schedule, at("2026-10-24 12:00:00"), at("2026-10-25 01:45:00"))
    assert shown(missed) == "2026-10-25 00:30:00"


@given(
    cron=st.sampled_from(
        ["30 2 * * *", "0 * * * *", "*/20 1-3 * * *", "0 15 2 * * *", "0 0 1 * *", "0 2 * 3 SUN"]
    ),
    zone=st.sampled_from([BERLIN, NEW_YORK, "UTC", "Asia/Kathmandu", "Africa/Cairo"]),
    since=st.integers(int(at("2026-01-01")), int(at("2027-01-01"))),
    length_s=st.integers(0, 40 * 86_400),
)
def test_the_latest_missed_is_the_last_of_all_that_come(
    cron: str, zone: str, since: int, length_s: int
) -> None:
    schedule = Schedule(cron=(cron,), time_zone=zone)
    last, time = None, next_after(schedule, since)
    while time is not None and time <= since + length_s:
        assert last is None or time > last
        last, time = time, next_after(schedule, time)
    assert latest_missed(schedule, since, since + length_s) == last


RIGHT = [("* * * * *", "UTC"), ("0 9 * * mon-fri", BERLIN), ("*/5 * * * * *", "Asia/Kathmandu")]


@pytest.mark.parametrize(("cron", "zone"), RIGHT)
def test_nothing_is_wrong_with_what_can_be_read(cron: str, zone: str) -> None:
    assert check([cron], zone) == ""


WRONG = [
    ([], "UTC", "no cron expression is given"),
    (["@every 5m"], "UTC", "'@every 5m' is not one of @yearly, @annually, @monthly, @weekly"),
    (["@reboot"], "UTC", "'@reboot' is not one of @yearly"),
    (["daily"], "UTC", "'daily': wrong number of fields (minute, hour, day of month"),
    (["* * * *"], "UTC", "'* * * *': wrong number of fields (minute"),
    (["* * * * *", "60 * * * *"], "UTC", "'60 * * * *': bad minute (minute"),
    (["0 0 30 2 *"], "UTC", "'0 0 30 2 *': bad day-of-month (minute"),
    (["* " * 101], "UTC", "a cron expression has at most 200 characters"),
    (["* * * * *"] * 21, "UTC", "21 cron expressions are given, and 20 are the most"),
    (["* * * * *"], "Mars/Olympus", "there is no time zone 'Mars/Olympus'; name one"),
    (["* * * * *"], "Europe", "there is no time zone 'Europe'; name one"),
    (["* * * * *"], "../../etc/passwd", "there is no time zone '../../etc/passwd'; name one"),
    (["* * * * *"], "", "there is no time zone ''; name one"),
]


@pytest.mark.parametrize(("cron", "zone", "sentence"), WRONG)
def test_what_is_wrong_is_said_in_a_sentence(cron: list[str], zone: str, sentence: str) -> None:
    assert check(cron, zone).startswith(sentence)


@given(
    st.lists(st.text("0123456789*/-,#L?WMONJA² \t", max_size=6), max_size=7).map(" ".join),
)
def test_whatever_is_given_as_an_expression_has_an_answer(expression: str) -> None:
    wrong = check([expression], "UTC")
    assert wrong or next_after(Schedule(cron=(expression,)), at("2026-01-01")) is not None


def test_a_time_zone_that_the_machine_has_lost_is_an_error_of_its_own() -> None:
    with pytest.raises(ScheduleError, match="has no time zone 'Mars/Olympus'"):
        next_after(Schedule(cron=("* * * * *",), time_zone="Mars/Olympus"), 0.0)
