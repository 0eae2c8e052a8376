"""Plants the defects of the edges, each in a copy, and tells which of them their tests catch.

`python -m tests.edges.run` tries all of them; `--names a,b` some, `--part 2/3` a third.
What is missed is tried once more, as is the run of the tests without any defect.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.edges.defect import EdgeDefect
from tests.edges.known import DEFECTS, part_of
from tests.edges.planting import (
    SOUND_TIME_LIMIT_S,
    Fate,
    Verdict,
    copied_tree,
    run_tests,
    try_all,
)

MOST_TRIED_AGAIN = 5


def main(arguments: Sequence[str]) -> int:
    """Print a line for each defect and a closing one; return 1 if any is not caught."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=_names, default=(), help="some defects, with commas")
    parser.add_argument("--part", type=_part, default=(1, 1), help="K/N: one of N equal parts")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once")
    given = parser.parse_args(arguments)
    unknown = set(given.names) - {each.name for each in DEFECTS}
    if unknown:
        parser.error(f"there is no such defect: {', '.join(sorted(unknown))}")
    chosen = [each for each in DEFECTS if not given.names or each.name in given.names]
    chosen = part_of(chosen, *given.part)
    began = time.monotonic()
    with copied_tree(None) as tree:
        said = sound(chosen, tree)
        if said and sound(chosen, tree):
            _say(f"without any defect the tests do not pass:\n{said}")
            return 1
        _say(f"without any defect the tests pass, in {time.monotonic() - began:.0f} s")
        missed = tried(chosen, tree, at_once=given.jobs)
        if 0 < len(missed) <= MOST_TRIED_AGAIN:
            _say("Once more, one by one: on a busy machine a test may be late.")
            missed = tried(missed, tree, at_once=1)
    took_s = time.monotonic() - began
    _say(f"{len(chosen) - len(missed)} of {len(chosen)} defects were caught in {took_s:.0f} s")
    return 1 if missed else 0


def tried(defects: Sequence[EdgeDefect], tree: Path, *, at_once: int) -> list[EdgeDefect]:
    """Print a line for each defect; return those that were not caught."""
    verdicts = try_all(defects, at_once=at_once, of=tree)
    return [each.defect for each in verdicts if not _show(each)]


def sound(defects: Sequence[EdgeDefect], tree: Path) -> str:
    """Run the tests without a defect; return what pytest said if they do not pass, else ""."""
    tests = sorted({each.test for each in defects})
    code, said = run_tests(tree, tests, limit_s=SOUND_TIME_LIMIT_S)
    return said if code != 0 or "skipped" in said.splitlines()[-1] else ""


def _show(verdict: Verdict) -> bool:
    """Print a verdict; return whether the defect was caught."""
    defect, caught = verdict.defect, verdict.fate is Fate.CAUGHT
    _say(f"{verdict.fate.value:<9}  {verdict.took_s:5.1f} s  {defect.name}")
    if not caught:
        _say(f"  guard: {defect.guard}\n  in:    {defect.file}\n  test:  {defect.test}")
        _say("".join(f"  | {line}\n" for line in verdict.said.splitlines()[-20:]))
    return caught


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _names(text: str) -> tuple[str, ...]:
    return tuple(each for each in text.split(",") if each)


def _part(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not 1 <= int(part) <= int(parts):
        raise ValueError(text)
    return int(part), int(parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
