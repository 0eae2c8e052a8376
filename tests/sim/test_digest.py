"""A seed fixes everything: the same events and commands, whatever the order of hashes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.options import options_of, without
from tests.sim.world import World
from tests.sizes import sized

ROOT = Path(__file__).parents[2]
DIGEST = re.compile(r"^digest ([0-9a-f]{128})$", re.MULTILINE)


def digest_of(seed: int, hash_seed: str) -> str:
    run = subprocess.run(
        [sys.executable, "-m", "tests.sim.run", "--seed", str(seed)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    found = DIGEST.search(run.stdout)
    assert found is not None, run.stdout
    return found[1]


@pytest.mark.parametrize("seed", [0, 7, 3, 6, 11, 19][: sized(2, 6)])
def test_the_same_seed_is_the_same_run_under_any_hash_seed(seed: int) -> None:
    assert digest_of(seed, "1") == digest_of(seed, "4242")


@pytest.mark.parametrize("seed", [13, 22])
def test_a_run_is_the_same_whether_anybody_asks_for_plans(seed: int) -> None:
    options = options_of(seed)
    assert options.demand.plans_every_s, "nobody does: take another seed"
    nobody = without(options, ["plans_every_s"])
    digests = {World(each, digest=True).run().digest for each in (options, nobody)}
    assert len(digests) == 1


def test_another_seed_is_another_run() -> None:
    assert digest_of(3, "1") != digest_of(4, "1")
