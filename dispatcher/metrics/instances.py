"""Metrics of instances: what there is and what it costs, how they come up, answer and go."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from longshore.dispatcher.cost.prices import PricesInForce
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.explain.instance_views import price_now
from longshore.dispatcher.metrics.histograms import histogram
from longshore.pool.charging import whole_of
from longshore.pool.model import IdleBehavior, Worker, WorkerState
from longshore.pool.statistics import Statistics
from longshore.pool.tags import is_unrecognised
from longshore.pool.view import PoolView

_LABELS = ("category", "instance_type")


def by_category(view: EngineView, prices: PricesInForce) -> Iterator[Metric]:
    """Yield how many instances there are, with price, cpus and memory, by category and type.

    `prices` are those of now.
    """
    count = GaugeMetricFamily(
        "longshore_instances", "Instances by category and type.", labels=_LABELS
    )
    price = GaugeMetricFamily(
        "longshore_instances_price_usd_per_hour",
        "Price of the instances by category and type.",
        labels=_LABELS,
    )
    cpus = GaugeMetricFamily(
        "longshore_instances_cpus", "Cpus of the instances by category and type.", labels=_LABELS
    )
    memory = GaugeMetricFamily(
        "longshore_instances_memory_bytes",
        "Memory of the instances by category and type.",
        labels=_LABELS,
    )
    groups: dict[tuple[str, str], list[Worker]] = {}
    for worker in view.pool.workers.values():
        groups.setdefault((category(worker), type_label(worker)), []).append(worker)
    for labels in sorted(groups):
        workers = groups[labels]
        count.add_metric(labels, len(workers))
        price.add_metric(labels, float(sum(price_now(view, w.id, prices) for w in workers)))
        has = [whole_of(worker) for worker in workers]
        cpus.add_metric(labels, sum(each.cpu_millis for each in has) / 1000)
        memory.add_metric(labels, sum(each.memory_bytes for each in has))
    yield from (count, price, cpus, memory)


def price_ages(told_at: Mapping[str, float], now: float) -> Metric:
    """Return how old live prices are, by type; `told_at` is when they were told, by its name."""
    family = GaugeMetricFamily(
        "longshore_price_age_seconds",
        "Time since the cloud has told the price of a type, while prices are live.",
        labels=("instance_type",),
    )
    for name in sorted(told_at):
        family.add_metric((name,), max(0.0, now - told_at[name]))
    return family


def category(worker: Worker) -> str:
    """Return the one word under which an instance is counted."""
    if worker.state is WorkerState.SHUTDOWN:
        return "shutdown"
    if worker.state is WorkerState.RUNNING:
        return "in_use"
    if worker.behavior is IdleBehavior.HOLD:
        return "hold"
    return str(worker.state.value)


def type_label(worker: Worker) -> str:
    """Return the name of a worker's type, one word for all that are not configured.

    Those are named by tags, which anybody may write: they must not make series without end.
    """
    return "not configured" if is_unrecognised(worker.type) else worker.type.name


def probe_ages(
    pool: PoolView, heard_at: Callable[[str], float], now: float
) -> Iterator[GaugeMetricFamily]:
    """Yield how long the ready instances have not been heard of: the longest, and the median.

    One that was never ready has no age: how long it takes is told by its category and the times to
    SSH and to ready. A heartbeat of the session counts like a probe.
    """
    ages = [
        max(0.0, now - max(worker.link.last_contact, heard_at(worker.id)))
        for worker in pool.workers.values()
        if worker.state in (WorkerState.IDLE, WorkerState.RUNNING)
    ]
    yield GaugeMetricFamily(
        "longshore_probe_age_max_seconds",
        "Longest time since a ready instance was last heard of; 0 when there is none.",
        value=max(ages, default=0.0),
    )
    yield GaugeMetricFamily(
        "longshore_probe_age_median_seconds",
        "Median of the times since the ready instances were last heard of; 0 when there is none.",
        value=statistics.median(ages) if ages else 0.0,
    )


def waste(shares: Mapping[str, Decimal]) -> Iterator[Metric]:
    """Yield which share of the use of each preemptible type was lost lately."""
    wasted = GaugeMetricFamily(
        "longshore_preemptible_waste_ratio",
        "Share of the recent use of a preemptible type that was lost when the cloud took it back.",
        labels=("type",),
    )
    for name, share in sorted(shares.items()):
        wasted.add_metric((name,), float(share))
    yield wasted


def lives(counted: Statistics) -> Iterator[Metric]:
    """Yield what became of instances, and how long each part of their lives took."""
    boots = CounterMetricFamily(
        "longshore_instance_boots",
        "Instances that became ready, or went before they were, by outcome.",
        labels=("outcome",),
    )
    for outcome, number in counted.boots.items():
        boots.add_metric((outcome.value,), number)
    gone = CounterMetricFamily(
        "longshore_instances_disappeared",
        "Instances that the cloud no longer lists, by the state that they were in.",
        labels=("state",),
    )
    for state, number in counted.disappeared.items():
        gone.add_metric((state.value,), number)
    yield from (boots, gone)
    yield CounterMetricFamily(
        "longshore_interruption_notices",
        "Preemptible instances that said that their cloud takes them back.",
        value=counted.interruptions,
    )
    yield histogram(
        "longshore_instance_time_to_ssh_seconds",
        "From when an instance that we launched appeared until it proved its host key.",
        [((), counted.time_to_ssh_s)],
    )
    yield histogram(
        "longshore_instance_time_to_ready_seconds",
        "From when an instance that we launched appeared until its probes succeeded.",
        [((), counted.time_to_ready_s)],
    )
    yield histogram(
        "longshore_instance_time_to_disappear_seconds",
        "From the decision to shut an instance down until the cloud no longer listed it.",
        [((), counted.time_to_disappear_s)],
    )
    yield histogram(
        "longshore_run_probe_duration_seconds",
        "From when a probe left the engine to its outcome: success, or the stage not passed.",
        [((outcome.value,), each) for outcome, each in counted.probe_s.items()],
        labels=("outcome",),
    )
