"""Planted defects of what the dashboard's views of cost ask for; what they are is in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_TESTS = "tests/unit/test_cost_views.py::"
_WHO = f"{_TESTS}test_who_looks_ahead_sees_no_more_than_of_cost"
_FORECAST = "dispatcher/cost/month_forecast.py"
_RUNS = "dispatcher/domain/ended_runs.py"

COST_VIEWS: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="a_forecast_adds_up_what_others_spent",
        guard="Who looks ahead is told of what they see of cost, and no more",
        file=_FORECAST,
        old="for group, total in totals.items() if seen.sees(group))",
        new="for _, total in totals.items() if seen)",
        test=_WHO,
    ),
    EdgeDefect(
        name="a_forecast_counts_what_others_run",
        guard="Who looks ahead is told of their own running work",
        file=_FORECAST,
        old="[each for each in works if seen.sees(each.account)]",
        new="list(works)",
        test=_WHO,
    ),
    EdgeDefect(
        name="a_user_is_told_of_the_runs_of_others",
        guard="A user is told of their own ended runs alone",
        file="dispatcher/service/ended_runs.py",
        old="            which = replace(which, user=caller.user)",
        new="            which = replace(which)",
        test=f"{_TESTS}test_who_asks_for_ended_runs_is_told_of_its_own",
    ),
    EdgeDefect(
        name="a_lead_is_told_of_the_runs_of_all_projects",
        guard="A lead is told of ended runs of its projects alone",
        file="dispatcher/service/ended_runs.py",
        old="        which = replace(which, projects=seen_projects(caller))",
        new="        assert seen_projects(caller) != ('',)",
        test=f"{_TESTS}test_who_asks_for_ended_runs_is_told_of_its_own",
    ),
    EdgeDefect(
        name="runs_of_other_times_are_told",
        guard="Ended runs are those of the time that is asked for",
        file="dispatcher/store/ended_run_reader.py",
        old="containers.c.finished_at < which.until",
        new="containers.c.finished_at < which.until + 1e12",
        test=f"{_TESTS}test_the_dearest_runs_come_first_with_how_long_they_waited",
    ),
    EdgeDefect(
        name="free_runs_are_among_the_dearest",
        guard="What cost nothing is none of the dearest",
        file=_RUNS,
        old="    return [run for run in ranked[:DEAREST] if run.cost_usd > 0]",
        new="    return ranked[:DEAREST]",
        test=f"{_TESTS}test_few_are_the_dearest_and_what_cost_nothing_is_none_of_them",
    ),
    EdgeDefect(
        name="runs_without_a_place_waited_for_none",
        guard="Who never had a place counts in no wait",
        file=_RUNS,
        old="        if run.waited_s is not None:",
        new="        if run.container_id:",
        test=f"{_TESTS}test_waits_are_of_those_that_had_a_place",
    ),
    EdgeDefect(
        name="a_price_of_tomorrow_is_in_force",
        guard="A price holds from its time on",
        file="dispatcher/cost/prices.py",
        old="            begun = [row for row in rows if row.valid_from_ms <= at_ms]",
        new="            begun = list(rows)",
        test=f"{_TESTS}test_the_price_in_force_is_of_the_best_source_and_its_latest",
    ),
)
