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
    found = policies.governed(
        _asked(new.tasks, new.type), caller=caller, project=new.project, priority=new.priority
    )
    if found.problems:
        raise InvalidRequest(list(found.problems[:_PROBLEMS_TOLD]))
    specs = zip(new.tasks, found.specs, strict=True)
    tasks = tuple(replace(task, spec=spec) for task, spec in specs)
    return replace(new, tasks=tasks, priority=found.priority)


def expect_allowed_run(policies: Policies, template: Job, caller: Principal) -> None:
    """Raise `InvalidRequest` where a caller may not run what a template says, as it is by now."""
    found = policies.governed(
        _asked(template.tasks, template.type),
        caller=caller,
        project=template.project,
        priority=template.priority,
    )
    if found.problems:
        raise InvalidRequest(list(found.problems[:_PROBLEMS_TOLD]))


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
