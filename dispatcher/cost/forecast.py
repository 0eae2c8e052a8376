"""What a period will likely have cost at its end; pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendForecast:
    """What a period will likely have cost at its end, in grains (`money`)."""

    p10_grains: int
    p50_grains: int
    p90_grains: int
