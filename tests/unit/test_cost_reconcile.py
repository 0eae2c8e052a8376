"""The ledger against a bill: joined by instance and hour, and the difference split exactly."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from longshore.dispatcher.cost.bills import BillLine, ChargeKind
from longshore.dispatcher.cost.money import GRAINS_PER_USD, in_dollars
from longshore.dispatcher.cost.reconcile import (
    Correction,
    Coverage,
    Part,
    Reconciliation,
    corrections,
    not_covered,
    reconcile,
)
from longshore.dispatcher.domain.ledger import MS_PER_HOUR, CostLine, PriceSource, UnitPrice
from tests.cost_samples import IDLE, MONTH, WORK, many

HOUR = MONTH.start
# The ledger has half an hour of i-0a1 at 0.115 USD an hour: 0.0575 USD.
BOOKED = Fraction("0.0575")


def billed(**changes: Any) -> BillLine:
    """Return a row that says of `WORK` what the ledger does, but for what is given."""
    cost = changes.get("effective_cost", Decimal("0.0575"))
    row = BillLine(
        resource_id="i-0a1",
        first_hour=HOUR,
        end_hour=HOUR + 1,
        kind=ChargeKind.INSTANCE,
        usage_s=Decimal(1800),
        list_cost=cost,
        billed_cost=cost,
        effective_cost=cost,
        currency="USD",
    )
    return replace(row, **changes)


def compared(
    lines: Sequence[CostLine], bill: Sequence[BillLine], cluster: str = ""
) -> Reconciliation:
    found = reconcile(lines, bill, MONTH, cluster)
    assert sum(found.parts.values()) == found.billed - found.booked
    return found


def parts_of(found: Reconciliation) -> dict[Part, Fraction]:
    return {part: amount for part, amount in found.parts.items() if amount}


@pytest.mark.parametrize(
    ("row", "parts"),
    [
        ({}, {}),
        # An hour in place of half of one, at the same price.
        (
            {"usage_s": Decimal(3600), "effective_cost": Decimal("0.115")},
            {Part.TIME: Fraction("0.0575")},
        ),
        # The same time at 0.2 USD an hour.
        ({"effective_cost": Decimal("0.1")}, {Part.PRICE: Fraction("0.0425")}),
        # The same time and list price, and 0.01 less to be paid.
        (
            {"list_cost": Decimal("0.0575"), "effective_cost": Decimal("0.0475")},
            {Part.DISCOUNT: Fraction("-0.01")},
        ),
        # All three: an hour, at a list price of 0.2, less 0.05.
        (
            {
                "usage_s": Decimal(3600),
                "list_cost": Decimal("0.2"),
                "effective_cost": Decimal("0.15"),
            },
            {
                Part.TIME: Fraction("0.0575"),
                Part.PRICE: Fraction("0.085"),
                Part.DISCOUNT: Fraction("-0.05"),
            },
        ),
        # Without a time, all is price; without a list price, nothing is discount.
        (
            {"usage_s": None, "list_cost": None, "effective_cost": Decimal("0.115")},
            {Part.PRICE: Fraction("0.0575")},
        ),
        (
            {"resource_id": "i-other", "effective_cost": Decimal(1)},
            {Part.ONLY_IN_BILL: Fraction(1), Part.ONLY_IN_LEDGER: -BOOKED},
        ),
        (
            {"first_hour": HOUR + 1, "end_hour": HOUR + 2, "effective_cost": Decimal(1)},
            {Part.ONLY_IN_BILL: Fraction(1), Part.ONLY_IN_LEDGER: -BOOKED},
        ),
    ],
)
def test_a_difference_is_split(row: dict[str, Any], parts: dict[Part, Fraction]) -> None:
    assert parts_of(compared([WORK], [billed(**row)])) == parts


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        (ChargeKind.DISCOUNT, Part.DISCOUNT),
        (ChargeKind.TAX, Part.NOT_MODELLED),
        (ChargeKind.TRANSFER, Part.NOT_MODELLED),
        (ChargeKind.STORAGE, Part.NOT_MODELLED),
        (ChargeKind.CREDIT, Part.NOT_MODELLED),
    ],
)
def test_what_stands_beside_an_instance_is_told_with_it(kind: ChargeKind, part: Part) -> None:
    beside = billed(kind=kind, usage_s=None, effective_cost=Decimal("-0.01"))
    found = compared([WORK], [billed(), beside])
    assert parts_of(found) == {part: Fraction("-0.01")}
    [instance] = found.instances
    assert (instance.instance_id, instance.total) == ("i-0a1", Fraction("-0.01"))
    assert found.not_modelled == (() if part is Part.DISCOUNT else ((kind, Fraction("-0.01")),))


def test_what_is_of_no_resource_is_not_modelled_whatever_it_is() -> None:
    kinds = (ChargeKind.TAX, ChargeKind.DISCOUNT, ChargeKind.TAX)
    rows = [billed(kind=each, resource_id="", effective_cost=Decimal(2)) for each in kinds]
    found = compared([WORK], [billed(), *rows])
    assert parts_of(found) == {Part.NOT_MODELLED: Fraction(6)}
    told = ((ChargeKind.DISCOUNT, Fraction(2)), (ChargeKind.TAX, Fraction(4)))
    assert found.not_modelled == told


def test_lines_of_an_hour_are_taken_together() -> None:
    """An attempt's line and the rest of the instance are one hour to the cloud."""
    row = billed(usage_s=Decimal(3600), effective_cost=Decimal("0.115"))
    assert parts_of(compared([WORK, IDLE], [row])) == {}


