"""Seeds of the simulation: safety under faults, then liveness without; see docs/reliability.md."""

from __future__ import annotations

import os

import pytest

from tests.sim.run import Failure, run_seed
from tests.sizes import sized

SEEDS = int(os.environ.get("LONGSHORE_SIM_SEEDS", sized(25, 200)))
"""How many: `make check` asks for few, `make proofs` for all that catch a planted defect."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_safety_then_liveness(seed: int) -> None:
    result = run_seed(seed, [])
    assert not isinstance(result, Failure), result.text
    assert result.virtual_s > 0
