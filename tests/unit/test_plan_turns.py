"""Plans come one after the other, and leave the event loop to others in between."""

from __future__ import annotations

import asyncio
import itertools
import time
from decimal import Decimal

import pytest

from dispatcher.api.backend import Unavailable
from dispatcher.desk.plan_turns import AT_ONCE, PlanTurns
from dispatcher.jobs.plan import JobPlan
from dispatcher.planner.per_instance_counts import Counts

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


async def test_after_a_plan_nobody_plans_for_four_times_as_long_as_it_took() -> None:
    turns, began = PlanTurns(), []

    def long() -> JobPlan:
        began.append(time.monotonic())
        time.sleep(LONG_S)
        return PLAN

    assert await asyncio.gather(*(turns.plan(long) for _ in range(3))) == [PLAN] * 3
    assert all(b - a >= 4.9 * LONG_S for a, b in itertools.pairwise(began))


async def test_of_many_plans_at_once_some_are_refused_and_a_failed_one_keeps_nobody_out() -> None:
    turns = PlanTurns()

    def wrong() -> JobPlan:
        raise LookupError

    many = [turns.plan(wrong) for _ in range(AT_ONCE)]
    found = await asyncio.gather(*many, turns.plan(lambda: PLAN), return_exceptions=True)
    assert [type(each) for each in found] == [LookupError] * AT_ONCE + [Unavailable]
    with pytest.raises(LookupError):
        await turns.plan(wrong)
    assert await turns.plan(lambda: PLAN) is PLAN
