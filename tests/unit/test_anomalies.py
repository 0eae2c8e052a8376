"""Which days of a project are unusual."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from longshore.dispatcher.cost.anomalies import UnusualDay, unusual_day
from longshore.dispatcher.cost.money import GRAINS_PER_USD
from longshore.dispatcher.domain.periods import PeriodKind, period_at

DAY = period_at(PeriodKind.DAY, "UTC", 1_795_824_000.0)
# The weekend sleeps; day 0 is six weeks before `DAY`.
WEEK = [30, 35, 25, 30, 40, 0, 0]
PAST = WEEK * 6


def found(spent: int, before: Sequence[int], *, least: int = 10) -> UnusualDay | None:
    return unusual_day(
        "vision",
        DAY,
        spent * GRAINS_PER_USD,
        [each * GRAINS_PER_USD for each in before],
        least_grains=least * GRAINS_PER_USD,
    )


# As much beside the median of its Mondays (30) as this: their MAD is 5.
UNEVEN = [[30], [25], [35], [40], [25], [30], [36], [30]]
MONDAYS = [each for week in UNEVEN for each in (*week, 0, 0, 0, 0, 0, 0)]


@pytest.mark.parametrize(
    ("spent", "before", "least", "is_unusual"),
    [
        (49, MONDAYS, 10, False),
        (50, MONDAYS, 10, False),
        (51, MONDAYS, 10, True),
        (51, MONDAYS, 21, True),
        (51, MONDAYS, 22, False),
        (51, PAST, 10, True),
        (40, PAST, 5, False),
        (12, [*PAST, 30, 35, 25, 30, 40], 10, False),
        (45, [*PAST, 30, 35, 25, 30, 40], 10, True),
        (51, [*PAST[:-1], 51], 10, False),
        (51, [51, *[0] * 20, *PAST], 10, True),
        (500, WEEK * 3, 10, False),
        (500, WEEK * 4, 10, True),
        (500, [], 10, False),
    ],
    ids=[
        *("below four deviations", "at four", "above four", "at least above", "less than at least"),
        *("even Mondays", "as a day lately", "on a quiet day", "much on a quiet day"),
        *("as yesterday", "as weeks ago", "three weeks", "four weeks", "no past"),
    ],
)
def test_a_day_is_unusual_far_above_its_like(
    spent: int, before: Sequence[int], least: int, is_unusual: bool
) -> None:
    assert (found(spent, before, least=least) is not None) is is_unusual


def test_the_sentence_says_what_is_usual() -> None:
    told = found(412, PAST)
    assert told is not None
    assert told.sentence == (
        "Project vision cost 412.00 USD on 2026-11-28, where 30.00 USD are usual on that day of the"
        " week (the median of the last 6): look at what ran then by user and job."
    )
    assert (told.usual_grains, told.day) == (30 * GRAINS_PER_USD, "2026-11-28")
