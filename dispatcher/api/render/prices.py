"""Prices as JSON.

Stands alone: each resource has a file of its own in each role.
"""

from __future__ import annotations

from collections.abc import Sequence

from longshore.dispatcher.api.render.values import rfc3339, usd
from longshore.dispatcher.api.schemas.cost import PriceAnswer, PriceListAnswer
from longshore.dispatcher.cost.money import usd_per_hour
from longshore.dispatcher.cost.report import market_of
from longshore.dispatcher.service.price_list import ListedPrice


def price_list_answer(
    listed: Sequence[ListedPrice], *, currency: str, as_of: float
) -> PriceListAnswer:
    """Return prices as JSON, in the order in which they come; `as_of` is since the epoch."""
    return PriceListAnswer(
        items=tuple(_price(each) for each in listed), currency=currency, as_of=rfc3339(as_of)
    )


def _price(listed: ListedPrice) -> PriceAnswer:
    type_, row = listed.type_, listed.row
    nusd = row.price.nusd_per_hour
    return PriceAnswer(
        instance_type=type_.name,
        provider_type=type_.provider_type,
        market=market_of(is_preemptible=type_.preemptible),
        zone=row.zone or None,
        usd_per_hour=usd(usd_per_hour(nusd)) if nusd else None,
        source=row.price.source.value,
        since=rfc3339(row.valid_from_ms / 1000),
        told_at=rfc3339(listed.told_at),
    )
