"""Looks for the first seed that catches a planted defect; `python -m tests.sim.catching` for all.

Which seed caught each is kept in `known_catches.json`, and tried first the next time; the command
writes it anew.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from tests.sim import long_stalls
from tests.sim.options import SimOptions, options_of
from tests.sim.planting import Mutant, planted
from tests.sim.truth import Violation
from tests.sim.world import World

MOST_SEEDS = 200
KNOWN = Path(__file__).with_name("known_catches.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Catch:
    """Which seed caught a defect, and by which promise (or whose exception)."""

    seed: int
    by: str


def known_seeds() -> dict[str, int]:
    """Return the seed that is known to catch each defect, by the defect's name."""
    found: dict[str, int] = json.loads(KNOWN.read_text(encoding="utf-8"))
    return found


def catch(mutant: Mutant, first: int | None = None) -> Catch | None:
    """Run seeds with the defect until one fails; None when none of 200 does.

    `first` is a seed to begin with, None for none; all 200 are tried in the end. Where only long
    stalls reach the defect, their few seeds are all.
    """
    before = [] if first is None else [first]
    options, seeds = options_of, tuple(range(MOST_SEEDS))
    if mutant.long_stalls:
        options, seeds = long_stalls.options_with_long_stalls, long_stalls.SEEDS
    with planted(mutant):
        for seed in (*before, *seeds):
            by = _caught_by(options(seed))
            if by is not None:
                return Catch(seed=seed, by=by)
    return None


def _caught_by(options: SimOptions) -> str | None:
    try:
        World(options).run()
    except Violation as violation:
        return violation.promise
    except Exception as error:  # noqa: BLE001 - a defect may break anything
        return type(error).__name__
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Look for a seed of each defect that names no test, the known one first; return the status."""
    # Imported here, since this module serves the defects' own tests.
    from tests.sim.mutants import MUTANTS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--new", action="store_true", help="only those without a known seed")
    options = parser.parse_args(arguments)
    known = known_seeds()
    sought = [each for each in MUTANTS if each.test is None]
    if options.new:
        sought = [each for each in sought if each.name not in known]
    missed = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        tries = {pool.submit(catch, each, known.get(each.name)): each.name for each in sought}
        for done in as_completed(tries):
            name, how = tries[done], done.result()
            sys.stdout.write(f"{'NOT CAUGHT' if how is None else how.seed:>10} {name}\n")
            sys.stdout.flush()
            known.pop(name, None)
            if how is None:
                missed += 1
            else:
                known[name] = how.seed
            _note(known, {each.name for each in MUTANTS if each.test is None})
    return 1 if missed else 0


def _note(known: dict[str, int], names: set[str]) -> None:
    """Write down what is known by now: a search may be stopped and go on with `--new`."""
    seeds = {name: known[name] for name in sorted(known) if name in names}
    KNOWN.write_text(json.dumps(seeds, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
