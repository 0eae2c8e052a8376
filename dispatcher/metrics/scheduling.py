"""Metrics of the scheduler: its passes, and what keeps it from creating."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from longshore.dispatcher.engine.view import EngineView


def families(view: EngineView, now: float) -> Iterator[Metric]:
    """Yield the families, as of the last pass; `now` in seconds since the epoch."""
    stats = view.pass_stats()
    yield CounterMetricFamily(
        "longshore_planning_passes",
        "Planning passes since the start.",
        value=stats.passes,
    )
    yield CounterMetricFamily(
        "longshore_planning_failures",
        "Planning passes that failed because of a bug, and decided nothing.",
        value=stats.failures,
    )
    yield GaugeMetricFamily(
        "longshore_pending_launches",
        "Create calls whose instance is not known yet.",
        value=sum(1 for pending in view.pool.launches.values() if not pending.instance_id),
    )
    yield GaugeMetricFamily(
        "longshore_at_quota",
        "1 while a quota holds creates or is tried, or max_instances keeps something waiting.",
        # One that is tried counts: an alert on one that stays would never fire else.
        value=float(stats.at_quota or view.pool.at_quota(now)),
    )
    yield from _spending(view)
    limit = GaugeMetricFamily(
        "longshore_concurrency_limit",
        "Containers that may run or have a place: by a quota, by max_containers, or since the "
        "store or a runner was overloaded; no sample while nothing limits them.",
    )
    limits = (stats.limit_by_quota, view.limit_of_containers(now))
    containers = min((each for each in limits if each is not None), default=None)
    if containers is not None:
        limit.add_metric((), containers)
    yield limit


def _spending(view: EngineView) -> Iterator[Metric]:
    """Yield what all instances cost and may cost, without samples while there is no such limit."""
    spent = GaugeMetricFamily(
        "longshore_hourly_spend_usd",
        "What all instances cost an hour, with those being created; no sample without limits.",
    )
    limit = GaugeMetricFamily(
        "longshore_hourly_spend_limit_usd",
        "What all instances may cost an hour (max_hourly_spend); no sample without this limit.",
    )
    spend = view.spending()
    if spend is not None:
        spent.add_metric((), float(spend.used_usd_per_hour))
        if spend.limit_usd_per_hour is not None:
            limit.add_metric((), float(spend.limit_usd_per_hour))
    yield from (spent, limit)
