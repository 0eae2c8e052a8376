"""The planted defects of the edges are what they say: plantable, distinct, with tests there are.

That the tests are there holds for those that defects of the core name, too.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.edges.defect import EdgeDefect
from tests.edges.known import DEFECTS, part_of
from tests.edges.planting import (
    ROOT,
    Fate,
    NotPlantableError,
    changed_source,
    copied_tree,
    try_defect,
)
from tests.rotation import some_of
from tests.sim.mutants import MUTANTS

EDGES = (
    *("pool/remote/", "pool/runner/", "dispatcher/store/", "dispatcher/logs/", "dispatcher/api/"),
    "dispatcher/client/",
)

# What is at an edge, or decides what an edge does, is tried here too, without so many.
OTHERS = (
    *(
        f"dispatcher/{folder}/"
        for folder in (
            *("access", "cli", "config", "cost", "domain", "input", "metrics", "notifications"),
            *("conformance", "server", "service", "traces"),
        )
    ),
    *("drivers/", "pool/billing.py", "pool/open_bills.py", "pool/rate_limits.py"),
    # What a spent budget stops: no seed of the simulation has a budget.
    *("dispatcher/engine/engine.py", "dispatcher/engine/view.py", "dispatcher/state/containers.py"),
    *("dispatcher/scheduler/elastic/controller.py", "dispatcher/scheduler/system/"),
    "dispatcher/scheduler/elastic/end_reasons.py",
    # What a new price changes, and limits of spending: no seed has them.
    *("dispatcher/scheduler/placement/fleet_sync.py", "dispatcher/state/attempt_spend.py"),
    "dispatcher/scheduler/placement/spend.py",
    "pool/core.py",
    # What is written of instances that were seen late: the simulation's clouds know no such.
    "dispatcher/state/cost_recorder.py",
    # What is prepaid is chosen first: no seed has any.
    *("dispatcher/scheduler/placement/create_limits.py", "dispatcher/scheduler/scale_up/"),
    "dispatcher/scheduler/elastic/scale_up.py",
    # What an overview tells to whom.
    *(
        "dispatcher/explain/overview.py",
        "dispatcher/state/decisions.py",
        "dispatcher/state/tally.py",
    ),
    "dispatcher/explain/efficiency.py",
    # What a panel of money asks.
    "tools/grafana/",
)

PROBE = EdgeDefect(
    name="probe",
    guard="the greeting of the runner's bundle",
    file="pool/remote/allowance.py",
    old='"""',
    new="",
    test="tests/edges/none.py::test_none",
)


def test_each_is_planted_at_one_place_and_still_a_program() -> None:
    for defect in DEFECTS:
        assert defect.old != defect.new, defect.name
        ast.parse(changed_source(defect), defect.name)


def test_they_are_many_distinct_and_at_the_edges() -> None:
    assert len({each.name for each in DEFECTS}) == len(DEFECTS)
    assert len({(each.file, changed_source(each)) for each in DEFECTS}) == len(DEFECTS)
    assert len(DEFECTS) >= 150
    for folder in EDGES:
        assert sum(each.file.startswith(folder) for each in DEFECTS) >= 10, folder
    assert all(each.file.startswith((*EDGES, *OTHERS)) for each in DEFECTS)


def test_each_names_a_test_that_there_is() -> None:
    named = {each.test for each in DEFECTS}
    named |= {each.test for each in MUTANTS if each.test is not None}
    files = sorted({each.partition("::")[0] for each in named})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *files], cwd=ROOT, capture_output=True, text=True, check=True, timeout=300
    )
    collected = set(done.stdout.splitlines())
    # A test with parameters may be named without them: then all of them are run.
    collected |= {each.partition("[")[0] for each in collected}
    assert named <= collected


def test_all_of_them_have_their_turn_and_one_commit_has_always_the_same() -> None:
    chosen = some_of(DEFECTS, 20, "a commit")
    assert chosen == some_of(DEFECTS, 20, "a commit")
    assert chosen != some_of(DEFECTS, 20, "another")
    parts = [each for part in (1, 2, 3) for each in part_of(DEFECTS, part, 3)]
    assert sorted(each.name for each in parts) == sorted(each.name for each in DEFECTS)


def test_a_text_that_is_not_there_once_is_told() -> None:
    with pytest.raises(NotPlantableError, match="stands 0 times"):
        changed_source(replace(PROBE, old="no such text"))
    with pytest.raises(NotPlantableError, match=r"stands [0-9]+ times"):
        changed_source(PROBE)


def test_a_copy_has_the_defect_and_the_original_has_not() -> None:
    defect = next(each for each in DEFECTS if each.file == "pool/remote/deploy.py")
    with copied_tree(defect) as tree:
        assert (tree / defect.file).read_text() == changed_source(defect)
        assert (tree / "longshore" / defect.file).read_text() == changed_source(defect)
        assert not Path(tree / ".venv").exists()
    assert (ROOT / defect.file).read_text().count(defect.old) == 1


@pytest.mark.parametrize(
    ("test", "fate"),
    [
        ("tests/unit/test_timefmt.py", Fate.MISSED),
        ("tests/unit/no_such_file.py", Fate.NOT_TRIED),
    ],
)
def test_what_no_test_fails_for_is_not_caught(test: str, fate: Fate) -> None:
    defect = next(each for each in DEFECTS if each.file == "pool/remote/deploy.py")
    assert try_defect(replace(defect, test=test)).fate is fate


def test_what_cannot_be_imported_is_no_catch() -> None:
    broken = EdgeDefect(
        name="broken",
        guard="a source that can be imported",
        file="dispatcher/domain/timefmt.py",
        old="from __future__ import annotations\n",
        new="from __future__ import annotations\n\nimport no_such_module\n",
        test="tests/unit/test_timefmt.py",
    )
    assert try_defect(broken).fate is Fate.NOT_TRIED
