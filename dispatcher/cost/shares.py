"""What an attempt keeps from others of its instance; pure.

An attempt pays for what nobody else can have: its dominant share of the allocatable, which is the
largest of its shares in any dimension (Ghodsi et al., Dominant Resource Fairness, NSDI 2011). What
it really uses of that changes nothing. Where the shares on one instance add up to more than 1, each
is divided by their sum; where they add up to less, the rest is room.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Final

from longshore.drivers.interface import Resources

_WHOLE: Final = Fraction(1)
LEAST_SHARE: Final = Fraction(1, 256)
"""Who asks for next to nothing takes up a place for a container."""


@lru_cache(maxsize=4096)  # each start asks this, and a thousand starts ask the same
def dominant_share(wanted: Resources, allocatable: Resources) -> Fraction:
    """Return which part of an instance a request keeps from others: more than 0, at most 1."""
    custom = dict(allocatable.custom)
    pairs = (
        (wanted.cpu_millis, allocatable.cpu_millis),
        (wanted.memory_bytes, allocatable.memory_bytes),
        (wanted.disk_bytes, allocatable.disk_bytes),
        (wanted.gpus, allocatable.gpus),
        *((amount, custom.get(name, 0)) for name, amount in wanted.custom),
    )
    most, of = LEAST_SHARE.numerator, LEAST_SHARE.denominator
    for part, whole in pairs:
        # Fractions are compared without making any.
        if whole > 0 and part * of > most * whole:
            most, of = part, whole
    return Fraction(most, of) if most < of else _WHOLE
