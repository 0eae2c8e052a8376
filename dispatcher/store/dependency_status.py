"""What the store knows of the things that containers wait for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from longshore.dispatcher.domain.containers import ContainerState, Dependency
from longshore.dispatcher.domain.jobs import Job, JobState, Tally, element_node
from longshore.dispatcher.domain.queries import Awaited
from longshore.dispatcher.store import job_codec
from longshore.dispatcher.store.job_reader import StoredCounts, count
from longshore.dispatcher.store.tables import containers, job_tasks, jobs

_CHUNK = 10_000
"""How many ids one query names; SQLite takes 32,766."""
_FINAL = frozenset(state.value for state in ContainerState if state.final)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A job that is waited for; `sizes` has None for what is no array.

    `job` is without tasks and tallies: both are here by name, the tallies as they are now.
    """

    job: Job
    sizes: Mapping[str, int | None]
    tallies: Mapping[str, Tally]


def fetch_dependency_status(
    connection: Connection,
    dependencies: Iterable[Dependency],
    counts: Mapping[str, StoredCounts] | None = None,
) -> dict[str, Awaited]:
    """Return what is known of each `of`, without those that there are not.

    `counts` has those jobs whose containers have been counted already, by id.
    """
    by_element: dict[str, bool] = {}
    for each in dependencies:
        by_element[each.of] = by_element.get(each.of, False) or each.each
    found = {}
    loose = [of for of in by_element if not of.startswith("j-")]
    for known in _containers(connection, loose):
        found[known.of] = known
    parts = {of: of.partition("/") for of in by_element if of.startswith("j-")}
    ids = list(dict.fromkeys(job_id for job_id, _, _ in parts.values()))
    known_jobs = _jobs(connection, ids, counts or {})
    for of, (job_id, slash, task) in parts.items():
        job = known_jobs.get(job_id)
        if job is None or (slash and task not in job.sizes):
            continue
        awaited = _of_task(job, of, task) if slash else _of_job(job, of)
        if by_element[of] and awaited.size is not None:
            elements = _elements(connection, job_id, task)
            awaited = Awaited(
                of=of,
                project=awaited.project,
                size=awaited.size,
                ended={**awaited.ended, **elements},
            )
        found[of] = awaited
    return found


def _containers(connection: Connection, ids: Sequence[str]) -> Iterator[Awaited]:
    for chunk in _chunks(ids):
        query = select(containers.c.id, containers.c.project, containers.c.state)
        for row in connection.execute(query.where(containers.c.id.in_(chunk))):
            state = ContainerState(row.state)
            ended = {row.id: state is ContainerState.SUCCEEDED} if state.final else {}
            yield Awaited(of=row.id, project=row.project, size=None, ended=ended)


def _jobs(
    connection: Connection, ids: Sequence[str], counts: Mapping[str, StoredCounts]
) -> dict[str, _Job]:
    found = {}
    for chunk in _chunks(ids):
        rows = connection.execute(select(jobs).where(jobs.c.id.in_(chunk))).all()
        sizes = _sizes(connection, chunk)
        # What the engine saved of a job that has ended is so; of others it may be old.
        moving = [r.id for r in rows if not JobState(r.state).final and r.id not in counts]
        counted = {**counts, **count(connection, moving)} if moving else counts
        for row in rows:
            job = job_codec.job_from_row(row, (), ())
            if job.state.final:
                saved = job_codec.decode_tallies(row.tallies)
                tallies = dict(zip(sizes[job.id], saved, strict=True))
            else:
                tallies = counted.get(job.id, StoredCounts()).tallies
            found[job.id] = _Job(job=job, sizes=sizes[job.id], tallies=tallies)
    return found


def _sizes(connection: Connection, ids: Sequence[str]) -> dict[str, dict[str, int | None]]:
    query = (
        select(job_tasks.c.job_id, job_tasks.c.name, job_tasks.c.size, job_tasks.c.is_array)
        .where(job_tasks.c.job_id.in_(ids))
        .order_by(job_tasks.c.job_id, job_tasks.c.number)
    )
    sizes: dict[str, dict[str, int | None]] = {}
    for row in connection.execute(query):
        sizes.setdefault(row.job_id, {})[row.name] = row.size if row.is_array else None
    return sizes


def _of_task(job: _Job, of: str, task: str) -> Awaited:
    ended = _ended(job.job, of, job.tallies.get(task, Tally()))
    return Awaited(of=of, project=job.job.project, size=job.sizes[task], ended=ended)


def _of_job(job: _Job, of: str) -> Awaited:
    """Return what is known of a whole job; it has a size if its only task has one, and no name."""
    total = Tally()
    for tally in job.tallies.values():
        total = total.plus(tally)
    size = job.sizes.get("") if len(job.sizes) == 1 else None
    return Awaited(of=of, project=job.job.project, size=size, ended=_ended(job.job, of, total))


def _ended(job: Job, node: str, tally: Tally) -> dict[str, bool]:
    """Return whether a job, or a task of it whose containers are `tally`, has ended, and how."""
    if not job.ends_by_itself:
        return {node: job.state is JobState.SUCCEEDED} if job.state.final else {}
    return {node: tally.succeeded == tally.total} if tally.ended == tally.total else {}


def _elements(connection: Connection, job_id: str, task: str) -> dict[str, bool]:
    """Return which elements of an array have ended, by node, and whether they succeeded."""
    query = (
        select(containers.c.array_index, containers.c.state)
        .where(containers.c.job_id == job_id, containers.c.task == task)
        .order_by(containers.c.sequence)
    )
    return {
        element_node(job_id, task, index): state == ContainerState.SUCCEEDED.value
        for index, state in connection.execute(query)
        if state in _FINAL
    }


def _chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), _CHUNK):
        yield ids[start : start + _CHUNK]
