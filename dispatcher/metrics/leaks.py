"""The metrics of what is billed and not wanted.

Stands alone: each subject of the metrics has a module, however few it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal

from prometheus_client.core import GaugeMetricFamily, Metric

from longshore.dispatcher.cost.prices import PricesInForce
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.explain.instance_views import leak_report
from longshore.pool.leaks import LeakKind, LeftoverReport


def families(
    view: EngineView, now: float, leftovers: LeftoverReport, prices: PricesInForce
) -> Iterator[Metric]:
    """Yield the metric families of leaks at `now`, in seconds since the epoch.

    `prices` are those of now.

    Every kind has its series, so that an alert has something to look at before the first leak.
    """
    report = leak_report(view, now, leftovers=leftovers, prices=prices)
    counts = Counter(leak.kind for leak in report.leaks)
    family = GaugeMetricFamily(
        "longshore_leaked_instances",
        "Instances, launches without an answer, and what instances left, that are billed and not "
        "wanted, by kind.",
        labels=("kind",),
    )
    for kind in LeakKind:
        family.add_metric((kind.value,), counts[kind])
    yield family
    yield GaugeMetricFamily(
        "longshore_leaked_price_usd_per_hour",
        "Price of what is billed and not wanted, as far as it is known.",
        value=float(sum((leak.price_usd_per_hour for leak in report.leaks), Decimal(0))),
    )
    yield GaugeMetricFamily(
        "longshore_leaks_complete",
        "1 while the last complete listing of the cloud is current: 0, and there may be more.",
        value=float(report.complete),
    )
