"""The exposition of a rig's engine, as a real parser reads it."""

from __future__ import annotations

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from longshore.dispatcher.domain.vitals import TraceVitals
from longshore.dispatcher.explain.health import cloud_problems
from longshore.dispatcher.metrics.exposition import Metrics
from tests.rigs.engine import Rig
from tests.samples import DISK

Key = tuple[str, tuple[tuple[str, str], ...]]


def text_of(rig: Rig) -> str:
    """Return the exposition of this moment; no session was ever heard."""
    metrics = Metrics(rig.view, heard_at=lambda _worker_id: 0.0, traces=TraceVitals)
    problems = cloud_problems(rig.view.pool, rig.now)
    return metrics.exposition(rig.now, problems=problems, vitals=DISK).decode()


def families(rig: Rig) -> list[Metric]:
    """Return the metric families of this moment, without those of every process."""
    found = text_string_to_metric_families(text_of(rig))
    return [family for family in found if not family.name.startswith("process_")]


def samples(rig: Rig) -> dict[Key, float]:
    """Return all values by name and sorted labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families(rig)
        for sample in family.samples
    }


def value(rig: Rig, name: str, **labels: str) -> float:
    """Return one value."""
    return samples(rig)[name, tuple(sorted(labels.items()))]
