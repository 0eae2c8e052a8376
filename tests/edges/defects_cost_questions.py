"""Planted defects of the questions that people ask of the ledger; see `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_STORE: Final = "tests/unit/test_ledger_store.py::"
_RULES: Final = "tests/unit/test_cost_rules.py::"

COST_QUESTIONS: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="what_is_taken_back_bears_idle_time",
        guard="Who is left with nothing after corrections pays for no idle time",
        file="dispatcher/cost/report.py",
        old="        if costs[name] <= 0:\n            continue\n",
        new="        if not costs[name]:\n            continue\n",
        test=f"{_RULES}test_idle_time_is_shared_by_what_work_cost_with_its_corrections",
    ),
    EdgeDefect(
        name="corrections_count_against_nobody",
        guard="A correction lowers the part of whose work it is about",
        file="dispatcher/cost/report.py",
        old="    lambda group: repr((group.project, group.user)),\n",
        new="",
        test=f"{_RULES}test_idle_time_is_shared_by_what_work_cost_with_its_corrections",
    ),
    EdgeDefect(
        name="a_question_may_be_of_the_year_1",
        guard="A question is of years that a calendar has with what is around",
        file="dispatcher/service/cost_periods.py",
        old="    if _YEAR.match(text) and not _YEARS[0] <= text[:4] <= _YEARS[1]:",
        new="    if _YEAR.match(text) and text[:4] > _YEARS[1]:",
        test=f"{_RULES}test_a_question_is_of_years_that_a_calendar_has_with_what_is_around",
    ),
    EdgeDefect(
        name="a_question_may_be_of_the_year_9999",
        guard="A question is of years that a calendar has with what is around",
        file="dispatcher/service/cost_periods.py",
        old='_YEARS: Final = ("1970", "9998")',
        new='_YEARS: Final = ("1970", "9999")',
        test=f"{_RULES}test_a_question_is_of_years_that_a_calendar_has_with_what_is_around",
    ),
    EdgeDefect(
        name="a_year_of_cost_is_too_much_for_a_sum",
        guard="A sum of amounts is exact, however many they are",
        file="dispatcher/store/ledger_groups.py",
        old="[func.sum(whole), func.sum(rest // _STEP), func.sum(rest % _STEP)]",
        new="[func.sum(whole), func.sum(rest) // _STEP, func.sum(rest) % _STEP]",
        test=f"{_STORE}test_sums_are_exact_where_their_parts_are_more_than_64_bits",
    ),
    EdgeDefect(
        name="the_sum_of_a_day_has_a_long_rest",
        guard="The sum of a day is kept as that of an hour is",
        file="dispatcher/store/ledger_groups.py",
        old="    return func.sum(whole) + rests // SPLIT, rests % SPLIT",
        new="    return func.sum(whole), rests",
        test=f"{_STORE}test_the_sum_of_a_day_carries_over",
    ),
)