def test_rows_of_an_hour_are_taken_together() -> None:
    half = billed(usage_s=Decimal(900), effective_cost=Decimal("0.02875"))
    assert parts_of(compared([WORK], [half, half])) == {}


@pytest.mark.parametrize(
    "resource_id",
    [
        "i-0a1",
        "arn:aws:ec2:eu-central-1:1:instance/i-0a1",
        "/subscriptions/s/Microsoft.Compute/virtualMachines/I-0A1",
    ],
)
def test_an_instance_is_known_by_what_a_bill_calls_it(resource_id: str) -> None:
    assert parts_of(compared([WORK], [billed(resource_id=resource_id)])) == {}


def test_a_name_that_two_have_names_neither() -> None:
    lines = [replace(WORK, instance_id=f"zone-{each}/vm") for each in "ab"]
    found = compared(lines, [billed(resource_id="zone-c/vm"), billed(resource_id="Zone-A/VM")])
    assert parts_of(found) == {Part.ONLY_IN_BILL: BOOKED, Part.ONLY_IN_LEDGER: -BOOKED}
    assert {each.instance_id for each in found.instances if each.total} == {
        "zone-b/vm",
        "zone-c/vm",
    }


def test_a_bill_of_days_is_compared_by_days() -> None:
    lines = [replace(WORK, hour=HOUR + each) for each in (0, 5, 23, 24)]
    day = billed(end_hour=HOUR + 24, usage_s=Decimal(5400), effective_cost=Decimal("0.1725"))
    found = compared(lines, [day])
    # The hour after that day is in the ledger alone.
    assert parts_of(found) == {Part.ONLY_IN_LEDGER: -BOOKED}
    assert (found.coarsest_hours, found.billed_until_hour) == (24, HOUR + 24)
    [instance] = found.instances
    assert [each.booked_ms for each in instance.windows] == [5_400_000, 1_800_000]


def test_rows_that_overlap_are_one_window_and_rows_in_a_row_are_not() -> None:
    lines = [replace(WORK, hour=HOUR + each) for each in range(3)]
    hours = [billed(first_hour=HOUR + each, end_hour=HOUR + each + 1) for each in range(3)]
    [instance] = compared(lines, hours).instances
    assert len(instance.windows) == 3
    overlapping = billed(first_hour=HOUR + 1, end_hour=HOUR + 3, effective_cost=Decimal(0))
    [instance] = compared(lines, [*hours, overlapping]).instances
    assert [each.end_hour - each.first_hour for each in instance.windows] == [1, 2]


