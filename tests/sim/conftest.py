"""What all tests of the simulation run with."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.sim.run import collect_seldom


@pytest.fixture(scope="module", autouse=True)
def collected_seldom() -> Iterator[None]:
    """Let Python look for cycles as seldom as in `python -m tests.sim.run`."""
    before = gc.get_threshold()
    collect_seldom()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()
