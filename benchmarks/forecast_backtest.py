"""How near forecasts of a month come to what it cost, and how often a day is called unusual.

A log of the Parallel Workloads Archive (SWF, gzipped) is taken for the bill: a processor costs a
dollar an hour. In each whole calendar month of it a forecast is made at the end of days 5, 10, 15,
20 and 25, from what was known then and no more, beside the straight line (what was booked so far,
for the whole month at that pace). That is done for all users together, for each of the 20 that
spent most, and for each of the next 40, in the months in which they spent anything. An error is
relative to what the month cost; covered is what ends between p10 and p90.

Then each user is taken for a project, and each of their days that is called unusual for a false
alarm, since the log knows of no incident. To each eleventh day 500 USD are added: found is how many
of these are called unusual then.

    python benchmarks/forecast_backtest.py --trace KTH-SP2-1996-2.swf.gz [--json]

The goal is a median error below the straight line's in all three groups, and p10 to p90 around at
least 70 % of the truths; the command exits 1 when a run misses it. Without a trace it says that it
did nothing.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from longshore.dispatcher.cost.anomalies import unusual_day
from longshore.dispatcher.cost.forecast import (
    PendingWork,
    SpendForecast,
    SpendSeen,
    expected_run_s,
    forecast_spend,
    pending_grains,
)
from longshore.dispatcher.cost.money import GRAINS_PER_USD
from longshore.dispatcher.domain.periods import Period, PeriodKind, days_of, period_at

ASKED_ON: Final = (5, 10, 15, 20, 25)
NUSD_PER_HOUR: Final = 10**9
UNUSUAL_LEAST_USD: Final = (0, 50, 200)
PLANTED_USD: Final = 500
_PLANTED_FROM, _PLANTED_EACH = 35, 11
LEAST_COVERED: Final = 0.7
_BEGAN: Final = re.compile(r"^; *UnixStartTime: *(\d+)", re.MULTILINE)
_ZONE: Final = re.compile(r"^; *TimeZoneString: *(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedJob:
    """One job of a log; times in seconds since the epoch."""

    submitted_at: float
    started_at: float
    ended_at: float
    processors: int
    limit_s: float
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What some jobs cost each day, in grains; `jobs` are by their end."""

    days: Sequence[Period]
    spent: Sequence[int]
    jobs: Sequence[LoggedJob]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """One forecast, with what came of it, in grains."""

    day: int
    forecast: SpendForecast
    straight: float
    truth: int

    @property
    def error(self) -> float:
        """Return how far p50 was from the truth, as a part of it."""
        return abs(self.forecast.p50_grains - self.truth) / self.truth

    @property
    def straight_error(self) -> float:
        """Return the same of the straight line."""
        return abs(self.straight - self.truth) / self.truth

    @property
    def is_covered(self) -> bool:
        """Return whether the truth was between p10 and p90."""
        return self.forecast.p10_grains <= self.truth <= self.forecast.p90_grains


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The forecasts of a group; errors in per cent, medians."""

    group: str
    guesses: int
    error: float
    straight_error: float
    covered: float
    error_by_day: Mapping[int, float]
    straight_by_day: Mapping[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarms:
    """Days of one project that are called unusual."""

    false: int
    planted: int
    found: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRate:
    """How often that is, a project and month, and the share of the planted days that is found."""

    least_usd: int
    false_a_month: float
    found: float


def read_log(path: Path) -> tuple[list[LoggedJob], str]:
    """Return the jobs of a log that ran, by their end, and the time zone that it names."""
    text = gzip.decompress(path.read_bytes()).decode()
    began, zone = _BEGAN.search(text), _ZONE.search(text)
    start = float(began[1]) if began else 0.0
    jobs = [
        _job([float(each) for each in line.split()], start)
        for line in text.splitlines()
        if line.strip() and not line.startswith(";")
    ]
    ran = [each for each in jobs if each.ended_at > each.started_at and each.processors > 0]
    return sorted(ran, key=lambda each: each.ended_at), zone[1] if zone else "UTC"


def _job(fields: Sequence[float], start: float) -> LoggedJob:
    submitted_at = start + fields[1]
    started_at = submitted_at + max(0.0, fields[2])
    return LoggedJob(
        submitted_at=submitted_at,
        started_at=started_at,
        ended_at=started_at + fields[3],
        processors=int(fields[4]),
        limit_s=max(60.0, fields[8], fields[3] if fields[8] <= 0 else 0.0),
        user=str(int(fields[11])),
    )


def bill_of(jobs: Sequence[LoggedJob], days: Sequence[Period]) -> Bill:
    """Return what jobs cost on each of some days that follow each other."""
    starts = [each.starts_at for each in days]
    spent = [0] * len(days)
    for job in jobs:
        index = max(0, bisect_right(starts, job.started_at) - 1)
        while index < len(days) and starts[index] < job.ended_at:
            day = days[index]
            ran_s = min(job.ended_at, day.ends_at) - max(job.started_at, day.starts_at)
            spent[index] += round(1000 * max(0.0, ran_s)) * job.processors * NUSD_PER_HOUR
            index += 1
    return Bill(days=days, spent=spent, jobs=jobs)


def guesses_of(bill: Bill, months: Sequence[tuple[int, int]]) -> Iterator[Guess]:
    """Yield the forecasts of months, each from the index of its first day to before the last."""
    sums = [0, *accumulate(bill.spent)]
    ends = [each.ended_at for each in bill.jobs]
    for first, end in months:
        truth = sums[end] - sums[first]
        for day in ASKED_ON if truth > 0 else ():
            at = first + day
            booked = sums[at] - sums[first]
            left_s = bill.days[end - 1].ends_at - bill.days[at].starts_at
            seen = SpendSeen(
                days=bill.spent[:at],
                booked=booked,
                elapsed_days=day,
                left_days=end - at,
                pending=_pending(bill.jobs, ends, bill.days[at].starts_at, left_s),
            )
            straight = booked * (end - first) / day
            forecast = forecast_spend(seen)
            yield Guess(day=day, forecast=forecast, straight=straight, truth=truth)


def _pending(jobs: Sequence[LoggedJob], ends: Sequence[float], now: float, left_s: float) -> int:
    """Return what ran and was queued then will likely add, of what was known then."""
    over = bisect_right(ends, now)
    past = [(each.ended_at - each.started_at, each.limit_s) for each in jobs[:over]]
    works = [
        PendingWork(
            nusd_per_hour=each.processors * NUSD_PER_HOUR,
            ran_s=max(0.0, now - each.started_at),
            expected_s=expected_run_s(each.limit_s, past),
        )
        for each in jobs[over:]
        if each.submitted_at < now
    ]
    return pending_grains(works, left_s)


def score_of(group: str, guesses: Sequence[Guess]) -> Score:
    """Return how good the forecasts of a group are."""
    by_day = {day: [each for each in guesses if each.day == day] for day in ASKED_ON}
    return Score(
        group=group,
        guesses=len(guesses),
        error=100 * median(each.error for each in guesses),
        straight_error=100 * median(each.straight_error for each in guesses),
        covered=sum(each.is_covered for each in guesses) / len(guesses),
        error_by_day={d: 100 * median(g.error for g in found) for d, found in by_day.items()},
        straight_by_day={
            d: 100 * median(g.straight_error for g in found) for d, found in by_day.items()
        },
    )


def months_of(days: Sequence[Period], zone: str) -> list[tuple[int, int]]:
    """Return the months of which all but the last few days are there, as indices of days.

    The last may end with the log, if its 25th day is there.
    """
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(days):
        month = period_at(PeriodKind.MONTH, zone, days[at].starts_at)
        end = bisect_right([each.starts_at for each in days], month.ends_at - 1)
        if days[at].starts_at == month.starts_at and end - at > max(ASKED_ON):
            found.append((at, end))
        at = end
    return found


def alarms_of(bill: Bill, least_usd: int) -> Alarms:
    """Return which days of a bill are called unusual, from its first day with spending on."""
    first = next(index for index, each in enumerate(bill.spent) if each)
    spent, days = bill.spent[first:], bill.days[first:]

    def is_unusual(at: int, more_usd: int) -> bool:
        cost = spent[at] + more_usd * GRAINS_PER_USD
        least = least_usd * GRAINS_PER_USD
        return unusual_day("", days[at], cost, spent[:at], least_grains=least) is not None

    planted = range(_PLANTED_FROM, len(days), _PLANTED_EACH)
    return Alarms(
        false=sum(is_unusual(at, 0) for at in range(len(days))),
        planted=len(planted),
        found=sum(is_unusual(at, PLANTED_USD) for at in planted),
    )


def alarm_rates(bills: Sequence[Bill]) -> list[AlarmRate]:
    """Return how often days are called unusual, for each of the least amounts."""
    project_months = sum(len(each.days) for each in bills) * 12 / 365.25
    rates: list[AlarmRate] = []
    for least in UNUSUAL_LEAST_USD:
        found = [alarms_of(bill, least) for bill in bills]
        rates.append(
            AlarmRate(
                least_usd=least,
                false_a_month=sum(each.false for each in found) / project_months,
                found=sum(each.found for each in found) / sum(each.planted for each in found),
            )
        )
    return rates


def measure(path: Path) -> tuple[list[Score], list[AlarmRate]]:
    """Return the scores of a log by group, and how often days are called unusual."""
    jobs, zone = read_log(path)
    days = days_of(zone, min(each.started_at for each in jobs), jobs[-1].ended_at)
    # The last day is not over.
    days, months = days[:-1], months_of(days[:-1], zone)
    by_user: dict[str, list[LoggedJob]] = defaultdict(list)
    for each in jobs:
        by_user[each.user].append(each)
    bills = [bill_of(by_user[user], days) for user in sorted(by_user)]
    bills = sorted((b for b in bills if any(b.spent)), key=lambda b: -sum(b.spent))
    groups = {
        "all": [bill_of(jobs, days)],
        "users 1-20": bills[:20],
        "users 21-60": bills[20:60],
    }
    guesses = {
        name: [guess for bill in some for guess in guesses_of(bill, months)]
        for name, some in groups.items()
    }
    scores = [score_of(name, found) for name, found in guesses.items() if found]
    return scores, alarm_rates(bills)


def show(scores: Sequence[Score], alarms: Sequence[AlarmRate]) -> None:
    """Print the tables."""
    print("group        forecasts  error %  straight %  covered   error % on days (straight %)")
    for each in scores:
        by_day = "  ".join(
            f"{day}: {each.error_by_day[day]:.1f} ({each.straight_by_day[day]:.1f})"
            for day in ASKED_ON
        )
        print(
            f"{each.group:11}  {each.guesses:9}  {each.error:7.1f}  {each.straight_error:10.1f}"
            f"  {100 * each.covered:5.0f} %   {by_day}"
        )
    for rate in alarms:
        print(
            f"unusual days, at least {rate.least_usd:3} USD above the usual:"
            f" {rate.false_a_month:.2f} false a project and month, {100 * rate.found:.0f} % found"
        )


def main(arguments: Sequence[str]) -> int:
    """Measure, print the tables, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, help="a log, as .swf.gz")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if options.trace is None:
        print("NOT MEASURED: name a log with --trace, such as that of the KTH (SWF, gzipped)")
        return 0
    scores, alarms = measure(options.trace)
    if options.json:
        said = {"scores": list(map(asdict, scores)), "alarms": list(map(asdict, alarms))}
        print(json.dumps(said))
    else:
        show(scores, alarms)
    good = all(e.error < e.straight_error and e.covered >= LEAST_COVERED for e in scores)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
