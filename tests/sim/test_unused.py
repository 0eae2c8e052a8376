"""Few instances boot for nothing; `benchmarks/unused_instances.py` runs more seeds."""

from __future__ import annotations

from statistics import median

from tests.sim.unused import CONTAINERS, MOST_UNUSED, measure


def test_few_instances_boot_and_never_run_anything() -> None:
    found = [measure(seed) for seed in range(5)]
    assert [usage.starts for usage in found] == [CONTAINERS] * 5
    shares = [usage.share for usage in found]
    assert median(shares) <= MOST_UNUSED, shares
