"""How long elastic jobs take from submission to end, by mode, policy and load.

A pool of fixed size on virtual time: jobs come at random (the seed fixes them), run as fast as the
components that have a place let them, and end. The same jobs go through every mode and policy.

    python benchmarks/elastic.py [--seeds 20] [--jobs 200] [--json]

It prints the mean turnaround over all jobs and seeds, and its ratio to malleable's. The goals:
under fifo rigid is far above malleable, and malleable not below flexible; under the other policies
flexible is within 2 % of malleable, or better. The command exits 1 when a run misses one.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from longshore.dispatcher.domain.containers import ElasticSettings, QueuePolicy
from longshore.dispatcher.domain.jobs import ElasticMode
from longshore.dispatcher.scheduler.elastic.model import ElasticJob
from tests.rigs.elastic import elastic, essential, make_job, turnarounds_s
from tests.samples import make_type

LOADS = (0.7, 0.9)
INSTANCES, CPUS = 5, 8
MOST_ESSENTIAL, MOST_ELASTIC = 4, 12
MEAN_RUNTIME_S, LEAST_RUNTIME_S = 60.0, 5.0
FAR_ABOVE = 1.2
CLOSE = 1.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The mean turnaround of one policy at one load, by mode."""

    policy: str
    load: float
    rigid_s: float
    malleable_s: float
    flexible_s: float

    @property
    def holds(self) -> bool:
        """Return whether it is as it should be."""
        if self.policy == QueuePolicy.FIFO.value:
            far_above = self.rigid_s >= FAR_ABOVE * self.malleable_s
            return far_above and self.malleable_s >= self.flexible_s
        return self.flexible_s <= CLOSE * self.malleable_s


def workload(seed: int, load: float, number: int) -> list[ElasticJob]:
    """Return jobs that keep a share of all cpus busy, if they come for ever as they do here."""
    dice = random.Random(seed)
    mean_components = (1 + MOST_ESSENTIAL) / 2 + MOST_ELASTIC / 2
    work_s = mean_components * (MEAN_RUNTIME_S + LEAST_RUNTIME_S)
    per_s = load * INSTANCES * CPUS / work_s
    now, jobs = 0.0, []
    for index in range(number):
        now += dice.expovariate(per_s)
        components = [essential(dice.randint(1, MOST_ESSENTIAL))]
        if extras := dice.randint(0, MOST_ELASTIC):
            components.append(elastic(extras))
        runtime_s = LEAST_RUNTIME_S + dice.expovariate(1 / MEAN_RUNTIME_S)
        jobs.append(make_job(index, *components, submitted_at=now, runtime_s=runtime_s))
    return jobs


def measure(policy: QueuePolicy, load: float, seeds: Iterable[int], jobs: int) -> Figure:
    """Return the mean turnarounds of one policy at one load."""
    pool = tuple((f"i-{number}", make_type(CPUS)) for number in range(INSTANCES))
    settings = ElasticSettings(policy=policy)
    taken: dict[ElasticMode, list[float]] = {mode: [] for mode in ElasticMode}
    for seed in seeds:
        coming = workload(seed, load, jobs)
        for mode, found in taken.items():
            found.append(fmean(turnarounds_s(coming, mode, settings, pool)))
    return Figure(
        policy=policy.value,
        load=load,
        rigid_s=fmean(taken[ElasticMode.RIGID]),
        malleable_s=fmean(taken[ElasticMode.MALLEABLE]),
        flexible_s=fmean(taken[ElasticMode.FLEXIBLE]),
    )


def line(figure: Figure) -> str:
    """Return a figure as a line of the table."""
    base = figure.malleable_s
    return (
        f"{figure.policy:8}  {figure.load:4}  {figure.rigid_s:8.1f}  {base:9.1f}"
        f"  {figure.flexible_s:8.1f}  {figure.rigid_s / base:9.3f}"
        f"  {figure.flexible_s / base:9.4f}  {'' if figure.holds else 'missed'}"
    ).rstrip()


def main(arguments: Sequence[str]) -> int:
    """Measure all policies at all loads, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=200, help="jobs a seed")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    figures = []
    if not options.json:
        print("policy    load   rigid s  malleable s  flexible s  rigid/m.  flexible/m.")
    for load in LOADS:
        for policy in QueuePolicy:
            figure = measure(policy, load, range(options.seeds), options.jobs)
            figures.append(figure)
            if not options.json:
                print(line(figure), flush=True)
    if options.json:
        print(json.dumps([asdict(each) | {"holds": each.holds} for each in figures]))
    return 0 if all(each.holds for each in figures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
