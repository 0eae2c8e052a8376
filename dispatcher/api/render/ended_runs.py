"""Ended runs as JSON.

Stands alone: each resource has a file of its own in each role.
"""

from __future__ import annotations

from longshore.dispatcher.api.render.values import rfc3339, usd
from longshore.dispatcher.api.schemas.ended_runs import (
    EndedRunAnswer,
    EndedRunsAnswer,
    TypeWaitAnswer,
)
from longshore.dispatcher.cost.report import market_of
from longshore.dispatcher.domain.ended_runs import EndedRun, TypeWait
from longshore.dispatcher.service.ended_runs import RunReport


def ended_runs_answer(report: RunReport, *, currency: str) -> EndedRunsAnswer:
    """Return what ended in a time as JSON."""
    return EndedRunsAnswer(
        dearest=tuple(_run(each) for each in report.dearest),
        by_type=tuple(_wait(each) for each in report.waits),
        ended=report.ended,
        complete=report.complete,
        since=rfc3339(report.which.since),
        until=rfc3339(report.which.until),
        currency=currency,
        as_of=rfc3339(report.as_of),
    )


def _run(run: EndedRun) -> EndedRunAnswer:
    return EndedRunAnswer(
        container=run.container_id,
        name=run.name,
        job=run.job_id or None,
        user=run.user,
        project=run.project,
        state=run.state.value,
        cost_usd=usd(run.cost_usd),
        finished_at=rfc3339(run.finished_at),
        waited_s=run.waited_s,
        instance_type=run.type_name or None,
    )


def _wait(wait: TypeWait) -> TypeWaitAnswer:
    return TypeWaitAnswer(
        instance_type=wait.type_name,
        market=market_of(is_preemptible=wait.is_preemptible),
        runs=wait.runs,
        waited_p50_s=wait.waited_p50_s,
        waited_p90_s=wait.waited_p90_s,
        cost_usd=usd(wait.cost_usd),
    )
