"""Metrics of what is asked of the driver, and what it answers.

Stands alone: each subject of the metrics has a module, however few it has.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from longshore.dispatcher.metrics.histograms import histogram
from longshore.pool.statistics import Statistics


def families(counted: Statistics) -> Iterator[Metric]:
    """Yield the driver's calls by operation and outcome, and how long they took by operation."""
    operations = CounterMetricFamily(
        "longshore_driver_operations",
        "Calls of the driver that were answered, by operation and outcome.",
        labels=("operation", "outcome"),
    )
    for (operation, outcome), number in counted.operations.items():
        operations.add_metric((operation.value, outcome.value), number)
    yield operations
    yield histogram(
        "longshore_driver_operation_duration_seconds",
        "From when a call of the driver left the engine to its answer, by operation.",
        [((operation.value,), each) for operation, each in counted.operation_s.items()],
        labels=("operation",),
    )
