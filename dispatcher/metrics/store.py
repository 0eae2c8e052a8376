"""The metric of the store."""

from __future__ import annotations

from prometheus_client.core import GaugeMetricFamily, Metric


def writable(problem: str) -> Metric:
    """Return whether the store can be written; `problem` is why it cannot, "" when it can."""
    return GaugeMetricFamily(
        "longshore_store_writable",
        "1 while the store can be written: 0, and nothing is taken in, created or ended.",
        value=float(not problem),
    )
