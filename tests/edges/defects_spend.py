"""Planted defects of limits of spending; what they are is in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_ATTEMPTS = "dispatcher/state/attempt_spend.py"
_SPEND = "dispatcher/scheduler/placement/spend.py"
_TEST = "tests/unit/test_spend.py"
_LIVE = "tests/unit/test_live_prices.py"
_FLOW = "tests/unit/test_spend_flow.py"
_PARTS = (
    f"{_TEST}::test_those_on_one_instance_cost_no_more_than_it_does_and_leave_their_parts_to_others"
)

SPEND: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="a_full_instance_costs_more_than_it_does",
        guard="Where the shares on an instance exceed the whole, limits count parts of it",
        file=_ATTEMPTS,
        old="price * share // max(SHARE_UNITS, shares)",
        new="price * share // SHARE_UNITS",
        test=_PARTS,
    ),
    EdgeDefect(
        name="who_comes_makes_nobody_cheaper",
        guard="Who comes to a full instance, or leaves it, changes what the others count",
        file=_ATTEMPTS,
        old="is_tight = max(self.shares, self.shares + share) > SHARE_UNITS",
        new="is_tight = False",
        test=_PARTS,
    ),
    EdgeDefect(
        name="who_leaves_is_counted_on",
        guard="An attempt that is over occupies nothing",
        file=_ATTEMPTS,
        old="        self._count(occupied.add(known.account, -known.share))\n",
        new="",
        test=_PARTS,
    ),
    EdgeDefect(
        name="a_whole_instance_is_not_enough",
        guard="Nobody is asked for more than the price of an instance for room on it",
        file=_SPEND,
        old="part_usd_per_hour(price, min(own, SHARE_UNITS), SHARE_UNITS)",
        new="part_usd_per_hour(price, own, SHARE_UNITS)",
        test=f"{_TEST}::test_whoever_pays_a_whole_instance_gets_the_rest_of_it_for_nothing",
    ),
    EdgeDefect(
        name="room_is_cheap_in_company",
        guard="Room is asked for at what it costs once others have left",
        file=_SPEND,
        old="claimed + occupied.by_subject.get(subject, 0)",
        new="claimed",
        test=(
            "tests/property/test_spend_as_booked.py"
            "::test_room_is_asked_for_at_what_it_costs_once_others_have_left"
        ),
    ),
    EdgeDefect(
        name="committed_is_more_than_an_instance",
        guard="What budgets count as committed is the ledger's part of an instance",
        file="dispatcher/service/running_work.py",
        old="part_usd_per_hour(attempt.price_usd_per_hour, share, shares)",
        new="part_usd_per_hour(attempt.price_usd_per_hour, share, 0)",
        test=f"{_FLOW}::test_what_runs_on_one_instance_commits_no_more_than_it_costs",
    ),
    EdgeDefect(
        name="a_start_is_a_sign_of_life",
        guard="What an instance did that no process heard of any more is uncertain",
        file="pool/core.py",
        old="                reason=gone,\n                seen_at=_heard_at(worker),",
        new="                reason=gone,\n                seen_at=_seen_at(worker),",
        test=(
            "tests/unit/test_cost_recorder.py"
            "::test_a_process_that_never_heard_of_an_instance_has_not_seen_it"
        ),
    ),
    EdgeDefect(
        name="a_zone_that_is_told_late_costs_what_its_type_does",
        guard="Limits count an instance at the price of its zone as soon as that is known",
        file="pool/billing.py",
        old="        core.price_in_zone(worker)\n",
        new="",
        test=f"{_LIVE}::test_who_is_there_costs_what_is_told_of_its_zone",
    ),
    EdgeDefect(
        name="a_start_forgets_prices_of_zones",
        guard="What an earlier process was told of zones counts after a start",
        file="dispatcher/service/prices.py",
        old="        if self._in_zones:\n",
        new="        if not self._in_zones:\n",
        test=(
            "tests/unit/test_prices.py"
            "::test_prices_of_zones_are_told_when_they_move_and_by_the_next_process_again"
        ),
    ),
)
