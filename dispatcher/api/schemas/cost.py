"""What the API answers about cost."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import msgspec

from longshore.dispatcher.api.schemas.reading import NEVER_ABSENT


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
    unpriced_instance_hours: Decimal
    not_included: tuple[str, ...]
