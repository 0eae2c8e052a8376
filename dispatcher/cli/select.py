"""Which container of a job is meant: the only one, or the one that a task and an index choose."""

from __future__ import annotations

from longshore.dispatcher.api.schemas.containers import ContainerAnswer
from longshore.dispatcher.api.schemas.jobs import JobAnswer, JobTaskAnswer
from longshore.dispatcher.cli import job_words
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.client import CommandClient, Query
from longshore.dispatcher.cli.failure import USAGE, CommandFailure
from longshore.dispatcher.cli.ids import job_path
from longshore.dispatcher.input.problems import did_you_mean, listing

NAMES_SHOWN = 5
LOOKED_AT = 50


def chosen_container(
    client: CommandClient, job_id: str, task: str | None, index: int | None, instance: str | None
) -> str:
    """Return the id of one container of a job.

    Without `task`, `index` and `instance` that is its only one; of those that were on one instance
    it is the last. Raises `CommandFailure` when several or none are meant, with how to choose.
    """
    job = read(client.get(job_path(job_id)), JobAnswer)
    if job_words.is_template(job):
        raise _misfit(
            f"{job.id} has no containers of its own",
            f"See 'longshore jobs --parent {job.id}' for its runs",
        )
    chosen = _task(job, task, index)
    if index is not None and not chosen.array:
        raise _misfit(f"{_named(job, chosen)} is not an array", "Leave --index out")
    if job_words.is_per_instance(job):
        return _there(client, job, instance)
    if instance is not None:
        raise _misfit(
            f"{job.id} is a {job.type} job, whose containers are not chosen by instance",
            f"See 'longshore ps --job {job.id}' for their ids",
        )
    query = [("job", job_id)]
    if chosen.name:
        query.append(("task", chosen.name))
    if chosen.array:
        query.append(("array_index", str(_index(job, chosen, index))))
    return _found(client, job_id, query)


def only_container(client: CommandClient, job: JobAnswer) -> str | None:
    """Return the id of a job's container when it has just one, else None."""
    if job.counts.total != 1:
        return None
    return _found(client, job.id, [("job", job.id)])


def _task(job: JobAnswer, task: str | None, index: int | None) -> JobTaskAnswer:
    tasks = job.tasks or ()
    names = [each.name for each in tasks]
    if task is not None:
        for each in tasks:
            if each.name == task:
                return each
        raise _misfit(f"{job.id} has no task {task!r}", did_you_mean(task, names).capitalize())
    if len(tasks) == 1:
        return tasks[0]
    arrays = [each for each in tasks if each.array]
    if index is not None and len(arrays) == 1:
        return arrays[0]
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    raise _misfit(
        f"{job.id} has {len(names)} tasks",
        f"Choose one with --task NAME: {listing(names[:NAMES_SHOWN])}{more}",
    )


def _index(job: JobAnswer, task: JobTaskAnswer, index: int | None) -> int:
    last = task.size - 1
    if index is None and task.size == 1:
        return 0
    if index is None:
        raise _misfit(
            f"{_named(job, task)} has {task.size} containers",
            f"Choose one with --index N, from 0 to {last}",
        )
    if index > last:
        raise _misfit(
            f"{_named(job, task)} has no container {index}", f"Its indices go from 0 to {last}"
        )
    return index


def _there(client: CommandClient, job: JobAnswer, instance: str | None) -> str:
    """Return the id of a per-instance job's container on an instance, None for the only one."""
    query = [("job", job.id)]
    if instance is not None:
        query.append(("instance", instance))
    pages = client.pages("/v1/containers", query, 1 if instance is not None else LOOKED_AT)
    items = [read(each, ContainerAnswer) for each in pages]
    if items and (instance is not None or len(items) == 1):
        return items[0].id
    if items:
        names = sorted({each.for_instance or each.instance or "" for each in items} - {""})
        more = " and more" if len(names) > NAMES_SHOWN or len(items) == LOOKED_AT else ""
        raise _misfit(
            f"{job.id} has containers on several instances",
            f"Choose one with --instance: {', '.join(names[:NAMES_SHOWN])}{more}",
        )
    where = "" if instance is None else f" on {instance}"
    raise CommandFailure(
        f"nothing of {job.id} has run{where}",
        remedy=f"See 'longshore ps --job {job.id}' for where it has, or will",
    )


def _named(job: JobAnswer, task: JobTaskAnswer) -> str:
    return f"{job.id}/{task.name}" if task.name else job.id


def _found(client: CommandClient, job_id: str, query: Query) -> str:
    items = [read(each, ContainerAnswer) for each in client.pages("/v1/containers", query, 2)]
    if len(items) != 1:
        how_many = "several containers are" if items else "no container is"
        raise CommandFailure(
            f"{how_many} the one of {job_id} that is meant",
            remedy=f"See 'longshore ps --job {job_id}' for their ids",
        )
    return items[0].id


def _misfit(sentence: str, remedy: str) -> CommandFailure:
    return CommandFailure(sentence, remedy=remedy, exit_code=USAGE)
