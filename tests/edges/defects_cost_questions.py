"""Planted defects of the questions that people ask of the ledger; see `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_STORE: Final = "tests/unit/test_ledger_store.py::"
_ASKED: Final = "tests/unit/test_cost_questions.py::"
_EXPORT: Final = "tests/unit/test_cost_export.py::"
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
    EdgeDefect(
        name="a_question_has_any_number_of_sums",
        guard="No more sums are read than a question may have",
        file="dispatcher/store/ledger_groups.py",
        old="            if left < 0:\n                raise TooManySums",
        new="            if left < -1:\n                raise TooManySums",
        test=f"{_ASKED}test_no_more_sums_are_read_than_asked_for",
    ),
    EdgeDefect(
        name="an_answer_has_any_number_of_rows",
        guard="An answer has so many rows at most",
        file="dispatcher/service/costs.py",
        old="        if len(rows) > ROWS_MOST:",
        new="        if len(rows) > SUMS_MOST:",
        test=f"{_ASKED}test_too_large_a_question_is_refused_with_the_remedy",
    ),
    EdgeDefect(
        name="any_number_of_sums_makes_an_answer",
        guard="A question is of so many sums at most",
        file="dispatcher/service/costs.py",
        old="            at_most=SUMS_MOST,\n",
        new="",
        test=f"{_ASKED}test_too_large_a_question_is_refused_with_the_remedy",
    ),
    EdgeDefect(
        name="the_loop_waits_for_a_page_of_cost",
        guard="A page is made in a thread",
        file="dispatcher/api/routes/cost.py",
        old="            answer = await asyncio.to_thread(\n                cost_answer,\n",
        new="            answer = cost_answer(\n",
        test=f"{_ASKED}test_a_page_is_made_in_a_thread_of_its_own",
    ),
    EdgeDefect(
        name="a_caller_has_all_turns",
        guard="A caller has one turn of the few",
        file="dispatcher/api/routes/turns.py",
        old="            async with own if caller != _NOBODY else nullcontext(), self._free:",
        new="            async with own if caller == _NOBODY else nullcontext(), self._free:",
        test=f"{_ASKED}test_a_caller_has_one_turn_of_the_few_and_the_others_wait",
    ),
    EdgeDefect(
        name="a_caller_waits_any_number_of_times",
        guard="So many questions of a caller wait",
        file="dispatcher/api/routes/turns.py",
        old="        if asked >= self._waiting:",
        new="        if asked > self._waiting:",
        test=f"{_ASKED}test_too_many_of_one_caller_are_refused_until_some_are_done",
    ),
    EdgeDefect(
        name="questions_of_cost_have_no_turns",
        guard="Questions of cost wait for their turn",
        file="dispatcher/api/routes/cost.py",
        old="        async with self._turns.turn(holder_of(request)):",
        new='        async with Turns(at_once=1, waiting=1, what="x").turn(holder_of(request)):',
        test=f"{_ASKED}test_questions_of_cost_have_turns",
    ),
    EdgeDefect(
        name="a_caller_has_all_exports",
        guard="A caller has one export of the few",
        file="dispatcher/api/routes/streams.py",
        old="        if caller and self._each is not None and own >= self._each:",
        new="        if caller and self._each is not None and own > self._each:",
        test=f"{_EXPORT}test_a_caller_has_one_export_at_a_time",
    ),
    EdgeDefect(
        name="a_file_without_lines_is_read_to_its_end",
        guard="A file is given up between days when nobody waits for it",
        file="dispatcher/service/cost_exports.py",
        old="            if not wanted():\n                raise Unwanted\n            end =",
        new="            end =",
        test=f"{_EXPORT}test_a_file_that_nobody_waits_for_is_given_up_before_its_next_day",
    ),
    EdgeDefect(
        name="who_hangs_up_has_its_file_made",
        guard="A file is wanted until its reader has gone or the server stops",
        file="dispatcher/api/routes/cost_files.py",
        old="        return not (self._gate.closing or gone(request))",
        new="        return not self._gate.closing",
        test=f"{_EXPORT}test_no_more_is_made_of_a_file_whose_reader_has_gone",
    ),
)
