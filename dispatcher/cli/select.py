"""Which container of a job is meant: the only one, or the one that a task and an index choose."""

from __future__ import annotations

from longshore.dispatcher.cli.client import Client, Query
from longshore.dispatcher.cli.failure import USAGE, CommandFailure
from longshore.dispatcher.cli.ids import job_path
from longshore.dispatcher.cli.job_views import JobView, TaskView
from longshore.dispatcher.cli.views import ContainerView, view
from longshore.dispatcher.input.problems import did_you_mean, listing

NAMES_SHOWN = 5
LOOKED_AT = 50


def chosen_container(
    client: Client, job_id: str, task: str | None, index: int | None, instance: str | None
) -> str:
    """Return the id of one container of a job.

    Without `task`, `index` and `instance` that is its only one; of those that were on one instance
    it is the last. Raises `CommandFailure` when several or none are meant, with how to choose.
    """
    job = view(client.get(job_path(job_id)), JobView)
    if job.is_template:
        raise _misfit(
            f"{job.id} has no containers of its own",
            f"See 'longshore jobs --parent {job.id}' for its runs",
        )
    chosen = _task(job, task, index)
    if index is not None and not chosen.array:
        raise _misfit(f"{_named(job, chosen)} is no array", "Leave --index out")
    if job.is_per_instance:
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


def only_container(client: Client, job: JobView) -> str | None:
    """Return the id of a job's container when it has just one, else None."""
    if job.counts.total != 1:
        return None
    return _found(client, job.id, [("job", job.id)])


def _task(job: JobView, task: str | None, index: int | None) -> TaskView:
    names = [each.name for each in job.tasks]
    if task is not None:
        for each in job.tasks:
            if each.name == task:
                return each
        raise _misfit(f"{job.id} has no task {task!r}", did_you_mean(task, names).capitalize())
    if len(job.tasks) == 1:
        return job.tasks[0]
    arrays = [each for each in job.tasks if each.array]
    if index is not None and len(arrays) == 1:
        return arrays[0]
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    raise _misfit(
        f"{job.id} has {len(names)} tasks",
        f"Choose one with --task NAME: {listing(names[:NAMES_SHOWN])}{more}",
    )


def _index(job: JobView, task: TaskView, index: int | None) -> int:
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


def _there(client: Client, job: JobView, instance: str | None) -> str:
    """Return the id of a per-instance job's container on an instance, None for the only one."""
    query = [("job", job.id)]
    if instance is not None:
        query.append(("instance", instance))
    pages = client.pages("/v1/containers", query, 1 if instance is not None else LOOKED_AT)
    items = [view(each, ContainerView) for each in pages]
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


def _named(job: JobView, task: TaskView) -> str:
    return f"{job.id}/{task.name}" if task.name else job.id


def _found(client: Client, job_id: str, query: Query) -> str:
    items = [view(each, ContainerView) for each in client.pages("/v1/containers", query, 2)]
    if len(items) != 1:
        how_many = "several containers are" if items else "no container is"
        raise CommandFailure(
            f"{how_many} the one of {job_id} that is meant",
            remedy=f"See 'longshore ps --job {job_id}' for their ids",
        )
    return items[0].id


def _misfit(sentence: str, remedy: str) -> CommandFailure:
    return CommandFailure(sentence, remedy=remedy, exit_code=USAGE)
