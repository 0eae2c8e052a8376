"""Planted defects of the questions that people ask of the ledger; see `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

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
        old="    lambda group: repr((group.project, group.user)),\n    lambda group: group.job_name,\n",
        new="",
        test=f"{_RULES}test_idle_time_is_shared_by_what_work_cost_with_its_corrections",
    ),
)
