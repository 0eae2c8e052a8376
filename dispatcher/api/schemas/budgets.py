"""What the API answers about budgets."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import msgspec

from longshore.dispatcher.api.schemas.reading import NEVER_ABSENT


class ForecastAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a period will likely have cost at its end.

    About three of four periods end between `p10` and `p90`.
    """

    p10: Decimal
    p50: Decimal
    p90: Decimal


class BudgetAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One budget in its period that goes on, as it was looked at last.

    `committed` is what runs may still add, `left` what of `limit` neither is spent nor committed, 0
    where there is nothing. `steps_reached` are those that were told, per cent of the limit.
    `forecast` is null until one was made. `stopped_until` is when new work may begin again, null
    where it may now; `message` says why it may not, "" where it may.
    """

    name: Annotated[str, NEVER_ABSENT]
    scope: str
    whose: str
    period: str
    since: str | None = msgspec.field(name="from")
    until: str | None = msgspec.field(name="to")
    limit: Decimal
    spent: Decimal
    committed: Decimal
    left: Decimal
    steps_reached: tuple[int, ...]
    forecast: ForecastAnswer | None
    stop: str
    stopped_until: str | None
    message: str
    as_of: str | None


class BudgetsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The budgets that concern who asks, by name."""

    items: tuple[BudgetAnswer, ...]
    currency: str


class BudgetEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The data of an event of kind `budget`, whose id is the budget's name.

    `what` is `step`, `forecast`, `stopped` or `resumed`; `percent` is the step, null for others.
    """

    budget: str
    scope: str
    whose: str
    what: str
    period: str
    percent: int | None
    limit: Decimal
    spent: Decimal
    committed: Decimal
    message: str


class UnusualDayEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The data of an event of kind `unusual_day`, whose id is the project.

    `usual` is the median of the same day of the week.
    """

    project: str
    day: str
    spent: Decimal
    usual: Decimal
    message: str
