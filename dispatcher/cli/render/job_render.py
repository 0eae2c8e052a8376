"""How a job looks: a line while it is waited for, its fields, its row and its tasks."""

from __future__ import annotations

import click
import msgspec

from longshore.dispatcher.api.schemas.jobs import JobAnswer, JobCostsAnswer, JobTaskAnswer
from longshore.dispatcher.cli import container_words, job_words, output, times
from longshore.dispatcher.cli.answers import CONTAINER_STATES, is_final
from longshore.dispatcher.cli.job_terms import term_fields

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


def progress_line(seen: JobAnswer) -> str:
    """Return how far a job is: "j-1 align: 37/100 done, 12 running, 1 failed"."""
    held = " (held)" if seen.held and not is_final(seen) else ""
    return output.safe(f"{job_words.title(seen)}: {job_words.progress(seen)}{held}")


def job_outcome_line(seen: JobAnswer) -> str:
    """Return how a job ended, in one line."""
    parts = [seen.id]
    if seen.name:
        parts.append(f"({seen.name})")
    parts.append(seen.state)
    if seen.exit_code is not None:
        parts.append(f"with exit code {seen.exit_code}")
    lasting = job_words.ran_for_s(seen)
    if lasting is not None:
        parts.append(f"after {output.duration(lasting)}")
    line = " ".join(parts)
    if told := job_words.outcome(seen.counts):
        line += f": {told}"
    if seen.reason is not None and seen.reason.message:
        line += f": {seen.reason.message}"
    return output.safe(line)


def job_row(seen: JobAnswer) -> tuple[str, ...]:
    """Return a job's cells in the listing."""
    # Nothing of what goes on for ever is ever done, and a job without containers does nothing.
    endless = job_words.is_template(seen) or seen.type == "system"
    return (
        seen.id,
        seen.name,
        job_words.kind(seen),
        seen.state,
        str(seen.priority),
        "" if endless else f"{job_words.ended(seen.counts)}/{seen.counts.total}",
        str(seen.counts.running),
        str(seen.counts.failed),
        seen.user,
        times.age(seen.created_at),
        "" if seen.exit_code is None else str(seen.exit_code),
        output.cut(_job_note(seen)),
    )


def _job_note(seen: JobAnswer) -> str:
    if ends := job_words.cancelling(seen):
        return ends
    if seen.held and not is_final(seen):
        return "held"
    if seen.reason is not None:
        return seen.reason.message
    if seen.trouble:
        return seen.trouble.message
    if seen.launched_for:
        return f"last launched for {times.moment(seen.launched_for)}"
    return f"revision {seen.revision}" if (seen.revision or 0) > 1 else ""


def print_job(seen: JobAnswer) -> None:
    """Write everything about a job, with its tasks."""
    output.print_fields(job_fields(seen))
    if seen.tasks:
        click.echo()
        rows = [task_cells(seen, task) for task in seen.tasks]
        columns = task_columns(seen)
        cells = [tuple(row[column] for column in columns) for row in rows]
        output.print_table(columns, cells, wrap=("AFTER",))
    if seen.costs and seen.costs.total_usd:
        print_costs(seen.costs)


def print_costs(costs: JobCostsAnswer) -> None:
    """Write what a job's ended attempts cost, by task, and by element where that is told."""
    click.echo("\nwhat ended attempts cost")
    output.print_table(
        ("TASK", "INDEX", "COST"),
        [
            (
                each.task,
                "" if each.array_index is None else str(each.array_index),
                output.money(each.cost_usd),
            )
            for each in (*costs.tasks, *costs.elements)
            if each.cost_usd
        ],
    )


def cost_fields(costs: JobCostsAnswer | msgspec.UnsetType) -> list[tuple[str, str]]:
    """Return what a job cost, and how much of that came to nothing, as names and values."""
    if isinstance(costs, msgspec.UnsetType) or not costs.total_usd:
        return []
    lost = costs.lost_work_usd
    told = "too much to add up here: see longshore cost" if lost is None else output.money(lost)
    return [
        ("cost", output.money(costs.total_usd)),
        ("lost work", "" if lost == 0 else told),
    ]


def task_columns(seen: JobAnswer) -> tuple[str, ...]:
    """Return the columns that say something of a job of its type."""
    if job_words.is_template(seen):
        return ("TASK", *SIZE_COLUMNS, "AFTER")
    if job_words.is_per_instance(seen):
        return ("TASK", *COUNT_COLUMNS)
    if seen.type == "elastic":
        return ("TASK", "ROLE", "STARTS", "SIZE", *COUNT_COLUMNS)
    return ("TASK", *SIZE_COLUMNS, *COUNT_COLUMNS, "AFTER")


def job_fields(seen: JobAnswer) -> list[tuple[str, str]]:
    """Return what `show` tells of a job, as names and values."""
    return [
        ("id", seen.id),
        ("name", seen.name),
        ("type", job_words.kind(seen)),
        ("state", seen.state + (f" ({ends})" if (ends := job_words.cancelling(seen)) else "")),
        ("held", "yes" if seen.held and not is_final(seen) else ""),
        ("exit code", "" if seen.exit_code is None else str(seen.exit_code)),
        ("reason", seen.reason.message if seen.reason else ""),
        ("progress", job_words.progress(seen)),
        ("waiting", seen.waiting_for.message if seen.waiting_for else ""),
        ("trouble", seen.trouble.message if seen.trouble else ""),
        *term_fields(seen),
        ("labels", ", ".join(f"{key}={value}" for key, value in sorted(seen.labels.items()))),
        ("priority", str(seen.priority)),
        ("user", seen.user),
        ("project", seen.project),
        ("created", times.moment(seen.created_at)),
        ("started", times.moment(seen.started_at)),
        ("finished", times.moment(seen.finished_at)),
        ("ran for", output.duration(job_words.ran_for_s(seen))),
        *cost_fields(seen.costs),
    ]


def task_cells(seen: JobAnswer, task: JobTaskAnswer) -> dict[str, str]:
    """Return a task's cells in the table of its job, by their columns."""
    counts = {state.upper(): str(getattr(task.counts, state)) for state in CONTAINER_STATES}
    return {
        "TASK": task.name,
        "ROLE": task.role or "",
        "STARTS": str(task.startup_order or 0),
        "SIZE": str(task.size) if task.array else "",
        "AT ONCE": "" if task.max_running is None else str(task.max_running),
        **counts,
        "AFTER": container_words.dependency_phrases(task.after, seen.id),
    }
