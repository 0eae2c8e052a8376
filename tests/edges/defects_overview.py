"""Planted defects of what tells what goes on, and went on; what they are is told in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_OVERVIEW: Final = "tests/unit/test_overview.py::"
_TIMELINE: Final = "tests/unit/test_timeline.py::"
_DECISIONS = "tests/unit/test_decisions.py::"

OVERVIEW: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="an_overview_counts_other_projects",
        guard="Nobody is told how many containers other projects have",
        file="dispatcher/explain/overview.py",
        old="    for (key, project), number in view.class_counts().items():\n"
        "        if projects is None or project in projects:",
        new="    for (key, project), number in view.class_counts().items():\n        if project:",
        test=_OVERVIEW + "test_each_is_counted_where_it_is_and_by_project",
    ),
    EdgeDefect(
        name="an_overview_names_whom_others_wait_behind",
        guard="The sentence of a group has no id in it, which may be another project's",
        file="dispatcher/explain/overview.py",
        old='message=_IDS.sub("another", reason.message)',
        new="message=reason.message",
        test=_OVERVIEW + "test_no_sentence_names_another",
    ),
    EdgeDefect(
        name="who_has_ended_is_counted_for_ever",
        guard="Who has ended is counted for a day",
        file="dispatcher/state/tally.py",
        old="if slot >= first), Counter())",
        new="if slot >= 0), Counter())",
        test=_OVERVIEW + "test_who_goes_on_is_counted_no_more_and_who_has_ended_for_a_day",
    ),
    EdgeDefect(
        name="a_timeline_goes_on_behind_the_time_of_creation_alone",
        guard="Pages of instances that were created at the same moment lose none",
        file="dispatcher/store/timeline_records.py",
        old="tuple_(*place) > tuple_(*_place_in(cursor))",
        new="place[0] > _place_in(cursor)[0]",
        test=_TIMELINE + "test_pages_follow_each_other_though_many_were_created_at_once",
    ),
    EdgeDefect(
        name="a_timeline_has_all_attempts_of_an_instance",
        guard="Of too many attempts on an instance the latest are told",
        file="dispatcher/store/timeline_records.py",
        old=".where(ranked.c.place <= window.parts_most)",
        new="",
        test=_TIMELINE + "test_of_too_many_attempts_the_latest_are_told_and_the_rest_counted",
    ),
    EdgeDefect(
        name="a_timeline_is_of_any_length",
        guard="A window is of seven days at most",
        file="dispatcher/service/timeline.py",
        old="if end - begin > WINDOW_MAX_S:",
        new="if end < begin:",
        test=_TIMELINE + "test_what_is_no_window_is_refused",
    ),
    EdgeDefect(
        name="a_decision_is_told_each_time_it_is_carried_out",
        guard="Each decision is told once, however often it is carried out",
        file="dispatcher/state/decisions.py",
        old="        if key in self._known:\n            return False\n",
        new="",
        test=_DECISIONS + "test_only_the_latest_are_kept_and_they_come_in_pages",
    ),
    EdgeDefect(
        name="a_hold_of_creates_is_no_decision",
        guard="Creates that are held are among the decisions",
        file="dispatcher/engine/engine.py",
        old="            self.decisions.held(self.pool.holds.active(now), now)\n",
        new="            del now\n",
        test=_DECISIONS + "test_creates_that_are_held_are_told_once_with_the_reason",
    ),
)
