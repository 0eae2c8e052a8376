"""Jobs for tests, and what a store says of jobs, worked out from all containers in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from longshore.dispatcher.domain.containers import (
    Container,
    ContainerState,
    Dependency,
    DependencyOn,
    InstanceRecord,
)
from longshore.dispatcher.domain.jobs import (
    Job,
    JobState,
    JobTask,
    JobType,
    Tally,
    nodes_of,
    task_node,
)
from tests.samples import make_container


def counted(job: Job, containers: Iterable[Container]) -> Job:
    """Return a job with its tallies and highest exit code as its containers are."""
    tallies = {task.name: Tally() for task in job.tasks}
    codes = []
    for each in containers:
        if each.job_id == job.id:
            tallies[each.task] = tallies[each.task].moved(None, each.state)
            if each.state is ContainerState.FAILED and each.exit_code is not None:
                codes.append(each.exit_code)
    exit_code = job.exit_code if job.state.final else max(codes, default=None)
    return replace(
        job, tallies=tuple(tallies[task.name] for task in job.tasks), exit_code=exit_code
    )


def ended_nodes(jobs: Mapping[str, Job], containers: Iterable[Container]) -> dict[str, bool]:
    """Return all nodes that have ended, each with whether it succeeded."""
    everybody = list(containers)
    ended = {}
    for each in everybody:
        if each.state.final:
            for node in nodes_of(each):
                ended[node] = each.state is ContainerState.SUCCEEDED
    for job in jobs.values():
        parts = dict(zip(job.tasks, counted(job, everybody).tallies, strict=True))
        if not job.ends_by_itself:
            if job.state.final:
                nodes = [job.id, *(task_node(job.id, task.name) for task in job.tasks)]
                ended.update(dict.fromkeys(nodes, job.state is JobState.SUCCEEDED))
            continue
        for task, tally in parts.items():
            if tally.ended == tally.total:
                ended[task_node(job.id, task.name)] = tally.succeeded == tally.total
        if all(tally.ended == tally.total for tally in parts.values()):
            ended[job.id] = all(tally.succeeded == tally.total for tally in parts.values())
    return ended


def latest_ended(
    jobs: Mapping[str, Job], containers: Iterable[Container], instances: Iterable[InstanceRecord]
) -> list[Container]:
    """Return which containers tell a restart where unfinished sysbatch jobs have run."""
    present = {each.id for each in instances if each.gone_at is None}
    latest: dict[tuple[str, str], Container] = {}
    for each in sorted(containers, key=lambda each: each.sequence):
        if each.state.final and each.pinned_to in present:
            job = jobs[each.job_id]
            if job.type is JobType.SYSBATCH and not job.state.final:
                latest[job.id, each.pinned_to] = each
    return sorted(latest.values(), key=lambda each: each.sequence)


def job_saved(stored: Job, saved: Job) -> Job:
    """Return a stored job once the engine saved it: only what it decides is written."""
    return replace(
        stored,
        state=saved.state,
        started_at=saved.started_at,
        finished_at=saved.finished_at,
        exit_code=saved.exit_code,
        reason=saved.reason,
        tallies=saved.tallies,
    )


def job_revised(stored: Job, revised: Job) -> Job:
    """Return a stored job once it is another revision: only what its user names is written."""
    return replace(
        stored,
        name=revised.name,
        labels=revised.labels,
        priority=revised.priority,
        terms=revised.terms,
        tasks=revised.tasks,
    )


def make_task(
    name: str = "",
    *,
    size: int | None = None,
    max_running: int | None = None,
    after: tuple[Dependency | str, ...] = (),
    **spec: object,
) -> JobTask:
    """Return a task: an array of `size`, or one container; `after` names nodes."""
    needs = tuple(Dependency(of=each) if isinstance(each, str) else each for each in after)
    return JobTask(
        name=name,
        spec=make_container(1, after=needs, **spec).spec,  # type: ignore[arg-type]  # of a spec
        size=1 if size is None else size,
        is_array=size is not None,
        max_running=max_running,
    )


def make_job(
    number: int, *tasks: JobTask, first: int | None = None, priority: int = 500, held: bool = False
) -> tuple[Job, tuple[Container, ...]]:
    """Return job "j-N" with its containers, whose ids are numbered from `first` (N x 1000)."""
    job = Job(
        id=f"j-{number}",
        sequence=number,
        name=f"job {number}",
        user="u",
        project="p",
        priority=priority,
        created_at=0.0,
        tasks=tasks,
        tallies=tuple(Tally(queued=task.size) for task in tasks),
        held=held,
    )
    next_number = number * 1000 if first is None else first
    containers = []
    for task in tasks:
        for index in range(task.size):
            made = make_container(next_number, priority=priority)
            containers.append(
                replace(
                    made,
                    spec=task.spec,
                    job_id=job.id,
                    task=task.name,
                    array_index=index if task.is_array else None,
                )
            )
            next_number += 1
    return job, tuple(containers)


def each_of(node: str, on: DependencyOn = DependencyOn.SUCCESS) -> Dependency:
    """Return what lets each element of an array wait for its own one of another."""
    return Dependency(of=node, on=on, each=True)