def test_what_is_not_of_the_cluster_is_told_apart() -> None:
    rows = [
        billed(),  # ours without a tag: the ledger knows it
        billed(resource_id="i-leaked", cluster="lab", effective_cost=Decimal(3)),
        billed(resource_id="i-theirs", cluster="other", effective_cost=Decimal(5)),
        billed(resource_id="", kind=ChargeKind.TAX, effective_cost=Decimal(7)),
    ]
    found = compared([WORK], rows, "lab")
    assert parts_of(found) == {Part.ONLY_IN_BILL: Fraction(3)}
    assert found.elsewhere == 12


def test_only_the_hours_that_are_asked_for_are_compared() -> None:
    early, late = MONTH.start - 1, MONTH.stop
    lines = [WORK, replace(WORK, hour=early), replace(WORK, hour=late)]
    rows = [billed(), billed(first_hour=late, end_hour=late + 1, effective_cost=Decimal(1))]
    found = compared(lines, rows)
    assert parts_of(found) == {}
    assert found.outside == 1 - 2 * BOOKED


def test_the_most_different_come_first() -> None:
    lines = [replace(WORK, instance_id=each) for each in ("i-a", "i-b", "i-c", "i-d")]
    costs = {"i-a": "0.05", "i-b": "0.0575", "i-c": "2", "i-d": "0.05"}
    rows = [billed(resource_id=k, effective_cost=Decimal(v)) for k, v in costs.items()]
    told = [each.instance_id for each in compared(lines, rows).instances]
    assert told == ["i-c", "i-a", "i-d", "i-b"]


def test_any_bill_is_split_without_a_remainder() -> None:
    """Thirds of cents, rows of days, strangers and tax: `compared` holds that all adds up."""
    dice = random.Random(7)
    for _ in range(20):
        lines = list(many(60, dice.randrange(1000)))
        rows = [
            billed(
                resource_id=dice.choice(lines).instance_id if dice.random() < 0.9 else "stranger",
                first_hour=(first := dice.choice(MONTH)),
                end_hour=first + dice.choice((1, 1, 24, 700)),
                kind=dice.choice(list(ChargeKind)),
                usage_s=dice.choice((None, Decimal(dice.randrange(9999)) / 8)),
                list_cost=dice.choice((None, Decimal(dice.randrange(10**9)).scaleb(-7))),
                effective_cost=Decimal(dice.randrange(-(10**8), 10**9)).scaleb(-11),
            )
            for _ in range(100)
        ]
        found = compared(lines, rows)
        assert len(parts_of(found)) > 3
        in_windows = sum(each.total for each in found.instances)
        nobodys = found.billed - found.booked - in_windows
        assert found.parts[Part.NOT_MODELLED] - nobodys == sum(
            amount
            for each in found.instances
            for window in each.windows
            for part, amount in window.parts
            if part is Part.NOT_MODELLED
        )


def test_a_split_stays_short_however_many_hours_it_is_of() -> None:
    """Each hour divides by another time: without rounding, their sum has thousands of digits."""
    dear = UnitPrice(nusd_per_hour=7, source=PriceSource.HISTORY)
    lines = [replace(WORK, hour=each, quantity_ms=each + 7) for each in MONTH]
    lines += [replace(WORK, hour=each, quantity_ms=each, price=dear) for each in MONTH]
    rows = [billed(first_hour=each, end_hour=each + 1) for each in MONTH]
    found = compared(lines, rows)
    assert max(each.denominator for each in found.parts.values()) < 10**25


def test_what_nobody_knew_the_price_of_is_a_difference_of_price() -> None:
    unknown = replace(WORK, price=UnitPrice(nusd_per_hour=0, source=PriceSource.NONE))
    found = compared([unknown], [billed(usage_s=Decimal(3600))])
    assert parts_of(found) == {Part.PRICE: Fraction("0.0575")}


