"""The difference of a bill and the ledger as JSON: amounts as decimals that add up.

Stands alone: each resource has a file of its own in each role.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from longshore.dispatcher.api.render.values import without_zeros
from longshore.dispatcher.api.schemas.cost import (
    BillParts,
    InstanceDifferenceAnswer,
    ReconcileAnswer,
)
from longshore.dispatcher.cost.money import GRAINS_PER_USD, as_usd
from longshore.dispatcher.cost.reconcile import InstanceDifference, Part, Reconciliation


def reconcile_answer(
    found: Reconciliation,
    *,
    currency: str,
    offset: int,
    limit: int,
    not_covered_hours: int,
    corrections: int,
) -> ReconcileAnswer:
    """Return the answer, with `limit` instances from `offset` on."""
    end = offset + limit
    return ReconcileAnswer(
        currency=currency,
        billed=_amount(found.billed),
        booked=_amount(found.booked),
        elsewhere=_amount(found.elsewhere),
        outside=_amount(found.outside),
        parts=_parts(found.parts),
        coarsest_hours=found.coarsest_hours,
        instances=tuple(_instance(each) for each in found.instances[offset:end]),
        next_offset=end if end < len(found.instances) else None,
        not_covered_hours=not_covered_hours,
        corrections=corrections,
    )


def _instance(difference: InstanceDifference) -> InstanceDifferenceAnswer:
    parts = dict.fromkeys(Part, Fraction(0))
    for window in difference.windows:
        for part, amount in window.parts:
            parts[part] += amount
    return InstanceDifferenceAnswer(instance_id=difference.instance_id, parts=_parts(parts))


def _parts(parts: Mapping[Part, Fraction]) -> BillParts:
    rounded = as_usd([round(parts[part] * GRAINS_PER_USD) for part in Part])
    by_part = {part: without_zeros(amount) for part, amount in zip(Part, rounded, strict=True)}
    return BillParts(
        total=without_zeros(sum(rounded, Decimal(0))),
        time=by_part[Part.TIME],
        price=by_part[Part.PRICE],
        discount=by_part[Part.DISCOUNT],
        not_modelled=by_part[Part.NOT_MODELLED],
        only_in_bill=by_part[Part.ONLY_IN_BILL],
        only_in_ledger=by_part[Part.ONLY_IN_LEDGER],
    )


def _amount(amount: Fraction) -> Decimal:
    return without_zeros(as_usd([round(amount * GRAINS_PER_USD)])[0])
