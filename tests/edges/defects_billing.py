"""Planted defects of what is told of billing; what they are is told in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_POOL = "tests/unit/test_pool_billing.py::"
_CLOUD = "tests/unit/test_simulated_billing.py::"
_EC2 = "tests/unit/test_ec2_billing.py::"
_CALLS = "tests/unit/test_performer.py::"

BILLING: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="a_listing_that_tells_less_takes_a_time_away",
        guard="What a cloud has told of billing is never forgotten",
        file="drivers/billing.py",
        old="    if known[0] is None or (more[0] is not None and more[1] < known[1]):",
        new="    if known != more:",
        test=_POOL + "test_what_listings_tell_is_kept_also_when_they_tell_less_and_noted_once",
    ),
    EdgeDefect(
        name="a_rougher_word_on_a_time_counts",
        guard="Of two words on one time of billing the narrower counts, else the first",
        file="drivers/billing.py",
        old="(more[0] is not None and more[1] < known[1])",
        new="more[0] is not None",
        test=_POOL + "test_of_two_words_on_one_time_the_narrower_counts_else_the_first",
    ),
    EdgeDefect(
        name="a_bill_is_asked_for_without_end",
        guard="A cloud that does not tell a bill is asked for an hour, and no longer",
        file="pool/open_bills.py",
        old=" or now >= bill.until:",
        new=":",
        test=_POOL + "test_the_cloud_is_asked_again_ever_later_for_an_hour_and_then_no_more",
    ),
    EdgeDefect(
        name="bills_are_asked_for_without_growing_delay",
        guard="A cloud that does not tell a bill is asked ever later",
        file="pool/open_bills.py",
        old="        bill.delay_s = min(2 * bill.delay_s, _LONGEST_DELAY_S)\n",
        new="",
        test=_POOL + "test_the_cloud_is_asked_again_ever_later_for_an_hour_and_then_no_more",
    ),
    EdgeDefect(
        name="a_second_question_takes_the_place_of_the_first",
        guard="One question about bills is under way at a time",
        file="pool/open_bills.py",
        old="        if self._asked_op:\n            return ()\n",
        new="",
        test=(
            _POOL + "test_what_goes_while_others_are_asked_of_has_its_turn_once_they_are_answered"
        ),
    ),
    EdgeDefect(
        name="an_answer_to_another_question_counts",
        guard="Only the answer to the question that is under way says anything",
        file="pool/open_bills.py",
        old="        if not op_id or op_id != self._asked_op:",
        new="        if not self._asked_op:",
        test=_POOL + "test_an_answer_to_another_question_says_nothing",
    ),
    EdgeDefect(
        name="all_bills_are_asked_for_at_once",
        guard="One call asks for so many bills at most",
        file="pool/open_bills.py",
        old="for _, id_ in due[:MOST_AT_ONCE]",
        new="for _, id_ in due",
        test=_POOL + "test_many_are_asked_of_in_parts_one_after_the_other",
    ),
    EdgeDefect(
        name="who_is_there_again_is_settled",
        guard="The bill of an instance that is there again is not awaited",
        file="pool/open_bills.py",
        old="        found = self._open.pop(seen.id, None)",
        new="        found = self._open.get(seen.id)",
        test=_POOL + "test_one_that_shows_while_it_is_asked_of_is_not_settled",
    ),
    EdgeDefect(
        name="a_cloud_that_cannot_tell_is_asked",
        guard="Nothing is asked of a driver that has no bills",
        file="pool/open_bills.py",
        old="billed.billed_until is not None or not self.asks:",
        new="billed.billed_until is not None:",
        test=(_POOL + "test_nothing_is_asked_where_the_end_is_known_or_the_driver_cannot_tell"),
    ),
    EdgeDefect(
        name="questions_for_bills_do_not_wait_for_a_rate_limit",
        guard="After a rate limit no bills are asked for before its end",
        file="pool/rate_limits.py",
        old="            return self.bills.until",
        new="            return -inf",
        test=(_POOL + "test_a_question_that_fails_is_asked_again_after_a_rate_limit_when_allowed"),
    ),
    EdgeDefect(
        name="a_time_that_is_none_is_kept",
        guard="What a plug-in tells of billing is kept only if it can be",
        file="pool/remote/bills.py",
        old="told is not None and math.isfinite(told) and told > 0 else None",
        new="True else None",
        test=(
            _CALLS + "test_listings_tell_of_billing_where_their_driver_does_and_only_what_can_be"
        ),
    ),
    EdgeDefect(
        name="bills_that_nobody_asked_for_are_believed",
        guard="A driver tells of those that it was asked of, and of no others",
        file="pool/remote/bills.py",
        old="sorted(set(instance_ids) & told.keys())",
        new="sorted(told.keys())",
        test=_CALLS + "test_bills_are_told_of_those_that_were_asked_of_and_nothing_by_who_cannot",
    ),
    EdgeDefect(
        name="the_simulated_cloud_remembers_all_bills",
        guard="The simulated cloud keeps the bills of so many instances at most",
        file="drivers/simulated/model.py",
        old="        if len(self._ended) > REMEMBERED_BILLS:",
        new="        if False:",
        test=_CLOUD + "test_bills_of_the_oldest_are_forgotten",
    ),
    EdgeDefect(
        name="what_never_ran_is_billed",
        guard="What ended before it ran is billed for no time",
        file="drivers/simulated/model.py",
        old="        if leaves is not None and leaves <= starts:",
        new="        if False:",
        test=(
            _CLOUD + "test_what_never_ran_is_billed_for_no_time_where_billing_starts_with_running"
        ),
    ),
    EdgeDefect(
        name="what_is_stopped_is_told_as_ended",
        guard="Nothing is told of the end of an instance of EC2 that may go on",
        file="drivers/ec2/billing.py",
        old='_OVER = ("shutting-down", "terminated")',
        new='_OVER = ("shutting-down", "terminated", "stopped", "stopping")',
        test=_EC2 + "test_what_is_stopped_may_go_on",
    ),
    EdgeDefect(
        name="what_failed_at_launch_is_billed",
        guard="What EC2 could not launch was never billed",
        file="drivers/ec2/billing.py",
        old="    if over and code in _AT_LAUNCH:",
        new="    if False:",
        test=_EC2 + "test_what_fails_at_launch_was_never_billed",
    ),
    EdgeDefect(
        name="a_launch_is_taken_for_the_beginning",
        guard="How much later than its launch an instance of EC2 may have begun to run is told",
        file="drivers/ec2/billing.py",
        old="        from_slack_s=max(0.0, slack_s),",
        new="        from_slack_s=0.0,",
        test=(_EC2 + "test_the_beginning_is_the_launch_or_so_much_later_until_it_was_seen_to_run"),
    ),
    EdgeDefect(
        name="ec2_is_asked_for_all_bills_with_one_filter",
        guard="EC2 is asked of so many instances with one filter at most",
        file="drivers/ec2/account.py",
        old="            some = list(instance_ids[begin : begin + BILLS_PER_CALL])",
        new="            some = list(instance_ids)",
        test=_EC2 + "test_bills_are_asked_for_by_filter_in_parts_and_on_all_pages",
    ),
    EdgeDefect(
        name="the_engine_does_not_know_how_the_cloud_bills",
        guard="How the cloud bills is read at the start, and asked for later",
        file="dispatcher/server/wiring.py",
        old="billing=instance_set.billing_rule() if isinstance(instance_set, Bills) else None",
        new="billing=None",
        test=(
            "tests/unit/test_wiring.py"
            "::test_the_engine_knows_how_the_cloud_bills_and_asks_only_who_can_tell"
        ),
    ),
)
