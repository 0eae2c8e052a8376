"""Metrics of the server's own health: what is wrong, its loop, passes, sessions, certificate.

Stands alone: each subject of the metrics has a module, however few it has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from longshore.dispatcher.domain.views import Problem, ProblemKind
from longshore.dispatcher.domain.vitals import ProcessVitals, TraceVitals
from longshore.dispatcher.metrics import traces
from longshore.dispatcher.metrics.histograms import histogram
from longshore.pool.view import PoolView


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


def sessions(pool: PoolView) -> Metric:
    """Return how many instances there is a session with."""
    return GaugeMetricFamily(
        "longshore_sessions",
        "Instances that there is a session with.",
        value=sum(worker.link.session_up for worker in pool.workers.values()),
    )


def certificate(ends_at: float | None) -> Metric:
    """Return when the TLS certificate ends, in seconds since the epoch; None where none is."""
    family = GaugeMetricFamily(
        "longshore_certificate_end_timestamp_seconds",
        "When the TLS certificate ends, since the epoch; no sample without TLS.",
    )
    if ends_at is not None:
        family.add_metric((), ends_at)
    return family


def traces_sent(vitals: TraceVitals | None) -> Iterator[Metric]:
    """Yield how traces are sent, nothing where none are."""
    if vitals is not None:
        yield from traces.families(vitals)


def families(vitals: ProcessVitals) -> Iterator[Metric]:
    """Yield how the process does."""
    yield GaugeMetricFamily(
        "longshore_inbox_events",
        "Events that wait for the engine.",
        value=vitals.engine.inbox_events,
    )
    yield histogram(
        "longshore_planning_pass_duration_seconds",
        "How long the engine took over each event that led to a planning pass.",
        [((), vitals.engine.pass_s)],
    )
    yield histogram(
        "longshore_engine_turn_duration_seconds",
        "How long the engine took over all events that waited when its turn began.",
        [((), vitals.engine.turn_s)],
    )
    yield histogram(
        "longshore_event_loop_delay_seconds",
        "By how much the event loop was late, which requests and instances wait for.",
        [((), vitals.loop_delay_s)],
    )
