"""Planted defects of launches in doubt and of what leaks cost; what they are is in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_LAUNCHES = "tests/unit/test_cost_launches.py"
_LEAKS = "tests/unit/test_leak_costs.py"

COST_DOUBTS: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="what_was_uncertain_stays_booked",
        guard="What was booked of a launch is taken back with it",
        file="dispatcher/store/ledger_records.py",
        old="hours_changed(None, bill_from_row(row), booked_until=booked_until)",
        new="range(0)",
        test=f"{_LAUNCHES}::test_what_was_booked_as_uncertain_is_taken_back_with_it",
    ),
    EdgeDefect(
        name="hours_between_are_not_marked",
        guard="What goes on is in all hours up to the last booked one",
        file="dispatcher/cost/dirty.py",
        old="max(until, booked_until) if goes_on else until",
        new="until",
        test=f"{_LAUNCHES}::test_all_hours_up_to_the_last_booked_one_change_with_what_goes_on",
    ),
    EdgeDefect(
        name="a_launch_is_billed_like_an_instance",
        guard="Nothing is booked of a launch without an answer",
        file="dispatcher/cost/spans.py",
        old="    if bill.is_launch:\n        return None\n",
        new="",
        test=f"{_LAUNCHES}::test_nothing_of_a_launch_is_billed_likely_whatever_the_rule",
    ),
    EdgeDefect(
        name="a_focus_file_has_what_may_never_have_been",
        guard="A launch without an answer is no resource",
        file="dispatcher/cost/focus.py",
        old="        if line.uncertain_ms and not line.quantity_ms and not line.flat_grains:\n",
        new="        if False:\n",
        test=f"{_LAUNCHES}::test_what_may_never_have_been_is_in_no_focus_file",
    ),
    EdgeDefect(
        name="a_leak_has_cost_what_it_costs_now",
        guard="A leak costs what each of its times did",
        file="dispatcher/service/instances.py",
        old="book=PriceBook(rows)",
        new="book=self._told.prices().book",
        test=f"{_LEAKS}::test_a_leak_costs_what_each_of_its_times_did_and_has_the_price_of_now",
    ),
    EdgeDefect(
        name="no_leak_is_told_without_the_store",
        guard="Leaks are told also where the store cannot be read",
        file="dispatcher/service/instances.py",
        old="        except StoreBusy:\n            return self._told.prices()\n",
        new="        except StoreBusy:\n            raise\n",
        test=f"{_LEAKS}::test_leaks_are_told_also_where_the_store_cannot_be_read",
    ),
)
