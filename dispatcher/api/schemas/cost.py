"""What the API answers about cost."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import msgspec

from longshore.dispatcher.api.schemas.budgets import ForecastAnswer
from longshore.dispatcher.api.schemas.reading import NEVER_ABSENT
from longshore.dispatcher.cost.bills import ChargeKind


class CostAmounts(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts of money, to twelve places: those of the rows add up to the total's, exactly.

    `direct` is what attempts kept of instances, `caused` what instances cost before they were of
    use to anybody, to whom they were bought for, `shared` all else. `total` is the sum of these.
    `lost_work` is how much of `direct` came to nothing, `uncertain` how much of `total` may not be
    billed, or may be billed beside it. `instance_hours` is instance time: half of an instance for
    two hours is one.
    """

    direct: Decimal
    caused: Decimal
    shared: Decimal
    total: Decimal
    lost_work: Decimal
    uncertain: Decimal
    instance_hours: Decimal


class CostRowAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One row: what it is about, and what that cost.

    `from` and `to` are the step's, in UTC; `by` has its value in each dimension asked for, which is
    `(none)` where it has none. Where rows are of jobs, and only of projects and users beside,
    `succeeded` is how many of their containers succeeded in the step, and `usd_per_success` the
    total for each of these, also of those that failed; null where none did.
    """

    since: Annotated[str, NEVER_ABSENT] = msgspec.field(name="from")
    until: Annotated[str, NEVER_ABSENT] = msgspec.field(name="to")
    by: dict[str, str]
    amounts: CostAmounts
    succeeded: int | msgspec.UnsetType = msgspec.UNSET
    usd_per_success: Decimal | msgspec.UnsetType | None = msgspec.UNSET


class CostAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A page of what was spent; `next_cursor` is null on the last.

    `total` is of all rows, also those of other pages. `as_of` is up to when it counts, and
    `booked_until` up to when that is booked: what is later may still change by how attempts end.
    Months before `closed_until` stay as they are: what changes them counts when it came.
    `unpriced_instance_hours` is time of instances whose price nobody knows, which has no amount.
    `not_included` names what the cloud bills beside.
    """

    items: tuple[CostRowAnswer, ...]
    next_cursor: str | None
    total: CostAmounts
    currency: str
    time_zone: str
    as_of: str | None
    booked_until: str | None
    closed_until: str | None
    unpriced_instance_hours: Decimal
    not_included: tuple[str, ...]


# ---- where a month stands ------------------------------------------------------------------------


class StateRateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the instances in one state cost together now."""

    state: str
    instances: int
    usd_per_hour: Decimal


class PoolRateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What all instances cost now; `limit_usd_per_hour` is null where there is no limit."""

    states: tuple[StateRateAnswer, ...]
    limit_usd_per_hour: Decimal | None


class CostForecastAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """This month of a time zone, for whoever asks: what they see of `/v1/cost`, and no more.

    `spent` is up to `as_of`, `committed` what runs may add in the month, and `forecast` what it
    will likely have cost at its end. `running` is how many attempts have a place now, which cost
    `running_usd_per_hour` together. `pool` is null for who is no admin. `labels` are the keys of
    labels by which cost can be told apart.
    """

    since: str | None = msgspec.field(name="from")
    until: str | None = msgspec.field(name="to")
    time_zone: str
    currency: str
    spent: Decimal
    committed: Decimal
    forecast: ForecastAnswer
    running: int
    running_usd_per_hour: Decimal
    pool: PoolRateAnswer | None
    labels: tuple[str, ...]
    as_of: str | None


# ---- a bill against the ledger -------------------------------------------------------------------

BILL_ROWS_MOST = 20_000
_Amount = Annotated[str, msgspec.Meta(pattern=r"^-?[0-9]{1,40}(\.[0-9]{1,40})?$")]
_Hour = Annotated[int, msgspec.Meta(ge=0, le=10_000_000)]


class BillRowRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of a bill, or the sum of several that differ in nothing else than amounts.

    Hours are whole ones since the epoch, in UTC: it is about `first_hour` to before `end_hour`.
    Amounts are decimals as text, so that none is rounded. `usage_s` are seconds of an instance,
    null where the row tells no time, and `list_cost` is null where it tells no public price.
    `cluster` is the value of the tag that names the cluster.
    """

    resource_id: Annotated[str, msgspec.Meta(max_length=2048)]
    first_hour: _Hour
    end_hour: _Hour
    kind: ChargeKind
    usage_s: _Amount | None
    list_cost: _Amount | None
    effective_cost: _Amount
    cluster: Annotated[str, msgspec.Meta(max_length=1024)] = ""


class ReconcileRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A piece of a bill of a month: all rows of the instances that are in it.

    An instance is in the piece whose number is the CRC-32 of what its id has behind its last slash,
    in small letters and UTF-8, modulo `pieces`. `billed_from_hour` and `billed_until_hour` are
    where the time of instances of the whole bill begins and ends, null where it has none. `final`
    says that nothing will be added to it, `partial` that only hours between the two count: what the
    bill lacks of others is not taken back. `file` and `sha256` tell which file it was, and are kept
    with what is booked.
    """

    month: Annotated[str, msgspec.Meta(pattern="^[0-9]{4}-[0-9]{2}$")]
    piece: Annotated[int, msgspec.Meta(ge=0, le=99_999)]
    pieces: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    rows: Annotated[list[BillRowRequest], msgspec.Meta(max_length=BILL_ROWS_MOST)]
    billed_from_hour: _Hour | None
    billed_until_hour: _Hour | None
    file: Annotated[str, msgspec.Meta(max_length=255)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    final: bool = False
    partial: bool = False
    apply: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100
    offset: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] = 0


class BillParts(msgspec.Struct, frozen=True, kw_only=True):
    """The bill less the ledger: `total`, and what it is made of, which adds up to it exactly."""

    total: Decimal
    time: Decimal
    price: Decimal
    discount: Decimal
    not_modelled: Decimal
    only_in_bill: Decimal
    only_in_ledger: Decimal


class InstanceDifferenceAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """By how much the bill of one instance differs from its part of the ledger."""

    instance_id: Annotated[str, NEVER_ABSENT]
    parts: BillParts


class ReconcileAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How a piece of a bill differs from the ledger.

    `billed` and `booked` are what both say of it, `elsewhere` what rows cost that are not this
    cluster's, and `outside` what is of other months. `instances` are the most different first;
    `next_offset` is where the next page begins, null on the last. `not_covered_hours` is how many
    instance hours the ledger has before the bill's first and behind its last hour, which would be
    taken for not billed: with `apply` that is refused. `corrections` is how many rows were booked.
    """

    currency: str
    billed: Decimal
    booked: Decimal
    elsewhere: Decimal
    outside: Decimal
    parts: BillParts
    coarsest_hours: int
    instances: tuple[InstanceDifferenceAnswer, ...]
    next_offset: int | None
    not_covered_hours: int
    corrections: int


# ---- prices --------------------------------------------------------------------------------------


class PriceAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What an hour of a type costs now; `zone` is null for all zones that have none of their own.

    `usd_per_hour` is null where nobody knows it. `source` is who says so: `bill`, `history` or
    `driver` of the cloud, `config`, or `none`. `since` is from when on it has been this, and
    `told_at` when the driver said so last, null where live prices are not asked for.
    """

    instance_type: Annotated[str, NEVER_ABSENT]
    provider_type: str
    market: str
    zone: str | None
    usd_per_hour: Decimal | None
    source: str
    since: str | None
    told_at: str | None


class PriceListAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The prices of configured types, by type and zone."""

    items: tuple[PriceAnswer, ...]
    currency: str
    as_of: str | None
