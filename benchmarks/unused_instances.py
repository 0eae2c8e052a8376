"""How many instances are bought and never used, where mixed priorities share four of them.

On virtual time, by the real engine: 120 containers of 1 to 16 cpus, each for one type, and of
priorities from 1 to 1000 come within 20 minutes; `max_instances` is 4, a boot takes 30 to 40 s.

    python benchmarks/unused_instances.py [--seeds 20] [--save FILE] [--against FILE] [--json]

It prints for each seed the instances, those that never ran anything, the starts and the time that
all took. `--save` keeps when each container started, and `--against` compares with what another
version of the code has saved: by how much later the containers of a priority and above start, the
first of them beside the first, and so on. The goal is a median of at most 5 % of the instances, and
no start later than before by more than two boots; the command exits 1 when a run misses it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.sim.unused import LONGEST_BOOT_S, MOST_UNUSED, Usage, later_s, measure

LEAST_PRIORITIES = (900, 750, 500, 250, 1)


def line(usage: Usage) -> str:
    """Return a seed as a line of the table."""
    return (
        f"{usage.seed:4}  {usage.booted:9}  {usage.unused:6}  {100 * usage.share:5.1f}"
        f"  {usage.starts:6}  {usage.took_s:8.0f}"
    )


def compare(found: Sequence[Usage], before: dict[str, dict[str, float]]) -> float:
    """Print how much later than before containers start, and return the greatest delay."""
    print("priority from   later by s: median, most")
    most = 0.0
    for least in LEAST_PRIORITIES:
        late = [later_s(before[str(usage.seed)], usage, least) for usage in found]
        print(f"{least:13}   {median(late):10.0f}  {max(late):10.0f}")
        most = max(most, *late)
    return most


def as_json(usage: Usage) -> dict[str, Any]:
    """Return a seed as JSON data."""
    names = ("seed", "booted", "unused", "starts", "took_s")
    return {name: getattr(usage, name) for name in names}


def main(arguments: Sequence[str]) -> int:
    """Measure all seeds, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--save", type=Path, help="keep when each container started")
    parser.add_argument("--against", type=Path, help="what another version has saved")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if not options.json:
        print("seed  instances  unused      %  starts   took s")
    found = []
    for seed in range(options.seeds):
        found.append(measure(seed))
        if not options.json:
            print(line(found[-1]), flush=True)
    share = median(usage.share for usage in found)
    if options.json:
        print(json.dumps([as_json(usage) for usage in found]))
    else:
        print(f"unused: {100 * share:.1f} % (median)")
    if options.save is not None:
        times = {str(usage.seed): dict(usage.started_at) for usage in found}
        options.save.write_text(json.dumps(times), encoding="utf-8")
    late = 0.0
    if options.against is not None:
        late = compare(found, json.loads(options.against.read_text(encoding="utf-8")))
    return 0 if share <= MOST_UNUSED and late <= 2 * (LONGEST_BOOT_S + 10.0) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
