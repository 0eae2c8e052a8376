"""Runs the test that a planted defect names, with the defect in the program: a check must fail.

It runs in a process of its own, in which pytest has collected the test before the defect is
planted. So what cannot be imported is no catch; neither is an exception that no check raised, such
as a NameError of the defect's own, nor a test that hangs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pytest

from tests.edges.planting import ROOT, run_in
from tests.sim.planting import Mutant, planted

TIME_LIMIT_S = 60.0
"""With pytest's own start, on a busy machine; sound, no test that is named takes a tenth of it."""


@dataclass(slots=True, kw_only=True)
class Witness:
    """A plugin of pytest's that plants a defect for the tests, and sees whether a check fails."""

    mutant: Mutant
    has_seen: bool = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Plant the defect around all that was collected."""
        with planted(self.mutant):
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        """Note whether it was a check that failed: a test's, or the product's of itself."""
        # Imported late: pytest rewrites the checks of our package, which has a plugin of its own.
        from longshore.drivers.errors import BugError

        if call.excinfo is not None:
            failed = isinstance(
                call.excinfo.value, AssertionError | BugError | pytest.fail.Exception
            )
            self.has_seen = self.has_seen or failed


def convict(mutant: Mutant, *, limit_s: float) -> tuple[bool, str]:
    """Return whether the mutant's test catches it, and what pytest said last."""
    command = (sys.executable, "-m", "tests.sim.witness", json.dumps(asdict(mutant)))
    code, said = run_in(ROOT, command, limit_s)
    return code == 0, said


def main(arguments: Sequence[str]) -> int:
    """Run the test of the defect that is given; return 0 when a check has failed."""
    witness = Witness(mutant=_mutant_of(json.loads(arguments[0])))
    options = ("-q", "--color=no", "-p", "no:cacheprovider", "-p", "no:xdist")
    pytest.main([*options, str(witness.mutant.test)], plugins=[witness])
    return 0 if witness.has_seen else 1


def _mutant_of(values: dict[str, Any]) -> Mutant:
    also = values.pop("also")
    return Mutant(**values, also=None if also is None else _mutant_of(also))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
