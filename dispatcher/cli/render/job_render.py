"""How a job looks: a line while it is waited for, its fields, its row and its tasks."""

from __future__ import annotations

import click

from longshore.dispatcher.cli import output
from longshore.dispatcher.cli.job_terms import term_fields
from longshore.dispatcher.cli.job_views import JobView, TaskView
from longshore.dispatcher.cli.views import CONTAINER_STATES

SIZE_COLUMNS = ("SIZE", "AT ONCE")
COUNT_COLUMNS = tuple(state.upper() for state in CONTAINER_STATES)
JOB_COLUMNS = (
    "ID",
    "NAME",
    "TYPE",
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
    return output.safe(f"{seen.title}: {seen.progress()}{held}")


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
    # Nothing of what goes on for ever is ever done, and a job without containers does nothing.
    endless = seen.is_template or seen.type == "system"
    return (
        seen.id,
        seen.name,
        seen.kind,
        seen.state,
        str(seen.priority),
        "" if endless else f"{seen.counts.ended}/{seen.counts.total}",
        str(seen.counts.running),
        str(seen.counts.failed),
        seen.user,
        output.age(seen.created_at),
        "" if seen.exit_code is None else str(seen.exit_code),
        output.cut(_job_note(seen)),
    )


def _job_note(seen: JobView) -> str:
    if seen.cancelling:
        return seen.cancelling
    if seen.held and not seen.final:
        return "held"
    if seen.reason is not None:
        return seen.reason.message
    if seen.trouble is not None:
        return seen.trouble.message
    if seen.launched_for is not None:
        return f"last launched for {output.moment(seen.launched_for)}"
    return f"revision {seen.revision}" if (seen.revision or 0) > 1 else ""


def print_job(seen: JobView) -> None:
    """Write everything about a job, with its tasks."""
    output.print_fields(job_fields(seen))
    if seen.tasks:
        click.echo()
        rows = [task_cells(seen, task) for task in seen.tasks]
        columns = task_columns(seen)
        cells = [tuple(row[column] for column in columns) for row in rows]
        output.print_table(columns, cells, wrap=("AFTER",))


def task_columns(seen: JobView) -> tuple[str, ...]:
    """Return the columns that say something of a job of its type."""
    if seen.is_template:
        return ("TASK", *SIZE_COLUMNS, "AFTER")
    if seen.is_per_instance:
        return ("TASK", *COUNT_COLUMNS)
    if seen.type == "elastic":
        return ("TASK", "ROLE", "STARTS", "SIZE", *COUNT_COLUMNS)
    return ("TASK", *SIZE_COLUMNS, *COUNT_COLUMNS, "AFTER")


def job_fields(seen: JobView) -> list[tuple[str, str]]:
    """Return what `show` tells of a job, as names and values."""
    return [
        ("id", seen.id),
        ("name", seen.name),
        ("type", seen.kind),
        ("state", seen.state + (f" ({seen.cancelling})" if seen.cancelling else "")),
        ("held", "yes" if seen.held and not seen.final else ""),
        ("exit code", "" if seen.exit_code is None else str(seen.exit_code)),
        ("reason", seen.reason.message if seen.reason else ""),
        ("progress", seen.progress()),
        ("waiting", seen.waiting_for.message if seen.waiting_for else ""),
        ("trouble", seen.trouble.message if seen.trouble else ""),
        *term_fields(seen),
        ("labels", ", ".join(f"{key}={value}" for key, value in sorted(seen.labels.items()))),
        ("priority", str(seen.priority)),
        ("user", seen.user),
        ("project", seen.project),
        ("created", output.moment(seen.created_at)),
        ("started", output.moment(seen.started_at)),
        ("finished", output.moment(seen.finished_at)),
        ("ran for", output.duration(seen.ran_for_s())),
    ]


def task_cells(seen: JobView, task: TaskView) -> dict[str, str]:
    """Return a task's cells in the table of its job, by their columns."""
    counts = {state.upper(): str(getattr(task.counts, state)) for state in CONTAINER_STATES}
    return {
        "TASK": task.name,
        "ROLE": task.role,
        "STARTS": str(task.startup_order),
        "SIZE": str(task.size) if task.array else "",
        "AT ONCE": "" if task.max_running is None else str(task.max_running),
        **counts,
        "AFTER": ", ".join(each.phrase(seen.id) for each in task.after),
    }
