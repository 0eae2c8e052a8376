"""What a period will likely have cost at its end, as p10, p50 and p90; pure, and without dice.

What is booked is known; the rest is guessed from two things. The first is the usual day: the mean
of three views of the last weeks (a mean in which the newest days count most, a median of days and
a median of weeks), since each of them is wrong in another way: one week of outage drags a mean, and
a median of days knows nothing of who works one day in three. Days of the week differ as far as the
past shows it beyond chance. Days before the use really began are left out. The second is what runs
and is queued, where it is more than the two usual days that are always there.

How wrong that may be is taken from how wrong it would have been: the same guess is made at each
day of the past for as many days as are left now, and its errors, sorted, are the spread. Where the
past is too short for so many days, errors over fewer days are scaled up. The straight line, which
takes what was booked so far for the pace of the whole period, is mostly further from the truth
(`benchmarks/forecast_backtest.py`), but where the two differ, nobody is sure: p10 to p90 has both.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean, median
from typing import Final

MOST_DAYS: Final = 182
"""How much of the past is looked at: what is older says nothing of the next weeks."""
_SEEN_DAYS: Final = 84
_MEAN_DECAY_DAYS: Final = 14.0
_MEDIAN_DECAY_DAYS: Final = 56.0
_WEEK: Final = 7
_USUAL_PENDING_DAYS: Final = 2.0
"""As much as usually runs and waits is in the usual days that follow already."""
_LEAST_ERRORS: Final = 28
_TAIL: Final = 0.05
_WIDENED: Final = 1.25
"""Errors of windows that overlap are fewer than they look, and the past is milder than the future:
so p10 and p90 are further out than a tenth of them."""
_GROWTH: Final = 0.75
"""Errors over twice the days are 2 ** 0.75 times as large: more than of days that are independent,
less than of days that are all wrong in the same way."""
_LEAST_ELAPSED_DAYS: Final = 0.25
"""So much of a period must be over for what was booked in it to say anything of its pace."""
_UNKNOWN_USE: Final = 0.5
_RECENT_ENDS: Final = 50
_OVERRUN: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendForecast:
    """What a period will likely have cost at its end, in grains (`money`)."""

    p10_grains: int
    p50_grains: int
    p90_grains: int

    def at_least(self, grains: int) -> SpendForecast:
        """Return it once so much is spent: none of it can be less any more."""
        return SpendForecast(
            p10_grains=max(grains, self.p10_grains),
            p50_grains=max(grains, self.p50_grains),
            p90_grains=max(grains, self.p90_grains),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendSeen:
    """What is known of some spending at a moment, in grains and days."""

    #: What each whole day before today has cost, the oldest first, none left out; at most
    #: `MOST_DAYS` of them are looked at.
    days: Sequence[int]
    #: In the period, up to now.
    booked: int
    #: How many days of the period are over, and how many are left, with their fractions.
    elapsed_days: float
    left_days: float
    #: What runs and is queued will likely add in the period (`pending_grains`).
    pending: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingWork:
    """Something that runs or is queued."""

    #: What it costs while it runs.
    nusd_per_hour: int
    #: How long it has run; 0 for what is queued.
    ran_s: float
    #: How long it will likely run in all (`expected_run_s`).
    expected_s: float


def forecast_spend(seen: SpendSeen) -> SpendForecast:
    """Return what the period will likely have cost at its end."""
    days = _since_use_began([float(each) for each in seen.days[-MOST_DAYS:]])
    has_pace = seen.elapsed_days >= _LEAST_ELAPSED_DAYS
    if not days and has_pace:
        days = [seen.booked / seen.elapsed_days]
    usual = _usual_day(days)
    rest = usual * _weight_of_days(days, seen.left_days)
    rest += max(0.0, seen.pending - usual * _USUAL_PENDING_DAYS)
    less, more = _errors(days, seen.left_days) or (-rest, rest + seen.booked)
    straight = float(seen.booked)
    if has_pace:
        straight *= 1.0 + seen.left_days / seen.elapsed_days
    likely = seen.booked + rest
    low = max(float(seen.booked), min(likely + less, straight))
    return SpendForecast(
        p10_grains=round(min(low, likely)),
        p50_grains=round(likely),
        p90_grains=round(max(likely + more, straight)),
    )


def expected_run_s(limit_s: float, past: Sequence[tuple[float, float]]) -> float:
    """Return how long something with a time limit will likely run.

    `past` has (how long it ran, its limit) of what the same people ran before, the newest last.
    """
    recent = past[-_RECENT_ENDS:]
    limits_s = sum(limit for _, limit in recent)
    used = sum(ran for ran, _ in recent) / limits_s if limits_s > 0 else _UNKNOWN_USE
    return limit_s * min(1.0, used)


def pending_grains(works: Sequence[PendingWork], left_s: float) -> int:
    """Return what runs and is queued will likely add within `left_s`.

    What has run longer than expected is taken to run on for a quarter of that.
    """
    total = 0
    for each in works:
        more_s = max(each.expected_s - each.ran_s, each.ran_s * _OVERRUN)
        total += each.nusd_per_hour * round(1000 * min(more_s, left_s))
    return total


def _since_use_began(days: list[float]) -> list[float]:
    """Return the days without the first ones, on which less than a quarter as usual was spent."""
    least = median(days[-_WEEK:]) / 4 if days else 0.0
    first = next((i for i, each in enumerate(days) if each > 0 and each >= least), 0)
    return days[first:]


def _usual_day(days: Sequence[float]) -> float:
    """Return what a day costs, as it looks after `days`; 0 where there are none."""
    recent = list(days[-_SEEN_DAYS:])
    if not recent:
        return 0.0
    centre = fmean(recent)
    factors = _weekday_factors(recent)
    # As if all days of the week were alike: or the median would be a working day.
    recent = [each - centre * (factors[at % _WEEK] - 1) for at, each in enumerate(recent)]
    ages = range(len(recent) - 1, -1, -1)
    weights = [math.exp(-age / _MEAN_DECAY_DAYS) for age in ages]
    mean = sum(map(operator.mul, weights, recent)) / sum(weights)
    slower = [math.exp(-age / _MEDIAN_DECAY_DAYS) for age in ages]
    views = (mean, _weighted_median(recent, slower), _usual_week(recent, slower))
    return max(0.0, fmean(views))


def _usual_week(recent: Sequence[float], weights: Sequence[float]) -> float:
    """Return the median of the weeks that end with each day, as an amount a day."""
    if len(recent) < 2 * _WEEK:
        return fmean(recent)
    sums = [0.0, *accumulate(recent)]
    weeks = [(b - a) / _WEEK for a, b in zip(sums, sums[_WEEK:], strict=False)]
    return _weighted_median(weeks, weights[_WEEK - 1 :])


def _weighted_median(values: Sequence[float], weights: Sequence[float]) -> float:
    ranked = sorted(zip(values, weights, strict=True))
    reached = list(accumulate(weight for _, weight in ranked))
    return ranked[bisect_left(reached, reached[-1] / 2)][0]


def _weight_of_days(days: Sequence[float], left_days: float) -> float:
    """Return how many usual days those that are left are worth, by their days of the week."""
    recent = days[-_SEEN_DAYS:]
    factors = _weekday_factors(recent)
    whole = math.floor(left_days)
    # The first is what is left of today, which is the day after the last of `days`.
    parts = [left_days - whole] * (left_days > whole) + [1.0] * whole
    return sum(part * factors[(len(recent) + ahead) % _WEEK] for ahead, part in enumerate(parts))


def _weekday_factors(recent: Sequence[float]) -> Sequence[float]:
    """Return what each day of the week is worth beside the usual day; the first is that of day 0.

    They are as far from 1 as the days of the week differ beyond what chance does (empirical Bayes).
    """
    even = [1.0] * _WEEK
    mean = fmean(recent) if recent else 0.0
    if len(recent) < 4 * _WEEK or mean <= 0:
        return even
    groups = [recent[weekday::_WEEK] for weekday in range(_WEEK)]
    means = [fmean(group) for group in groups]
    within = sum(
        (each - centre) ** 2 for group, centre in zip(groups, means, strict=True) for each in group
    ) / (len(recent) - _WEEK)
    between = sum((centre - mean) ** 2 for centre in means) / (_WEEK - 1)
    chance = within * _WEEK / len(recent)
    if between <= chance:
        return even
    trust = 1 - chance / between
    factors = [1 + trust * (centre / mean - 1) for centre in means]
    return [each * _WEEK / sum(factors) for each in factors]


def _errors(days: Sequence[float], left_days: float) -> tuple[float, float] | None:
    """Return by how much less (0 or below) and more may come than guessed.

    None where the past is too short to tell.
    """
    span = min(max(1, round(left_days)), len(days) - _WEEK - _LEAST_ERRORS + 1)
    if span < 1:
        return None
    sums = [0.0, *accumulate(days)]
    found = sorted(
        sums[at + span] - sums[at] - span * _usual_day(days[:at])
        for at in range(_WEEK, len(days) - span + 1)
    )
    scale = _WIDENED * (left_days / span) ** _GROWTH
    tail = math.floor(_TAIL * len(found))
    return min(0.0, found[tail] * scale), max(0.0, found[-1 - tail] * scale)
