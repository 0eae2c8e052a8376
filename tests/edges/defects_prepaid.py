"""Planted defects of what is prepaid and reserved; what they are is told in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_CHOOSING: Final = "tests/unit/test_prepaid_choosing.py::"
_LEDGER: Final = "tests/unit/test_prepaid_ledger.py::"
_PLACES: Final = "dispatcher/cost/prepaid.py"
_TYPES: Final = "tests/unit/test_config_types.py::"

PREPAID: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="all_of_a_prepaid_type_are_free",
        guard="The instance after those that are prepaid costs its price",
        file="dispatcher/scheduler/scale_up/problem.py",
        old="        for_nothing[type_.name] = left if limit is None else min(left, limit)\n",
        new="        for_nothing[type_.name] = 1000 * left\n",
        test=_CHOOSING
        + "test_prepaid_instances_come_first_and_the_rest_is_the_cheapest_at_its_price",
    ),
    EdgeDefect(
        name="what_is_prepaid_comes_beside_a_limit_of_its_type",
        guard="What is prepaid of a type is part of its limit",
        file="dispatcher/scheduler/scale_up/problem.py",
        old="        None if limit is None else limit - for_nothing.get(name, 0)\n",
        new="        limit\n",
        test=_CHOOSING + "test_what_is_prepaid_is_part_of_a_limit_of_its_type",
    ),
    EdgeDefect(
        name="too_dear_a_type_is_had_at_its_price",
        guard="A type that is too dear is created only as far as it is prepaid",
        file="dispatcher/scheduler/scale_up/problem.py",
        old="    return found if option.only_prepaid else [*found, paid[name]]\n",
        new="    return [*found, paid[name]]\n",
        test=_CHOOSING + "test_what_is_too_dear_is_created_as_far_as_it_is_prepaid",
    ),
    EdgeDefect(
        name="a_pass_forgets_which_prepaid_ones_it_has_created",
        guard="What a pass creates takes a prepaid place",
        file="dispatcher/scheduler/scale_up/batch.py",
        old="        self._made_of[type_.name] += 1\n",
        new="",
        test=_CHOOSING + "test_what_a_pass_has_created_takes_a_prepaid_place_in_its_next_round",
    ),
    EdgeDefect(
        name="what_is_there_takes_no_prepaid_place",
        guard="All that are there or on their way take a prepaid place",
        file="dispatcher/scheduler/placement/create_limits.py",
        old="number - numbers.get(name, 0) for",
        new="number for",
        test=_CHOOSING + "test_all_that_are_there_or_on_their_way_take_a_prepaid_place",
    ),
    EdgeDefect(
        name="what_is_prepaid_is_too_dear",
        guard="The price rule leaves in what is prepaid",
        file="dispatcher/domain/feasibility.py",
        old="if t.prepaid or as_new(t)",
        new="if as_new(t)",
        test=_CHOOSING + "test_the_price_rule_leaves_a_prepaid_type_in_and_none_that_is_not",
    ),
    EdgeDefect(
        name="a_prepaid_type_is_needless_among_many",
        guard="Among many types a prepaid one is looked at, and replaces none",
        file="dispatcher/scheduler/scale_up/dominated.py",
        old="option.type.prepaid or (option.need",
        new="(option.need",
        test=_CHOOSING
        + "test_among_many_types_a_prepaid_one_is_looked_at_and_makes_no_other_needless",
    ),
    EdgeDefect(
        name="a_job_waits_for_money_that_only_the_prepaid_instance_needs",
        guard="Where what is prepaid is above a limit of spending, a cheaper type is taken",
        file="dispatcher/scheduler/elastic/scale_up.py",
        old="        if not prepaid or self._budget.may_create(",
        new="        if True or self._budget.may_create(",
        test=_CHOOSING
        + "test_a_limit_of_spending_that_is_below_the_price_of_what_is_prepaid_stops_no_job",
    ),
    EdgeDefect(
        name="a_preemptible_type_is_prepaid",
        guard="What the cloud takes back is neither prepaid nor reserved",
        file="dispatcher/config/types.py",
        old="        if each.preemptible and is_given:\n",
        new="        if False:\n",
        test=_TYPES
        + "test_what_is_prepaid_and_reserved_is_taken_and_all_that_is_wrong_with_it_told_at_once",
    ),
    EdgeDefect(
        name="a_reservation_that_the_driver_does_not_know_is_taken",
        guard="A reservation is refused where the driver knows none",
        file="dispatcher/config/driver_parameters.py",
        old="        if each.reservation and Capability",
        new="        if False and Capability",
        test=_TYPES + "test_a_type_that_makes_no_sense_is_refused",
    ),
    EdgeDefect(
        name="the_youngest_have_the_prepaid_places",
        guard="The oldest instances have the prepaid places",
        file=_PLACES,
        old="            insort(there, order)\n",
        new="            there.insert(0, order)\n",
        test=_LEDGER
        + "test_the_oldest_have_the_places_and_whoever_comes_later_gets_what_they_leave",
    ),
    EdgeDefect(
        name="a_preemptible_instance_has_a_prepaid_place",
        guard="What the cloud takes back has no prepaid place",
        file=_PLACES,
        old="span is not None and not bill.preemptible and",
        new="span is not None and",
        test=_LEDGER + "test_what_is_preemptible_or_of_another_type_has_no_place",
    ),
    EdgeDefect(
        name="what_is_unused_is_booked_ahead",
        guard="Unused time of the hour that goes on ends now",
        file=_PLACES,
        old="min(until_ms, now_ms), found",
        new="until_ms, found",
        test=_LEDGER + "test_used_and_unused_of_the_hour_that_goes_on_end_now",
    ),
    EdgeDefect(
        name="a_type_that_goes_stays_prepaid",
        guard="Of a type that is configured no more the places end",
        file=_PLACES,
        old="{**ended, **now}",
        new="now",
        test=_LEDGER + "test_only_what_differs_is_added_and_a_type_that_goes_ends",
    ),
    EdgeDefect(
        name="a_minimum_is_time_of_a_prepaid_place",
        guard="What a cloud bills at least is no time of a prepaid place",
        file="dispatcher/cost/tiling.py",
        old="prices.at(bill, last_ms)  #",
        new="prices.spans(bill, last_ms, last_ms + 1)[0][2]  #",
        test=_LEDGER + "test_what_a_cloud_bills_at_least_is_no_time_of_a_place",
    ),
    EdgeDefect(
        name="a_prepaid_place_hides_that_there_is_no_price",
        guard="That nobody knows a price is told of prepaid time, too",
        file="dispatcher/cost/prices.py",
        old="if is_held and price.source is not PriceSource.NONE:",
        new="if is_held:",
        test=_LEDGER + "test_where_nobody_knows_the_price_neither_hides_it",
    ),
    EdgeDefect(
        name="nothing_is_booked_before_the_first_instance",
        guard="What is prepaid is booked also where nothing ever ran",
        file="dispatcher/store/ledger_groups.py",
        old="    times = (tables.bills.c.created_ms, tables.prepaid.c.valid_from_ms)\n",
        new="    times = (tables.bills.c.created_ms,)\n",
        test=_LEDGER + "test_what_is_prepaid_is_booked_from_the_start_also_where_nothing_ever_ran",
    ),
    EdgeDefect(
        name="what_was_prepaid_before_an_hour_is_not_read",
        guard="The number that holds when an hour begins counts in it",
        file="dispatcher/store/ledger_records.py",
        old="        for row in (*held, *connection.execute(begins))\n    ]\n\n\ndef fetch_prices",
        new="        for row in connection.execute(begins)\n    ]\n\n\ndef fetch_prices",
        test=_LEDGER + "test_what_is_prepaid_is_booked_from_the_start_also_where_nothing_ever_ran",
    ),
    EdgeDefect(
        name="booked_hours_keep_what_a_late_number_of_places_changes",
        guard="A number of places that comes late has its hours reckoned anew",
        file="dispatcher/store/ledger_records.py",
        old=" + [each.valid_from_ms for each in prepaid]\n",
        new="\n",
        test=_LEDGER + "test_a_row_of_places_that_comes_late_has_its_booked_hours_reckoned_anew",
    ),
    EdgeDefect(
        name="unused_time_is_compared_with_a_bill",
        guard="What is prepaid and not run is compared with no row of a bill",
        file="dispatcher/service/cost_reconciling.py",
        old="bills=ours, prepaid=())",
        new="bills=ours)",
        test="tests/unit/test_cost_reconciling.py::"
        "test_what_is_prepaid_is_compared_with_no_row_of_a_bill",
    ),
    EdgeDefect(
        name="unused_time_is_of_an_instance_without_an_id",
        guard="What is about no resource says none in a FOCUS file",
        file="dispatcher/cost/focus.py",
        old='lambda row: "Instance" if row.line.instance_id else None',
        new='lambda _: "Instance"',
        test="tests/unit/test_cost_focus.py::test_what_is_prepaid_and_not_run_is_about_no_resource",
    ),
)
