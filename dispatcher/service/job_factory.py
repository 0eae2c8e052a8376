"""Making jobs: new ones, the next revision of one, and the runs of one; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.domain.jobs import (
    Job,
    JobTask,
    JobTypeSpec,
    Parameters,
    Tally,
    given_values,
)
from longshore.dispatcher.input.problems import Problems, ProblemsFull, quoted
from longshore.dispatcher.service.contracts import NewJob
from longshore.drivers.errors import InvalidRequest


def new_job(new: NewJob, *, job_id: str, sequence: int, user: str, now: float) -> Job:
    """Return the job that a user asks for."""
    return _without_containers_of_its_own(
        Job(
            id=job_id,
            sequence=sequence,
            name=new.name,
            type=new.type,
            user=user,
            project=new.project,
            priority=new.priority,
            created_at=now,
            labels=new.labels,
            tasks=tuple(_renamed(task, "/", f"{job_id}/") for task in new.tasks),
            tallies=tuple(Tally(queued=task.size) for task in new.tasks),
            terms=_at_revision(new.terms, 1, now),
        )
    )


def run_of(template: Job, *, job_id: str, sequence: int, now: float, env: Mapping[str, str]) -> Job:
    """Return a run of a periodic or parameterised job, whose tasks get `env` beside their own."""
    own = f"{template.id}/"
    tasks = tuple(_renamed(task, own, f"{job_id}/") for task in template.tasks)
    return Job(
        id=job_id,
        sequence=sequence,
        name=template.name,
        type=template.type,
        user=template.user,
        project=template.project,
        priority=template.priority,
        created_at=now,
        labels=template.labels,
        tasks=tuple(_with_environment(task, env) for task in tasks),
        tallies=tuple(Tally(queued=task.size) for task in template.tasks),
        terms=_at_revision(JobTypeSpec(per_instance=template.terms.per_instance), 1, now),
        parent=template.id,
    )


def next_revision(job: Job, new: NewJob, now: float) -> Job:
    """Return a per-instance job at its next revision, itself where nothing of it changes."""
    terms = job.terms.per_instance
    if terms is None:
        return job
    same = replace(
        job,
        name=new.name,
        priority=new.priority,
        labels=new.labels,
        tasks=new.tasks,
        terms=_at_revision(new.terms, terms.revision, terms.revised_at),
    )
    if same == job:
        return job
    return replace(same, terms=_at_revision(new.terms, terms.revision + 1, now))


def why_not_revised(job: Job, new: NewJob) -> str:
    """Return why a job cannot become what a user asks for, "" when it can."""
    if sentence := _why_over(job):
        return sentence
    if not job.type.is_per_instance:
        sentence = "only system and sysbatch jobs are updated; submit another"
        return f"job {job.id} is of type {job.type.value}: {sentence}"
    if new.type is not job.type:
        return f"job {job.id} is of type {job.type.value}, not {new.type.value}: submit another"
    if job.is_template:
        return f"job {job.id} is periodic or parameterized: cancel it and submit another"
    if new.terms.schedule is not None or new.terms.parameters is not None:
        return f"job {job.id} does not become periodic or parameterized: submit another"
    return ""


def _why_over(job: Job) -> str:
    if job.state.final:
        return f"job {job.id} has ended: it is {job.state.value}; submit another"
    return f"job {job.id} is being cancelled: submit another" if job.cancel_requested else ""


def misplaced_in_revision(job: Job, new: NewJob) -> list[tuple[str, str]]:
    """Return what is wrong with the next revision of a job, with its places."""
    problems = []
    if new.project != job.project:
        problems.append(("project", f"is {quoted(job.project)} and stays so: leave it out"))
    # Its containers are known by it.
    if new.tasks[0].name != job.tasks[0].name:
        was = quoted(job.tasks[0].name) if job.tasks[0].name else "none"
        problems.append(("tasks[0].name", f"is {was} in this job, and stays so"))
    return problems


def why_not_dispatched(job: Job) -> str:
    """Return why nobody can run a parameterised job now, "" when anybody can."""
    if job.terms.parameters is None:
        return f"job {job.id} is not parameterized, and runs without being dispatched"
    held = f"job {job.id} is held: release it first" if job.held else ""
    return _why_over(job) or held


def values_of_run(job: Job, given: Mapping[str, str]) -> dict[str, str]:
    """Return the values of all parameters of a run, by name; raises `InvalidRequest`."""
    problems = Problems()
    try:
        values = given_values(job.terms.parameters or Parameters(), given, "parameters", problems)
    except ProblemsFull:
        raise InvalidRequest(problems.listed()) from None
    if problems:
        raise InvalidRequest(problems.listed())
    return values


def containers_in(job: Job) -> int:
    """Return how many containers a job is submitted with."""
    return 0 if job.is_template else sum(task.size for task in job.tasks)


def container_in(
    job: Job, task: JobTask, index: int, *, container_id: str, sequence: int
) -> Container:
    """Return a container of a job's task, the one at `index`, as the job is submitted with it."""
    return Container(
        id=container_id,
        sequence=sequence,
        spec=task.spec,
        user=job.user,
        project=job.project,
        priority=job.priority,
        created_at=job.created_at,
        job_id=job.id,
        task=task.name,
        array_index=index if task.is_array else None,
    )


def _without_containers_of_its_own(job: Job) -> Job:
    return replace(job, tallies=tuple(Tally() for _ in job.tasks)) if job.is_template else job


def _at_revision(terms: JobTypeSpec, revision: int, revised_at: float) -> JobTypeSpec:
    if terms.per_instance is None:
        return terms
    own = replace(terms.per_instance, revision=revision, revised_at=revised_at)
    return replace(terms, per_instance=own)


def _renamed(task: JobTask, before: str, after: str) -> JobTask:
    """Return a task that waits for others of its job by another beginning of their names."""
    names = tuple(
        replace(each, of=after + each.of.removeprefix(before))
        if each.of.startswith(before)
        else each
        for each in task.spec.after
    )
    return task if names == task.spec.after else replace(task, spec=replace(task.spec, after=names))


def _with_environment(task: JobTask, env: Mapping[str, str]) -> JobTask:
    if not env:
        return task
    own = tuple(sorted({**dict(task.spec.env), **env}.items()))
    return replace(task, spec=replace(task.spec, env=own))
