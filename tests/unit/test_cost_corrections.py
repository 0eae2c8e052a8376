"""Corrections in the ledger's files: each file comes to what reports of its time say."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from focus_data_toolkit.model.validator import lint_focus_1_4_structure

from longshore.dispatcher.cost.bills import BillLine, ChargeKind
from longshore.dispatcher.cost.focus import ExportFormat
from longshore.dispatcher.cost.money import in_dollars
from longshore.dispatcher.cost.reconcile import Coverage
from longshore.dispatcher.cost.report import Idle, Seen
from longshore.dispatcher.cost.utc_calendar import month_hours
from longshore.dispatcher.domain.ledger import MS_PER_HOUR
from longshore.dispatcher.domain.messages import SaveBill, SaveInterval
from longshore.dispatcher.domain.principals import Door, Principal, Role
from longshore.dispatcher.service.cost_exports import CostExport, CostExports
from longshore.dispatcher.service.cost_reconciling import BillPiece, Reconciler
from longshore.dispatcher.service.costs import CostQuestion, CostService
from longshore.dispatcher.store import ledger_corrections
from longshore.dispatcher.store.store import Store
from longshore.drivers.billing import Billed
from tests.cost_samples import ALIGN, CONTEXT
from tests.ledger_facts import BILL, OCTOBER, OTHER, idle, work
from tests.rigs.services import store_in

NOVEMBER = month_hours("2026-11")
ROOT = Principal(user="root", role=Role.ADMIN, projects=(), door=Door.TOKEN)
FIRST = OCTOBER.stop - 3
ODD = replace(
    BILL,
    nusd_per_hour=333_333_337,
    created_ms=FIRST * MS_PER_HOUR,
    gone_ms=OCTOBER.stop * MS_PER_HOUR,
    billed=Billed(billed_from=FIRST * 3600.0, billed_until=OCTOBER.stop * 3600.0),
    running_ms=FIRST * MS_PER_HOUR,
    ready_ms=FIRST * MS_PER_HOUR,
    used_ms=FIRST * MS_PER_HOUR,
)
"""The last three hours of October, at a price that is no decimal of them."""
LATER = replace(
    ODD,
    instance_id="i-0b1",
    created_ms=NOVEMBER.start * MS_PER_HOUR,
    gone_ms=NOVEMBER.start * MS_PER_HOUR + 7_777_777,
    billed=Billed(
        billed_from=NOVEMBER.start * 3600.0,
        billed_until=NOVEMBER.start * 3600.0 + 7_777.777,
        zone="eu-central-1a",
    ),
    running_ms=NOVEMBER.start * MS_PER_HOUR,
)


OCTOBER_USD = in_dollars(3 * MS_PER_HOUR * ODD.nusd_per_hour)


class Ledger:
    """A ledger of two months, of which the first is closed."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.now = (NOVEMBER.start + 25) * 3600.0 + 60
        self.costs = CostService(
            store=store, now=lambda: self.now, labels=("team",), currency="USD", close_after_days=1
        )
        self.exports = CostExports(store=store, now=lambda: self.now, context=CONTEXT)
        begun = FIRST - OCTOBER.start
        seen = [
            idle(ODD),
            idle(LATER),
            work("c-1-1", ALIGN, hour=begun, share=Fraction(1)),
            work("c-2-1", OTHER, hour=begun + 1, share=Fraction(1, 2)),
        ]
        bills = [SaveBill(bill=ODD), SaveBill(bill=LATER)]
        store.write([*bills, *(SaveInterval(interval=each) for each in seen)]).result(30)
        self.book()

    def book(self) -> None:
        async def book() -> None:
            while await self.costs.book():
                pass

        asyncio.run(book())

    def told_late(self) -> None:
        """Have the cloud say that October's instance was billed for an hour less."""
        until = (FIRST + 2) * 3600.0
        told = replace(ODD, billed=replace(ODD.billed, billed_until=until))
        self.store.write([SaveBill(bill=told)]).result(30)
        self.book()

    def bill_says(self, hours: range, *rows: tuple[str, int, str]) -> int:
        """Apply a bill of instances and hours, with what they cost; return what was booked."""
        lines = [
            BillLine(
                resource_id=instance_id,
                first_hour=hour,
                end_hour=hour + 1,
                kind=ChargeKind.INSTANCE,
                usage_s=Decimal(3600),
                list_cost=Decimal(cost),
                billed_cost=Decimal(cost),
                effective_cost=Decimal(cost),
                currency="USD",
            )
            for instance_id, hour, cost in rows
        ]
        piece = BillPiece(
            hours=hours,
            piece=0,
            pieces=1,
            rows=lines,
            billed_from_hour=hours.start,
            billed_until_hour=hours.stop,
            coverage=Coverage.WHOLE,
            file_name="bill.csv",
            sha256="0" * 64,
        )
        reconciler = Reconciler(store=self.store, now=lambda: self.now, labels=(), cluster="")
        return asyncio.run(reconciler.apply(piece, made_by="root"))[1]

    def reported(self, hours: range) -> Decimal:
        question = CostQuestion(
            steps=[(hours.start, hours.stop)], by=("project",), idle=Idle.SEPARATE, only={}
        )
        report = asyncio.run(self.costs.report(question, ROOT))
        return in_dollars(sum(row.amounts.total for row in report.rows))

    def rows(
        self, hours: range, form: ExportFormat, seen: Seen | None = None
    ) -> list[dict[str, str]]:
        export = CostExport(hours=hours, format=form, labels=())
        lines = self.exports.lines(export.hours, seen or Seen(everything=True))
        text = "".join(self.exports.file_of(lines, export))
        return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """Yield a ledger of which October is closed, and both months are corrected."""
    with store_in(tmp_path_factory.mktemp("ledger")) as store:
        ledger = Ledger(store)
        assert ledger.reported(OCTOBER) == OCTOBER_USD
        corrected(ledger)
        yield ledger


