"""Reading jobs: with their tasks, their counts, and the specifications of their containers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from sqlalchemy import ColumnElement, Connection, Select, func, select, tuple_

from longshore.dispatcher.domain.containers import ContainerSpec, ContainerState
from longshore.dispatcher.domain.jobs import Job, JobState, JobTask, Tally
from longshore.dispatcher.store import codec, job_codec
from longshore.dispatcher.store.tables import containers, job_tasks, jobs

Specs = dict[tuple[str, str], ContainerSpec]
"""Specifications by the job and task that they are of."""

UNFINISHED = [state.value for state in JobState if not state.final]


@dataclass(slots=True, kw_only=True)
class StoredCounts:
    """How a job's containers are: by task, and the highest exit code of failed ones."""

    tallies: dict[str, Tally] = field(default_factory=dict)
    exit_code: int | None = None


def fetch_job(connection: Connection, job_id: str) -> Job | None:
    """Return one job as it was saved last, or None."""
    found = _fetch(connection, jobs.c.id == job_id)
    return found[0] if found else None


def fetch_heads(connection: Connection, sequences: Sequence[int]) -> list[Job]:
    """Return jobs by falling sequence number, without their tasks, with one tally: the sum."""
    query = select(jobs).where(jobs.c.sequence.in_(sequences)).order_by(jobs.c.sequence.desc())
    found = []
    for row in connection.execute(query):
        job = job_codec.job_from_row(row, (), job_codec.decode_tallies(row.tallies))
        found.append(replace(job, tallies=(job.tally,)))
    return found


def fetch_unfinished(connection: Connection) -> list[Job]:
    """Return the jobs that have not ended, by sequence number, with their containers counted."""
    unfinished = jobs.c.state.in_(UNFINISHED)
    counts = count(connection, select(jobs.c.id).where(unfinished))
    found = []
    for job in _fetch(connection, unfinished):
        counted = counts.get(job.id, StoredCounts())
        tallies = tuple(counted.tallies.get(task.name, Tally()) for task in job.tasks)
        found.append(replace(job, tallies=tallies, exit_code=counted.exit_code))
    return found


def count(connection: Connection, of: Select[str] | Sequence[str]) -> dict[str, StoredCounts]:
    """Return how the containers of some jobs are, by the job's id."""
    query = (
        select(
            containers.c.job_id,
            containers.c.task,
            containers.c.state,
            func.count().label("number"),
            func.max(containers.c.exit_code).label("exit_code"),
        )
        .where(containers.c.job_id.in_(of))
        .group_by(containers.c.job_id, containers.c.task, containers.c.state)
        .order_by(containers.c.job_id, containers.c.task, containers.c.state)
    )
    counts: dict[str, StoredCounts] = {}
    for row in connection.execute(query):
        counted = counts.setdefault(row.job_id, StoredCounts())
        state = ContainerState(row.state)
        tally = counted.tallies.get(row.task, Tally())
        counted.tallies[row.task] = tally.moved(None, state, row.number)
        if state is ContainerState.FAILED and row.exit_code is not None:
            counted.exit_code = max(row.exit_code, counted.exit_code or row.exit_code)
    return counts


def fetch_specs(connection: Connection, condition: ColumnElement[bool]) -> Specs:
    """Return the specifications of the tasks that the containers of `condition` are of."""
    theirs = (
        select(containers.c.job_id, containers.c.task)
        .where(condition)
        .where(containers.c.job_id != "")
    )
    query = select(job_tasks.c.job_id, job_tasks.c.name, job_tasks.c.spec).where(
        tuple_(job_tasks.c.job_id, job_tasks.c.name).in_(theirs)
    )
    return {
        (row.job_id, row.name): codec.decode_spec(row.spec) for row in connection.execute(query)
    }


def _fetch(connection: Connection, condition: ColumnElement[bool]) -> list[Job]:
    """Return the jobs of `condition` by sequence number, with their tasks."""
    rows = connection.execute(select(jobs).where(condition).order_by(jobs.c.sequence)).all()
    query = (
        select(job_tasks)
        .where(job_tasks.c.job_id.in_(select(jobs.c.id).where(condition)))
        .order_by(job_tasks.c.job_id, job_tasks.c.number)
    )
    tasks: dict[str, tuple[JobTask, ...]] = {}
    for job_id, group in groupby(connection.execute(query), key=lambda row: str(row.job_id)):
        tasks[job_id] = tuple(
            job_codec.task_from_row(row, codec.decode_spec(row.spec)) for row in group
        )
    return [
        job_codec.job_from_row(row, tasks[row.id], job_codec.decode_tallies(row.tallies))
        for row in rows
    ]
