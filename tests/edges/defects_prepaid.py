"""Planted defects of what is prepaid and reserved; what they are is told in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_CHOOSING: Final = "tests/unit/test_prepaid_choosing.py::"
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
)
