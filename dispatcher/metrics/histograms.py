"""How a histogram of ours becomes samples of Prometheus'."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import HistogramMetricFamily

from longshore.pool.histogram import Histogram


def histogram(
    name: str,
    text: str,
    series: Iterable[tuple[tuple[str, ...], Histogram]],
    labels: tuple[str, ...] = (),
) -> HistogramMetricFamily:
    """Return a family of histograms, one for each pair of label values and histogram."""
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, each in series:
        bounds = [*map(str, each.bounds), "+Inf"]
        buckets = list(zip(bounds, map(float, each.cumulative()), strict=True))
        family.add_metric(values, buckets, each.sum)
    return family