def corrected(ledger: Ledger) -> None:
    """Have an hour less told of October, and a bill of each of the months."""
    ledger.told_late()
    at = FIRST
    bill = [("i-0a1", at, "0.3"), ("i-0a1", at + 1, "0.31"), ("i-leak", at, "0.7")]
    assert ledger.bill_says(OCTOBER, *bill) > 3
    assert ledger.bill_says(NOVEMBER, *[("i-0b1", NOVEMBER.start + n, "0.3") for n in range(3)])


@pytest.mark.parametrize("month", [OCTOBER, NOVEMBER, range(OCTOBER.start, NOVEMBER.stop)])
def test_a_file_comes_to_what_reports_of_its_time_say(ledger: Ledger, month: range) -> None:
    assert ledger.reported(OCTOBER) == OCTOBER_USD, "it is closed"
    total = ledger.reported(month)
    assert sum(Decimal(row["usd"]) for row in ledger.rows(month, ExportFormat.CSV)) == total
    for form in (ExportFormat.FOCUS_1_4, ExportFormat.FOCUS_1_2):
        rows = ledger.rows(month, form)
        assert sum(Decimal(row["BilledCost"]) for row in rows) == total
        times = [row["ConsumedQuantity"] for row in rows if row["ConsumedUnit"] == "Hours"]
        of_csv = [row["hours"] for row in ledger.rows(month, ExportFormat.CSV)]
        assert sum(map(Decimal, times)) == sum(map(Decimal, of_csv))


def test_a_correction_has_a_row_that_says_why(ledger: Ledger) -> None:
    rows = ledger.rows(NOVEMBER, ExportFormat.CSV)
    told = {(row["hour"][:7], row["cause"]) for row in rows if row["cause"].startswith("corr")}
    assert told == {
        ("2026-10", "correction: told late"),
        ("2026-10", "correction: price"),
        ("2026-10", "correction: only in the bill"),
        ("2026-11", "correction: price"),
        ("2026-11", "correction: time"),
    }
    [leak] = [row for row in rows if row["instance"] == "i-leak"]
    assert (leak["usd"], leak["usd_per_hour"], leak["hours"]) == (
        "0.700000000000",
        "",
        "1.000000000000",
    )
    back = [row for row in ledger.rows(OCTOBER, ExportFormat.CSV) if row["cause"][:4] == "corr"]
    assert {row["cause"] for row in back} == {"correction: told late"}
    assert sum(Decimal(row["hours"]) for row in back) == 1


def test_focus_says_what_corrects_an_earlier_month_and_a_validator_finds_nothing(
    ledger: Ledger,
) -> None:
    rows = ledger.rows(NOVEMBER, ExportFormat.FOCUS_1_4)
    assert {row["BillingPeriodStart"] for row in rows} == {"2026-11-01T00:00:00Z"}
    classes = {(row["ChargePeriodStart"][:7], row["ChargeClass"]) for row in rows}
    assert classes == {("2026-10", "Correction"), ("2026-11", "")}
    supported = ("SupportsUnitPricing", "SupportsMultiplePricingCategories")
    for month in (OCTOBER, NOVEMBER):
        rows = ledger.rows(month, ExportFormat.FOCUS_1_4)
        report = lint_focus_1_4_structure("Cost and Usage", rows, supported_conditions=supported)
        assert report.messages() == []


def test_corrections_are_seen_by_those_whose_they_are(ledger: Ledger) -> None:
    seen = Seen(projects=frozenset({"vision"}))
    rows = ledger.rows(NOVEMBER, ExportFormat.CSV, seen)
    assert {(row["project"], row["user"]) for row in rows} == {("vision", "bob")}
    assert {row["cause"][:11] for row in rows} == {"correction:"}


def test_many_corrections_come_once_each(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ledger.rows(NOVEMBER, ExportFormat.CSV)
    monkeypatch.setattr(ledger_corrections, "AT_ONCE", 1)
    assert ledger.rows(NOVEMBER, ExportFormat.CSV) == whole


def test_what_was_told_late_is_no_difference_to_a_bill_that_says_the_same(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        ledger = Ledger(store)
        ledger.told_late()
        hour = in_dollars(MS_PER_HOUR * ODD.nusd_per_hour)
        rows = [("i-0a1", FIRST + n, str(hour)) for n in range(2)]
        assert ledger.bill_says(OCTOBER, *rows) == 0
