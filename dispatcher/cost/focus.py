"""The ledger's lines as FinOps FOCUS, versions 1.2 and 1.4: one row a line; pure.

A line is already what a row is to be: an instance, an hour of UTC, and an attempt or a cause, at
one price. So nothing is added up and nothing is held, and a month of any size passes through.
What a line costs beside its time has a row of its own, since no price an hour would say it.
The columns are the table `COLUMNS`: what each is called, in which versions, and how it is made.

What the standard asks for and a ledger does not know is said plainly. There is no invoice, so
`InvoiceId` is empty. Discounts are not modelled: list, contracted, billed and effective cost are
all the price that the ledger used. Costs and quantities are decimals of twelve places that add up
to the exact sum (`running_decimals`), so that price times quantity meets the cost to 1e-9, which
is what validators ask. A correction is one charge, with its time as what was consumed; it has the
class of one where its month was closed before, as the standard has it, and none in its own month.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum
from typing import Final, Protocol

from longshore.dispatcher.cost import money
from longshore.dispatcher.cost.correction_lines import CorrectionLine, FileRow
from longshore.dispatcher.cost.csv_export import Cell, csv_text
from longshore.dispatcher.cost.running_decimals import RunningDecimal
from longshore.dispatcher.cost.utc_calendar import month_of, utc_hour_text
from longshore.dispatcher.domain.ledger import CLUSTER, MS_PER_HOUR, CostLine
from longshore.drivers.interface import CLUSTER_TAG, TYPE_TAG

UNIT: Final = "Hours"
FLAT_UNIT: Final = "Charges"
"""What is counted where a cost is for no time."""


class FocusVersion(Enum):
    """A version of FOCUS that can be written."""

    V1_2 = "1.2"
    V1_4 = "1.4"


class ExportFormat(Enum):
    """A form in which the ledger leaves as a file."""

    FOCUS_1_4 = "focus-1.4"
    FOCUS_1_2 = "focus-1.2"
    CSV = "csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class FocusContext:
    """What a file says of the cluster as a whole."""

    #: Who sells the instances ("AWS"), and what that is called there ("Amazon EC2").
    provider: str
    service: str
    #: The account that is billed, and its name, "" where it has none.
    account_id: str
    account_name: str = ""
    #: As ISO 4217 writes it.
    currency: str = "USD"
    cluster: str
    #: The region of each zone; of a zone that is not here, the zone stands for it.
    regions: Mapping[str, str] = field(default_factory=dict)


class Writable(Protocol):
    """What a file is written to."""

    def write(self, text: str, /) -> object:
        """Write a text."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A line, with what is made of it once for several columns."""

    line: CostLine
    context: FocusContext
    cost: Decimal
    #: How much it is of what, and the price of one of these; their product is the cost.
    quantity: Decimal
    unit: str
    unit_price: Decimal
    #: How much time it is; of a cost for no time the same as `quantity`.
    consumed: Decimal
    consumed_unit: str
    #: That in which it counts.
    month: range


@dataclass(frozen=True, slots=True, kw_only=True)
class FocusColumn:
    """One column: its name, in which versions it is, and how its cells are made."""

    name: str
    made: Callable[[_Row], Cell]
    versions: frozenset[FocusVersion] = frozenset(FocusVersion)
    #: Whether the standard has it in every file.
    is_mandatory: bool = False


def _must(name: str, made: Callable[[_Row], Cell]) -> FocusColumn:
    return FocusColumn(name=name, made=made, is_mandatory=True)


def _may(name: str, made: Callable[[_Row], Cell]) -> FocusColumn:
    return FocusColumn(name=name, made=made)


def _only(version: FocusVersion, name: str, made: Callable[[_Row], Cell]) -> FocusColumn:
    return FocusColumn(name=name, made=made, versions=frozenset({version}), is_mandatory=True)


def _allocated(name: str, made: Callable[[_Row], Cell]) -> tuple[FocusColumn, FocusColumn]:
    """Return a column that came with 1.3, and the same as one of ours in 1.2."""
    return (
        FocusColumn(name=name, made=made, versions=frozenset({FocusVersion.V1_4})),
        FocusColumn(name=f"x_{name}", made=made, versions=frozenset({FocusVersion.V1_2})),
    )


def _provider(row: _Row) -> str:
    return row.context.provider


def _cost(row: _Row) -> Decimal:
    return row.cost


def _unit_price(row: _Row) -> Decimal:
    return row.unit_price


