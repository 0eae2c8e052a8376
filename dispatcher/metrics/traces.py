"""Metrics of the traces that are sent, and of those that are not.

Stands alone: each subject of the metrics has a module, however few it has.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from longshore.dispatcher.domain.vitals import TraceVitals


def families(traces: TraceVitals) -> Iterator[Metric]:
    """Yield how many spans were taken, and of how many things none were or are yet."""
    yield CounterMetricFamily(
        "longshore_trace_spans_sent",
        "Spans that the collector has taken.",
        value=traces.sent,
    )
    yield CounterMetricFamily(
        "longshore_traces_dropped",
        "Ends of containers and instances whose spans were dropped: the collector did not take"
        " them in time.",
        value=traces.dropped,
    )
    yield GaugeMetricFamily(
        "longshore_traces_waiting",
        "Ends of containers and instances whose spans wait to be sent.",
        value=traces.waiting,
    )
