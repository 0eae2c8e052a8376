"""Every guard has a planted defect that the simulation catches within 200 seeds.

`make test` plants some, others at each commit; `make proofs` plants all.
"""

from __future__ import annotations

import os

import pytest

from tests.rotation import commit, some_of
from tests.sim.catching import catch, known_seeds, lost_catches
from tests.sim.mutants import MUTANTS
from tests.sim.options import options_of
from tests.sim.planting import Mutant, mutated_code, planted
from tests.sim.world import World

AT_A_COMMIT = 40
SOUGHT = [mutant for mutant in MUTANTS if mutant.name not in lost_catches()]
CHOSEN = SOUGHT
if "LONGSHORE_ALL_DEFECTS" not in os.environ:
    CHOSEN = some_of(SOUGHT, AT_A_COMMIT, commit())


@pytest.mark.parametrize("mutant", CHOSEN, ids=lambda mutant: mutant.name)
def test_the_defect_is_caught(mutant: Mutant) -> None:
    first = known_seeds().get(mutant.name)
    assert catch(mutant, first) is not None, f"{mutant.name}: no seed catches it"


def test_who_has_lost_its_seed_is_planted_and_has_none() -> None:
    """Their runs have changed: `python -m tests.sim.catching` looks for a seed of each again."""
    assert lost_catches() <= {mutant.name for mutant in MUTANTS}
    assert not lost_catches() & known_seeds().keys()


def test_names_are_unique() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert sorted(set(names)) == sorted(names)


def test_a_defect_is_taken_out_again() -> None:
    with planted(MUTANTS[0]):
        pass
    World(options_of(0)).run()


def test_a_defect_that_does_not_fit_is_refused() -> None:
    mutant = MUTANTS[0]
    stale = Mutant(
        name="stale", guard="", fault="", where=mutant.where, old="no such words", new=""
    )
    with pytest.raises(ValueError, match="stands 0 times"):
        mutated_code(stale)
