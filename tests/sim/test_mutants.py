"""Every guard has a planted defect that a named test or one of 200 seeds catches.

`make test` plants some, others at each commit; `make proofs` plants all.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.rotation import commit, some_of
from tests.sim.catching import catch, known_seeds
from tests.sim.mutants import MUTANTS
from tests.sim.options import options_of
from tests.sim.planting import Mutant, mutated_code, planted
from tests.sim.witness import TIME_LIMIT_S, convict
from tests.sim.world import World
from tests.sizes import sized

CHOSEN = some_of(MUTANTS, sized(20, len(MUTANTS)), commit())
PROBE = Mutant(
    name="probe",
    guard="a month has its days",
    fault="",
    where="longshore.dispatcher.domain.timefmt:_date",
    old="(153 * month + 2) // 5",
    new="",
    test="tests/unit/test_timefmt.py",
)


@pytest.mark.parametrize("mutant", CHOSEN, ids=lambda mutant: mutant.name)
def test_the_defect_is_caught(mutant: Mutant) -> None:
    if mutant.test is None:
        first = known_seeds().get(mutant.name)
        assert catch(mutant, first) is not None, f"{mutant.name}: no seed catches it"
    else:
        caught, said = convict(mutant, limit_s=TIME_LIMIT_S)
        assert caught, f"{mutant.name}: no check of {mutant.test} fails\n{said}"


@pytest.mark.parametrize(
    ("new", "test", "caught"),
    [
        ("(3 * month + 2) // 5", PROBE.test, True),
        ("(153 * month + 2) // int('5')", PROBE.test, False),
        ("no_such_name", PROBE.test, False),
        ("(3 * month + 2) // 5", "tests/unit/no_such_file.py", False),
    ],
    ids=["a check fails", "passes", "breaks by itself", "is not there"],
)
def test_only_a_check_that_fails_is_a_catch(new: str, test: str | None, caught: bool) -> None:
    assert convict(replace(PROBE, new=new, test=test), limit_s=TIME_LIMIT_S)[0] is caught


def test_what_hangs_is_no_catch() -> None:
    hangs = replace(PROBE, new="__import__('time').sleep(3600.0)")
    assert not convict(hangs, limit_s=10.0)[0]


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
