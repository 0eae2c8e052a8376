"""The filters as SQL: queries for sequence numbers, each answered from one index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, func, select

from dispatcher.jobs.model import JobState
from dispatcher.model import ContainerState
from dispatcher.queries import ContainerFilter, JobFilter
from dispatcher.store.tables import attempts, containers, jobs
from drivers.errors import InvalidRequest


def container_queries(which: ContainerFilter) -> list[Select[int]]:
    """Return queries that together cover `which`.

    Raises `InvalidRequest` for a task or an index without their job: no index leads there.
    """
    if not which.job_id and (which.task or which.array_index is not None):
        raise InvalidRequest([("job", "must be given too, where a task or an array index is")])
    if which.instance_id:
        return [_on_instance(which)]
    if which.job_id:
        return [_of_job(which)]
    wanted = _named(containers, which.user, which.project, which.name)
    return _by_state(containers, wanted, which.states, ContainerState)


def job_queries(which: JobFilter) -> list[Select[int]]:
    """Return queries that together cover `which`."""
    wanted = _named(jobs, which.user, which.project, which.name)
    if which.parent or which.own:
        wanted[jobs.c.parent] = which.parent
    return _by_state(jobs, wanted, which.states, JobState)


def _named(table: Table, user: str, project: str, name: str) -> dict[ColumnElement[str], str]:
    pairs = ((table.c.user, user), (table.c.project, project), (table.c.name, name))
    return {column: value for column, value in pairs if value}


def _by_state(
    table: Table,
    wanted: dict[ColumnElement[str], str],
    states: Sequence[Enum],
    every: Iterable[Enum],
) -> list[Select[int]]:
    """Return one query a state, or one for everything.

    Every index ends in (state, sequence), so that one query a state never sorts or skips, however
    many have finished.
    """
    if not states and not wanted:
        return [select(table.c.sequence)]
    conditions = [column == value for column, value in wanted.items()]
    return [
        select(table.c.sequence).where(table.c.state == state.value, *conditions)
        for state in dict.fromkeys(states or every)
    ]


def _on_instance(which: ContainerFilter) -> Select[int]:
    query = (
        select(attempts.c.sequence)
        .distinct()
        .join(containers, containers.c.id == attempts.c.container_id)
        .where(attempts.c.instance_id == which.instance_id)
    )
    for column, value in _named(containers, which.user, which.project, which.name).items():
        query = query.where(column == value)
    if which.job_id:
        query = query.where(_unindexed(containers.c.job_id) == which.job_id)
    if which.task:
        query = query.where(_unindexed(containers.c.task) == which.task)
    return _narrowed(query, which)


def _of_job(which: ContainerFilter) -> Select[int]:
    """Return the query for containers of one job.

    It looks at no more than the job has, and sorts them where no task is given; any other index
    would lead through all containers that ever were.
    """
    query = select(containers.c.sequence).where(containers.c.job_id == which.job_id)
    if which.task:
        query = query.where(containers.c.task == which.task)
    for column, value in _named(containers, which.user, which.project, which.name).items():
        query = query.where(_unindexed(column) == value)
    return _narrowed(query, which)


def _narrowed(query: Select[int], which: ContainerFilter) -> Select[int]:
    if which.array_index is not None:
        query = query.where(containers.c.array_index == which.array_index)
    if which.states:
        query = query.where(_unindexed(containers.c.state).in_([s.value for s in which.states]))
    return query


def _unindexed(column: ColumnElement[str]) -> ColumnElement[Any]:
    """Return a column as a value that no index is used for."""
    return func.coalesce(column, "")
