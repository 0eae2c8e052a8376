"""Metrics of the scheduler: its passes, and what keeps it from creating."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from longshore.dispatcher.engine.engine import Engine
from longshore.pool import launching


def families(engine: Engine, now: float) -> Iterator[Metric]:
    """Yield the families, as of the last pass; `now` in seconds since the epoch."""
    pool = engine.pool
    yield CounterMetricFamily(
        "longshore_planning_passes",
        "Planning passes since the start.",
        value=engine.scheduling.passes,
    )
    yield CounterMetricFamily(
        "longshore_planning_failures",
        "Planning passes that failed by an error of our own, and decided nothing.",
        value=engine.scheduling.failures,
    )
    yield GaugeMetricFamily(
        "longshore_pending_launches",
        "Create calls whose instance is not known yet.",
        value=sum(1 for pending in pool.launches.values() if not pending.instance_id),
    )
    yield GaugeMetricFamily(
        "longshore_at_quota",
        "1 while a quota holds creates or is tried, or max_instances keeps something waiting.",
        value=float(_at_quota(engine, now)),
    )
    yield from _spending(engine)
    limit = GaugeMetricFamily(
        "longshore_concurrency_limit",
        "Containers that may run or have a place: by a quota, by max_containers, or since the "
        "store or a runner was overloaded; no sample while nothing limits them.",
    )
    limits = (engine.scheduling.concurrency_limit(), engine.concurrency.limit(now))
    containers = min((each for each in limits if each is not None), default=None)
    if containers is not None:
        limit.add_metric((), containers)
    yield limit


def _at_quota(engine: Engine, now: float) -> bool:
    """Return whether a quota is reached, as far as anybody knows.

    One that is being tried counts: an alert on one that stays would never fire else.
    """
    pool = engine.pool
    is_held = engine.scheduling.at_quota or launching.at_quota(pool, now)
    return is_held or launching.tries_quota(pool, now)


def _spending(engine: Engine) -> Iterator[Metric]:
    """Yield what all instances cost and may cost, without samples while there is no such limit."""
    spent = GaugeMetricFamily(
        "longshore_hourly_spend_usd",
        "What all instances cost an hour, with those being created; no sample without limits.",
    )
    limit = GaugeMetricFamily(
        "longshore_hourly_spend_limit_usd",
        "What all instances may cost an hour (max_hourly_spend); no sample without this limit.",
    )
    spend = engine.scheduling.spend
    if spend is not None:
        spent.add_metric((), float(spend.total))
        if spend.limits.cluster is not None:
            limit.add_metric((), float(spend.limits.cluster))
    yield from (spent, limit)
