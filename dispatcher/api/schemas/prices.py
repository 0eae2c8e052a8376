"""The JSON of prices."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import msgspec

from longshore.dispatcher.api.schemas.reading import NEVER_ABSENT


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
