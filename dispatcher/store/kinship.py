"""Who submitted whom from inside: the tree of containers and jobs below a container, in the store.

An edge leads from what was submitted to who did it: from a container to the container that is its
`parent`, else to the job whose it is; from a job to its `parent`, which is the container that
submitted it, or the job whose run it is. No edge is ever changed, and what an edge leads to is
older, so that there are no circles. A tree is at most `GENERATIONS_MOST` containers deep: a walk up
is short. A walk down goes by generations, each found by indexes.

**No child is left out of a cancellation.** `expect_open` refuses a child whose parent has ended or
is being cancelled, in the transaction that would add it. So once the cancellation of a container is
committed, whatever is found below it is all that there will ever be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, select

from longshore.dispatcher.domain.containers import FINAL_STATES
from longshore.dispatcher.domain.jobs import FINAL_JOB_STATES
from longshore.dispatcher.store.errors import ParentClosed
from longshore.dispatcher.store.tables import containers, jobs

GENERATIONS_MOST = 16
"""How many containers may stand one below the other: each submits the next from inside."""

_EDGES_MOST = 4 * GENERATIONS_MOST
"""How far a walk up goes: in a generation there is a container, its job, and whose run that is."""

_AT_ONCE = 500
_ENDED = frozenset(state.value for state in FINAL_STATES)
_JOB_ENDED = frozenset(state.value for state in FINAL_JOB_STATES)
_CONTAINER_EDGE = select(containers.c.parent, containers.c.job_id).where(
    containers.c.id == bindparam("id")
)
_JOB_EDGE = select(jobs.c.parent).where(jobs.c.id == bindparam("id"))
_HOW_IT_IS = select(containers.c.state, containers.c.cancel_requested).where(
    containers.c.id == bindparam("id")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Descendants:
    """What is below a container, by ids, each sorted: what has not ended, and what all cost."""

    #: Containers that no job has.
    containers: tuple[str, ...]
    jobs: tuple[str, ...]
    #: How many containers there are, ended or not.
    number: int
    #: The sum over ended attempts of all of these.
    cost_usd: Decimal


def is_container(thing_id: str) -> bool:
    """Return whether an id is a container's, and no job's."""
    return thing_id.startswith("c-")


def expect_open(connection: Connection, parents: Iterable[str]) -> None:
    """Raise `ParentClosed` where a container may have no more children.

    `parents` are what new containers and jobs say: "" and the ids of jobs are passed over.
    """
    for parent in sorted({each for each in parents if is_container(each)}):
        found = connection.execute(_HOW_IT_IS, {"id": parent}).one_or_none()
        if found is None or found.state in _ENDED:
            raise ParentClosed(f"container {parent} has ended: it submits nothing more")
        if found.cancel_requested:
            raise ParentClosed(f"container {parent} is being cancelled: it submits nothing more")


def fetch_ancestors(connection: Connection, thing_id: str) -> tuple[str, ...]:
    """Return what is above a container or job, the nearest first, () for what there is not."""
    found: list[str] = []
    above = _above(connection, thing_id)
    while above and len(found) < _EDGES_MOST:
        found.append(above)
        above = _above(connection, above)
    return tuple(found)


def _above(connection: Connection, thing_id: str) -> str:
    if not is_container(thing_id):
        return connection.execute(_JOB_EDGE, {"id": thing_id}).scalar_one_or_none() or ""
    row = connection.execute(_CONTAINER_EDGE, {"id": thing_id}).one_or_none()
    return "" if row is None else str(row.parent or row.job_id)


def fetch_descendants(connection: Connection, container_id: str) -> Descendants:
    """Return what is below a container."""
    open_containers: list[str] = []
    open_jobs: list[str] = []
    number, cost_usd = 0, Decimal(0)
    of_containers: list[str] = [container_id]
    of_jobs: list[str] = []
    while of_containers or of_jobs:
        found = _containers_below(connection, of_containers, of_jobs)
        made = _jobs_below(connection, [*of_containers, *of_jobs])
        number += len(found)
        cost_usd += sum((Decimal(row.cost_usd) for row in found), Decimal(0))
        open_containers += [row.id for row in found if row.state not in _ENDED and not row.job_id]
        open_jobs += [row.id for row in made if row.state not in _JOB_ENDED]
        of_containers, of_jobs = [row.id for row in found], [row.id for row in made]
    return Descendants(
        containers=tuple(sorted(open_containers)),
        jobs=tuple(sorted(open_jobs)),
        number=number,
        cost_usd=cost_usd,
    )


def _containers_below(
    connection: Connection, of_containers: Sequence[str], of_jobs: Sequence[str]
) -> list[Row[Any]]:
    query = select(
        containers.c.id, containers.c.state, containers.c.cost_usd, containers.c.job_id
    ).order_by(containers.c.sequence)
    return [
        *_each(connection, query, containers.c.parent, of_containers),
        *_each(connection, query, containers.c.job_id, of_jobs),
    ]


def _jobs_below(connection: Connection, parents: Sequence[str]) -> list[Row[Any]]:
    query = select(jobs.c.id, jobs.c.state).order_by(jobs.c.sequence)
    return _each(connection, query, jobs.c.parent, parents)


def _each(
    connection: Connection, query: Select[Any], column: Any, ids: Sequence[str]
) -> list[Row[Any]]:
    return [
        row
        for first in range(0, len(ids), _AT_ONCE)
        for row in connection.execute(query.where(column.in_(ids[first : first + _AT_ONCE])))
    ]
