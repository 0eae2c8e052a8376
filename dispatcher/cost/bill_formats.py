"""The rows of clouds' bills, as text, made lines: AWS CUR 2.0, and FOCUS from 1.2 on; pure.

Which of the two a file is, its columns tell. A row that is wrong makes a problem that names the
row and the column, and no line; the others go on, so that all problems are told at once. What a
cell says is never quoted: a bill may hold names that are nobody else's business.

What a row is for decides who has it in the ledger. Time of instances is usage of computing that is
counted in hours, minutes or seconds. The public price of a preemptible instance is what it was
sold for: clouds write that of an on-demand one there, and the difference would look like a discount
that nobody gave.

What a plan or a reservation costs is in the effective cost of what it covers. In CUR its own rows
(fees and what takes them back) cost nothing here, or it would count twice; so what is unused of a
plan is not told by a CUR file, while FOCUS has rows for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact
from enum import Enum
from typing import Final

from longshore.dispatcher.cost.bills import BillLine, ChargeKind
from longshore.dispatcher.cost.utc_calendar import HOUR_S, seconds_of
from longshore.dispatcher.input.problems import Problems, quoted
from longshore.drivers.interface import CLUSTER_TAG

# Sums of what passes here fit in the exact context of `reconcile`.
_NUMBER = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?")
_EXPONENT_MAX = 30
_UNIT = re.compile(r"(?:([0-9]{1,6}) )?([a-z]+)")
_UNITS_S: Final = {
    **dict.fromkeys(("hours", "hour", "hrs", "hr", "h"), 3600),
    **dict.fromkeys(("minutes", "minute", "min"), 60),
    **dict.fromkeys(("seconds", "second", "secs", "sec", "s"), 1),
}
_VOLUME_UNIT = re.compile(r"[gt]i?b-mo(?:nths?)?")
_TRAFFIC_UNIT = re.compile(r"[gt]i?bs?")
_COUNTED = frozenset({"charges", "units", "count"})
_DESCRIPTION_CHARS = 200
_EXACT: Final = Context(prec=100, traps=[Inexact])
_NOT_A_MACHINE = re.compile(
    r"nat[ -]?gateway|load ?balanc|public ?ip|ip ?address|ipv4|endpoint|commitment", re.IGNORECASE
)


class BillFormat(Enum):
    """A form of a bill that can be read."""

    CUR_2 = "CUR 2.0"
    FOCUS = "FOCUS"


_NEEDED: Final[Mapping[BillFormat, tuple[str, ...]]] = {
    BillFormat.CUR_2: (
        *("line_item_usage_start_date", "line_item_usage_end_date", "line_item_line_item_type"),
        *("line_item_resource_id", "line_item_product_code", "line_item_usage_type"),
        *("line_item_usage_amount", "line_item_unblended_cost", "line_item_currency_code"),
    ),
    BillFormat.FOCUS: (
        *("ChargePeriodStart", "ChargePeriodEnd", "ChargeCategory", "ServiceCategory"),
        *("ResourceId", "BilledCost", "EffectiveCost", "ListCost", "BillingCurrency"),
        *("PricingQuantity", "PricingUnit"),
    ),
}
_HELPFUL: Final[Mapping[BillFormat, tuple[str, ...]]] = {
    BillFormat.CUR_2: (
        *("line_item_line_item_description", "pricing_public_on_demand_cost", "pricing_unit"),
        *("reservation_effective_cost", "savings_plan_savings_plan_effective_cost"),
        "resource_tags",
    ),
    BillFormat.FOCUS: (
        *("ChargeClass", "ChargeDescription", "CommitmentDiscountStatus", "ConsumedQuantity"),
        *("ConsumedUnit", "PricingCategory", "ServiceSubcategory", "SkuMeter", "Tags"),
        "x_State",
    ),
}
_OLD_CUR = "lineItem/UsageStartDate"


def columns_to_read(
    names: Sequence[str], problems: Problems
) -> tuple[BillFormat, list[str]] | None:
    """Return what form a file with these columns has, and which of them are read, in their order.

    None, with problems noted, where it is none that is known or lacks what is needed. Columns that
    are not read may be anything.
    """
    there = set(names)
    if _OLD_CUR in there:
        problems.add("", "this is the older Cost and Usage Report; export it as CUR 2.0 or FOCUS")
        return None
    found = max(BillFormat, key=lambda each: len(there.intersection(_NEEDED[each])))
    if not there.intersection(_NEEDED[found]):
        problems.add(
            "",
            "the first line names no column of a bill that is known; export the bill as AWS"
            " CUR 2.0, or as FOCUS 1.2 or later, with the names of the columns in the first line",
        )
        return None
    missing = [each for each in _NEEDED[found] if each not in there]
    for name in missing:
        problems.add(name, f"the column is missing; export the bill as {found.value} with it")
    if missing:
        return None
    wanted = {*_NEEDED[found], *_HELPFUL[found]}
    read = [each for each in names if each in wanted]
    twice = sorted({each for each in read if read.count(each) > 1})
    for name in twice:
        problems.add(name, "there are two columns of this name; export the bill anew")
    return None if twice else (found, read)


class BillRows:
    """Makes lines of the rows of one file."""

    def __init__(self, form: BillFormat, currency: str, problems: Problems) -> None:
        self._form = form
        self._currency = currency
        self._problems = problems
        self._other_currencies: set[str] = set()

    def line(self, where: str, cells: Mapping[str, str]) -> BillLine | None:
        """Return the line of a row, or None with its problems noted; `where` is "row 7".

        Raises `ProblemsFull` when there are too many to be of use.
        """
        row = _Cells(where=where, cells=cells, problems=self._problems)
        before = len(self._problems)
        line = _cur_line(row) if self._form is BillFormat.CUR_2 else _focus_line(row)
        self._check_currency(where, line.currency)
        return line if len(self._problems) == before else None

    def _check_currency(self, where: str, currency: str) -> None:
        """Note a currency that is not the cluster's; each of them once."""
        if currency == self._currency or currency in self._other_currencies:
            return
        self._other_currencies.add(currency)
        told = quoted(currency) if re.fullmatch("[A-Z]{3}", currency) else "something else"
        self._problems.add(
            where,
            f"the bill is in {told}, and the ledger in {self._currency}; nothing is converted:"
            f" export the bill in {self._currency}",
        )

    @property
    def is_of_other_currency(self) -> bool:
        """Return whether some row was in a currency that is not the cluster's."""
        return bool(self._other_currencies)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cells:
    """The cells of a row, each read as what it must be."""

    where: str
    cells: Mapping[str, str]
    problems: Problems

    def text(self, name: str) -> str:
        return self.cells.get(name, "").strip()

    def number(self, name: str) -> Decimal | None:
        """Return a number as it stands there, None for an empty cell and for what is none."""
        text = self.text(name)
        if not text:
            return None
        number = Decimal(text) if _NUMBER.fullmatch(text) else None
        if number is None or abs(number.adjusted()) > _EXPONENT_MAX:
            self._wrong(name, "must be a number such as 0.0960, without signs for money")
            return None
        return number

    def cost(self, name: str) -> Decimal:
        """Return an amount; an empty cell is a problem too."""
        if not self.text(name):
            self._wrong(name, "must be an amount, and is empty")
        return self.number(name) or Decimal(0)

    def hours(self, first: str, end: str) -> tuple[int, int]:
        """Return the hours that a row is about: those that its time touches, at least one."""
        first_s, end_s = self._seconds(first), self._seconds(end)
        if first_s is None or end_s is None:
            return 0, 1
        if end_s < first_s:
            self._wrong(end, "must not be before the beginning")
        first_hour = first_s // HOUR_S
        return first_hour, max(-(-end_s // HOUR_S), first_hour + 1)

    def _seconds(self, name: str) -> int | None:
        try:
            return seconds_of(self.text(name))
        except ValueError:
            self._wrong(name, "must be a time in UTC such as 2026-10-01T00:00:00Z")
            return None

    def cluster(self, name: str) -> str:
        """Return the value of the cluster's tag among the tags in a cell, "" for none."""
        text = self.text(name)
        # Most rows have other tags or none, and are not worth the time to read them.
        if _plain(CLUSTER_TAG) not in _plain(text):
            return ""
        try:
            tags = json.loads(text)
        except (ValueError, RecursionError):
            tags = None
        if not isinstance(tags, dict):
            self._wrong(name, "must be tags as a JSON object")
            return ""
        found = sorted(
            (key, value) for key, value in tags.items() if _plain(key).endswith(_plain(CLUSTER_TAG))
        )
        return str(found[0][1]) if found else ""

    def _wrong(self, name: str, sentence: str) -> None:
        self.problems.add(f"{self.where}, {name}", sentence)


def _plain(text: str) -> str:
    """Return a tag's name in one way of several: AWS writes `user_longshore_cluster`."""
    return text.replace("-", "_").casefold()


def _seconds_of_quantity(quantity: Decimal | None, unit: str) -> Decimal | None:
    """Return a quantity in seconds, None where it counts something else, or is not told."""
    match = _UNIT.fullmatch(unit.strip().casefold())
    unit_s = _UNITS_S.get(match.group(2)) if match else None
    if match is None or unit_s is None or quantity is None:
        return None
    return _EXACT.multiply(quantity, unit_s * int(match.group(1) or 1))


# ---- FOCUS --------------------------------------------------------------------------------------


def _focus_line(row: _Cells) -> BillLine:
    first_hour, end_hour = row.hours("ChargePeriodStart", "ChargePeriodEnd")
    usage_s = _focus_usage_s(row)
    listed = row.cost("ListCost")
    return BillLine(
        resource_id=row.text("ResourceId"),
        first_hour=first_hour,
        end_hour=end_hour,
        kind=_focus_kind(row, is_time=usage_s is not None),
        usage_s=usage_s,
        list_cost=None if row.text("PricingCategory") == "Dynamic" else listed,
        billed_cost=row.cost("BilledCost"),
        effective_cost=row.cost("EffectiveCost"),
        currency=row.text("BillingCurrency"),
        description=(row.text("ChargeDescription") or row.text("SkuMeter"))[:_DESCRIPTION_CHARS],
        cluster=row.cluster("Tags"),
    )


def _focus_usage_s(row: _Cells) -> Decimal | None:
    for quantity, unit in (
        ("ConsumedQuantity", "ConsumedUnit"),
        ("PricingQuantity", "PricingUnit"),
    ):
        seconds = _seconds_of_quantity(row.number(quantity), row.text(unit))
        if seconds is not None:
            return seconds
    # A correction of a price changes no time, and what is charged once is for none.
    is_for_none = row.text("ChargeClass") == "Correction" or (
        row.text("PricingUnit").casefold() in _COUNTED
    )
    return Decimal(0) if is_for_none else None


_FOCUS_CATEGORIES: Final = {
    "Tax": ChargeKind.TAX,
    "Credit": ChargeKind.CREDIT,
    "Purchase": ChargeKind.COMMITMENT,
    "Adjustment": ChargeKind.OTHER,
}
_FOCUS_SERVICES: Final = {
    "Storage": ChargeKind.STORAGE,
    "Networking": ChargeKind.TRANSFER,
}


def _focus_kind(row: _Cells, *, is_time: bool) -> ChargeKind:
    category = row.text("ChargeCategory")
    if category in _FOCUS_CATEGORIES:
        return _FOCUS_CATEGORIES[category]
    # Files of ours say in a column of their own what is unused of what is prepaid.
    if row.text("CommitmentDiscountStatus") == "Unused" or row.text("x_State") == "unused":
        return ChargeKind.COMMITMENT
    if row.text("ServiceSubcategory") == "Support":
        return ChargeKind.SUPPORT
    if row.text("ServiceCategory") == "Compute":
        return _computing(row, is_time=is_time)
    return _FOCUS_SERVICES.get(row.text("ServiceCategory"), ChargeKind.OTHER)


def _computing(row: _Cells, *, is_time: bool) -> ChargeKind:
    """Return what is sold as computing: volumes by GB and month and traffic by GB are, too."""
    if _NOT_A_MACHINE.search(row.text("SkuMeter")):
        return ChargeKind.OTHER
    unit = row.text("PricingUnit").casefold()
    if _VOLUME_UNIT.fullmatch(unit):
        return ChargeKind.STORAGE
    if _TRAFFIC_UNIT.fullmatch(unit):
        return ChargeKind.TRANSFER
    sold_as = row.text("ServiceSubcategory")
    # Some clouds sell the memory of a machine by itself, by size and time: its time is not told.
    is_machine = sold_as == "Virtual Machines" or (is_time and not sold_as)
    return ChargeKind.INSTANCE if is_machine else ChargeKind.OTHER


# ---- CUR 2.0 ------------------------------------------------------------------------------------

_MACHINE = re.compile(r"(?:^|-)(?:BoxUsage|SpotUsage|DedicatedUsage|HostBoxUsage)(?::|$)")
_SPOT = re.compile(r"(?:^|-)SpotUsage(?::|$)")
_VOLUME = re.compile(r"(?:^|-)EBS:|Storage")
_TRAFFIC = re.compile(r"Bytes|DataTransfer|PublicIPv4|NatGateway|LoadBalancer")
_CUR_TYPES: Final = {
    "Tax": ChargeKind.TAX,
    "Credit": ChargeKind.CREDIT,
    "Refund": ChargeKind.CREDIT,
    **dict.fromkeys(
        ("RIFee", "SavingsPlanUpfrontFee", "SavingsPlanRecurringFee", "SavingsPlanNegation"),
        ChargeKind.COMMITMENT,
    ),
}
_CUR_EFFECTIVE: Final = {
    "DiscountedUsage": "reservation_effective_cost",
    "SavingsPlanCoveredUsage": "savings_plan_savings_plan_effective_cost",
}


def _cur_line(row: _Cells) -> BillLine:
    first_hour, end_hour = row.hours("line_item_usage_start_date", "line_item_usage_end_date")
    kind = _cur_kind(row)
    billed = row.cost("line_item_unblended_cost")
    listed = row.number("pricing_public_on_demand_cost")
    quantity = row.number("line_item_usage_amount")
    usage_s = _seconds_of_quantity(quantity, row.text("pricing_unit") or "hours")
    is_spot = _SPOT.search(row.text("line_item_usage_type")) is not None
    return BillLine(
        resource_id=row.text("line_item_resource_id"),
        first_hour=first_hour,
        end_hour=end_hour,
        kind=kind,
        usage_s=usage_s if kind is ChargeKind.INSTANCE else None,
        list_cost=None if is_spot else listed,
        billed_cost=billed,
        effective_cost=_cur_effective(row, kind, billed),
        currency=row.text("line_item_currency_code"),
        description=(
            row.text("line_item_line_item_description") or row.text("line_item_usage_type")
        )[:_DESCRIPTION_CHARS],
        cluster=row.cluster("resource_tags"),
    )


def _cur_effective(row: _Cells, kind: ChargeKind, billed: Decimal) -> Decimal:
    if kind is ChargeKind.COMMITMENT:
        return Decimal(0)
    column = _CUR_EFFECTIVE.get(row.text("line_item_line_item_type"), "")
    covered = row.number(column) if column else None
    return billed if covered is None else covered


def _cur_kind(row: _Cells) -> ChargeKind:
    type_, usage_type = row.text("line_item_line_item_type"), row.text("line_item_usage_type")
    if type_ in _CUR_TYPES:
        return _CUR_TYPES[type_]
    if type_.endswith("Discount"):
        return ChargeKind.DISCOUNT
    if "Support" in row.text("line_item_product_code"):
        return ChargeKind.SUPPORT
    if _MACHINE.search(usage_type):
        return ChargeKind.INSTANCE
    if _VOLUME.search(usage_type):
        return ChargeKind.STORAGE
    return ChargeKind.TRANSFER if _TRAFFIC.search(usage_type) else ChargeKind.OTHER
