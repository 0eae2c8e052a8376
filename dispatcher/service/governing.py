"""Where policies hold: every way in has one call here, which fills in or refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.domain.jobs import Job, JobTask, JobType
from longshore.dispatcher.domain.policies import Asked, Policies
from longshore.dispatcher.domain.principals import Principal
from longshore.dispatcher.service.contracts import NewContainer, NewJob
from longshore.drivers.errors import InvalidRequest

_TIMED = frozenset({JobType.BATCH, JobType.SYSBATCH})
_PROBLEMS_TOLD = 100


def govern_containers(
    policies: Policies, items: Sequence[NewContainer], caller: Principal
) -> list[NewContainer]:
    """Return containers as the policies have them; raises `InvalidRequest` by "[index]"."""
    governed, problems = [], []
    for number, item in enumerate(items):
        asked = Asked(path=f"[{number}].", spec=item.spec)
        found = policies.governed(
            [asked], caller=caller, project=item.project, priority=item.priority
        )
        problems += [
            (f"[{number}].priority" if path == "priority" else path, said)
            for path, said in found.problems
        ]
        governed.append(replace(item, spec=found.specs[0], priority=found.priority))
    if problems:
        raise InvalidRequest(problems[:_PROBLEMS_TOLD])
    return governed


def govern_job(policies: Policies, new: NewJob, caller: Principal) -> NewJob:
    """Return a job, or a revision of one, as the policies have it; raises `InvalidRequest`."""
    tasks, priority = _governed(policies, new, caller)
    return replace(new, tasks=tasks, priority=priority)


def govern_run(policies: Policies, template: Job, caller: Principal) -> Job:
    """Return a template as a caller may run it now; raises `InvalidRequest`.

    It may be older than a policy, or of somebody for whom others hold: what it leaves open is
    filled in as for a job that the caller submits.
    """
    tasks, priority = _governed(policies, template, caller)
    return replace(template, tasks=tasks, priority=priority)


def _governed(
    policies: Policies, job: NewJob | Job, caller: Principal
) -> tuple[tuple[JobTask, ...], int]:
    """Return the tasks and the priority that the policies give a job."""
    found = policies.governed(
        _asked(job.tasks, job.type), caller=caller, project=job.project, priority=job.priority
    )
    if found.problems:
        raise InvalidRequest(list(found.problems[:_PROBLEMS_TOLD]))
    specs = zip(job.tasks, found.specs, strict=True)
    return tuple(replace(task, spec=spec) for task, spec in specs), found.priority


def expect_allowed_priority(
    policies: Policies, of: Container | Job, priority: int, caller: Principal
) -> None:
    """Raise `InvalidRequest` where a caller may not give something there is a priority."""
    problems = policies.priority_problems(caller=caller, project=of.project, priority=priority)
    if problems:
        raise InvalidRequest(problems)


def _asked(tasks: Sequence[JobTask], type_: JobType) -> list[Asked]:
    return [
        Asked(
            path=f"tasks[{number}].",
            spec=task.spec,
            size=max(task.size, 1),
            is_timed=type_ in _TIMED,
        )
        for number, task in enumerate(tasks)
    ]
