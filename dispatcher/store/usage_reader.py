"""Reading what ended runs really took.

Stands alone: it goes by what succeeded last, and counts what it looked at, as no listing does.
"""

from __future__ import annotations

import heapq
from itertools import islice
from typing import Any, Final

from sqlalchemy import Connection, Row, and_, func, select

from longshore.dispatcher.domain.containers import (
    AttemptOutcome,
    ContainerSpec,
    ContainerState,
)
from longshore.dispatcher.domain.efficiency import EfficiencyFilter, MeasuredRun, MeasuredRuns
from longshore.dispatcher.domain.queries import ContainerFilter
from longshore.dispatcher.store import codec
from longshore.dispatcher.store.filters import container_queries
from longshore.dispatcher.store.tables import attempts, containers, job_tasks, jobs

MOST_LOOKED_AT: Final = 20_000
"""How many of those that succeeded are looked at, the latest that were submitted."""
_AT_ONCE: Final = 500

_JOB_NAME = func.coalesce(func.nullif(jobs.c.name, ""), containers.c.name)
_RUNS = (
    select(
        attempts,
        containers.c.user,
        containers.c.project,
        containers.c.task,
        containers.c.sequence.label("of_sequence"),
        _JOB_NAME.label("job_name"),
        func.nullif(containers.c.spec, b"").label("own_spec"),
        job_tasks.c.spec.label("task_spec"),
    )
    .select_from(containers)
    .join(attempts, attempts.c.container_id == containers.c.id)
    .outerjoin(jobs, jobs.c.id == containers.c.job_id)
    .outerjoin(
        job_tasks,
        and_(job_tasks.c.job_id == containers.c.job_id, job_tasks.c.name == containers.c.task),
    )
    .where(attempts.c.outcome == AttemptOutcome.SUCCEEDED.value)
    .where(attempts.c.usage.is_not(None))
    .order_by(containers.c.sequence.desc())
)


def fetch_measured_runs(connection: Connection, which: EfficiencyFilter) -> MeasuredRuns:
    """Return what succeeded and was measured, the latest that was submitted first."""
    sequences = _latest(connection, which)
    query = _RUNS
    if which.since is not None:
        query = query.where(attempts.c.finished_at >= which.since)
    if which.name:
        query = query.where(_JOB_NAME.in_([which.name]))
    specs: dict[bytes, ContainerSpec] = {}
    runs: list[MeasuredRun] = []
    looked_at = sequences[:MOST_LOOKED_AT]
    for first in range(0, len(looked_at), _AT_ONCE):
        some = containers.c.sequence.in_(looked_at[first : first + _AT_ONCE])
        runs += (_run(row, specs) for row in connection.execute(query.where(some)))
    return MeasuredRuns(runs=tuple(runs), complete=len(sequences) <= MOST_LOOKED_AT)


def _latest(connection: Connection, which: EfficiencyFilter) -> list[int]:
    """Return the sequence numbers of what succeeded, falling, one more than are looked at."""
    succeeded = ContainerFilter(
        states=(ContainerState.SUCCEEDED,),
        user=which.user,
        project=which.project,
        projects=which.projects,
    )
    streams = [
        connection.execute(
            query.order_by(query.selected_columns[0].desc()).limit(MOST_LOOKED_AT + 1)
        )
        .scalars()
        .all()
        for query in container_queries(succeeded)
    ]
    return list(islice(heapq.merge(*streams, reverse=True), MOST_LOOKED_AT + 1))


def _run(row: Row[Any], specs: dict[bytes, ContainerSpec]) -> MeasuredRun:
    """Return the run of a row; `specs` are those that were decoded already, by their text."""
    attempt, text = codec.attempt_from_row(row), row.own_spec or row.task_spec
    if text not in specs:
        specs[text] = codec.decode_spec(text)
    spec = specs[text]
    began_at = max(attempt.started_at or 0.0, attempt.pulled_at or 0.0)
    return MeasuredRun(
        user=row.user,
        project=row.project,
        name=row.job_name,
        task=row.task,
        spec=spec,
        given=spec.resources if attempt.resources is None else attempt.resources,
        usage=codec.usage_from(row.usage),
        ran_s=max(0.0, (attempt.finished_at or 0.0) - began_at),
    )
