"""Who submitted whom from inside: the tree of containers and jobs below a container, in the store.

An edge leads from what was submitted to who did it: from a container to the container that is its
`parent`, else to the job whose it is; from a job to its `parent`, which is the container that
submitted it, or the job whose run it is. No edge is ever changed, and what an edge leads to is
older, so that there are no circles. A tree is at most `GENERATIONS_MOST` containers deep: a walk up
is short. A walk down is one recursive query, in which each edge is found by an index; it takes as
long as the tree is large, and is only for who asks for the tree.

**No child is left out of a cancellation.** `expect_open` refuses a child whose parent has ended or
is being cancelled, in the transaction that would add it, and so a run of a job. So once the
cancellations of a container and of the jobs below it are committed, whatever is found below it is
all that there will ever be.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import (
    CTE,
    Connection,
    Double,
    Text,
    and_,
    bindparam,
    cast,
    func,
    literal,
    not_,
    or_,
    select,
)

from longshore.dispatcher.domain.containers import FINAL_STATES
from longshore.dispatcher.domain.jobs import FINAL_JOB_STATES
from longshore.dispatcher.store.errors import ParentClosed
from longshore.dispatcher.store.tables import containers, jobs

GENERATIONS_MOST = 16
"""How many containers may stand one below the other: each submits the next from inside."""

_EDGES_MOST = 4 * GENERATIONS_MOST
"""How far a walk up goes: in a generation there is a container, its job, and whose run that is."""

_ENDED = frozenset(state.value for state in FINAL_STATES)
_JOB_ENDED = frozenset(state.value for state in FINAL_JOB_STATES)
_CONTAINER_EDGE = select(containers.c.parent, containers.c.job_id).where(
    containers.c.id == bindparam("id")
)
_JOB_EDGE = select(jobs.c.parent).where(jobs.c.id == bindparam("id"))
_HOW_IT_IS = select(containers.c.state, containers.c.cancel_requested).where(
    containers.c.id == bindparam("id")
)
_HOW_A_JOB_IS = select(jobs.c.state, jobs.c.cancel_requested).where(jobs.c.id == bindparam("id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBelow:
    """What is below a container and has not ended, by ids, each sorted."""

    #: Containers that no job has.
    containers: tuple[str, ...]
    jobs: tuple[str, ...]


def is_container(thing_id: str) -> bool:
    """Return whether an id is a container's, and no job's."""
    return thing_id.startswith("c-")


def expect_open(connection: Connection, parents: Iterable[str]) -> None:
    """Raise `ParentClosed` where a container may have no more children, or a job no more runs.

    `parents` are what new containers and jobs say: "" is passed over.
    """
    for parent in sorted({each for each in parents if each}):
        query, ended, what, so = (
            (_HOW_IT_IS, _ENDED, "container", "it submits nothing more")
            if is_container(parent)
            else (_HOW_A_JOB_IS, _JOB_ENDED, "job", "nothing more is run of it")
        )
        found = connection.execute(query, {"id": parent}).one_or_none()
        if found is None or found.state in ended:
            raise ParentClosed(f"{what} {parent} has ended: {so}")
        if found.cancel_requested:
            raise ParentClosed(f"{what} {parent} is being cancelled: {so}")


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


def fetch_open_below(connection: Connection, container_id: str) -> OpenBelow:
    """Return what is below a container and has not ended."""
    found = connection.execute(_OPEN_BELOW, {"top": container_id}).all()
    return OpenBelow(
        containers=tuple(row.id for row in found if is_container(row.id)),
        jobs=tuple(row.id for row in found if not is_container(row.id)),
    )


def fetch_cost_below_usd(connection: Connection, container_id: str) -> Decimal | None:
    """Return the sum over ended attempts of all below a container, None where there is none."""
    found = connection.execute(_COST_BELOW, {"top": container_id}).scalar_one()
    return None if found is None else Decimal(str(found))


def _below() -> CTE:
    """Return all below the container `top`, and that itself, as rows of one query."""
    tree = select(
        bindparam("top", type_=Text).label("id"),
        literal(True).label("is_container"),
        literal("").label("job_id"),
        literal("").label("state"),
        literal("0").label("cost_usd"),
    ).cte("below", recursive=True)
    container = select(
        containers.c.id,
        literal(True),
        containers.c.job_id,
        containers.c.state,
        containers.c.cost_usd,
    )
    return tree.union_all(
        container.where(containers.c.parent == tree.c.id, tree.c.is_container),
        container.where(containers.c.job_id == tree.c.id, not_(tree.c.is_container)),
        select(jobs.c.id, literal(False), literal(""), jobs.c.state, literal("0")).where(
            jobs.c.parent == tree.c.id
        ),
    )


_TREE = _below()
_COST_BELOW = select(func.sum(cast(_TREE.c.cost_usd, Double))).where(
    _TREE.c.is_container, _TREE.c.id != bindparam("top")
)
_OPEN_BELOW = (
    select(_TREE.c.id)
    .where(
        _TREE.c.id != bindparam("top"),
        or_(
            and_(_TREE.c.is_container, _TREE.c.job_id == "", _TREE.c.state.not_in(sorted(_ENDED))),
            and_(not_(_TREE.c.is_container), _TREE.c.state.not_in(sorted(_JOB_ENDED))),
        ),
    )
    .order_by(_TREE.c.id)
)
