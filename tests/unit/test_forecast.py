"""What a period will likely have cost, from days that are known; what runs and is queued; a log."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.forecast_backtest import main
from longshore.dispatcher.cost.forecast import (
    MOST_DAYS,
    PendingWork,
    SpendForecast,
    SpendSeen,
    expected_run_s,
    forecast_spend,
    pending_grains,
)

WEEKS = 10


def seen(
    days: Sequence[int], *, over: int = 10, left: float = 20, pending: int = 0, booked: int = -1
) -> SpendSeen:
    """Return what is seen `over` days into a period, of which all are among `days`."""
    spent = sum(days[-over:]) if booked < 0 else booked
    return SpendSeen(days=days, booked=spent, elapsed_days=over, left_days=left, pending=pending)


def exactly(grains: int) -> SpendForecast:
    return SpendForecast(p10_grains=grains, p50_grains=grains, p90_grains=grains)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (seen([100] * 70), 3000),
        (seen([100] * 70, left=0), 1000),
        (seen([100] * 70, left=2.5), 1250),
        # As much as usually runs and waits is in the usual days.
        (seen([100] * 70, pending=200), 3000),
        (seen([1] * 3 + [100] * 70), 3000),
        (seen([9000] * 30 + [100] * MOST_DAYS), 3000),
    ],
    ids=["even", "over", "half a day", "as usual", "since use began", "long ago"],
)
def test_what_is_always_the_same_is_forecast_exactly(given: SpendSeen, expected: int) -> None:
    assert forecast_spend(given) == exactly(expected)


def test_what_is_queued_beyond_the_usual_comes_on_top() -> None:
    found = forecast_spend(seen([100] * 70, pending=900))
    assert (found.p50_grains, found.p90_grains) == (3700, 3700)
    # The straight line knows nothing of it.
    assert found.p10_grains == 3000


def test_without_any_past_it_is_what_is_booked_and_queued() -> None:
    nothing = SpendSeen(days=(), booked=0, elapsed_days=0, left_days=30)
    assert forecast_spend(nothing) == exactly(0)
    queued = SpendSeen(days=(), booked=0, elapsed_days=0, left_days=30, pending=500)
    assert forecast_spend(queued) == SpendForecast(p10_grains=0, p50_grains=500, p90_grains=1000)
    # The first day of all is not over.
    begun = SpendSeen(days=(), booked=50, elapsed_days=0.5, left_days=29.5)
    assert forecast_spend(begun).p50_grains == 3000


def test_days_of_the_week_count_as_they_differ() -> None:
    work_week = ([100] * 5 + [0] * 2) * WEEKS
    friday, monday = [*work_week, *[100] * 5], work_week
    over_weekend = forecast_spend(seen(friday, over=5, left=2))
    over_work = forecast_spend(seen(monday, over=5, left=2))
    assert over_weekend.p50_grains == pytest.approx(500, abs=15)
    assert over_work.p50_grains - sum(monday[-5:]) == pytest.approx(200, abs=15)


def test_what_chance_makes_of_days_of_the_week_does_not_count() -> None:
    noise = [(index * 7919) % 101 for index in range(7 * WEEKS)]
    found = [forecast_spend(seen(noise, left=left)).p50_grains for left in (1, 2, 3, 4, 5, 6, 7)]
    steps = [later - sooner for sooner, later in pairwise(found)]
    assert max(steps) - min(steps) <= 1


def test_an_outage_does_not_drag_and_a_change_for_good_does() -> None:
    outage = forecast_spend(seen([100] * 60 + [0] * 4 + [100] * 6))
    assert 0.88 < outage.p50_grains / (600 + 2000) < 1
    for_good = forecast_spend(seen([100] * 60 + [300] * 28))
    assert for_good.p50_grains > 0.8 * 9000


def test_the_spread_is_as_wide_as_the_past_was_wrong() -> None:
    calm = [100 + 10 * (index % 3) for index in range(90)]
    wild = [100 + 200 * (index // 9 % 2) for index in range(90)]
    widths = [
        found.p90_grains - found.p10_grains
        for found in (forecast_spend(seen(days)) for days in (calm, wild))
    ]
    assert 0 < 10 * widths[0] < widths[1]


def test_nothing_of_what_is_booked_is_forecast_away() -> None:
    wild = [10 + 2000 * (index // 9 % 2) for index in range(90)]
    found = forecast_spend(seen(wild, left=8))
    assert found.p10_grains == sum(wild[-10:]) < found.p50_grains


def test_a_short_past_is_no_reason_to_be_sure() -> None:
    found = forecast_spend(seen([100] * 10))
    assert found == SpendForecast(p10_grains=1000, p50_grains=3000, p90_grains=6000)


@given(
    st.lists(st.integers(0, 10**20), max_size=80),
    st.integers(0, 10**21),
    st.floats(0, 31),
    st.floats(0, 31),
    st.integers(0, 10**20),
)
def test_a_forecast_is_in_order_and_no_less_than_what_is_booked(
    days: list[int], booked: int, elapsed: float, left: float, pending: int
) -> None:
    given = SpendSeen(
        days=days, booked=booked, elapsed_days=elapsed, left_days=left, pending=pending
    )
    found = forecast_spend(given)
    assert round(float(booked)) <= found.p10_grains <= found.p50_grains <= found.p90_grains
    assert forecast_spend(given) == found


@pytest.mark.parametrize(
    ("work", "left_s", "hours"),
    [
        ({"ran_s": 0.0, "expected_s": 7200.0}, 1e6, 2.0),
        ({"ran_s": 1800.0, "expected_s": 7200.0}, 1e6, 1.5),
        ({"ran_s": 1800.0, "expected_s": 7200.0}, 3600.0, 1.0),
        ({"ran_s": 7200.0, "expected_s": 3600.0}, 1e6, 0.5),
        ({"ran_s": 7200.0, "expected_s": 7200.0}, 0.0, 0.0),
    ],
)
def test_what_runs_adds_what_is_left_of_it(
    work: dict[str, float], left_s: float, hours: float
) -> None:
    pending = PendingWork(nusd_per_hour=1000, **work)
    assert pending_grains([pending, pending], left_s) == 2 * 1000 * hours * 3_600_000


def test_who_used_half_of_a_time_limit_is_taken_to_do_so_again() -> None:
    assert expected_run_s(600.0, [(50.0, 100.0), (150.0, 300.0)]) == 300.0
    assert expected_run_s(600.0, []) == 300.0
    assert expected_run_s(600.0, [(500.0, 100.0)]) == 600.0
    old = [(1.0, 100.0)] * 10
    assert expected_run_s(600.0, old + [(100.0, 100.0)] * 50) == 600.0


def log(path: Path, *, days: int) -> Path:
    """Write a log of a job a day of two users, from a first of January on."""
    lines = ["; UnixStartTime: 852073200", "; TimeZoneString: Europe/Stockholm"]
    for day in range(days):
        for user, processors in ((1, 4), (2, 1 + day % 3)):
            fields = [day + 1, 86_400 * day, 60, 3600, processors, -1, -1, processors, 7200, -1]
            lines.append(" ".join(map(str, [*fields, 1, user, 1, 1, 1, -1, -1, -1])))
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def test_the_backtest_makes_forecasts_of_whole_months(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = log(tmp_path / "log.swf.gz", days=92)
    main(["--trace", str(path), "--json"])
    said = json.loads(capsys.readouterr().out)
    [every, users] = said["scores"]
    # Five days of three months; both users have some.
    assert (every["guesses"], users["guesses"]) == (15, 30)
    assert 0 < every["error"] < 5
    assert [each["false_a_month"] for each in said["alarms"]] == [0.0, 0.0, 0.0]
    assert [each["found"] for each in said["alarms"]] == [1.0, 1.0, 1.0]
    main(["--trace", str(path)])
    assert "users 1-20" in capsys.readouterr().out


def test_the_backtest_says_that_it_needs_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "NOT MEASURED" in capsys.readouterr().out
