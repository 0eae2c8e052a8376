"""Seeds of the simulation: safety under faults, then liveness without; see docs/reliability.md."""

from __future__ import annotations

import pytest

from tests.sim.run import Failure, run_seed

SEEDS = 200


@pytest.mark.parametrize("seed", range(SEEDS))
def test_safety_then_liveness(seed: int) -> None:
    result = run_seed(seed, [])
    assert not isinstance(result, Failure), result.text
    assert result.virtual_s > 0
