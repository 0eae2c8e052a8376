"""Reading what ended containers of one kind of work came to, and how many succeeded when.

Stands alone: it goes by the ledger's intervals, which tell whose work ended last whatever else is
kept of it, and takes what each container came to from its own row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

from sqlalchemy import Connection, Select, and_, func, select

from longshore.dispatcher.cost.estimate import PastRuns, WorkKind
from longshore.dispatcher.domain.containers import ContainerState
from longshore.dispatcher.domain.ledger import MS_PER_HOUR, ms_of
from longshore.dispatcher.domain.queries import Successes
from longshore.dispatcher.store import codec, sqlite
from longshore.dispatcher.store.ledger_tables import IS_ENDED_RUN, SUCCEEDED, intervals
from longshore.dispatcher.store.tables import containers, job_tasks

MOST_LOOKED_AT: Final = 1000
"""At how many attempts is looked, those that ended last."""

_COUNTED = (ContainerState.SUCCEEDED.value, ContainerState.FAILED.value)
"""What was cancelled does not tell what a run takes."""


def fetch_past_runs(connection: Connection, kind: WorkKind, since: float) -> PastRuns:
    """Return what ended containers of a kind came to: see `LedgerReader.past_runs`.

    Work without a name is of no kind: nobody says that it is the same again.
    """
    specs: dict[bytes, bool] = {}
    costs: list[Decimal] = []
    first = 0.0
    for row in connection.execute(_query(kind, since)):
        text = row.own_spec or row.task_spec
        if text not in specs:
            specs[text] = codec.decode_spec(text).resources == kind.asked
        cost_usd = Decimal(row.cost_usd)
        if specs[text] and cost_usd > 0:
            costs.append(cost_usd)
            first = row.until_ms / 1000 if not first else min(first, row.until_ms / 1000)
    return PastRuns(costs_usd=tuple(costs), since=first)


def fetch_successes(
    connection: Connection, spans: Sequence[tuple[int, int]]
) -> Iterator[Successes]:
    """Yield how many containers succeeded in each span of hours [from, until), by whose it was."""
    whose = (intervals.c.project, intervals.c.user, intervals.c.job_name)
    given = [(span, a * MS_PER_HOUR, b * MS_PER_HOUR) for span, (a, b) in enumerate(spans)]
    of = sqlite.rows_of(given, ("span", "first_ms", "until_ms"))
    ended_ms = intervals.c.until_ms
    query = (
        select(of.c.span, *whose, func.count().label("number"))
        .select_from(of.join(intervals, and_(ended_ms >= of.c.first_ms, ended_ms < of.c.until_ms)))
        .where(SUCCEEDED)
        .group_by(of.c.span, *whose)
        .order_by(of.c.span, *whose)
    )
    for row in connection.execute(query):
        yield Successes(
            span=row.span,
            project=row.project,
            user=row.user,
            job_name=row.job_name,
            number=row.number,
        )


def _query(kind: WorkKind, since: float) -> Select[tuple[str, bytes, bytes, int]]:
    latest = (
        select(intervals.c.container_id, intervals.c.until_ms)
        .where(
            IS_ENDED_RUN,
            intervals.c.user == kind.user,
            intervals.c.job_name == kind.job_name,
            intervals.c.task == kind.task,
            intervals.c.until_ms >= ms_of(since),
        )
        .order_by(intervals.c.until_ms.desc())
        .limit(MOST_LOOKED_AT)
        .subquery()
    )
    runs = (
        select(latest.c.container_id, func.max(latest.c.until_ms).label("until_ms"))
        .group_by(latest.c.container_id)
        .subquery()
    )
    return (
        select(
            containers.c.cost_usd,
            func.nullif(containers.c.spec, b"").label("own_spec"),
            job_tasks.c.spec.label("task_spec"),
            runs.c.until_ms,
        )
        .select_from(runs)
        .join(containers, containers.c.id == runs.c.container_id)
        .outerjoin(
            job_tasks,
            and_(job_tasks.c.job_id == containers.c.job_id, job_tasks.c.name == containers.c.task),
        )
        .where(containers.c.ended.in_(_COUNTED))
        .order_by(containers.c.id)
    )
