"""Looks for the first seed that catches a planted defect."""

from __future__ import annotations

from dataclasses import dataclass

from tests.sim.options import options_of
from tests.sim.planting import Mutant, planted
from tests.sim.truth import Violation
from tests.sim.world import World

MOST_SEEDS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Catch:
    """Which seed caught a defect, and by which promise (or whose exception)."""

    seed: int
    by: str


def catch(mutant: Mutant, most_seeds: int = MOST_SEEDS) -> Catch | None:
    """Run seeds with the defect until one fails; None when none of `most_seeds` does."""
    with planted(mutant):
        for seed in range(most_seeds):
            try:
                World(options_of(seed)).run()
            except Violation as violation:
                return Catch(seed=seed, by=violation.promise)
            except Exception as error:  # noqa: BLE001 - a defect may break anything
                return Catch(seed=seed, by=type(error).__name__)
    return None
