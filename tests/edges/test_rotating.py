"""Some of the planted defects of the edges, others at each commit; `make proofs` has all."""

from __future__ import annotations

import pytest

from tests.edges.known import DEFECTS
from tests.edges.planting import Fate, try_all
from tests.rotation import commit, some_of

AT_A_COMMIT = 20


@pytest.mark.timeout(900)
def test_the_defects_of_this_commit_are_caught() -> None:
    chosen = some_of(DEFECTS, AT_A_COMMIT, commit())
    missed = [each for each in try_all(chosen, at_once=2) if each.fate is not Fate.CAUGHT]
    assert not missed, "\n".join(
        f"{each.defect}: {each.fate.value}\n{each.said}" for each in missed
    )
