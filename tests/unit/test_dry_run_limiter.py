"""Plans come one after the other, and leave the event loop to others in between."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Generator
from decimal import Decimal

import pytest

from longshore.dispatcher.scheduler.system.dry_run_counts import Counts
from longshore.dispatcher.service.contracts import Unavailable
from longshore.dispatcher.service.dry_run_limiter import AT_ONCE, DryRunLimiter
from longshore.dispatcher.service.dry_run_model import JobPlan

PLAN = JobPlan(
    counts=Counts(),
    creates=(),
    least_usd_per_hour=Decimal(0),
    most_usd_per_hour=Decimal(0),
    waiting=(),
    steps=(),
    steps_left_out=0,
)
LONG_S = 0.02


def in_parts(*parts: Callable[[], object]) -> Callable[[], Generator[None, None, JobPlan]]:
    """Return what begins a plan that is made in these parts."""

    def make() -> Generator[None, None, JobPlan]:
        for number, part in enumerate(parts):
            if number:
                yield
            part()
        return PLAN

    return make


async def test_after_a_plan_nobody_plans_for_four_times_as_long_as_it_took() -> None:
    turns, began = DryRunLimiter(), []

    def long() -> None:
        began.append(time.monotonic())
        time.sleep(LONG_S)

    made = (turns.plan(in_parts(long, long)) for _ in range(2))
    assert await asyncio.gather(*made) == [PLAN] * 2
    assert len(began) == 4
    assert all(b - a >= 4.9 * LONG_S for a, b in itertools.pairwise(began))


async def test_of_many_plans_at_once_some_are_refused_and_a_failed_one_keeps_nobody_out() -> None:
    turns = DryRunLimiter()

    def fail() -> None:
        raise LookupError

    wrong, right = in_parts(fail), in_parts(lambda: None)
    many = [turns.plan(wrong) for _ in range(AT_ONCE)]
    found = await asyncio.gather(*many, turns.plan(right), return_exceptions=True)
    assert [type(each) for each in found] == [LookupError] * AT_ONCE + [Unavailable]
    with pytest.raises(LookupError):
        await turns.plan(wrong)
    assert await turns.plan(right) is PLAN
