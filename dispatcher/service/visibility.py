"""What a caller is shown of what there is, and whether it may change it.

Whatever is not in one of its projects is not there for it, in the same words as what never was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from longshore.dispatcher.domain.containers import Container, Reason, WaitReason
from longshore.dispatcher.domain.jobs import Job
from longshore.dispatcher.domain.principals import Principal
from longshore.dispatcher.explain.explanation import Explanation
from longshore.dispatcher.service.contracts import Forbidden, NotFound
from longshore.dispatcher.service.dry_run_model import JobPlan, PlannedStep
from longshore.drivers.errors import InvalidRequest

_OTHERS = re.compile(r"\b(behind|for) ([cj]-[0-9a-z]+)")
_ATTEMPTS = re.compile(r"\b([cj]-[0-9a-z]+)-\d+\b")
_PROBLEMS_TOLD = 100
_SOMEBODY = "what is another project's"


def expect_visible(found: Container | Job, caller: Principal) -> None:
    """Raise `NotFound` for what is not there for a caller."""
    if not caller.sees(found.project):
        kind = "job" if isinstance(found, Job) else "container"
        raise NotFound(f"there is no {kind} {found.id}")


def expect_own(found: Container | Job, caller: Principal) -> None:
    """Raise `NotFound` as `expect_visible` does, `Forbidden` for what a caller may not change."""
    expect_visible(found, caller)
    if not caller.acts_on(project=found.project, user=found.user):
        raise Forbidden(
            f"{found.id} is {found.user}'s: that user, a lead of project {found.project}, "
            f"or an admin may do this."
        )


def expect_projects(named: Iterable[tuple[str, str]], caller: Principal) -> None:
    """Raise `InvalidRequest` where a caller names projects, by their paths, that are not its own.

    The sentence is the same whether there is such a project or not.
    """
    problems = [(path, _not_yours(caller)) for path, each in named if not caller.sees(each)]
    if problems:
        raise InvalidRequest(problems[:_PROBLEMS_TOLD])


def _not_yours(caller: Principal) -> str:
    match len(caller.projects):
        case 0:
            return "is none of yours: you have no project yet, ask an admin for one"
        case 1:
            return f"is none of yours: leave it out, or say {caller.projects[0]}"
        case _:
            return f"is none of yours: say one of {', '.join(caller.projects)}"


def seen_projects(caller: Principal) -> tuple[str, ...] | None:
    """Return the projects to which a listing for a caller is limited, None for all."""
    return None if caller.is_admin else caller.projects


ProjectOf = Callable[[str], str]
"""Tells the project of a container or job by its id, "" where nobody knows it any more."""


def shown_container(container: Container, caller: Principal, project_of: ProjectOf) -> Container:
    """Return a container without the ids of what its attempts made way for, if that is unseen."""
    reasons = (container.reason, *(each.reason for each in container.attempts))
    if caller.is_admin or not any(reasons):
        return container
    attempts = tuple(
        replace(each, reason=_shown(each.reason, caller, project_of)) for each in container.attempts
    )
    return replace(
        container, attempts=attempts, reason=_shown(container.reason, caller, project_of)
    )


def shown_job(job: Job, caller: Principal, project_of: ProjectOf) -> Job:
    """Return a job without the ids in the reason for its end of what a caller does not see."""
    reason = _shown(job.reason, caller, project_of)
    return job if reason == job.reason else replace(job, reason=reason)


def shown_plan(plan: JobPlan, caller: Principal, project_of: ProjectOf) -> JobPlan:
    """Return a plan without the ids of containers and jobs that a caller does not see."""
    if caller.is_admin:
        return plan
    waiting = (shown_reason(each, caller, project_of) for each in plan.waiting)
    steps = (replace(each, detail=_detail(each, caller, project_of)) for each in plan.steps)
    return replace(
        plan, waiting=tuple(each for each in waiting if each is not None), steps=tuple(steps)
    )


def _detail(step: PlannedStep, caller: Principal, project_of: ProjectOf) -> str:
    def shown(match: re.Match[str]) -> str:
        seen = _may_name(match.group(1), caller, project_of)
        return match.group(0) if seen else "an attempt of another project"

    if step.action == "preempt":
        return _ATTEMPTS.sub(shown, step.detail)
    return shown_sentence(step.detail, caller, project_of)


def _shown(reason: Reason | None, caller: Principal, project_of: ProjectOf) -> Reason | None:
    if reason is None:
        return None
    return replace(reason, message=shown_sentence(reason.message, caller, project_of))


def shown_reason(
    reason: WaitReason | None, caller: Principal, project_of: ProjectOf
) -> WaitReason | None:
    """Return a wait reason without the id of a container that a caller does not see."""
    if reason is None or not reason.behind or _may_name(reason.behind, caller, project_of):
        return reason
    return replace(reason, message=shown_sentence(reason.message, caller, project_of), behind="")


def shown_explanation(found: Explanation, caller: Principal, project_of: ProjectOf) -> Explanation:
    """Return an explanation without the ids of containers that a caller does not see."""
    if caller.is_admin:
        return found
    waiting = found.waiting
    if waiting is not None:
        reason = shown_reason(waiting.reason, caller, project_of)
        waiting = replace(waiting, reason=reason)
    history = tuple(
        replace(each, message=shown_sentence(each.message, caller, project_of))
        for each in found.history
    )
    sentence = shown_sentence(found.sentence, caller, project_of)
    container = shown_container(found.container, caller, project_of)
    return replace(found, container=container, sentence=sentence, waiting=waiting, history=history)


def shown_sentence(sentence: str, caller: Principal, project_of: ProjectOf) -> str:
    """Return a sentence without the ids of containers and jobs that a caller does not see."""
    if caller.is_admin:
        return sentence

    def shown(match: re.Match[str]) -> str:
        seen = _may_name(match.group(2), caller, project_of)
        return match.group(0) if seen else f"{match.group(1)} {_SOMEBODY}"

    return _OTHERS.sub(shown, sentence)


def _may_name(thing_id: str, caller: Principal, project_of: ProjectOf) -> bool:
    """Return whether a sentence for a caller may name a container or job.

    Inside a container none may: of most of those that it waits behind it must not even know.
    """
    return not caller.container_id and caller.sees(project_of(thing_id))