def _region(row: _Row) -> str | None:
    zone = row.line.zone
    return row.context.regions.get(zone, zone) or None


def _market(row: _Row) -> str:
    return "preemptible" if row.line.preemptible else "on-demand"


def _sku(row: _Row) -> str:
    """Return the type, as its cloud calls it; of an instance that only a bill has nobody knows."""
    return row.line.provider_type or "unknown"


def _description(row: _Row) -> str:
    on = f" on {row.line.type_name}" if row.line.type_name else ""
    return f"{row.line.cause}{on}"


def _price_id(row: _Row) -> str:
    parts = (_sku(row), _market(row), row.line.zone)
    return "/".join(part for part in parts if part)


def _method(row: _Row) -> str | None:
    if row.line.account == CLUSTER:
        return None
    return "dominant-share" if row.line.attempt_id else "cause"


def _method_details(row: _Row) -> str | None:
    """Return that all of the cost is by one measure, and how much of that this is."""
    if _method(row) is None:
        return None
    quantity = f'"UsageUnit":"{row.unit}","UsageQuantity":{format(row.quantity, "f")}'
    return f'{{"Elements":[{{"AllocatedRatio":1,{quantity}}}]}}'


def _json(pairs: Iterable[tuple[str, str]]) -> str:
    return json.dumps(dict(pairs), ensure_ascii=False, separators=(",", ":"))


def _allocated_labels(row: _Row) -> str | None:
    return None if row.line.account == CLUSTER else _json(row.line.account.labels)


def _allocated_name(row: _Row) -> str | None:
    """Return whose the line is, as people call it: `align`, `align/sort`, `align/sort[3]`."""
    account = row.line.account
    index = "" if account.array_index is None else f"[{account.array_index}]"
    parts = (account.job_name, account.task)
    return "/".join(part for part in parts if part) + index or None


def _tags(row: _Row) -> str:
    return _json(((CLUSTER_TAG, row.context.cluster), (TYPE_TAG, row.line.type_name)))


_V1_2, _V1_4 = FocusVersion.V1_2, FocusVersion.V1_4

COLUMNS: Final[tuple[FocusColumn, ...]] = (
    _must("BillingAccountId", lambda row: row.context.account_id),
    _must("BillingAccountName", lambda row: row.context.account_name or None),
    _must("BillingCurrency", lambda row: row.context.currency),
    _must("BillingPeriodStart", lambda row: utc_hour_text(row.month.start)),
    _must("BillingPeriodEnd", lambda row: utc_hour_text(row.month.stop)),
    _must("ChargePeriodStart", lambda row: utc_hour_text(row.line.hour)),
    _must("ChargePeriodEnd", lambda row: utc_hour_text(row.line.hour + 1)),
    _must("ChargeCategory", lambda _: "Usage"),
    _must("ChargeClass", lambda row: None if row.line.hour in row.month else "Correction"),
    _must("ChargeDescription", _description),
    _may("ChargeFrequency", lambda _: "Usage-Based"),
    _must("BilledCost", _cost),
    _must("EffectiveCost", _cost),
    _must("ListCost", _cost),
    _must("ContractedCost", _cost),
    _may("ListUnitPrice", _unit_price),
    _may("ContractedUnitPrice", _unit_price),
    _may("PricingCategory", lambda row: "Dynamic" if row.line.preemptible else "Standard"),
    _must("PricingQuantity", lambda row: row.quantity),
    _must("PricingUnit", lambda row: row.unit),
    _may("ConsumedQuantity", lambda row: row.consumed),
    _may("ConsumedUnit", lambda row: row.consumed_unit),
    _may("CommitmentDiscountStatus", lambda _: None),
    _only(_V1_2, "ProviderName", _provider),
    _only(_V1_2, "PublisherName", _provider),
    _only(_V1_4, "ServiceProviderName", _provider),
    _only(_V1_4, "HostProviderName", _provider),
    _must("InvoiceIssuerName", _provider),
    _may("InvoiceId", lambda _: None),
    _must("ServiceCategory", lambda _: "Compute"),
    _may("ServiceSubcategory", lambda _: "Virtual Machines"),
    _must("ServiceName", lambda row: row.context.service),
    _may("SkuId", _sku),
    _may("SkuMeter", lambda _: "Instance time"),
    _may("SkuPriceId", _price_id),
    _may("SkuPriceDetails", lambda row: _json((("InstanceType", _sku(row)),))),
    _may("ResourceId", lambda row: row.line.instance_id or None),
    _may("ResourceName", lambda _: None),
    _may("ResourceType", lambda row: "Instance" if row.line.instance_id else None),
    _may("RegionId", _region),
    _may("RegionName", _region),
    _may("AvailabilityZone", lambda row: row.line.zone or None),
    _may("Tags", _tags),
    *_allocated("AllocatedMethodId", _method),
    *_allocated("AllocatedMethodDetails", _method_details),
    *_allocated("AllocatedResourceId", lambda row: row.line.account.container_id or None),
    *_allocated("AllocatedResourceName", _allocated_name),
    *_allocated("AllocatedTags", _allocated_labels),
    _may("x_Cause", lambda row: row.line.cause),
    _may("x_State", lambda row: row.line.state.value),
    _may("x_Column", lambda row: row.line.column.value),
    _may("x_Outcome", lambda row: row.line.outcome.value),
    _may("x_Project", lambda row: row.line.account.project or None),
    _may("x_User", lambda row: row.line.account.user or None),
    _may("x_Job", lambda row: row.line.account.job_name or None),
    _may("x_JobId", lambda row: row.line.account.job_id or None),
    _may("x_Attempt", lambda row: row.line.attempt_id or None),
    _may("x_PriceSource", lambda row: row.line.price.source.value),
    _may("x_Certainty", lambda row: "uncertain" if row.line.uncertain_ms else "certain"),
)


