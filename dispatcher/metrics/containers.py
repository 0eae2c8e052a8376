"""Metrics of containers: where they are, how long they wait, how their attempts end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from longshore.dispatcher.domain.containers import ContainerState, WaitReason
from longshore.dispatcher.engine.engine import Engine
from longshore.dispatcher.metrics.histograms import histogram
from longshore.dispatcher.scheduler.batch.scheduling_pass import SchedulingPass
from longshore.dispatcher.state.containers import ContainerTable
from longshore.pool.holds import HoldCause

_OVER_QUOTA = frozenset({"at_quota", "behind", "spend_limit"})


def families(engine: Engine, now: float) -> Iterator[Metric]:
    """Yield the families; `now` in seconds since the epoch."""
    table = engine.table
    yield from _by_state(table, engine.scheduling)
    yield GaugeMetricFamily(
        "longshore_containers_not_allocated_over_quota",
        "Containers without a place since no more instances may be had, or behind such a one.",
        value=_without_place(table, engine.scheduling, _is_over_quota),
    )
    yield GaugeMetricFamily(
        "longshore_containers_not_allocated_at_capacity",
        "Containers without a place since the cloud is short of all types that would do.",
        value=_without_place(table, engine.scheduling, _is_at_capacity),
    )
    waiting = table.waiting_since.values()
    yield GaugeMetricFamily(
        "longshore_longest_wait_seconds",
        "Longest time that a container which could run has not been running.",
        value=max(0.0, now - min(waiting)) if waiting else 0.0,
    )
    yield histogram(
        "longshore_queue_to_start_seconds",
        "From when a container was queued (again) until its instance confirmed the start.",
        [((), table.queue_to_start_s)],
    )
    outcomes = CounterMetricFamily(
        "longshore_attempts", "Attempts that ended, by outcome.", labels=("outcome",)
    )
    for outcome in sorted(table.outcomes):
        outcomes.add_metric((outcome,), table.outcomes[outcome])
    yield outcomes


def _by_state(table: ContainerTable, scheduling: SchedulingPass) -> Iterator[Metric]:
    states = Counter(container.state for container in table.containers.values())
    family = GaugeMetricFamily(
        "longshore_containers", "Containers that have not ended, by state.", labels=("state",)
    )
    for state in ContainerState:
        if not state.final:
            family.add_metric((state.value,), states[state])
    yield family
    yield GaugeMetricFamily(
        "longshore_containers_allocated_not_started",
        "Containers that have a place, or an attempt whose start is not confirmed.",
        value=states[ContainerState.LOCKED] - len(scheduling.next_in_line),
    )


def _is_over_quota(reason: WaitReason) -> bool:
    """Return whether a quota keeps somebody waiting, be it that one create tries it just now."""
    is_tried = reason.code == "creating" and reason.topic.startswith(HoldCause.QUOTA.value)
    return is_tried or reason.code in _OVER_QUOTA


def _is_at_capacity(reason: WaitReason) -> bool:
    """Return whether the cloud is short of what somebody needs."""
    return reason.code == "at_capacity"


def _without_place(
    table: ContainerTable, scheduling: SchedulingPass, is_counted: Callable[[WaitReason], bool]
) -> int:
    """Return how many containers without a place wait for such a reason, by the last pass.

    Whole classes are counted, so that it costs no more when the queue is long. Who is locked and
    has no place, as the next in line, waits as the others do.
    """
    number = 0
    over = set()
    for request_class in table.queue.classes():
        reason = scheduling.waiting.get(request_class.key)
        if reason is not None and is_counted(reason):
            over.add(request_class.key)
            number += len(request_class)
    for container_id in scheduling.locked - scheduling.next_in_line:
        request_class_of = table.queue.class_of(container_id)
        if request_class_of is not None and request_class_of.key in over:
            number -= 1
    return number
