"""Planted defects of the ledger: guards of what is written, reckoned and booked of money."""

from __future__ import annotations

from typing import Final

from tests.sim.planting import Mutant

_RULES: Final = "tests/unit/test_cost_rules.py"
_STORE: Final = "tests/unit/test_ledger_store.py"
_RECORDER: Final = "tests/unit/test_cost_recorder.py"
_PROPERTY: Final = "tests/property/test_cost_lines.py"
_IN = "longshore.dispatcher."

WRITTEN = (
    Mutant(
        name="an overlap",
        guard="the next state begins where the last one ends",
        fault="anything that happens to an instance",
        where=f"{_IN}state.cost_recorder:CostRecorder._update",
        old="book.state = _of_instance(worker.id, at_ms, state, account)",
        new="book.state = _of_instance(worker.id, at_ms - 7, state, account)",
    ),
    Mutant(
        name="a gap",
        guard="the last state ends where the next one begins",
        fault="anything that happens to an instance",
        where=f"{_IN}state.cost_recorder:CostRecorder._update",
        old="changes.append(SaveInterval(interval=replace(book.state, until_ms=at_ms)))",
        new="changes.append(SaveInterval(interval=replace(book.state, until_ms=at_ms - 7)))",
    ),
    Mutant(
        name="a restart begins the books anew",
        guard="a process goes on with the intervals that are open",
        fault="crashes",
        where=f"{_IN}state.cost_recorder:CostRecorder.restore",
        old="if bill.gone_ms is not None or not states:",
        new="if True:",
    ),
    Mutant(
        name="who comes back is another",
        guard="an instance that was gone and is listed again was there all the time",
        fault="listings that lack an instance",
        where=f"{_IN}state.cost_recorder:CostRecorder._open",
        old="known = self._ended.pop(worker.id, None)",
        new="known = None",
    ),
    Mutant(
        name="nobody hears how it ended",
        guard="the time of an attempt is useful or lost as it ended",
        fault="containers that fail",
        where=f"{_IN}state.cost_recorder:CostRecorder._closed",
        old="if interval.holder in ended_as:",
        new="if False:",
    ),
    Mutant(
        name="the bill is put aside",
        guard="what the cloud tells of an instance that is gone is kept",
        fault="clouds that tell late when they billed",
        where=f"{_IN}state.cost_recorder:CostRecorder.billed",
        old="bill = replace(bill, billed=bill.billed.once_told(billed), final=final)",
        new="bill = replace(bill, final=final)",
        test="tests/sim/test_bill.py::test_what_the_ledger_has_in_the_end_is_what_the_cloud_bills",
    ),
    Mutant(
        name="each for the largest share",
        guard="shares of more than an instance are divided by their sum",
        fault="containers that want different parts of an instance",
        where=f"{_IN}state.cost_recorder:_Book.run_until",
        old="self.clock_ms += max(0, at_ms - self.metered_ms) / max(1.0, self.shares)",
        new="self.clock_ms += max(0, at_ms - self.metered_ms)",
        also=Mutant(
            name="each for the largest share, to the end",
            guard="the same, of the time since the last change",
            fault="the same",
            where=f"{_IN}state.cost_recorder:_Book.used_ms",
            old="since_ms = (at_ms - self.metered_ms) / max(1.0, self.shares)",
            new="since_ms = at_ms - self.metered_ms",
        ),
        test=f"{_RECORDER}::test_shares_of_more_than_an_instance_are_divided_by_their_sum",
    ),
)
RECKONED = (
    Mutant(
        name="a reclaim is paid",
        guard="what the cloud takes back in its first hour is free",
        fault="instances that are taken back",
        where=f"{_IN}cost.spans:_is_free",
        old="return reclaimed and billed_ms < ms_of(bill.rule.free_if_reclaimed_within_s)",
        new="return False",
        test=f"{_RULES}::test_what_is_taken_back_in_its_first_hour_is_free",
    ),
    Mutant(
        name="no minimum",
        guard="billed time is in whole units, and at least the minimum",
        fault="billing rules",
        where=f"{_IN}cost.spans:_whole_ms",
        old="return max(-(-billed_ms // unit_ms) * unit_ms, ms_of(bill.rule.minimum_s))",
        new="return billed_ms",
    ),
    Mutant(
        name="until anybody noticed",
        guard="what is not known of an end is uncertain, and never now",
        fault="clouds that tell nothing",
        where=f"{_IN}cost.spans:_ends",
        old="return until_ms, bill.gone_ms - min(seen_ms, until_ms)",
        new="return bill.gone_ms, 0",
        test=f"{_RULES}::test_what_is_booked_is_what_the_cloud_tells_else_the_likelier",
    ),
    Mutant(
        name="the price of the zone next door",
        guard="a price is that of the zone in which an instance is",
        fault="zones",
        where=f"{_IN}cost.prices:PriceBook._of",
        old="if zone else rows",
        new="if False else rows",
        test=f"{_RULES}::test_a_price_is_the_zones_own_and_splits_where_it_changes",
    ),
    Mutant(
        name="rounded one by one",
        guard="parts are rounded together, so that they add up to the whole",
        fault="shares that are no whole milliseconds",
        where=f"{_IN}cost.money:split",
        old="left = quantity - sum(parts.values())",
        new="left = 0",
        test=f"{_PROPERTY}::test_lines_add_up_to_the_billed_time",
    ),
    Mutant(
        name="amounts are rounded one by one",
        guard="amounts of one answer are rounded together",
        fault="prices that are no whole sums",
        where=f"{_IN}cost.money:_in_steps",
        old="left = total - sum(whole)",
        new="left = 0",
        test=f"{_PROPERTY}::test_amounts_as_decimals_add_up_to_their_sum",
    ),
    Mutant(
        name="every day has 24 hours",
        guard="a day is as long as it is in its zone",
        fault="clocks that are changed",
        where=f"{_IN}service.cost_periods:_begin_of",
        old="return datetime.combine(day, time(), zone).timestamp()",
        new="return datetime.combine(day, time(), UTC).timestamp() - 7200",
        test=f"{_RULES}::test_days_have_23_and_25_hours_where_clocks_change",
    ),
    Mutant(
        name="everybody's idle time",
        guard="nobody sees what others cost",
        fault="attackers with a user's token",
        where=f"{_IN}cost.report:Seen.sees",
        old="return own and group.project in self.user_projects",
        new="return own",
        test=f"{_RULES}::test_nobody_sees_what_others_cost_nor_what_is_nobodys",
    ),
)
BOOKED = (
    Mutant(
        name="what is booked stays",
        guard="hours change with the outcome of what they have",
        fault="attempts that last for hours",
        where=f"{_IN}cost.dirty:hours_of",
        old="if interval.until_ms is None or interval.holder == OF_INSTANCE:",
        new="if True:",
        test=f"{_STORE}::test_an_hour_is_booked_again_when_an_attempt_that_it_has_ends",
    ),
    Mutant(
        name="a late word is nothing",
        guard="hours change with what a cloud tells late",
        fault="clouds that tell late when they billed",
        where=f"{_IN}store.ledger_records:save_bills",
        old="_mark(connection, hours_changed(before, change.bill))",
        new="pass",
        test=f"{_STORE}::test_what_a_cloud_tells_late_is_booked_again",
    ),
    Mutant(
        name="marks go with the booking",
        guard="a mark that came while an hour was reckoned stays",
        fault="changes while an hour is booked",
        where=f"{_IN}store.ledger_records:save_booked_hour",
        old='{"of_hour": booked.hour, "as_read": booked.marks}',
        new='{"of_hour": booked.hour, "as_read": booked.marks + 2}',
        test=f"{_STORE}::test_a_mark_that_comes_while_an_hour_is_reckoned_stays",
    ),
    Mutant(
        name="what a container cost stays an estimate",
        guard="a container costs what is booked of it",
        fault="prices and times that are told late",
        where=f"{_IN}service.costs:CostService._reckon",
        old="containers=tuple(self._costs_of_ended(hour, lines))",
        new="containers=()",
        test=f"{_STORE}::test_what_a_container_cost_is_what_is_booked_of_it",
    ),
    Mutant(
        name="a closed month moves",
        guard="what changes a closed month is a correction",
        fault="clouds that tell after a month's end",
        where=f"{_IN}store.ledger_records:save_booked_hour",
        old="if booked.hour < ledger_corrections.fetch_closed_until(connection):",
        new="if False:",
        test=f"{_STORE}::test_a_closed_month_stays_and_what_changes_it_is_a_correction",
    ),
    Mutant(
        name="a correction comes with each booking",
        guard="what was corrected already is not corrected again",
        fault="hours of a closed month that are booked again",
        where=f"{_IN}store.ledger_corrections:_of_hour",
        old="*connection.execute(late.where(_KEPT.about_hour == hour, _KEPT.reason == LATE)),",
        new="",
        test=f"{_STORE}::test_a_closed_month_stays_and_what_changes_it_is_a_correction",
    ),
    Mutant(
        name="what is long is not found",
        guard="an attempt counts in each of its hours, however long it lasts",
        fault="attempts that last for days",
        where=f"{_IN}store.ledger_records:fetch_facts",
        old="rows = [*connection.execute(long), *connection.execute(lately)]",
        new="rows = [*connection.execute(lately)]",
        test=f"{_STORE}::test_lines_of_an_hour_are_the_same_however_long_ago_an_attempt_began",
    ),
)
LEDGER_MUTANTS = (*WRITTEN, *RECKONED, *BOOKED)
