"""Planted defects of estimates and of what has been spent so far; what they are is in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_TEST = "tests/unit/test_estimates.py"

ESTIMATES: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="a_few_runs_tell_the_next",
        guard="Too few runs tell nothing",
        file="dispatcher/cost/estimate.py",
        old="ENOUGH_RUNS: Final = 20",
        new="ENOUGH_RUNS: Final = 2",
        test=f"{_TEST}::test_too_few_runs_leave_the_time_limit",
    ),
    EdgeDefect(
        name="an_estimate_may_be_0",
        guard="What is too small to be told is rounded up",
        file="dispatcher/cost/estimate.py",
        old="rounding=ROUND_CEILING",
        new='rounding="ROUND_FLOOR"',
        test=f"{_TEST}::test_what_is_too_small_to_be_told_is_rounded_up",
    ),
    EdgeDefect(
        name="a_bound_forgets_retries",
        guard="Each attempt that a container may have is bounded",
        file="dispatcher/service/estimates.py",
        old="attempts=1 + spec.retries.most",
        new="attempts=1",
        test=f"{_TEST}::test_a_plan_is_bounded_by_its_time_limit",
    ),
    EdgeDefect(
        name="quantiles_are_added_up",
        guard="The spread of a sum is less than the sum of spreads",
        file="dispatcher/cost/estimate.py",
        old="(number + Decimal(number * number) / count)",
        new="number * number",
        test=f"{_TEST}::test_many_containers_add_up_and_their_spread_does_not",
    ),
    EdgeDefect(
        name="the_mean_is_known_exactly",
        guard="The error of the mean is part of the spread",
        file="dispatcher/cost/estimate.py",
        old="(number + Decimal(number * number) / count)",
        new="number",
        test=f"{_TEST}::test_many_containers_add_up_and_their_spread_does_not",
    ),
    EdgeDefect(
        name="what_was_cancelled_tells_what_a_run_takes",
        guard="What was cancelled is no run",
        file="dispatcher/store/past_runs.py",
        old="(ContainerState.SUCCEEDED.value, ContainerState.FAILED.value)",
        new='(*(s.value for s in ContainerState if s.final), "")',
        test=f"{_TEST}::test_only_such_runs_count_that_ended_and_cost_something",
    ),
    EdgeDefect(
        name="others_runs_are_told",
        guard="A user is told of its own runs",
        file="dispatcher/store/past_runs.py",
        old="            intervals.c.user == kind.user,\n",
        new="",
        test=f"{_TEST}::test_only_such_runs_count_that_ended_and_cost_something",
    ),
    EdgeDefect(
        name="all_of_the_history_is_read",
        guard="At so many runs is looked",
        file="dispatcher/store/past_runs.py",
        old="        .limit(MOST_LOOKED_AT)\n",
        new="",
        test=f"{_TEST}::test_the_latest_count_and_none_from_before",
    ),
)
