"""Exact integers as decimals of twelve places, one after another, with nothing lost in the sum.

A month has millions of lines, and `money.as_usd` needs all of them at once. Here each decimal is
the difference of two rounded running sums, so that any first part of the decimals adds up to the
rounded sum of that part, and all of them to `money.in_dollars` of the whole. None is off by more
than one in the last place, and what is 0 stays 0. Only the running sum is kept.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Final

PLACES: Final = 12
_STEPS: Final = 10**PLACES


class RunningDecimal:
    """Divides integers by `unit`: grains by those of a dollar, milliseconds by those of an hour."""

    def __init__(self, unit: int) -> None:
        self._unit = unit
        self._sum = 0
        self._told = 0

    def next(self, part: int) -> Decimal:
        """Return `part / unit` to twelve places, and remember what that leaves to the next one."""
        self._sum += part
        steps = round(Fraction(self._sum * _STEPS, self._unit))
        told = steps - self._told
        self._told = steps
        return Decimal(told).scaleb(-PLACES)
