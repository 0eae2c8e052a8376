"""Metrics of jobs, and of containers that wait for something else than room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from longshore.dispatcher.domain.jobs import JobState
from longshore.dispatcher.engine.engine import Engine
from longshore.dispatcher.scheduler.system.crash_loop import CODES
from longshore.dispatcher.state.agenda import LaunchResult
from longshore.dispatcher.state.scheduling_gates import Gate

_HELD = "held"


def families(engine: Engine, now: float) -> Iterator[Metric]:
    """Yield the families; `now` in seconds since the epoch."""
    jobs = GaugeMetricFamily(
        "longshore_jobs",
        "Jobs that have not ended, by state; those that are held are counted as that only.",
        labels=("state",),
    )
    states = engine.table.jobs.states()
    for name in (JobState.PENDING.value, JobState.RUNNING.value, _HELD):
        jobs.add_metric((name,), states[name])
    yield jobs
    ended = CounterMetricFamily(
        "longshore_jobs_ended", "Jobs that have ended, by state.", labels=("state",)
    )
    for state in (state for state in JobState if state.final):
        ended.add_metric((state.value,), engine.table.jobs.ended[state])
    yield ended
    yield _in_trouble(engine, now)
    held_back = GaugeMetricFamily(
        "longshore_containers_held_back",
        "Containers that may not run yet, by why: each counts for all that holds it.",
        labels=("why",),
    )
    for why, number in sorted(_held_back(engine).items()):
        held_back.add_metric((why,), number)
    yield held_back


def _in_trouble(engine: Engine, now: float) -> Metric:
    """Return how many jobs for each instance are not well, by what a list of jobs says of them."""
    family = GaugeMetricFamily(
        "longshore_jobs_in_trouble",
        "System and sysbatch jobs that go on and are not well, by why; none that is held.",
        labels=("code",),
    )
    registry = engine.table.jobs
    found: Counter[str] = Counter()
    for job_id in registry.ids():
        type_ = registry.type_of(job_id)
        if type_ is None or not type_.is_per_instance or registry.is_held(job_id):
            continue
        job = registry.job(job_id)
        trouble = engine.per_instance.trouble(job, now) if job is not None else None
        if trouble is not None:
            found[trouble.code] += 1
    for code in CODES:
        family.add_metric((code,), found[code])
    return family


def launches(results: Mapping[LaunchResult, int]) -> Metric:
    """Return what came of the times of periodic jobs' schedules."""
    family = CounterMetricFamily(
        "longshore_periodic_launches",
        "Times of periodic jobs' schedules, by what came of them.",
        labels=("result",),
    )
    for result in LaunchResult:
        family.add_metric((result.value,), results.get(result, 0))
    return family


def _held_back(engine: Engine) -> Counter[str]:
    gates = engine.table.gates
    found = Counter({"time": len(gates.timed()), "earlier_attempt": gates.by_processes})
    blocks = Counter(gates.all_blocks())
    for block in Gate:
        if block is Gate.OWN_PLACER:
            continue  # that alone holds nobody back
        name = (block.name or "").lower()
        found[name] = sum(number for each, number in blocks.items() if block in each)
    return found
