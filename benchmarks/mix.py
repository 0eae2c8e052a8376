"""How close the mix of new instances comes to the cheapest, and how long large calls take.

Cases of a fixed seed: up to 12 containers of up to 4 classes on 2 to 6 types, against the true
optimum; then calls with many classes, types and containers, the best of several runs each.

    python benchmarks/mix.py [--cases 2000] [--json]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dispatcher.planner.fit import price_order
from dispatcher.planner.mix import Option, Want
from drivers.interface import Resources
from tests.mix_cases import optimum, price, random_case, random_type, solve
from tests.samples import GIB

RUNS = 5
LARGE = (  # classes, types, containers of each class, most instances
    (100, 30, 1_000_000, 10),
    (100, 30, 1_000_000, 50),
    (100, 30, 5, 50),
    (20, 10, 20, 50),
    (20, 10, 20, 1_000),
    (4, 6, 1_000, 10_000),
    (1, 30, 1_000_000, 100_000),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeCall:
    """One large call and its best time."""

    classes: int
    types: int
    containers: int
    most_instances: int
    instances: int
    best_ms: float


def ratios(cases: int) -> list[float]:
    """Return price over optimum for each case, sorted."""
    found = []
    for seed in range(cases):
        wants = random_case(seed)
        found.append(float(price(solve(wants)) / optimum(wants)))
    return sorted(found)


def large_wants(classes: int, types: int, containers: int) -> list[Want]:
    """Return many wants on many types; each class may go to every type that it fits."""
    dice = random.Random(1)
    offered = sorted((random_type(dice, number) for number in range(types)), key=price_order)
    wants: list[Want] = []
    while len(wants) < classes:
        need = Resources(
            cpu_millis=100 * dice.randint(1, 40), memory_bytes=GIB // 8 * dice.randint(1, 40)
        )
        options = tuple(
            Option(type=type_, need=need) for type_ in offered if need.fits_in(type_.allocatable)
        )
        if options:
            wants.append(Want(index=len(wants), count=containers, options=options))
    return wants


def large_call(classes: int, types: int, containers: int, most: int) -> LargeCall:
    """Time one large call."""
    wants = large_wants(classes, types, containers)
    times, mix = [], solve(wants, most_instances=most, max_containers=256)
    for _ in range(RUNS):
        begin = time.perf_counter()
        mix = solve(wants, most_instances=most, max_containers=256)
        times.append(time.perf_counter() - begin)
    return LargeCall(
        classes=classes,
        types=types,
        containers=containers,
        most_instances=most,
        instances=len(mix),
        best_ms=round(min(times) * 1e3, 2),
    )


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = ratios(arguments.cases)
    summary = {
        "mean": sum(found) / len(found),
        "p99": found[int(len(found) * 0.99)],
        "max": found[-1],
    }
    calls = [large_call(*numbers) for numbers in LARGE]
    if arguments.json:
        print(json.dumps({"ratio": summary, "large": [asdict(call) for call in calls]}))
        return
    print(f"price / optimum over {len(found)} cases:", end=" ")
    print(", ".join(f"{name} {value:.4f}" for name, value in summary.items()))
    for call in calls:
        print(
            f"{call.classes} classes x {call.containers} on {call.types} types, at most "
            f"{call.most_instances}: {call.instances} instances in {call.best_ms} ms"
        )


if __name__ == "__main__":
    main()
