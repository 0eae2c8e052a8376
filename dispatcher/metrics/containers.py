"""Metrics of containers: where they are, how long they wait, how their attempts end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from longshore.dispatcher.domain.containers import ContainerState, WaitReason
from longshore.dispatcher.engine.view import EngineView, QueueStats
from longshore.dispatcher.metrics.histograms import histogram
from longshore.pool.holds import HoldCause

_OVER_QUOTA = frozenset({"at_quota", "behind", "spend_limit"})


def families(view: EngineView, now: float) -> Iterator[Metric]:
    """Yield the families; `now` in seconds since the epoch."""
    stats = view.queue_stats()
    yield from _by_state(view, stats)
    yield GaugeMetricFamily(
        "longshore_containers_not_allocated_over_quota",
        "Containers without a place because no more instances may be created, or behind "
        "such a one.",
        value=view.number_without_place(_is_over_quota),
    )
    yield GaugeMetricFamily(
        "longshore_containers_not_allocated_at_capacity",
        "Containers without a place because the cloud is short of all types that would do.",
        value=view.number_without_place(_is_at_capacity),
    )
    since = stats.waiting_since
    yield GaugeMetricFamily(
        "longshore_longest_wait_seconds",
        "Longest time that a container which could run has not been running.",
        value=0.0 if since is None else max(0.0, now - since),
    )
    yield histogram(
        "longshore_queue_to_start_seconds",
        "From when a container was queued (again) until its instance confirmed the start.",
        [((), stats.queue_to_start_s)],
    )
    outcomes = CounterMetricFamily(
        "longshore_attempts", "Attempts that ended, by outcome.", labels=("outcome",)
    )
    for outcome in sorted(stats.outcomes):
        outcomes.add_metric((outcome,), stats.outcomes[outcome])
    yield outcomes


def _by_state(view: EngineView, stats: QueueStats) -> Iterator[Metric]:
    states = Counter(container.state for container in view.containers.values())
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
        value=states[ContainerState.LOCKED] - stats.next_in_line,
    )


def _is_over_quota(reason: WaitReason) -> bool:
    """Return whether a quota keeps somebody waiting, be it that one create tries it just now."""
    is_tried = reason.code == "creating" and reason.topic.startswith(HoldCause.QUOTA.value)
    return is_tried or reason.code in _OVER_QUOTA


def _is_at_capacity(reason: WaitReason) -> bool:
    """Return whether the cloud is short of what somebody needs."""
    return reason.code == "at_capacity"
