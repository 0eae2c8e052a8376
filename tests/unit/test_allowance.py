"""An allowance: so much at once, so much a second after that."""

from __future__ import annotations

import pytest

from longshore.pool.remote.allowance import MessageAllowance


@pytest.mark.parametrize(
    ("spent", "owed_s"),
    [
        # (amount, at) in turn; 10 at most, 5 a second
        ([(10, 0.0)], 0.0),
        ([(11, 0.0)], 0.2),
        ([(10, 0.0), (5, 1.0)], 0.0),
        ([(10, 0.0), (6, 1.0)], 0.2),
        ([(1, 0.0), (11, 100.0)], 0.2),
        ([(20, 0.0), (0, 1.0)], 1.0),
    ],
)
def test_what_is_overdrawn_grows_back(spent: list[tuple[float, float]], owed_s: float) -> None:
    allowance = MessageAllowance(most=10, per_second=5)
    owed = [allowance.spend(amount, at) for amount, at in spent]
    assert owed[-1] == pytest.approx(owed_s)


def test_what_is_granted_counts_up_to_the_most() -> None:
    allowance = MessageAllowance(most=10, per_second=5)
    assert allowance.spend(12, 7.0) == pytest.approx(0.4)
    allowance.grant(1)
    assert allowance.spend(0, 7.0) == pytest.approx(0.2)
    allowance.grant(100)
    assert allowance.spend(11, 7.0) == pytest.approx(0.2)
