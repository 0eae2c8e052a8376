"""Drivers that tell of billing what cannot be: the kit finds each by the check that is for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from longshore.dispatcher.conformance.billing import CLOCKS_DIFFER_S
from longshore.dispatcher.conformance.kit import Outcome, Report, check_named, run
from longshore.drivers.billing import Billed, BillingEnd, BillingRule, BillingStart, EndedBy
from longshore.drivers.simulated.driver import SimulatedInstanceSet
from tests.broken_drivers import KnowsAllBills, Mistelling
from tests.conformance_bed import PATIENCE, OneOfMany, SimulatedBed, View

CHECKS = [check_named(name) for name in ("capabilities", "billing-rule", "billing")]
HURRY = replace(PATIENCE, listing_lag_s=0.5, boot_timeout_s=0.5, gone_timeout_s=0.5)
LATE_S = CLOCKS_DIFFER_S + 60
TO_THE_END = partial(replace, ends=BillingEnd.TERMINATED)


def report_of(directory: Path, view: View) -> Report:
    with closing(SimulatedBed(directory, view=view)) as bed:
        return run(bed.trial(patience=HURRY), only=CHECKS)


def failed(report: Report) -> dict[str, str]:
    return {r.name: r.why for r in report.results if r.outcome is Outcome.FAILED}


def when_over(change: Callable[[Billed], Billed]) -> Callable[[Billed, int], Billed]:
    return lambda billed, _: billed if billed.billed_until is None else change(billed)


def always(**changes: Any) -> Callable[[Billed, int], Billed]:
    return lambda billed, _: replace(billed, **changes)


def ending_later(seconds: float) -> Callable[[Billed, int], Billed]:
    def change(billed: Billed) -> Billed:
        assert billed.billed_until is not None
        return replace(billed, billed_until=billed.billed_until + seconds)

    return when_over(change)


def later(seconds: float) -> Callable[[Billed, int], Billed]:
    return lambda billed, _: billed.later_by(seconds)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({"listed": later(LATE_S), "asked": later(LATE_S)}, "its billing began at"),
        ({"listed": later(-LATE_S), "asked": later(-LATE_S)}, "its billing began at"),
        ({"listed": lambda billed, times: billed.later_by(times)}, "the next listing tells"),
        ({"listed": lambda billed, times: replace(billed, zone=f"z{times}")}, "the next listing"),
        ({"asked": always(zone="elsewhere")}, "`bills` tells"),
        ({"asked": when_over(lambda b: b.later_by(9))}, "`bills`, once it has ended, tells"),
        ({"listed": always(billed_until=1.0)}, "tells an end of the billing of an instance"),
        ({"listed": always(ended_by=EndedBy.ITSELF)}, "tells an end of the billing"),
        ({"listed": lambda *_: Billed()}, "no listing tells when the billing of"),
        ({"asked": always(billed_until=None)}, "or not when its billing ended"),
        ({"asked": ending_later(-60)}, "its billing ended at"),
        ({"asked": ending_later(LATE_S)}, "its billing ended at"),
        ({"asked": ending_later(LATE_S), "rule": TO_THE_END}, "its billing ended at"),
        ({"asked": when_over(partial(replace, ended_by=EndedBy.FAILURE))}, "was failure"),
    ],
)
def test_times_that_cannot_be_are_found(tmp_path: Path, broken: dict[str, Any], why: str) -> None:
    found = failed(report_of(tmp_path, lambda cloud: Mistelling(cloud, **broken)))
    assert found.keys() == {"billing"}
    assert why in found["billing"]


@pytest.mark.parametrize(
    "change",
    [{"unit_s": 0}, {"minimum_s": -1}, {"free_if_reclaimed_within_s": -1}],
    ids=str,
)
def test_a_rule_that_cannot_be_is_found(tmp_path: Path, change: dict[str, Any]) -> None:
    def wrong(rule: BillingRule) -> BillingRule:
        return replace(rule, **change)

    found = failed(report_of(tmp_path, lambda cloud: Mistelling(cloud, rule=wrong)))
    assert found.keys() == {"billing-rule"}


def test_a_rule_that_changes_is_found(tmp_path: Path) -> None:
    def any_rule(rule: BillingRule) -> BillingRule:
        rules.append(rule)
        return replace(rule, minimum_s=len(rules))

    rules: list[BillingRule] = []
    found = failed(report_of(tmp_path, lambda cloud: Mistelling(cloud, rule=any_rule)))
    assert found.keys() == {"billing-rule"}


def test_who_tells_of_what_never_was_is_found(tmp_path: Path) -> None:
    found = failed(report_of(tmp_path, KnowsAllBills))
    assert "which there never was" in found["billing"]


def test_who_claims_billing_and_tells_nothing_is_found_by_its_claim(tmp_path: Path) -> None:
    report = report_of(tmp_path, SimulatedInstanceSet)
    assert failed(report).keys() == {"capabilities"}
    not_shown = {r.name for r in report.results if r.outcome is Outcome.NOT_SHOWN}
    assert not_shown == {"billing-rule", "billing"}


def test_a_driver_that_tells_what_is_conforms_whatever_its_rule(tmp_path: Path) -> None:
    def requested(rule: BillingRule) -> BillingRule:
        return replace(rule, starts=BillingStart.REQUESTED, ends=BillingEnd.TERMINATED)

    views: list[View] = [OneOfMany, lambda cloud: Mistelling(cloud, rule=requested)]
    for number, view in enumerate(views):
        report = report_of(tmp_path / str(number), view)
        assert [r.outcome for r in report.results] == [Outcome.PASSED] * 3
