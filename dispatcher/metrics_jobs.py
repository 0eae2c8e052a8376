"""Metrics of jobs, and of containers that wait for something else than room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from dispatcher.engine import Engine
from dispatcher.holdbacks import Block
from dispatcher.job_model import JobState

_HELD = "held"


def families(engine: Engine) -> Iterator[Metric]:
    """Yield the families."""
    jobs = GaugeMetricFamily(
        "longshore_jobs",
        "Jobs that have not ended, by state; those that are held are counted as that only.",
        labels=("state",),
    )
    states = engine.ledger.jobs.states()
    for state in (JobState.PENDING.value, JobState.RUNNING.value, _HELD):
        jobs.add_metric((state,), states[state])
    yield jobs
    held_back = GaugeMetricFamily(
        "longshore_containers_held_back",
        "Containers that may not run yet, by why: each counts for all that holds it.",
        labels=("why",),
    )
    for why, number in sorted(_held_back(engine).items()):
        held_back.add_metric((why,), number)
    yield held_back


def _held_back(engine: Engine) -> Counter[str]:
    holdbacks = engine.ledger.holdbacks
    found = Counter({"time": len(holdbacks.timed()), "earlier_attempt": holdbacks.by_processes})
    blocks = Counter(holdbacks.all_blocks())
    for block in Block:
        name = (block.name or "").lower()
        found[name] = sum(number for each, number in blocks.items() if block in each)
    return found
