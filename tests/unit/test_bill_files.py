"""Clouds' bills are read as they come, told all that is wrong, and never believed to be small."""

from __future__ import annotations

import csv
import gzip
import itertools
import sys
import zipfile
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from focus_data_toolkit.cli import main as focus_toolkit

from longshore.dispatcher.cli.bill_files import (
    LIMITS,
    BillFileError,
    BillFileLimits,
    read_bill,
)
from longshore.dispatcher.cost.bills import ChargeKind
from longshore.dispatcher.cost.focus import FocusVersion, write_focus
from longshore.dispatcher.cost.reconcile import reconcile
from longshore.dispatcher.cost.utc_calendar import utc_hour_text
from tests.bill_samples import CUR_ROW, FOCUS_ROW, written
from tests.cost_samples import CONTEXT, MONTH, many

HOUR = MONTH.start


def problems_of(path: Path, limits: BillFileLimits = LIMITS) -> list[tuple[str, str]]:
    with pytest.raises(BillFileError) as caught:
        list(read_bill(path, limits=limits))
    return list(caught.value.problems)


def packed(path: Path) -> Path:
    target = path.with_suffix(".csv.gz")
    target.write_bytes(gzip.compress(path.read_bytes()))
    return target


def as_parquet(path: Path) -> Path:
    """Write a CSV file anew as clouds write Parquet: typed where it can be, and tags as a map."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns: dict[str, pa.Array] = {}
    for name in rows[0]:
        cells = [row[name] or None for row in rows]
        if name.endswith(("PeriodStart", "PeriodEnd")):
            times = [datetime.fromisoformat(each) if each else None for each in cells]
            columns[name] = pa.array(times, pa.timestamp("ms", tz="UTC"))
        elif name.endswith("Cost"):
            columns[name] = pa.array([Decimal(each or 0) for each in cells], pa.decimal128(38, 18))
        else:
            columns[name] = pa.array(cells, pa.string())
    target = path.with_suffix(".parquet")
    pq.write_table(pa.table(columns), target, row_group_size=50)
    return target


# ---- what clouds send ---------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["aws", "azure", "gcp"])
@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_a_generated_bill_of_each_cloud_is_read_whole(
    provider: str, version: str, tmp_path: Path
) -> None:
    words = f"generate --provider {provider} --focus-version {version} --rows 150 --seed 3 --out"
    assert focus_toolkit([*words.split(), str(tmp_path)]) == 0
    [file] = tmp_path.glob("*cost_and_usage*.csv")
    with file.open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    lines = list(read_bill(file))
    assert [each.resource_id for each in lines] == [row["ResourceId"] for row in rows]
    assert sum(each.effective_cost for each in lines) == sum(
        Decimal(row["EffectiveCost"]) for row in rows
    )
    assert {ChargeKind.INSTANCE, ChargeKind.COMMITMENT} < {each.kind for each in lines}
    for row, line in zip(rows, lines, strict=True):
        assert utc_hour_text(line.first_hour) == row["ChargePeriodStart"]
        assert utc_hour_text(line.end_hour) == row["ChargePeriodEnd"]
        if line.kind is ChargeKind.INSTANCE:
            assert (line.usage_s or 0) == Decimal(row["ConsumedQuantity"] or 0) * 3600
    assert list(read_bill(packed(file))) == lines
    assert list(read_bill(as_parquet(file))) == lines


@pytest.mark.parametrize("version", list(FocusVersion))
def test_our_own_export_is_a_bill_that_the_ledger_agrees_with(
    version: FocusVersion, tmp_path: Path
) -> None:
    lines = list(many(400))
    file = tmp_path / "bill.csv"
    with file.open("w", encoding="utf-8", newline="") as out:
        write_focus(lines, out, version, CONTEXT)
    found = reconcile(lines, read_bill(file), MONTH, "lab")
    assert found.elsewhere == 0
    # What is left is what decimals of twelve places cannot say.
    assert all(abs(amount) < Fraction("1e-7") for amount in found.parts.values())
    assert abs(found.billed - found.booked) <= Fraction("1e-12")


CUR_CASES: list[tuple[dict[str, str], ChargeKind, str, str | None]] = [
    # What a row says, its kind, its effective cost, and its public price.
    ({}, ChargeKind.INSTANCE, "0.0575", "0.0575"),
    ({"line_item_usage_type": "SpotUsage:m5.large"}, ChargeKind.INSTANCE, "0.0575", None),
    (
        {"line_item_line_item_type": "DiscountedUsage", "reservation_effective_cost": "0.03"},
        *(ChargeKind.INSTANCE, "0.03", "0.0575"),
    ),
    (
        {
            "line_item_line_item_type": "SavingsPlanCoveredUsage",
            "savings_plan_savings_plan_effective_cost": "0.04",
        },
        *(ChargeKind.INSTANCE, "0.04", "0.0575"),
    ),
    ({"line_item_line_item_type": "SavingsPlanNegation"}, ChargeKind.COMMITMENT, "0", "0.0575"),
    ({"line_item_line_item_type": "RIFee"}, ChargeKind.COMMITMENT, "0", "0.0575"),
    ({"line_item_line_item_type": "EdpDiscount"}, ChargeKind.DISCOUNT, "0.0575", "0.0575"),
    ({"line_item_line_item_type": "Tax"}, ChargeKind.TAX, "0.0575", "0.0575"),
    ({"line_item_line_item_type": "Credit"}, ChargeKind.CREDIT, "0.0575", "0.0575"),
    ({"line_item_product_code": "AWSSupportBusiness"}, ChargeKind.SUPPORT, "0.0575", "0.0575"),
    ({"line_item_usage_type": "EBS:VolumeUsage.gp3"}, ChargeKind.STORAGE, "0.0575", "0.0575"),
    ({"line_item_usage_type": "EUC1-DataTransfer-Out-Bytes"}, ChargeKind.TRANSFER, "0.0575", None),
    ({"line_item_usage_type": "EUC1-NatGateway-Hours"}, ChargeKind.TRANSFER, "0.0575", "0.0575"),
    ({"line_item_usage_type": "CW:Metrics"}, ChargeKind.OTHER, "0.0575", "0.0575"),
]


@pytest.mark.parametrize(("changes", "kind", "effective", "listed"), CUR_CASES)
def test_a_row_of_cur_2_is_read(
    changes: dict[str, str], kind: ChargeKind, effective: str, listed: str | None, tmp_path: Path
) -> None:
    row = {
        **CUR_ROW,
        "reservation_effective_cost": "",
        "savings_plan_savings_plan_effective_cost": "",
        **({} if listed else {"pricing_public_on_demand_cost": ""}),
        **changes,
    }
    [line] = read_bill(written(tmp_path / "cur.csv", [row]))
    assert (line.kind, line.effective_cost) == (kind, Decimal(effective))
    assert line.list_cost == (None if listed is None else Decimal(listed))
    assert line.usage_s == (1800 if kind is ChargeKind.INSTANCE else None)
    assert (line.resource_id, line.cluster) == ("i-0a1", "lab")


FOCUS_CASES: list[tuple[dict[str, str], ChargeKind, str | None]] = [
    ({}, ChargeKind.INSTANCE, "1800"),
    ({"PricingUnit": "Minutes"}, ChargeKind.INSTANCE, "30"),
    ({"PricingUnit": "100 Hours"}, ChargeKind.INSTANCE, "180000"),
    ({"ServiceSubcategory": "Containers"}, ChargeKind.OTHER, "1800"),
    ({"SkuMeter": "NAT Gateway"}, ChargeKind.OTHER, "1800"),
    ({"PricingUnit": "GB-Months"}, ChargeKind.STORAGE, None),
    ({"PricingUnit": "GB"}, ChargeKind.TRANSFER, None),
    ({"PricingUnit": "GiB-Hours"}, ChargeKind.INSTANCE, None),
    ({"PricingUnit": "Charges"}, ChargeKind.INSTANCE, "0"),
    (
        {"PricingUnit": "GB-Seconds", "ServiceSubcategory": "Serverless Compute"},
        *(ChargeKind.OTHER, None),
    ),
    ({"PricingUnit": "Metrics", "ServiceSubcategory": ""}, ChargeKind.OTHER, None),
    ({"ServiceCategory": "Storage"}, ChargeKind.STORAGE, "1800"),
    ({"ServiceCategory": "Networking"}, ChargeKind.TRANSFER, "1800"),
    ({"ServiceCategory": "Databases"}, ChargeKind.OTHER, "1800"),
    ({"ServiceSubcategory": "Support", "ServiceCategory": "Other"}, ChargeKind.SUPPORT, "1800"),
    ({"CommitmentDiscountStatus": "Unused"}, ChargeKind.COMMITMENT, "1800"),
    ({"x_State": "unused"}, ChargeKind.COMMITMENT, "1800"),
    ({"x_State": "work"}, ChargeKind.INSTANCE, "1800"),
    ({"ChargeCategory": "Purchase"}, ChargeKind.COMMITMENT, "1800"),
    ({"ChargeCategory": "Tax", "PricingQuantity": ""}, ChargeKind.TAX, None),
    ({"ChargeCategory": "Credit"}, ChargeKind.CREDIT, "1800"),
    ({"ChargeClass": "Correction", "PricingQuantity": ""}, ChargeKind.INSTANCE, "0"),
]


@pytest.mark.parametrize(("changes", "kind", "usage_s"), FOCUS_CASES)
def test_a_row_of_focus_is_read(
    changes: dict[str, str], kind: ChargeKind, usage_s: str | None, tmp_path: Path
) -> None:
    [line] = read_bill(written(tmp_path / "focus.csv", [{**FOCUS_ROW, **changes}]))
    assert line.kind is kind
    assert line.usage_s == (None if usage_s is None else Decimal(usage_s))
    costs = (line.billed_cost, line.effective_cost, line.list_cost)
    assert costs == (Decimal("0.05"), Decimal("0.0475"), Decimal("0.0575"))


def test_what_spot_would_have_cost_is_no_discount(tmp_path: Path) -> None:
    [line] = read_bill(written(tmp_path / "f.csv", [{**FOCUS_ROW, "PricingCategory": "Dynamic"}]))
    assert line.list_cost is None


def test_a_row_of_a_day_or_of_odd_minutes_is_about_the_hours_that_it_touches(
    tmp_path: Path,
) -> None:
    times = [
        ("2026-10-01T00:00:00Z", "2026-10-02T00:00:00Z"),
        ("2026-10-01T00:59:59Z", "2026-10-01T01:00:01Z"),
        ("2026-10-01T00:00:00Z", "2026-10-01T00:00:00Z"),
    ]
    rows = [{**FOCUS_ROW, "ChargePeriodStart": a, "ChargePeriodEnd": b} for a, b in times]
    lines = read_bill(written(tmp_path / "f.csv", rows))
    told = [(each.first_hour - HOUR, each.end_hour - HOUR) for each in lines]
    assert told == [(0, 24), (0, 2), (0, 1)]


@pytest.mark.parametrize(
    ("tags", "cluster"),
    [
        ("", ""),
        ('{"team":"cells"}', ""),
        ('{"longshore-cluster":"lab"}', "lab"),
        ('{"user:longshore-cluster":"lab"}', "lab"),
        ('{"user_longshore_cluster":"lab"}', "lab"),
        ('{"note":"longshore-cluster"}', ""),
    ],
)
def test_the_tag_of_the_cluster_is_found(tags: str, cluster: str, tmp_path: Path) -> None:
    [line] = read_bill(written(tmp_path / "f.csv", [{**FOCUS_ROW, "Tags": tags}]))
    assert line.cluster == cluster


def test_parquet_of_cur_2_is_read_with_its_types(tmp_path: Path) -> None:
    columns = {name: [cell] for name, cell in CUR_ROW.items()}
    east = timezone(timedelta(hours=2))
    table = pa.table(
        {
            **columns,
            "line_item_usage_start_date": [datetime(2026, 10, 1, 2, tzinfo=east)],
            "line_item_usage_end_date": pa.array([datetime(2026, 10, 1, 1)], pa.timestamp("ms")),  # noqa: DTZ001 - as AWS writes it
            "line_item_usage_amount": [0.5],
            "line_item_unblended_cost": [1e-05],
            "resource_tags": pa.array(
                [[("user_longshore_cluster", "lab")]], pa.map_(pa.string(), pa.string())
            ),
            "product": [{"never": "read"}],
        }
    )
    pq.write_table(table, tmp_path / "cur.parquet")
    [line] = read_bill(tmp_path / "cur.parquet")
    assert (line.first_hour, line.end_hour, line.cluster) == (HOUR, HOUR + 1, "lab")
    assert (line.usage_s, line.billed_cost) == (Decimal(1800), Decimal("0.00001"))


def test_rows_leave_one_by_one(tmp_path: Path) -> None:
    """A bill has millions of rows: the first is there though the last is not read yet."""
    rows = [FOCUS_ROW] * 2000 + [{**FOCUS_ROW, "BilledCost": "x"}]
    reading = read_bill(written(tmp_path / "f.csv", rows))
    assert [each.resource_id for each in itertools.islice(reading, 2000)] == ["i-0a1"] * 2000
    with pytest.raises(BillFileError):
        next(reading)


# ---- what is wrong ------------------------------------------------------------------------------


def test_all_that_is_wrong_is_told_at_once_with_its_row(tmp_path: Path) -> None:
    rows = [
        {**FOCUS_ROW, "BilledCost": "", "ListCost": "$5"},
        FOCUS_ROW,
        {**FOCUS_ROW, "ChargePeriodEnd": "2026-09-30T00:00:00Z", "PricingQuantity": "half"},
        {**FOCUS_ROW, "ChargePeriodStart": "1.10.2026", "Tags": "longshore-cluster=lab"},
    ]
    found = problems_of(written(tmp_path / "f.csv", rows))
    assert [place for place, _ in found] == [
        "row 2, ListCost",
        "row 2, BilledCost",
        "row 4, ChargePeriodEnd",
        "row 4, PricingQuantity",
        "row 5, ChargePeriodStart",
        "row 5, Tags",
    ]
    assert not [what for _, what in found if "$5" in what or "half" in what]


def test_too_many_problems_end_the_reading(tmp_path: Path) -> None:
    file = written(tmp_path / "f.csv", [{**FOCUS_ROW, "BilledCost": "x"}] * 300)
    found = problems_of(file)
    assert len(found) == 101
    assert "only the first 100" in found[-1][1]


@pytest.mark.parametrize(
    "number",
    [
        *(
            "=1+1",
            "1,5",
            "NaN",
            "Infinity",
            "1e99",
            "1e-99",
            "0x10",
            "+1",
            "1_000",
            "\N{ARABIC-INDIC DIGIT ONE}",
        ),
        *("9" * 31, "0." + "1" * 31, "1" * 100_000, "--1", "1e5e5"),
    ],
)
def test_what_is_no_number_of_money_is_refused(number: str, tmp_path: Path) -> None:
    [(place, what)] = problems_of(
        written(tmp_path / "f.csv", [{**FOCUS_ROW, "BilledCost": number}])
    )
    assert place == "row 2, BilledCost"
    assert what.startswith("must be a number such as")


def test_another_currency_is_told_once_and_nothing_is_converted(tmp_path: Path) -> None:
    rows = [{**FOCUS_ROW, "BillingCurrency": each} for each in ("EUR", "EUR", "CHF", "=x")]
    file = written(tmp_path / "f.csv", rows)
    found = problems_of(file)
    assert [place for place, _ in found] == ["row 2", "row 4", "row 5"]
    assert 'the bill is in "EUR", and the ledger in USD' in found[0][1]
    assert "something else" in found[2][1]
    reading = read_bill(file)
    with pytest.raises(BillFileError):
        next(reading)  # not even the second row, which is no new problem
    euros = written(tmp_path / "e.csv", rows[:1])
    assert [each.currency for each in read_bill(euros, "EUR")] == ["EUR"]


def test_missing_columns_are_all_named(tmp_path: Path) -> None:
    row = {k: v for k, v in FOCUS_ROW.items() if k not in {"BilledCost", "ResourceId"}}
    found = problems_of(written(tmp_path / "f.csv", [row]))
    assert [place for place, _ in found] == ["ResourceId", "BilledCost"]
    assert "FOCUS" in found[0][1]
    row = {k: v for k, v in CUR_ROW.items() if k != "line_item_usage_amount"}
    [(place, what)] = problems_of(written(tmp_path / "c.csv", [row]))
    assert (place, "CUR 2.0" in what) == ("line_item_usage_amount", True)


def zip_file(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("bill.csv", "a,b\r\n")


FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (Path.touch, "is empty"),
    "no bill": (lambda path: path.write_text("a,b\r\n1,2\r\n"), "no column of a bill"),
    "an older report": (
        lambda path: path.write_text("lineItem/UsageStartDate,b\r\n"),
        "export it as CUR 2.0 or FOCUS",
    ),
    "a column twice": (
        lambda path: path.write_text(f"{','.join(FOCUS_ROW)},BilledCost\r\n"),
        "two columns of this name",
    ),
    "a row cut short": (
        lambda path: path.write_text(f"{','.join(FOCUS_ROW)}\r\n1,2\r\n"),
        "2 cells for 13 columns",
    ),
    "an open quote": (
        lambda path: path.write_text(f'{",".join(FOCUS_ROW)}\r\n"1,2\r\n'),
        "no CSV",
    ),
    "a huge cell": (
        lambda path: path.write_text(f"{','.join(FOCUS_ROW)}\r\n{'x' * 200_000}\r\n"),
        "no CSV",
    ),
    "another encoding": (lambda path: path.write_bytes(b"a,b\xff\xfe\r\n"), "no UTF-8"),
    "an archive": (zip_file, "unpack it"),
    "a folder": (Path.mkdir, "name the files in it"),
    "nothing": (lambda path: path, "cannot be read: No such file"),
    "packed and cut off": (
        lambda path: path.write_bytes(
            gzip.compress(",".join(FOCUS_ROW).encode() + b"\r\n" * 9999)[:-20]
        ),
        "fetch it again",
    ),
    "packed and damaged": (lambda path: path.write_bytes(b"\x1f\x8bnothing"), "fetch it again"),
    "no Parquet": (lambda path: path.write_bytes(b"PAR1" + b"x" * 50), "fetch it again"),
}


@pytest.mark.parametrize("name", list(FILES))
def test_what_is_no_bill_is_refused(name: str, tmp_path: Path) -> None:
    make, sentence = FILES[name]
    make(tmp_path / "bill")
    [(_, what)] = problems_of(tmp_path / "bill")
    assert sentence in what


def test_a_file_that_unpacks_without_end_is_left(tmp_path: Path) -> None:
    limits = BillFileLimits(characters=100_000, row_characters=5_000)
    head = ",".join(FOCUS_ROW) + "\r\n"
    row = ",".join(["x"] * len(FOCUS_ROW)) + "\r\n"
    bomb = tmp_path / "bomb.csv.gz"
    bomb.write_bytes(gzip.compress((head + "\r\n" * 1_000_000).encode()))
    assert "more than 100,000 characters" in problems_of(bomb, limits)[-1][1]
    bomb.write_bytes(gzip.compress((head + row[:-2] + "x" * 1_000_000).encode()))
    assert "longer than 5,000 characters" in problems_of(bomb, limits)[-1][1]
    # A row that goes on over lines, each of them short.
    bomb.write_bytes(gzip.compress((head + '"x\n",' * 100_000).encode()))
    assert "longer than 5,000 characters" in problems_of(bomb, limits)[-1][1]


def test_rows_and_columns_are_counted(tmp_path: Path) -> None:
    file = written(tmp_path / "f.csv", [FOCUS_ROW] * 3)
    assert len(list(read_bill(file, limits=BillFileLimits(rows=3)))) == 3
    [(place, what)] = problems_of(file, BillFileLimits(rows=2))
    assert (place, "2 rows at most" in what) == ("row 4", True)
    for each in (file, as_parquet(file)):
        [(_, what)] = problems_of(each, BillFileLimits(columns=12))
        assert "more than 12 cells" in what


def test_a_row_group_of_parquet_is_bounded(tmp_path: Path) -> None:
    file = as_parquet(written(tmp_path / "f.csv", [FOCUS_ROW] * 100))
    assert len(list(read_bill(file))) == 100
    [(_, what)] = problems_of(file, BillFileLimits(group_bytes=100))
    assert "export the bill with smaller ones" in what


def test_without_pyarrow_the_remedy_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = as_parquet(written(tmp_path / "f.csv", [FOCUS_ROW]))
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # so Python says that it is not there
    [(_, what)] = problems_of(file)
    assert "pip install 'longshore[parquet]'" in what
