"""Metrics of the scheduler: its passes, and what keeps it from creating."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dispatcher.engine import Engine


def families(engine: Engine, now: float) -> Iterator[Metric]:
    """Yield the families, as of the last pass; `now` in seconds since the epoch."""
    pool = engine.pool
    yield CounterMetricFamily(
        "longshore_planning_passes",
        "Planning passes since the start.",
        value=engine.placing.passes,
    )
    yield CounterMetricFamily(
        "longshore_planning_failures",
        "Planning passes that failed by an error of our own, and decided nothing.",
        value=engine.placing.failures,
    )
    yield GaugeMetricFamily(
        "longshore_pending_launches",
        "Create calls whose instance is not known yet.",
        value=sum(1 for pending in pool.launches.values() if not pending.instance_id),
    )
    yield GaugeMetricFamily(
        "longshore_at_quota",
        "1 while a quota holds creates, or max_instances keeps something waiting.",
        value=float(engine.placing.at_quota),
    )
    limit = GaugeMetricFamily(
        "longshore_concurrency_limit",
        "Containers that may run or have a place: by a quota, by max_containers, or since the "
        "store or a runner was overloaded; no sample while nothing limits them.",
    )
    limits = (engine.placing.concurrency_limit(), engine.concurrency.limit(now))
    containers = min((each for each in limits if each is not None), default=None)
    if containers is not None:
        limit.add_metric((), containers)
    yield limit
