"""What work may come to before it runs: from what such work came to before, or its limits; pure.

Work is of a kind: whose it is, its name, and what it asks for. A run of it is one container, from
its first attempt to the end of its last, and it costs what all of its attempts did, also those that
came to nothing. From `ENOUGH_RUNS` of them on they tell the next: of one container the median and
the 90th percentile of theirs, each of which is the cost of a run that there was.

The costs of n containers add up. Quantiles do not, but means and variances of what is independent
do. The mean itself is known from k runs only: where the next n are added up, the error of n times
that mean is n standard deviations over the root of k. So a sum has the variance s^2 * (n + n^2/k),
summed over the kinds, and is taken for normal: its median is its mean, its 90th percentile 1.28
standard deviations above. That holds the better the more there are of it. Of few whose costs are
far apart the median is told too high, and what makes all of them dear at once is not in it.

Fewer runs tell nothing. Then the time limit bounds it: so long on the instance type that it would
go to, once for each attempt that it may have. Without one nobody knows. Nothing is ever estimated
to cost 0: a price of 0 is none, and amounts are rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Final, assert_never

from longshore.drivers.interface import Resources

ENOUGH_RUNS: Final = 20
HISTORY_S: Final = 90 * 86_400.0
"""How far back what has ended tells what comes."""
_Z90: Final = Decimal("1.2815515655446")
_PLACES: Final = Decimal("0.00000001")
_DAY_S: Final = 86_400.0
_HOUR_S: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkKind:
    """What is counted together."""

    user: str
    #: Of its job, or its own where it is of none; "" for none.
    job_name: str
    #: "" where it is of no job, or of one whose only task has no name.
    task: str
    asked: Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRuns:
    """What ended containers of one kind came to, with all of their attempts."""

    #: Each more than 0.
    costs_usd: tuple[Decimal, ...] = ()
    #: When the first of them ended, in seconds since the epoch; 0 where there are none.
    since: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBound:
    """What one container can come to at most, by its time limit."""

    time_limit_s: float
    #: How many attempts it may have.
    attempts: int
    #: What an hour of its share costs on the dearest type that it may go to, more than 0.
    usd_per_hour: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbounded:
    """Why nothing bounds what a container comes to, in a sentence that names the remedy."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """So many containers of one kind."""

    name: str
    number: int
    past: PastRuns
    bound: TimeBound | Unbounded


@dataclass(frozen=True, slots=True, kw_only=True)
class FromRuns:
    """An estimate from what ran before."""

    p50_usd: Decimal
    p90_usd: Decimal
    #: Of the kind of which there are fewest, and since when any of those that count ended.
    runs: int
    days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AtMost:
    """An upper bound, from time limits; what ran before counts with its 90th percentile."""

    usd: Decimal
    #: The longest, and how many attempts one may have.
    time_limit_s: float
    attempts: int
    #: How many containers, of all, are bounded so.
    bounded: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Nobody knows, and why."""

    why: str


CostEstimate = FromRuns | AtMost | Unknown
"""What work may come to."""


def estimated_cost(parts: Sequence[Work], now: float) -> CostEstimate:
    """Return what the containers of `parts` come to together; `now` is in seconds."""
    there = [part for part in parts if part.number]
    if not there:
        return Unknown(why="nobody knows how many containers it will have")
    told = [part for part in there if len(part.past.costs_usd) >= ENOUGH_RUNS]
    ceilings: list[tuple[int, TimeBound]] = []
    for part in there:
        match part.bound:
            case _ if len(part.past.costs_usd) >= ENOUGH_RUNS:
                pass
            case TimeBound():
                ceilings.append((part.number, part.bound))
            case Unbounded():
                return Unknown(why=_of_task(part, part.bound.why))
            case unknown:
                assert_never(unknown)
    if not ceilings:
        return _from_runs(told, now)
    usd = sum((number * _usd(bound) for number, bound in ceilings), Decimal(0))
    return AtMost(
        usd=_up(usd + (_from_runs(told, now).p90_usd if told else 0)),
        time_limit_s=max(bound.time_limit_s for _, bound in ceilings),
        attempts=max(bound.attempts for _, bound in ceilings),
        bounded=sum(number for number, _ in ceilings),
        of=sum(part.number for part in there),
    )


def quantile(costs: Sequence[Decimal], part: float) -> Decimal:
    """Return the least of some costs that so many of them, `part` of all, do not exceed."""
    return sorted(costs)[math.ceil(part * len(costs)) - 1]


def basis(of: CostEstimate) -> str:
    """Return what an estimate rests on, as people read it."""
    match of:
        case FromRuns():
            span = "the last day" if of.days == 1 else f"the last {of.days} days"
            return f"from {of.runs} runs of {span}"
        case AtMost():
            tries = f", {of.attempts} attempts" if of.attempts > 1 else ""
            some = f" of {of.bounded} of {of.of} containers" if of.bounded < of.of else ""
            return (
                f"upper bound: time limit {span_in_words(of.time_limit_s)}{tries}{some};"
                " what is lost with an instance, and fetching images, comes on top"
            )
        case Unknown():
            return of.why
        case unknown:
            assert_never(unknown)


def span_in_words(seconds: float) -> str:
    """Return a span in its two largest units: "2h", "1h 30m", "45s"."""
    left, words = math.ceil(seconds), []
    for unit, unit_s in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        number, left = divmod(left, unit_s)
        if number:
            words.append(f"{number}{unit}")
    return " ".join(words[:2])


def _from_runs(parts: Sequence[Work], now: float) -> FromRuns:
    """Return the estimate of containers of all of which enough ran before."""
    pasts = [part.past for part in parts]
    if sum(part.number for part in parts) == 1:
        p50, p90 = (quantile(pasts[0].costs_usd, part) for part in (0.5, 0.9))
    else:
        p50 = sum((part.number * _mean(part.past.costs_usd) for part in parts), Decimal(0))
        p90 = p50 + _Z90 * sum(map(_variance_of_sum, parts), Decimal(0)).sqrt()
    return FromRuns(
        p50_usd=_up(p50),
        p90_usd=_up(p90),
        runs=min(len(past.costs_usd) for past in pasts),
        days=max(1, math.ceil((now - min(past.since for past in pasts)) / _DAY_S)),
    )


def _variance_of_sum(part: Work) -> Decimal:
    costs, number = part.past.costs_usd, part.number
    mean, count = _mean(costs), len(costs)
    variance = sum(((each - mean) ** 2 for each in costs), Decimal(0)) / (count - 1)
    return variance * (number + Decimal(number * number) / count)


def _mean(costs: Sequence[Decimal]) -> Decimal:
    return sum(costs, Decimal(0)) / len(costs)


def _usd(bound: TimeBound) -> Decimal:
    hours = Decimal(str(bound.time_limit_s)) / _HOUR_S
    return hours * bound.attempts * bound.usd_per_hour


def _of_task(part: Work, why: str) -> str:
    return f"task {part.name}: {why}" if part.name else why


def _up(usd: Decimal) -> Decimal:
    """Return an amount with as many places as are answered: what is finer is rounded up."""
    return usd.quantize(_PLACES, rounding=ROUND_CEILING)
