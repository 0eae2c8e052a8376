"""Planted defects of prices and reservations; what they are is in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_BOOK = "dispatcher/cost/prices.py"
_RECORDS = "dispatcher/store/ledger_records.py"
_KEEPER = "dispatcher/service/prices.py"
_ENGINE = "dispatcher/engine/engine.py"
_TEST = "tests/unit/test_prices.py"
_TYPES = "tests/unit/test_config_types.py"
_REQUESTS = "tests/unit/test_ec2_requests.py"
_LIVE = "tests/unit/test_live_prices.py"

PRICES: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="a_price_of_0_is_a_price",
        guard="A price of 0 is none, and ends what its source tells",
        file=_BOOK,
        old="for row in latest.values() if row.price.nusd_per_hour]\n",
        new="for row in latest.values()]\n",
        test=f"{_TEST}::test_a_price_of_0_ends_what_its_source_tells",
    ),
    EdgeDefect(
        name="an_unknown_price_is_the_one_of_the_purchase",
        guard="A configured price of 0 says that nobody knows it",
        file=_BOOK,
        old='return _NOBODYS if (PriceSource.CONFIG, "") in latest else None',
        new="return None",
        test=f"{_TEST}::test_a_price_of_0_ends_what_its_source_tells",
    ),
    EdgeDefect(
        name="a_start_writes_the_price_again",
        guard="A price is added only where it differs",
        file=_BOOK,
        old="            and old.price.nusd_per_hour != row.price.nusd_per_hour\n",
        new="",
        test=f"{_TEST}::test_only_what_differs_is_added",
    ),
    EdgeDefect(
        name="a_new_price_is_that_of_the_past",
        guard="What was reckoned by an earlier price stays",
        file=_KEEPER,
        old='zone="", valid_from_ms=at_ms, price=price',
        new='zone="", valid_from_ms=0, price=price',
        test=f"{_TEST}::test_a_configured_price_that_changes_leaves_the_past_as_it_was",
    ),
    EdgeDefect(
        name="booked_hours_keep_what_a_late_price_changes",
        guard="A price that comes late has its hours booked again",
        file=_RECORDS,
        old="    _mark(connection, range(first, booked_until))\n",
        new="",
        test=f"{_TEST}::test_a_price_that_comes_late_has_its_booked_hours_reckoned_anew",
    ),
    EdgeDefect(
        name="instances_keep_the_price_they_were_bought_at",
        guard="Limits count an instance at what it costs now",
        file="pool/core.py",
        old="                self.touch(worker.id)\n            self.price_in_zone(worker)\n",
        new="            self.price_in_zone(worker)\n",
        test=f"{_LIVE}::test_limits_count_instances_and_attempts_at_the_price_of_now",
    ),
    EdgeDefect(
        name="attempts_keep_the_price_they_began_at",
        guard="Limits count an attempt at what its instance costs now",
        file="dispatcher/scheduler/placement/spend.py",
        old="        self._attempts.priced(worker_id, price)\n",
        new="",
        test=f"{_LIVE}::test_limits_count_instances_and_attempts_at_the_price_of_now",
    ),
    EdgeDefect(
        name="a_ceiling_is_held_against_an_old_price",
        guard="Which types may run somebody is asked again when prices change",
        file=_ENGINE,
        old="        self.table.queue.refit()\n",
        new="",
        test="tests/unit/test_fit_kinds.py::test_who_waits_for_a_ceiling_goes_by_the_price_of_now",
    ),
    EdgeDefect(
        name="what_comes_costs_what_it_did",
        guard="An instance on its way costs what its type does now",
        file="dispatcher/scheduler/placement/fleet_sync.py",
        old="self._pool.types.get(type_.name, type_)))",
        new="type_))",
        test=f"{_LIVE}::test_an_instance_on_its_way_costs_what_it_does_now",
    ),
    EdgeDefect(
        name="the_past_moves_with_what_the_cloud_says_of_it",
        guard="A price of a zone holds from no earlier time than the answer before",
        file=_KEEPER,
        old="            at_ms = min(now_ms, max(since_ms, ms_of(each.valid_from)))\n",
        new="            at_ms = min(now_ms, ms_of(each.valid_from))\n",
        test=f"{_TEST}::test_what_the_cloud_tells_is_written_down_and_told_when_it_differs",
    ),
    EdgeDefect(
        name="a_question_that_hangs_is_asked_again_and_again",
        guard="One question about prices is asked at a time",
        file=_KEEPER,
        old="        if self._asked is None:\n            types",
        new="        if True:\n            types",
        test=f"{_TEST}::test_an_old_price_keeps_its_value_and_is_told_once_it_is_an_hour_old",
    ),
    EdgeDefect(
        name="a_restart_forgets_live_prices",
        guard="The latest live prices count across a restart",
        file=_KEEPER,
        old="            self._take_up(known)\n",
        new="            pass\n",
        test=f"{_TEST}::test_an_old_price_keeps_its_value_and_is_told_once_it_is_an_hour_old",
    ),
    EdgeDefect(
        name="live_prices_outlive_their_setting",
        guard="Without live prices, what the cloud said before counts no more",
        file=_KEEPER,
        old="ends=() if self._is_live else _LIVE,",
        new="ends=(),",
        test=f"{_TEST}::test_an_old_price_keeps_its_value_and_is_told_once_it_is_an_hour_old",
    ),
    EdgeDefect(
        name="a_plug_in_spoils_prices",
        guard="What is no price is left out",
        file="pool/remote/prices.py",
        old="    return price.is_finite() and price > 0\n",
        new="    return price == price\n",
        test=f"{_TEST}::test_of_a_drivers_answer_what_is_no_price_or_was_not_asked_for_is_left_out",
    ),
    EdgeDefect(
        name="live_prices_of_a_driver_that_tells_none",
        guard="Live prices are refused where the driver tells none",
        file="dispatcher/config/driver_parameters.py",
        old="    if is_live and Capability",
        new="    if False and Capability",
        test=f"{_TYPES}::test_live_prices_are_refused_where_the_driver_tells_none",
    ),
    EdgeDefect(
        name="a_full_reservation_ends_the_create",
        guard="Where a reservation is full, the instance is made without it",
        file="drivers/ec2/faults.py",
        old='    "ReservationCapacityExceeded": _SHORT,\n',
        new="",
        test="tests/contract/test_ec2.py::test_where_a_reservation_is_full_it_is_done_without",
    ),
    EdgeDefect(
        name="one_client_token_within_a_reservation_and_without",
        guard="Requests that differ have tokens that differ",
        file="drivers/ec2/requests.py",
        old="    parts += (placement.reservation,) if placement.reservation else ()\n",
        new="",
        test=f"{_REQUESTS}::test_an_instance_is_asked_for_in_its_reservation_first",
    ),
    EdgeDefect(
        name="a_factor_multiplies_what_is_beside_the_instance",
        guard="A factor is for the instance, and not for what is billed beside it",
        file=_BOOK,
        old="usd_per_hour * self.factor + self.beside_usd_per_hour if",
        new="(usd_per_hour + self.beside_usd_per_hour) * self.factor if",
        test=f"{_TYPES}::test_what_is_billed_beside_an_instance_is_part_of_its_price",
    ),
    EdgeDefect(
        name="a_factor_of_no_type_is_taken",
        guard="A factor that is for nothing is refused",
        file="dispatcher/config/types.py",
        old="        if seen.intersection(whole):\n",
        new="        if False:\n",
        test=f"{_TYPES}::test_all_that_is_wrong_with_factors_is_said_at_once",
    ),
    EdgeDefect(
        name="a_zone_that_nobody_tells_is_asked_for",
        guard="Prices are asked for in zones that are known, each once",
        file="dispatcher/engine/view.py",
        old='        return tuple(sorted(found - {""}))\n',
        new="        return tuple(sorted(found))\n",
        test=f"{_LIVE}::test_prices_are_asked_for_in_the_zones_in_which_there_are_instances",
    ),
    EdgeDefect(
        name="a_driver_may_tell_any_zone",
        guard="A driver tells prices of the zones that it is asked for",
        file="dispatcher/conformance/claims.py",
        old="    strange += sorted({(e.type_name, e.zone) for e in told if e.zone != zone})\n",
        new="",
        test="tests/contract/test_conformance_broken.py::"
        "test_a_broken_driver_fails_the_check_that_is_for_it[prices any zone]",
    ),
    EdgeDefect(
        name="a_driver_may_tell_changes_alone",
        guard="A driver tells what held before the first change, too",
        file="dispatcher/conformance/claims.py",
        old="    if not told and bench.trial.preemptible_type is not None:",
        new="    if not told and bench.trial.preemptible_type is None:",
        test="tests/contract/test_conformance_broken.py::"
        "test_what_is_told_of_prices_in_zones_is_looked_at"
        "[ChangesOnly-tells no price of spot in z]",
    ),
)
