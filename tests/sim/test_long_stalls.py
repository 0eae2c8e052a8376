"""A store that is away for up to 25 minutes costs nobody anything (see `long_stalls`)."""

from __future__ import annotations

import pytest

from tests.sim.long_stalls import SEEDS, options_with_long_stalls
from tests.sim.world import World


@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_that_is_away_for_long_costs_nobody_anything(seed: int) -> None:
    assert World(options_with_long_stalls(seed)).run().ended
