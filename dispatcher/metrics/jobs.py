"""Metrics of jobs, and of containers that wait for something else than room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from longshore.dispatcher.domain.jobs import JobState
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.metrics import workloads
from longshore.dispatcher.scheduler.system.crash_loop import CODES
from longshore.dispatcher.state.agenda import LaunchResult
from longshore.dispatcher.state.scheduling_gates import Gate

_HELD = "held"


def families(view: EngineView, now: float) -> Iterator[Metric]:
    """Yield the families; `now` in seconds since the epoch."""
    jobs = GaugeMetricFamily(
        "longshore_jobs",
        "Jobs that have not ended, by state; those that are held are counted as that only.",
        labels=("state",),
    )
    states = view.job_states()
    for name in (JobState.PENDING.value, JobState.RUNNING.value, _HELD):
        jobs.add_metric((name,), states.get(name, 0))
    yield jobs
    ended = CounterMetricFamily(
        "longshore_jobs_ended", "Jobs that have ended, by state.", labels=("state",)
    )
    numbers = view.jobs_ended()
    for state in (state for state in JobState if state.final):
        ended.add_metric((state.value,), numbers.get(state, 0))
    yield ended
    yield _in_trouble(view, now)
    held_back = GaugeMetricFamily(
        "longshore_containers_held_back",
        "Containers that may not run yet, by why: each counts for all that holds it.",
        labels=("why",),
    )
    for why, number in sorted(_held_back(view).items()):
        held_back.add_metric((why,), number)
    yield held_back
    yield from workloads.families(view, now)


def _in_trouble(view: EngineView, now: float) -> Metric:
    """Return how many jobs for each instance are not well, by what a list of jobs says of them."""
    family = GaugeMetricFamily(
        "longshore_jobs_in_trouble",
        "System and sysbatch jobs that go on and are not well, by why; none that is held.",
        labels=("code",),
    )
    found = Counter(trouble.code for trouble in view.job_troubles(now))
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


def _held_back(view: EngineView) -> Counter[str]:
    stats = view.queue_stats()
    found = Counter({"time": stats.held_for_time, "earlier_attempt": stats.held_by_processes})
    for gate, number in stats.held_back.items():
        if gate is not Gate.OWN_SCHEDULER:  # that alone holds nobody back
            found[(gate.name or "").lower()] = number
    return found
