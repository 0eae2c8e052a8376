"""Planted defects of prices and reservations; what they are is in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_BOOK = "dispatcher/cost/prices.py"
_RECORDS = "dispatcher/store/ledger_records.py"
_KEEPER = "dispatcher/service/prices.py"
_ENGINE = "dispatcher/engine/engine.py"
_TEST = "tests/unit/test_prices.py"
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
        old='zone="", valid_from_ms=now_ms, price=_conf',
        new='zone="", valid_from_ms=0, price=_conf',
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
        old="                self.touch(worker.id)\n\n    def note_changed",
        new="\n    def note_changed",
        test=f"{_LIVE}::test_limits_count_instances_and_attempts_at_the_price_of_now",
    ),
    EdgeDefect(
        name="attempts_keep_the_price_they_began_at",
        guard="Limits count an attempt at what its instance costs now",
        file="dispatcher/state/attempt_spend.py",
        old="        self._usd_per_hour.update(usd_per_hour)\n",
        new="",
        test=f"{_LIVE}::test_limits_count_instances_and_attempts_at_the_price_of_now",
    ),
    EdgeDefect(
        name="a_ceiling_is_held_against_an_old_price",
        guard="Which types may run somebody is asked again when prices change",
        file=_ENGINE,
        old="        self.table.queue.refit()\n",
        new="",
        test=f"{_LIVE}::test_who_waits_goes_by_the_price_of_now",
    ),
    EdgeDefect(
        name="what_comes_costs_what_it_did",
        guard="An instance on its way costs what its type does now",
        file="dispatcher/scheduler/placement/fleet_sync.py",
        old="self._pool.types.get(type_.name, type_)))",
        new="type_))",
        test=f"{_LIVE}::test_an_instance_on_its_way_costs_what_it_does_now",
    ),
)
