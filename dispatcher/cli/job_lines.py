"""How a job looks: a line while it is waited for, its fields, its row and its tasks."""

from __future__ import annotations

import click

from dispatcher.cli import output
from dispatcher.cli.job_views import JobView, TaskView

TASK_COLUMNS = (
    "TASK",
    "SIZE",
    "AT ONCE",
    "QUEUED",
    "LOCKED",
    "RUNNING",
    "SUCCEEDED",
    "FAILED",
    "CANCELLED",
    "AFTER",
)
JOB_COLUMNS = (
    "ID",
    "NAME",
    "STATE",
    "PRIO",
    "DONE",
    "RUNNING",
    "FAILED",
    "USER",
    "AGE",
    "EXIT",
    "NOTE",
)


def progress_line(seen: JobView) -> str:
    """Return how far a job is: "j-1 align: 37/100 done, 12 running, 1 failed"."""
    held = " (held)" if seen.held and not seen.final else ""
    return output.safe(f"{seen.title}: {seen.counts.phrase()}{held}")


def job_outcome_line(seen: JobView) -> str:
    """Return how a job ended, in one line."""
    parts = [seen.id]
    if seen.name:
        parts.append(f"({seen.name})")
    parts.append(seen.state)
    if seen.exit_code is not None:
        parts.append(f"with exit code {seen.exit_code}")
    lasting = seen.ran_for_s()
    if lasting is not None:
        parts.append(f"after {output.duration(lasting)}")
    line = " ".join(parts)
    if told := seen.counts.outcome():
        line += f": {told}"
    if seen.reason is not None and seen.reason.message:
        line += f": {seen.reason.message}"
    return output.safe(line)


def job_row(seen: JobView) -> tuple[str, ...]:
    """Return a job's cells in the listing."""
    why = seen.reason.message if seen.reason else ""
    return (
        seen.id,
        seen.name,
        seen.state,
        str(seen.priority),
        f"{seen.counts.ended}/{seen.counts.total}",
        str(seen.counts.running),
        str(seen.counts.failed),
        seen.user,
        output.age(seen.created_at),
        "" if seen.exit_code is None else str(seen.exit_code),
        "held" if seen.held and not seen.final else why,
    )


def print_job(seen: JobView) -> None:
    """Write everything about a job, with its tasks."""
    output.print_fields(job_fields(seen))
    if seen.tasks:
        click.echo()
        rows = [task_row(task, seen.id) for task in seen.tasks]
        output.print_table(TASK_COLUMNS, rows, wrap=("AFTER",))


def job_fields(seen: JobView) -> list[tuple[str, str]]:
    """Return what `show` tells of a job, as names and values."""
    return [
        ("id", seen.id),
        ("name", seen.name),
        ("type", seen.type),
        ("state", seen.state),
        ("held", "yes" if seen.held and not seen.final else ""),
        ("exit code", "" if seen.exit_code is None else str(seen.exit_code)),
        ("reason", seen.reason.message if seen.reason else ""),
        ("progress", seen.counts.phrase()),
        ("labels", ", ".join(f"{key}={value}" for key, value in sorted(seen.labels.items()))),
        ("priority", str(seen.priority)),
        ("user", seen.user),
        ("project", seen.project),
        ("created", output.moment(seen.created_at)),
        ("started", output.moment(seen.started_at)),
        ("finished", output.moment(seen.finished_at)),
        ("ran for", output.duration(seen.ran_for_s())),
    ]


def task_row(task: TaskView, job_id: str) -> tuple[str, ...]:
    """Return a task's cells in the table of its job."""
    counts = task.counts
    return (
        task.name,
        str(task.size) if task.array else "",
        "" if task.max_running is None else str(task.max_running),
        str(counts.queued),
        str(counts.locked),
        str(counts.running),
        str(counts.succeeded),
        str(counts.failed),
        str(counts.cancelled),
        ", ".join(each.phrase(job_id) for each in task.after),
    )
