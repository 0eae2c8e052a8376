"""Money, exactly: integers inside, decimals at the doors; pure.

Quantities are rounded, amounts never are (COST of the design, rounding). A quantity is instance
time in whole milliseconds, a price is in whole nanodollars an hour, and an amount is their product,
in `grains`: 1 grain is 1 nanodollar-an-hour for 1 ms, so that a dollar is 3.6e15 of them. Sums of
parts are so the sum of the whole, whatever the order and however often they are split.

A third of a dollar is no decimal, and a price an hour for a second is not one either. So where
amounts leave as decimals, they have twelve places, and those of one answer are rounded together by
`as_usd`: their sum is the rounded sum, to the last place (largest remainder, ties by position).
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Final

GRAINS_PER_USD: Final = 3_600_000 * 10**9
_PLACES: Final = 12
_STEPS_PER_USD: Final = 10**_PLACES
_GRAINS_PER_STEP: Final = GRAINS_PER_USD // _STEPS_PER_USD
_NUSD: Final = Decimal("1e-9")


def nusd_of(price_usd_per_hour: Decimal) -> int:
    """Return a price in nanodollars an hour; what is finer than that is rounded, half to even."""
    return int(price_usd_per_hour.quantize(_NUSD).scaleb(9))


def usd_per_hour(nusd_per_hour: int) -> Decimal:
    """Return a price in dollars an hour, with as many places as it needs."""
    return Decimal(nusd_per_hour).scaleb(-9)


def usd_grains(amount_usd: Decimal) -> int:
    """Return an amount in dollars in grains; what is finer than a grain is rounded."""
    return round(Fraction(amount_usd) * GRAINS_PER_USD)


def exact_usd(grains: int) -> Fraction:
    """Return an amount in dollars as it is."""
    return Fraction(grains, GRAINS_PER_USD)


def in_dollars(grains: int) -> Decimal:
    """Return an amount in dollars, to twelve places, half to even."""
    return _decimal(round(Fraction(grains, _GRAINS_PER_STEP)))


def as_usd(parts: Sequence[int]) -> list[Decimal]:
    """Return amounts in dollars, to twelve places each, whose sum is `in_dollars` of their sum."""
    total = round(Fraction(sum(parts), _GRAINS_PER_STEP))
    return [_decimal(steps) for steps in _in_steps(parts, total)]


def _in_steps(parts: Sequence[int], total: int) -> list[int]:
    whole = [grains // _GRAINS_PER_STEP for grains in parts]
    left = total - sum(whole)
    by_rest = sorted(range(len(parts)), key=lambda i: (-(parts[i] % _GRAINS_PER_STEP), i))
    for index in by_rest[:left]:
        whole[index] += 1
    return whole


def _decimal(steps: int) -> Decimal:
    return Decimal(steps).scaleb(-_PLACES)


def split(quantity: int, weights: Sequence[tuple[str, Fraction]]) -> dict[str, int]:
    """Return a quantity divided by weights, as integers that add up to it (largest remainder).

    `weights` are by the id of who gets the part, and not all 0; ties go to the lower id.
    """
    total = sum((weight for _, weight in weights), Fraction(0))
    exact = {id_: quantity * weight / total for id_, weight in weights}
    parts = {id_: part.numerator // part.denominator for id_, part in exact.items()}
    left = quantity - sum(parts.values())
    for id_ in sorted(exact, key=lambda each: (parts[each] - exact[each], each))[:left]:
        parts[id_] += 1
    return parts
