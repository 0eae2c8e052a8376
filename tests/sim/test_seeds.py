"""Seeds of the simulation: safety under faults, then liveness without; see docs/reliability.md."""

from __future__ import annotations

import os

import pytest

from tests.sim.run import Failure, run_seed

SEEDS = 200
WITHOUT = os.environ.get("LONGSHORE_SIM_WITHOUT", "").split()
"""What is left out, by name: `make check` leaves the jobs out that make runs twice as long."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_safety_then_liveness(seed: int) -> None:
    result = run_seed(seed, WITHOUT)
    assert not isinstance(result, Failure), result.text
    assert result.virtual_s > 0
