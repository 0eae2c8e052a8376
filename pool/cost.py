"""What time on an instance costs, where no line of the ledger tells it; pure.

Stands alone: a leak may be something of which nothing is booked.
"""

from __future__ import annotations

from decimal import Decimal

_FRACTION_USD = Decimal("0.00000001")
_SECONDS_PER_HOUR = Decimal(3600)
_WHOLE = Decimal(1)


def cost_usd(price_usd_per_hour: Decimal, seconds: float, *, share: Decimal = _WHOLE) -> Decimal:
    """Return what `share` (0 to 1) of an instance costs for a time, to eight decimals of a USD.

    A negative time is none: a clock may have been set back.
    """
    hours = Decimal(str(max(0.0, seconds))) / _SECONDS_PER_HOUR
    return (price_usd_per_hour * hours * share).quantize(_FRACTION_USD)
