"""The JSON of where a month stands."""

from __future__ import annotations

from decimal import Decimal

import msgspec

from longshore.dispatcher.api.schemas.budgets import ForecastAnswer


class StateRateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the instances in one state cost together now."""

    state: str
    instances: int
    usd_per_hour: Decimal


class PoolRateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What all instances cost now; `limit_usd_per_hour` is null where there is no limit."""

    states: tuple[StateRateAnswer, ...]
    limit_usd_per_hour: Decimal | None


class OutlookAnswer(msgspec.Struct, frozen=True, kw_only=True):
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
