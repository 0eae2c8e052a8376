"""The metric of what is wrong.

Stands alone: each subject of the metrics has a module, however few it has.
"""

from __future__ import annotations

from collections.abc import Collection

from prometheus_client.core import GaugeMetricFamily, Metric

from longshore.dispatcher.domain.views import Problem, ProblemKind


def problem(problems: Collection[Problem]) -> Metric:
    """Return for each kind of problem whether there is one."""
    family = GaugeMetricFamily(
        "longshore_problem",
        "1 while something of this kind is wrong, as /v1/health says.",
        labels=("kind",),
    )
    there = {each.kind for each in problems}
    for kind in ProblemKind:
        family.add_metric((kind.value,), float(kind in there))
    return family
