"""From what the dispatcher knows of jobs to the JSON of the API."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dispatcher.api.answers import dependency_answer, reason_answer, rfc3339
from dispatcher.api.job_wire import CountsAnswer, JobAnswer, JobTaskAnswer
from dispatcher.job_model import Job, JobTask, Tally


def job_answer(job: Job, *, with_tasks: bool) -> JobAnswer:
    """Return a job as it is answered; one may have thousands of tasks, so lists are without."""
    return JobAnswer(
        id=job.id,
        name=job.name,
        type=job.type.value,
        user=job.user,
        project=job.project,
        priority=job.priority,
        labels=dict(job.labels),
        state=job.state.value,
        held=job.held,
        exit_code=job.exit_code,
        reason=reason_answer(job.reason),
        created_at=rfc3339(job.created_at),
        started_at=rfc3339(job.started_at),
        finished_at=rfc3339(job.finished_at),
        counts=_counts(job.tallies),
        tasks=_tasks(job) if with_tasks else msgspec.UNSET,
    )


def job_bytes(job: Job) -> int:
    """Return about how long a job's answer is without its tasks."""
    return 1000 + len(job.name) + sum(len(key) + len(value) for key, value in job.labels)


def _tasks(job: Job) -> tuple[JobTaskAnswer, ...]:
    own = f"{job.id}/"
    pairs = zip(job.tasks, job.tallies, strict=True)
    return tuple(_task(task, tally, own) for task, tally in pairs)


def _task(task: JobTask, tally: Tally, own: str) -> JobTaskAnswer:
    return JobTaskAnswer(
        name=task.name,
        size=task.size,
        array=task.is_array,
        max_running=task.max_running,
        after=tuple(dependency_answer(each, own) for each in task.spec.after),
        counts=_counts((tally,)),
    )


def _counts(tallies: Sequence[Tally]) -> CountsAnswer:
    # Not by adding tallies up: a job may have thousands, and a page a thousand jobs.
    return CountsAnswer(
        queued=sum(each.queued for each in tallies),
        locked=sum(each.locked for each in tallies),
        running=sum(each.running for each in tallies),
        succeeded=sum(each.succeeded for each in tallies),
        failed=sum(each.failed for each in tallies),
        cancelled=sum(each.cancelled for each in tallies),
        total=sum(each.total for each in tallies),
    )
