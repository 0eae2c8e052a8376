"""The filters as SQL: queries for sequence numbers, each answered from one index."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select, Table, func, select

from longshore.dispatcher.domain.containers import ContainerState
from longshore.dispatcher.domain.jobs import JobState
from longshore.dispatcher.domain.queries import ContainerFilter, JobFilter
from longshore.dispatcher.store.tables import attempts, containers, jobs
from longshore.drivers.errors import InvalidRequest

_State = TypeVar("_State", ContainerState, JobState)
_Filter = TypeVar("_Filter", ContainerFilter, JobFilter)
_WITH_A_PLACE = (ContainerState.LOCKED, ContainerState.RUNNING)


def container_queries(which: ContainerFilter) -> list[Select[int]]:
    """Return queries that together cover `which`.

    Raises `InvalidRequest` for a task or an index without their job: no index leads there.
    """
    if not which.job_id and (which.task or which.array_index is not None):
        raise InvalidRequest([("job", "must be given too, where a task or an array index is")])
    return [query for each in _by_project(which) for query in _container_queries(each)]


def _container_queries(which: ContainerFilter) -> list[Select[int]]:
    if which.instance_id:
        return [_on_instance(which)]
    if which.job_id:
        return [_of_job(which)]
    if which.parent:
        return [_of_parent(which)]
    wanted = _named(containers, which.user, which.project, which.name)
    return _listed(containers, wanted, which.states, ContainerState, few=_WITH_A_PLACE)


def job_queries(which: JobFilter) -> list[Select[int]]:
    """Return queries that together cover `which`."""
    return [query for each in _by_project(which) for query in _job_queries(each)]


def _by_project(which: _Filter) -> list[_Filter]:
    """Return filters that together are `which`, each for one project or any: () for none.

    Of alternatives no index is in the order of a page; of one project there is.
    """
    if which.projects is None:
        return [which]
    wanted = which.projects if not which.project else (which.project,)
    seen = [each for each in wanted if each in which.projects]
    return [replace(which, project=each, projects=None) for each in seen]


def _job_queries(which: JobFilter) -> list[Select[int]]:
    wanted = _named(jobs, which.user, which.project, which.name)
    if which.parent or which.own:
        wanted[jobs.c.parent] = which.parent
    return _listed(jobs, wanted, which.states, JobState)


def _named(table: Table, user: str, project: str, name: str) -> dict[ColumnElement[str], str]:
    pairs = ((table.c.user, user), (table.c.project, project), (table.c.name, name))
    return {column: value for column, value in pairs if value}


def _listed(
    table: Table,
    wanted: Mapping[ColumnElement[str], str],
    states: Sequence[_State],
    every: Iterable[_State],
    few: Collection[_State] = (),
) -> list[Select[int]]:
    """Return queries for what is `wanted` and in one of `states`, or in any where none is given.

    For one column that is wanted, and for two, there is an index that ends in (ended, sequence), so
    that a query for each way to end, and one for all that has not, neither sort nor skip, however
    many have ended. Of what has not ended, single states are picked out; those of which there are
    only a `few` at a time, of whosoever, by the index for states.
    """
    if not wanted:
        one = select(table.c.sequence)
        return [one.where(table.c.state == each.value) for each in dict.fromkeys(states)] or [one]
    asked = dict.fromkeys(states or every)
    going_on = [each for each in every if not each.final]
    open_ones = [each for each in asked if not each.final]
    by_index = select(table.c.sequence).where(*(c == value for c, value in wanted.items()))
    found = [by_index.where(table.c.ended == each.value) for each in asked if each.final]
    if len(open_ones) == len(going_on):
        found.append(by_index.where(table.c.ended == ""))
    elif open_ones and all(each in few for each in open_ones):
        rest = [_unindexed(column) == value for column, value in wanted.items()]
        states_of = ((table.c.state == each.value) for each in open_ones)
        found += [select(table.c.sequence).where(state, *rest) for state in states_of]
    elif open_ones:
        one_of = _unindexed(table.c.state).in_([each.value for each in open_ones])
        found.append(by_index.where(table.c.ended == "", one_of))
    return found


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
    if which.parent:
        query = query.where(_unindexed(containers.c.parent) == which.parent)
    return _narrowed(query, which)


def _of_job(which: ContainerFilter) -> Select[int]:
    """Return the query for containers of one job.

    It looks at no more than the job has, and sorts them where no task is given; any other index
    would lead through all containers that ever were.
    """
    query = select(containers.c.sequence).where(containers.c.job_id == which.job_id)
    if which.task:
        query = query.where(containers.c.task == which.task)
    if which.parent:
        query = query.where(_unindexed(containers.c.parent) == which.parent)
    for column, value in _named(containers, which.user, which.project, which.name).items():
        query = query.where(_unindexed(column) == value)
    return _narrowed(query, which)


def _of_parent(which: ContainerFilter) -> Select[int]:
    """Return the query for containers that one submitted from inside; it looks at no others."""
    query = select(containers.c.sequence).where(containers.c.parent == which.parent)
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
