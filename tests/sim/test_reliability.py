"""docs/reliability.md tells what the code does: its tables are made from it."""

from __future__ import annotations

import ast

import pytest

from tests.sim.catching import known_seeds
from tests.sim.glossary import FAULTS, PROMISES
from tests.sim.mutants import MUTANTS
from tests.sim.planting import Mutant, mutated_code
from tests.sim.reliability import MARKED, PAGE, _expected, faults, promises, with_tables

AGAIN = "write it anew: python -m tests.sim.reliability"


def test_the_page_is_what_the_code_makes() -> None:
    page = PAGE.read_text()
    assert with_tables(page) == page, AGAIN


def test_the_page_has_all_tables() -> None:
    assert [match[2] for match in MARKED.finditer(PAGE.read_text())] == [
        "promises",
        "faults",
        "guards",
    ]


def test_every_promise_has_its_sentence() -> None:
    assert sorted(PROMISES) == sorted(promises()), "add or delete it in tests/sim/glossary.py"


def test_every_fault_has_its_sentence() -> None:
    named = [name for names in faults().values() for name in names]
    assert sorted(FAULTS) == sorted(named), "add or delete it in tests/sim/glossary.py"


def test_a_table_that_is_old_is_made_anew() -> None:
    page = PAGE.read_text()
    name = MUTANTS[0].name
    assert with_tables(page.replace(name, "an old name")) == page


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_planted_defect_fits_the_code(mutant: Mutant) -> None:
    parts = [mutant] if mutant.also is None else [mutant, mutant.also]
    for part in parts:
        assert mutated_code(part) is not None


def test_each_planted_defect_is_known_to_be_caught_by_a_seed_or_a_test() -> None:
    """A seed that is lost is sought by `python -m tests.sim.catching`; else a test takes over."""
    assert {mutant.name for mutant in MUTANTS if mutant.test is None} == known_seeds().keys()


def test_promises_are_found_in_code() -> None:
    code = 'expect(a, "one", "")\nexpect(b, f"two: {c}", "")\nprint(d, "three")\n'
    assert list(_expected(ast.parse(code))) == ["one", "two"]
