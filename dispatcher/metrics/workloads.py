"""Metrics of the jobs that are not placed from the queue: system, sysbatch and elastic ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from longshore.dispatcher.domain.containers import Container, ContainerState
from longshore.dispatcher.domain.jobs import JobType, TaskRole
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.state.attempt_end import latest
from longshore.dispatcher.state.scheduling_gates import Gate

_TYPES = tuple(each for each in JobType if each is not JobType.BATCH)


def families(view: EngineView, now: float) -> Iterator[Metric]:
    """Yield the families; `now` in seconds since the epoch."""
    numbers: Counter[JobType] = Counter()
    longest: dict[JobType, float] = {}
    essential: dict[str, frozenset[str]] = {}
    for container in view.containers.values():
        type_ = view.job_type(container.job_id)
        if type_ not in _TYPES or not _waits(view, container):
            continue
        if type_ is JobType.ELASTIC and container.task not in _essential(
            view, container.job_id, essential
        ):
            continue
        numbers[type_] += 1
        longest[type_] = max(longest.get(type_, 0.0), now - latest(container))
    waiting = GaugeMetricFamily(
        "longshore_scheduler_containers_waiting",
        "Containers of jobs with a scheduler of their own that have no place, by type: of "
        "elastic jobs the essential ones; what is held back is not counted.",
        labels=("type",),
    )
    waits = GaugeMetricFamily(
        "longshore_scheduler_longest_wait_seconds",
        "Longest time that one of these has waited, since its submission or its last attempt.",
        labels=("type",),
    )
    for type_ in _TYPES:
        waiting.add_metric((type_.value,), numbers[type_])
        waits.add_metric((type_.value,), longest.get(type_, 0.0))
    yield from (waiting, waits)


def _waits(view: EngineView, container: Container) -> bool:
    """Return whether a container has no place, and nobody holds it back on purpose."""
    return (
        container.state is ContainerState.QUEUED
        and container.priority > 0
        and not view.gates(container.id) & ~Gate.OWN_SCHEDULER
    )


def _essential(view: EngineView, job_id: str, known: dict[str, frozenset[str]]) -> frozenset[str]:
    """Return the essential components of a job, looked up once for all of its containers."""
    if job_id not in known:
        job = view.job(job_id)
        tasks = job.tasks if job is not None else ()
        known[job_id] = frozenset(task.name for task in tasks if task.role is TaskRole.ESSENTIAL)
    return known[job_id]
