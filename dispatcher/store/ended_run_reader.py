"""Reading what ended runs cost and how long they waited.

Stands alone: it looks at the latest that have ended, and counts what it looked at, as no listing
does.
"""

from __future__ import annotations

import heapq
from decimal import Decimal
from itertools import islice
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, func, select

from longshore.dispatcher.domain.containers import ContainerState
from longshore.dispatcher.domain.ended_runs import EndedRun, EndedRunFilter, EndedRuns
from longshore.dispatcher.domain.queries import ContainerFilter
from longshore.dispatcher.store.filters import container_queries
from longshore.dispatcher.store.ledger_tables import bills
from longshore.dispatcher.store.tables import attempts, containers, jobs

MOST_LOOKED_AT: Final = 20_000
"""At how many of those that have ended is looked, the latest that were submitted."""
_AT_ONCE: Final = 500
_FINAL: Final = tuple(state for state in ContainerState if state.final)

_PLACES = attempts.alias("places")
_OF_CONTAINER = _PLACES.c.container_id == containers.c.id
_FIRST = select(func.min(_PLACES.c.created_at)).where(_OF_CONTAINER).scalar_subquery()
_LAST = select(func.max(_PLACES.c.number)).where(_OF_CONTAINER).scalar_subquery()
_RUNS: Final[Select[Any]] = (
    select(
        containers.c.id,
        containers.c.job_id,
        containers.c.user,
        containers.c.project,
        containers.c.state,
        containers.c.cost_usd,
        containers.c.created_at,
        containers.c.finished_at,
        func.coalesce(func.nullif(jobs.c.name, ""), containers.c.name).label("run_name"),
        _FIRST.label("placed_at"),
        attempts.c.instance_type,
        bills.c.preemptible,
    )
    .select_from(containers)
    .outerjoin(jobs, jobs.c.id == containers.c.job_id)
    .outerjoin(
        attempts, (attempts.c.container_id == containers.c.id) & (attempts.c.number == _LAST)
    )
    .outerjoin(bills, bills.c.instance_id == attempts.c.instance_id)
    .order_by(containers.c.sequence.desc())
)


def fetch_ended_runs(connection: Connection, which: EndedRunFilter) -> EndedRuns:
    """Return what ended in a time, the latest that was submitted first."""
    sequences = _latest(connection, which)
    query = _RUNS.where(
        containers.c.finished_at >= which.since, containers.c.finished_at < which.until
    )
    runs: list[EndedRun] = []
    looked_at = sequences[:MOST_LOOKED_AT]
    for first in range(0, len(looked_at), _AT_ONCE):
        some = containers.c.sequence.in_(looked_at[first : first + _AT_ONCE])
        runs += (_run(row) for row in connection.execute(query.where(some)))
    return EndedRuns(runs=tuple(runs), complete=len(sequences) <= MOST_LOOKED_AT)


def _latest(connection: Connection, which: EndedRunFilter) -> list[int]:
    """Return the sequence numbers of what has ended, falling, one more than are looked at."""
    ended = ContainerFilter(
        states=_FINAL, user=which.user, project=which.project, projects=which.projects
    )
    streams = [
        connection.execute(
            query.order_by(query.selected_columns[0].desc()).limit(MOST_LOOKED_AT + 1)
        )
        .scalars()
        .all()
        for query in container_queries(ended)
    ]
    return list(islice(heapq.merge(*streams, reverse=True), MOST_LOOKED_AT + 1))


def _run(row: Row[Any]) -> EndedRun:
    placed_at: float | None = row.placed_at
    return EndedRun(
        container_id=row.id,
        name=row.run_name,
        job_id=row.job_id,
        user=row.user,
        project=row.project,
        state=ContainerState(row.state),
        cost_usd=Decimal(row.cost_usd),
        finished_at=row.finished_at,
        waited_s=None if placed_at is None else max(0.0, placed_at - row.created_at),
        type_name=row.instance_type or "",
        is_preemptible=bool(row.preemptible),
    )