def test_an_hour_without_time_is_a_difference_of_time() -> None:
    found = compared([replace(WORK, quantity_ms=0)], [billed()])
    assert parts_of(found) == {Part.TIME: Fraction("0.0575")}


# ---- what is to be booked -----------------------------------------------------------------------


def booked_of(found: Reconciliation, coverage: Coverage = Coverage.WHOLE) -> list[Correction]:
    return list(corrections(found, coverage))


def test_what_is_booked_makes_the_ledger_say_what_the_bill_does() -> None:
    lines = list(many(300))
    rows = [
        billed(
            resource_id=each.instance_id,
            first_hour=each.hour,
            end_hour=each.hour + 1,
            effective_cost=Decimal(each.quantity_ms) / 7_000_000,
        )
        for each in lines[::2]
    ]
    tax = billed(resource_id="", kind=ChargeKind.TAX, effective_cost=Decimal(9))
    found = compared(lines, [*rows, tax])
    booked = booked_of(found)
    wanted = (found.billed - found.booked - 9) * GRAINS_PER_USD
    assert sum(each.grains for each in booked) == round(wanted)
    assert {each.part for each in booked} == {Part.TIME, Part.PRICE, Part.ONLY_IN_LEDGER}


def test_a_correction_says_how_time_changes() -> None:
    row = billed(usage_s=Decimal(3600), list_cost=Decimal("0.2"), effective_cost=Decimal("0.15"))
    gone = replace(WORK, instance_id="i-gone")
    leaked = billed(resource_id="i-leaked", usage_s=Decimal(60), effective_cost=Decimal(1))
    told = [
        (each.instance_id, each.part, each.quantity_ms)
        for each in booked_of(compared([WORK, gone], [row, leaked]))
    ]
    assert told == [
        ("i-0a1", Part.TIME, MS_PER_HOUR // 2),
        ("i-0a1", Part.PRICE, 0),
        ("i-0a1", Part.DISCOUNT, 0),
        ("i-gone", Part.ONLY_IN_LEDGER, -MS_PER_HOUR // 2),
        ("i-leaked", Part.ONLY_IN_BILL, 60_000),
    ]


def test_what_a_bill_has_not_come_to_yet_is_not_taken_back() -> None:
    late = replace(WORK, hour=HOUR + 5)
    missed = replace(WORK, instance_id="i-missed")
    found = compared([WORK, late, missed], [billed()])
    [correction] = booked_of(found, Coverage.SO_FAR)
    assert correction.instance_id == "i-missed"
    assert len(booked_of(found)) == 2
    assert booked_of(compared([WORK], []), Coverage.SO_FAR) == []
    assert booked_of(compared([WORK], []), Coverage.WITHIN) == []


def test_of_a_part_of_a_bill_only_hours_within_it_are_taken_back() -> None:
    lines = [replace(WORK, hour=HOUR + n) for n in range(5)]
    found = compared(lines, [billed(first_hour=HOUR + n, end_hour=HOUR + n + 1) for n in (1, 3)])
    taken = {each.first_hour for each in booked_of(found, Coverage.WITHIN)}
    assert (HOUR + 2 in taken, HOUR in taken, HOUR + 4 in taken) == (True, False, False)
    assert {each: not_covered(found, each) for each in Coverage} == {
        Coverage.WHOLE: 2,
        Coverage.SO_FAR: 1,
        Coverage.WITHIN: 0,
    }


def test_the_rounding_of_decimals_is_not_booked() -> None:
    ours = in_dollars(WORK.grains)
    for more, booked in (("1e-12", False), ("-9e-10", False), ("2e-9", True)):
        row = billed(effective_cost=ours + Decimal(more), list_cost=None)
        assert bool(booked_of(compared([WORK], [row]))) == booked, more


def test_what_the_ledger_does_not_model_is_never_booked() -> None:
    transfer = billed(kind=ChargeKind.TRANSFER, effective_cost=Decimal(4))
    assert booked_of(compared([WORK], [billed(), transfer])) == []
