"""Runs seeds of the simulation: `python -m tests.sim.run --seeds 20000`, or one: `--seed 17`."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from tests.sim.options import SimOptions, options_of, without
from tests.sim.world import Outcome, World

CHUNK = 5
REPORT_EVERY = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A seed that failed, with all that is needed to see it again."""

    seed: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What some seeds came to, together."""

    seeds: int
    busy_s: float
    virtual_s: float
    counts: Counter[str]
    failures: tuple[Failure, ...]


def replay_command(options: SimOptions, switched_off: list[str]) -> str:
    """Return the one command that runs a seed again."""
    rest = f" --without {' '.join(switched_off)}" if switched_off else ""
    return f"python -m tests.sim.run --seed {options.seed}{rest}"


def run_seed(seed: int, switched_off: list[str], *, digest: bool = False) -> Outcome | Failure:
    """Run one seed; a failure tells its options and the command that replays it."""
    options = without(options_of(seed), switched_off)
    world = World(options, digest=digest)
    try:
        return world.run()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        where = "".join(traceback.format_exception(error, limit=-6))
        text = (
            f"{where}\nat {world.timeline.now:.3f} s of\n{options.described()}\n"
            f"again: {replay_command(options, switched_off)}\n"
        )
        return Failure(seed=seed, text=text)


def run_seeds(seeds: list[int], switched_off: list[str]) -> Tally:
    """Run seeds one after the other."""
    counts: Counter[str] = Counter()
    failures: list[Failure] = []
    busy_s = virtual_s = 0.0
    for seed in seeds:
        result = run_seed(seed, switched_off)
        if isinstance(result, Failure):
            failures.append(result)
            continue
        counts.update(result.counts)
        busy_s += result.busy_s
        virtual_s += result.virtual_s
    return Tally(
        seeds=len(seeds),
        busy_s=busy_s,
        virtual_s=virtual_s,
        counts=counts,
        failures=tuple(failures),
    )


def collect_seldom() -> None:
    """Let Python look for cycles less often: a run is short, and what it has lives until its end.

    By the defaults that is an eighth of the time that a seed takes.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)


def in_parallel(seeds: range, jobs: int, switched_off: list[str]) -> Iterator[Tally]:
    """Run seeds in several processes, and yield what each chunk came to.

    The last ones come first: the first ones run with every check, and have little new to tell.
    """
    chunks = [list(seeds[i : i + CHUNK]) for i in range(0, len(seeds), CHUNK)][::-1]
    with ProcessPoolExecutor(jobs, initializer=collect_seldom) as pool:
        yield from pool.map(run_seeds, chunks, [switched_off] * len(chunks))


def show(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def show_one(seed: int, switched_off: list[str]) -> int:
    """Run one seed and show all of it; return the exit status."""
    result = run_seed(seed, switched_off, digest=True)
    if isinstance(result, Failure):
        show(result.text)
        return 1
    for name in sorted(result.counts):
        show(f"{result.counts[name]:8} {name}")
    show(f"{result.virtual_s:.0f} s passed, containers ran for {result.busy_s:.0f} s")
    show(f"digest {result.digest}")
    return 0


def show_many(seeds: range, jobs: int, switched_off: list[str]) -> int:
    """Run many seeds, show progress and the sum; return the exit status."""
    began, done, failed = time.perf_counter(), 0, 0
    busy_s = virtual_s = 0.0
    counts: Counter[str] = Counter()
    for tally in in_parallel(seeds, jobs, switched_off):
        for failure in tally.failures:
            failed += 1
            show(f"seed {failure.seed} FAILED\n{failure.text}")
        if (done + tally.seeds) // REPORT_EVERY > done // REPORT_EVERY:
            show(f"{done + tally.seeds} seeds, {failed} failed")
        done += tally.seeds
        busy_s += tally.busy_s
        virtual_s += tally.virtual_s
        counts.update(tally.counts)
    took_s = time.perf_counter() - began
    for name in sorted(counts):
        show(f"{counts[name]:10} {name}")
    show(
        f"{done} seeds, {failed} failed, in {took_s:.1f} s: {virtual_s / 3600:.1f} hours passed,"
        f" containers ran for {busy_s / 3600:.1f} hours,"
        f" {busy_s / 3600 / took_s:.2f} container-hours a second"
    )
    return 1 if failed else 0


def main(arguments: list[str]) -> int:
    """Run what the arguments say; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.run", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seed", type=int, help="run one seed and show what happened")
    what.add_argument("--seeds", type=int, help="run this many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first seed of --seeds")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument(
        "--without", nargs="+", default=[], metavar="FAULT", help="switch faults off, by name"
    )
    given = parser.parse_args(arguments)
    if given.seed is not None:
        return show_one(given.seed, given.without)
    seeds = range(given.first, given.first + given.seeds)
    return show_many(seeds, given.jobs, given.without)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
