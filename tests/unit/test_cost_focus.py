"""The ledger as FOCUS: the columns of each version, sums that are exact, and a validator's word."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal

import pytest
from focus_data_toolkit.model.validator import lint_focus_1_4_structure, load_model

from longshore.dispatcher.cost.focus import (
    COLUMNS,
    FocusContext,
    FocusVersion,
    columns_of,
    write_focus,
)
from longshore.dispatcher.cost.money import GRAINS_PER_USD, in_dollars
from longshore.dispatcher.domain.ledger import CostLine, PriceSource, UnitPrice
from tests.cost_samples import ALIGN, CONTEXT, IDLE, MONTH, UNUSED, WORK, many

MANDATORY_1_2 = frozenset(
    {"BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd"}
    | {"BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription"}
    | {"ChargePeriodEnd", "ChargePeriodStart", "ContractedCost", "EffectiveCost"}
    | {"InvoiceIssuerName", "ListCost", "PricingQuantity", "PricingUnit", "ProviderName"}
    | {"PublisherName", "ServiceCategory", "ServiceName"}
)
"""As focus-validator has them, which `test_cost_focus_validator.py` holds."""

COSTS = ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost")
BOTH = list(FocusVersion)


def told(
    lines: Iterable[CostLine], version: FocusVersion, context: FocusContext = CONTEXT
) -> list[dict[str, str]]:
    out = io.StringIO(newline="")
    write_focus(lines, out, version, context)
    out.seek(0)
    return list(csv.DictReader(out, strict=True))


def test_a_line_is_a_row_of_1_4() -> None:
    [row] = told([WORK], FocusVersion.V1_4)
    assert row["BillingPeriodStart"] == "2026-10-01T00:00:00Z"
    assert row["BillingPeriodEnd"] == "2026-11-01T00:00:00Z"
    assert row["ChargePeriodStart"] == "2026-10-01T00:00:00Z"
    assert row["ChargePeriodEnd"] == "2026-10-01T01:00:00Z"
    assert {row[name] for name in COSTS} == {"0.057500000000"}
    assert (row["PricingQuantity"], row["PricingUnit"]) == ("0.500000000000", "Hours")
    assert (row["ListUnitPrice"], row["PricingCategory"]) == ("0.115000000", "Standard")
    assert (row["ResourceId"], row["RegionId"]) == ("i-0a1", "eu-central-1")
    assert json.loads(row["Tags"]) == {"longshore-cluster": "lab", "longshore-type": "large"}
    assert (row["AllocatedResourceId"], row["AllocatedResourceName"]) == ("c-1", "align/sort[3]")
    assert json.loads(row["AllocatedTags"]) == {"stage": "prod", "team": "cells"}
    ours = ("x_Cause", "x_Project", "x_User", "x_Job", "x_PriceSource", "x_Certainty")
    assert [row[each] for each in ours] == ["work", "genome", "ana", "align", "config", "certain"]


def test_what_is_nobodys_is_allocated_to_nobody() -> None:
    [row] = told([IDLE], FocusVersion.V1_4)
    assert {row[name] for name in row if name.startswith("Allocated")} == {""}
    assert (row["x_Cause"], row["x_User"]) == ("empty", "")


def test_1_2_has_the_later_columns_as_our_own() -> None:
    [row] = told([WORK], FocusVersion.V1_2)
    assert row["x_AllocatedResourceId"] == "c-1"
    assert not [name for name in row if name.startswith("Allocated")]
    assert (row["ProviderName"], row["PublisherName"]) == ("AWS", "AWS")
    assert "ServiceProviderName" not in row


@pytest.mark.parametrize("version", BOTH)
def test_every_mandatory_column_is_there_and_said_to_be(version: FocusVersion) -> None:
    specified = load_model()["datasets"]["Cost and Usage"]["columns"]
    mandatory_1_4 = {n for n, each in specified.items() if each["feature_level"] == "Mandatory"}
    wanted = {FocusVersion.V1_2: MANDATORY_1_2, FocusVersion.V1_4: mandatory_1_4}[version]
    assert {each.name for each in columns_of(version) if each.is_mandatory} == wanted


def test_a_column_has_one_name_in_a_version() -> None:
    for version in FocusVersion:
        names = [each.name for each in columns_of(version)]
        assert len(set(names)) == len(names) > 45
    assert {version for each in COLUMNS for version in each.versions} == set(FocusVersion)


@pytest.mark.parametrize("version", BOTH)
def test_costs_and_hours_add_up_to_the_exact_sum(version: FocusVersion) -> None:
    lines = list(many(2000))
    rows = told(lines, version)
    for name in COSTS:
        assert sum(Decimal(row[name]) for row in rows) == in_dollars(
            sum(line.grains for line in lines)
        )
    of_time = [row for row in rows if row["PricingUnit"] == "Hours"]
    hours = sum((Decimal(row["PricingQuantity"]) for row in of_time), Decimal(0))
    assert abs(hours * 3_600_000 - sum(line.quantity_ms for line in lines)) < Decimal("1e-5")


def test_price_times_quantity_is_the_cost_as_validators_ask() -> None:
    for row in told(many(2000), FocusVersion.V1_4):
        product = Decimal(row["ListUnitPrice"]) * Decimal(row["PricingQuantity"])
        assert abs(product - Decimal(row["ListCost"])) < Decimal("1e-9")


def test_the_linter_of_1_4_finds_nothing() -> None:
    supported = ("SupportsUnitPricing", "SupportsMultiplePricingCategories")
    rows = told(many(300), FocusVersion.V1_4)
    report = lint_focus_1_4_structure("Cost and Usage", rows, supported_conditions=supported)
    assert report.messages() == []
    # It looks: what is wrong in one cell is found.
    rows[7]["ListCost"] = "17"
    found = lint_focus_1_4_structure("Cost and Usage", rows).violations
    assert [each.row_index for each in found] == [7]


def test_what_is_prepaid_and_not_run_is_about_no_resource() -> None:
    rows = told([UNUSED, WORK], FocusVersion.V1_4)
    about = [(row["ResourceId"], row["ResourceType"], row["x_State"]) for row in rows]
    assert about == [("", "", "unused"), ("i-0a1", "Instance", "work")]
    assert (rows[0]["x_PriceSource"], rows[0]["ListUnitPrice"]) == ("prepaid", "0.115000000")
    supported = ("SupportsUnitPricing", "SupportsMultiplePricingCategories")
    report = lint_focus_1_4_structure("Cost and Usage", rows, supported_conditions=supported)
    assert report.messages() == []


def test_an_instance_that_only_a_bill_has_is_of_an_unknown_type() -> None:
    only = replace(WORK, type_name="", provider_type="", cause="correction: only in the bill")
    [row] = told([only], FocusVersion.V1_4)
    assert (row["SkuId"], row["ChargeDescription"]) == ("unknown", "correction: only in the bill")
    assert row["SkuPriceDetails"] == '{"InstanceType":"unknown"}'


def test_the_month_of_each_line_is_its_own() -> None:
    lines = [replace(WORK, hour=hour) for hour in (MONTH.start - 1, MONTH.start, MONTH.stop)]
    starts = [row["BillingPeriodStart"][:7] for row in told(lines, FocusVersion.V1_4)]
    assert starts == ["2026-09", "2026-10", "2026-11"]


def test_spot_is_dynamic_and_a_price_that_nobody_knows_says_so() -> None:
    unknown = UnitPrice(nusd_per_hour=0, source=PriceSource.NONE)
    [row] = told([replace(WORK, preemptible=True, price=unknown)], FocusVersion.V1_4)
    assert (row["PricingCategory"], row["x_PriceSource"]) == ("Dynamic", "none")
    assert (row["SkuId"], row["SkuPriceId"]) == ("m5.large", "m5.large/preemptible/eu-central-1a")


@pytest.mark.parametrize("version", BOTH)
def test_names_that_users_choose_run_nothing_in_a_spreadsheet(version: FocusVersion) -> None:
    hostile = replace(
        ALIGN, job_name="=HYPERLINK(1)", project="+x", user="@y", labels=(("=", "="),)
    )
    for row in told([replace(WORK, account=hostile)], version):
        assert (row["x_Job"], row["x_Project"], row["x_User"]) == ("'=HYPERLINK(1)", "'+x", "'@y")
        assert not [name for name, text in row.items() if text[:1] in {"=", "+", "@"}]


def test_an_unknown_zone_stands_for_its_region() -> None:
    [row, nowhere] = told([replace(WORK, zone="z9"), replace(WORK, zone="")], FocusVersion.V1_4)
    assert (row["RegionId"], row["AvailabilityZone"]) == ("z9", "z9")
    assert (nowhere["RegionId"], nowhere["AvailabilityZone"]) == ("", "")


def test_what_a_line_costs_beside_its_time_has_a_row_of_its_own() -> None:
    third = GRAINS_PER_USD // 3
    both = replace(WORK, flat_grains=third)
    alone = replace(WORK, quantity_ms=0, flat_grains=third)
    back = replace(WORK, quantity_ms=0, flat_grains=-third)
    rows = told([both, alone, back], FocusVersion.V1_4)
    counted = [(row["PricingQuantity"], row["PricingUnit"], row["ChargeClass"]) for row in rows]
    assert counted == [
        ("0.500000000000", "Hours", ""),
        ("1", "Charges", ""),
        ("1", "Charges", ""),
        ("-1", "Charges", ""),
    ]
    assert Decimal(rows[0]["ListCost"]) == Decimal("0.0575")
    assert sum(Decimal(row["ListCost"]) for row in rows) == in_dollars(WORK.grains + third)
    assert Decimal(rows[3]["ListUnitPrice"]) > 0


def test_a_line_without_time_and_cost_is_a_row_too() -> None:
    [row] = told([replace(WORK, quantity_ms=0)], FocusVersion.V1_4)
    assert row["BilledCost"] == "0.000000000000"
