"""Planted defects of what is told of an instance late; what they are is in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_RECORDER = "dispatcher/state/cost_recorder.py"
_WORDS = "tests/unit/test_cost_late_words.py"
_ANSWERS = "tests/unit/test_cost_answers.py"
_BOOKED = "tests/unit/test_ledger_store.py"
_FOLDER = "dispatcher/service/export_folder.py"
_FILES = "tests/unit/test_export_folder.py"
_MODES = "test_files_are_not_for_everybody_and_follow_no_link_that_was_put_there"
_SEEN_LATE = "test_an_instance_is_booked_from_when_it_is_billed_though_it_is_seen_much_later"
_MISSED = "test_an_instance_is_booked_as_long_as_it_is_billed_though_it_was_missed_much_earlier"
_COUNT = "test_a_late_word_is_taken_in_of_however_many_that_are_gone"

LATE_WORDS: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="hours_before_an_instance_was_seen_are_lost",
        guard="An instance was there from when its cloud bills it",
        file=_RECORDER,
        old="        created_ms = min(created_ms, ms_of(known.billed_from))\n",
        new="        created_ms = min(created_ms, created_ms)\n",
        test=f"{_WORDS}::{_SEEN_LATE}",
    ),
    EdgeDefect(
        name="hours_after_an_instance_was_missed_are_lost",
        guard="An instance was there until its cloud bills it no more",
        file=_RECORDER,
        old="        gone_ms = max(gone_ms, ms_of(known.billed_until))\n",
        new="        gone_ms = max(gone_ms, gone_ms)\n",
        test=f"{_WORDS}::{_MISSED}",
    ),
    EdgeDefect(
        name="what_an_instance_was_is_only_looked_for_nearby",
        guard="An instance was what it was first before it was seen",
        file="dispatcher/store/ledger_records.py",
        old="    rows += _states_elsewhere(connection, reckoned, rows)\n",
        new="",
        test=f"{_WORDS}::{_SEEN_LATE}",
    ),
    EdgeDefect(
        name="the_oldest_awaited_bills_are_dropped",
        guard="Only those whose bill is final are forgotten",
        file=_RECORDER,
        old="        if not bill.final:\n            self._unbilled[bill",
        new=(
            "        if not bill.final and len(self._unbilled) < MOST_ENDED:\n"
            "            self._unbilled[bill"
        ),
        test=f"{_WORDS}::{_COUNT}",
    ),
    EdgeDefect(
        name="all_that_is_gone_is_remembered",
        guard="Of those whose bill is final the latest are remembered",
        file=_RECORDER,
        old="        while len(self._ended) > MOST_ENDED:\n",
        new="        while False:\n",
        test=f"{_WORDS}::{_COUNT}",
    ),
    EdgeDefect(
        name="a_month_is_closed_as_what_it_was",
        guard="A month is closed as what it comes to when that is written",
        file="dispatcher/store/ledger_corrections.py",
        old="month_of(month.until_hour - 1)) != month:\n",
        new="month_of(month.until_hour - 1)) is None:\n",
        test=f"{_BOOKED}::test_a_month_that_changes_after_it_was_read_is_closed_as_it_is_then",
    ),
    EdgeDefect(
        name="each_page_of_costs_is_up_to_now",
        guard="All pages of an answer are of one time",
        file="dispatcher/api/routes/cost.py",
        old="    return min(as_of, now), (step, values)\n",
        new="    return now, (step, values)\n",
        test=f"{_ANSWERS}::test_all_pages_are_up_to_the_time_of_the_first",
    ),
    EdgeDefect(
        name="a_forecast_is_less_than_what_is_spent",
        guard="A forecast of an hour ago is at least what is spent now",
        file="dispatcher/service/budgets.py",
        old="forecast.at_least(use.spent_grains)",
        new="forecast",
        test="tests/unit/test_budget_service.py"
        "::test_each_step_is_told_once_and_the_limit_stops_new_work",
    ),
    EdgeDefect(
        name="files_of_costs_are_for_everybody",
        guard="Files of costs are for the server's user and group",
        file=_FOLDER,
        old="_FILE_MODE: Final = 0o640\n",
        new="_FILE_MODE: Final = 0o644\n",
        test=f"{_FILES}::{_MODES}",
    ),
    EdgeDefect(
        name="files_of_costs_follow_links",
        guard="A file that is made is a new one",
        file=_FOLDER,
        old="    path.unlink(missing_ok=True)\n"
        "    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC\n",
        new="    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC\n",
        test=f"{_FILES}::{_MODES}",
    ),
    EdgeDefect(
        name="a_launch_is_in_the_timeline",
        guard="The timeline has instances and no launches",
        file="dispatcher/store/timeline_records.py",
        old='        bills.c.instance_id.not_like(launch_id("%")),\n',
        new="",
        test="tests/unit/test_timeline.py::test_a_launch_without_an_answer_is_no_instance",
    ),
    EdgeDefect(
        name="a_driver_is_believed_whatever_it_tells",
        guard="An instance is not billed since before there was a ledger",
        file="pool/remote/bills.py",
        old="        if begun is None or begun >= self._now() - OLDEST_S:\n",
        new="        if True:\n",
        test="tests/unit/test_performer.py"
        "::test_a_word_that_an_instance_is_billed_since_ever_is_refused_and_logged_once",
    ),
)
