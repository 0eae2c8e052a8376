"""Planted defects of estimates and of what has been spent so far; what they are is in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_TEST = "tests/unit/test_estimates.py"
_SPENT = "tests/unit/test_spent.py"
_SUCCESSES = "tests/unit/test_cost_successes.py"

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
        name="a_bound_is_of_what_is_bought",
        guard="A bound counts with the room of instances that are there, however dear",
        file="dispatcher/explain/efficiency.py",
        old="{type_.name for type_ in bought} | set(there)",
        new="{type_.name for type_ in bought}",
        test=f"{_TEST}::test_a_bound_is_the_dearest_type_that_it_may_go_to",
    ),
    EdgeDefect(
        name="a_bound_is_of_the_cheapest",
        guard="A bound counts with the dearest type that may be bought",
        file="dispatcher/explain/efficiency.py",
        old="max(costs) if min(costs) > 0",
        new="min(costs) if min(costs) > 0",
        test=f"{_TEST}::test_a_bound_is_the_dearest_type_that_it_may_go_to",
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
    EdgeDefect(
        name="what_else_is_there_changes_no_cost",
        guard="The facts of an attempt are all of its instance meanwhile",
        file="dispatcher/store/spent_records.py",
        old="            intervals.c.instance_id == instance_id,\n",
        new="            intervals.c.instance_id == instance_id,\n"
        '            intervals.c.holder.in_(["", *(each.holder for each in there)]),\n',
        test=f"{_SPENT}::test_a_crowded_instance_costs_each_less_than_its_share",
    ),
    EdgeDefect(
        name="all_of_a_busy_instance_is_read",
        guard="Of a busy instance nobody knows",
        file="dispatcher/store/spent_records.py",
        old="        if len(found) > most:\n            return None\n",
        new="",
        test=f"{_SPENT}::test_where_too_much_else_was_there_nobody_knows",
    ),
    EdgeDefect(
        name="who_waits_pays_for_sums",
        guard="Costs are reckoned for who asks",
        file="dispatcher/api/routes/containers.py",
        old="        if with_costs:\n",
        new="        if with_costs or True:\n",
        test=f"{_SPENT}::test_costs_are_told_only_where_they_are_asked_for",
    ),
    EdgeDefect(
        name="others_successes_are_told",
        guard="Only successes that a caller sees are counted",
        file="dispatcher/cost/report.py",
        old="if seen.sees(each) and all(values[d]",
        new="if all(values[d]",
        test=f"{_SUCCESSES}::test_successes_of_others_are_not_told",
    ),
    EdgeDefect(
        name="a_failure_is_a_success",
        guard="Only what succeeded is a success",
        file="dispatcher/store/past_runs.py",
        old="        .where(SUCCEEDED)\n",
        new='        .where(intervals.c.holder != "")\n',
        test=f"{_SUCCESSES}::test_a_success_costs_all_that_was_spent_on_it",
    ),
    EdgeDefect(
        name="successes_are_those_of_all_types",
        guard="Rows of types tell nothing of success",
        file="dispatcher/cost/report.py",
        old='return "job" in by and _WHOSE.keys() >= {*by, *only}',
        new='return "job" in by',
        test=f"{_SUCCESSES}::test_only_rows_that_are_of_work_count",
    ),
)