def columns_of(version: FocusVersion) -> tuple[FocusColumn, ...]:
    """Return the columns of a version, in the order in which they are written."""
    return tuple(column for column in COLUMNS if version in column.versions)


def focus_rows(
    lines: Iterable[FileRow], version: FocusVersion, context: FocusContext
) -> Iterator[list[Cell]]:
    """Yield the rows of each line, as `columns_of` has the columns; costs add up exactly."""
    made = [column.made for column in columns_of(version)]
    for row in _rows(lines, context):
        yield [make(row) for make in made]


def _rows(rows: Iterable[FileRow], context: FocusContext) -> Iterator[_Row]:
    """Yield a row for the time of each line, and one for what it costs beside that.

    A correction has one of the latter kind, which tells its time, too.
    """
    cost, hours = RunningDecimal(money.GRAINS_PER_USD), RunningDecimal(MS_PER_HOUR)
    month = range(0)
    for each in rows:
        match each:
            case CorrectionLine(line=line, counted_hour=hour):
                is_correction = True
            case _:
                line, hour, is_correction = each, each.hour, False
        if line.uncertain_ms and not line.quantity_ms and not line.flat_grains:
            continue  # a launch, and likely nothing: a resource that may never have been
        if hour not in month:
            month = month_of(hour)
        time = hours.next(line.quantity_ms)
        row = _Row(
            line=line,
            context=context,
            cost=cost.next(line.grains - line.flat_grains),
            quantity=time,
            unit=UNIT,
            unit_price=money.usd_per_hour(line.price.nusd_per_hour),
            consumed=time,
            consumed_unit=UNIT,
            month=month,
        )
        if is_correction:
            yield _charged(row, cost.next(line.flat_grains))
            continue
        if line.quantity_ms or not line.flat_grains:
            yield row
        if line.flat_grains:
            flat = _charged(row, cost.next(line.flat_grains))
            yield replace(flat, consumed=flat.quantity, consumed_unit=FLAT_UNIT)


def _charged(row: _Row, cost: Decimal) -> _Row:
    """Return a row of a cost that no price an hour would say: one charge, or one taken back."""
    once = Decimal(-1 if row.line.flat_grains < 0 else 1)
    return replace(row, cost=cost, quantity=once, unit=FLAT_UNIT, unit_price=cost * once)


def focus_csv(
    lines: Iterable[FileRow], version: FocusVersion, context: FocusContext
) -> Iterator[str]:
    """Yield a FOCUS file (CSV) line by line, the names of the columns first.

    Texts that a spreadsheet would run are written as `csv_export` says.
    """
    names = [column.name for column in columns_of(version)]
    return csv_text(names, focus_rows(lines, version, context))


def write_focus(
    lines: Iterable[FileRow], out: Writable, version: FocusVersion, context: FocusContext
) -> None:
    """Write lines to `out` as a FOCUS file (UTF-8 where `out` is so), a line at a time.

    Whatever `out` raises passes through; what was written by then is the beginning of the file.
    """
    for text in focus_csv(lines, version, context):
        out.write(text)
