"""What time on an instance costs."""

from __future__ import annotations

from decimal import Decimal

import pytest

from longshore.pool.cost import cost_usd


@pytest.mark.parametrize(
    ("price", "seconds", "share", "cost"),
    [
        ("0.36", 3600.0, "1", "0.36000000"),
        ("0.36", 10.0, "1", "0.00100000"),
        ("0.36", 10.0, "0.5", "0.00050000"),
        ("0.36", 0.0, "1", "0E-8"),
        ("0.36", -5.0, "1", "0E-8"),
        ("1", 1.0, "1", "0.00027778"),
    ],
)
def test_time_costs_its_part_of_an_hour(price: str, seconds: float, share: str, cost: str) -> None:
    found = cost_usd(Decimal(price), seconds, share=Decimal(share))
    assert str(found) == cost
