"""Metrics of the scheduler: its passes, and what keeps it from creating."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dispatcher.engine import Engine


def families(engine: Engine) -> Iterator[Metric]:
    """Yield the families, as of the last pass."""
    pool = engine.pool
    yield CounterMetricFamily(
        "longshore_planning_passes",
        "Planning passes since the start.",
        value=engine.placing.passes,
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
        "Containers that run or have a place while no more may be had; no sample while there may.",
    )
    containers = engine.placing.concurrency_limit()
    if containers is not None:
        limit.add_metric((), containers)
    yield limit
