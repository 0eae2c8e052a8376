"""What a job may say of which type: keys that are not for its type, each told with a remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from longshore.dispatcher.api.job_tasks import GivenTask
from longshore.dispatcher.api.job_wire import ArrayRequest
from longshore.dispatcher.domain.jobs import JobType, Role
from longshore.dispatcher.input.problems import Problems, member, quoted
from longshore.dispatcher.scheduler.elastic.apply import MEMBERS_MOST, hosts_variable

_PER_INSTANCE = (JobType.SYSTEM, JobType.SYSBATCH)
_AGAIN_AND_AGAIN = (JobType.BATCH, JobType.SYSBATCH)
_ELASTIC = (JobType.ELASTIC,)

_OF_A_JOB: Mapping[str, Sequence[JobType]] = {
    "update": _PER_INSTANCE,
    "late_joiners": _PER_INSTANCE,
    "on_paused": _PER_INSTANCE,
    "ignore_system": _PER_INSTANCE,
    "mode": _ELASTIC,
    "size": _ELASTIC,
    "runtime_s": _ELASTIC,
    "scale_up": _ELASTIC,
    "periodic": _AGAIN_AND_AGAIN,
    "parameterized": _AGAIN_AND_AGAIN,
}
_OF_A_TASK: Mapping[str, Sequence[JobType]] = {"role": _ELASTIC, "startup_order": _ELASTIC}

_EACH_HAS_ONE = "is not for {} jobs, which have one container on each instance: leave it out"
_WAIT_FOR_INSTANCES = (
    "is not for {} jobs, whose containers come with the instances and wait for nothing else:"
    " leave it out"
)
_REFUSED: Mapping[JobType, Mapping[str, str]] = {
    JobType.SYSTEM: {
        "array": _EACH_HAS_ONE,
        "after": _WAIT_FOR_INSTANCES,
        "not_before": _WAIT_FOR_INSTANCES + ", or hold the job and release it then",
        "time_limit_s": "is not for {} jobs, which run for ever: leave it out, or say type:"
        " sysbatch",
    },
    JobType.SYSBATCH: {
        "array": _EACH_HAS_ONE,
        "after": _WAIT_FOR_INSTANCES,
        "not_before": _WAIT_FOR_INSTANCES + ", or hold the job and release it then",
    },
    JobType.ELASTIC: {
        "after": "is not for {} jobs, whose components run side by side: leave it out, or say by"
        " startup_order which start first",
        "not_before": "is not for {} jobs, whose components start together: leave it out, or hold"
        " the job and release it then",
        "retries": "is not for {} jobs, which an essential component ends that fails, and where an"
        " elastic one is placed again: leave it out",
    },
}


_NOTHING: Sequence[object] = (None, [], {})
"""What a task may say of anything: that there is none of it."""


def without_misfits(value: Mapping[str, Any], kind: JobType, problems: Problems) -> dict[str, Any]:
    """Return what a job says beside its tasks without the keys of other types, which it adds."""
    return _fitting(value, kind, _OF_A_JOB, "", problems)


def task_without_misfits(
    value: Mapping[str, Any], kind: JobType, path: str, problems: Problems
) -> dict[str, Any]:
    """Return what a task says without what is not for jobs of its type, which it adds."""
    fitting = _fitting(value, kind, _OF_A_TASK, path, problems)
    for key, sentence in _REFUSED.get(kind, {}).items():
        if fitting.get(key) not in _NOTHING:
            problems.add(member(path, key), sentence.format(kind.value))
            del fitting[key]
    return fitting


def _fitting(
    value: Mapping[str, Any],
    kind: JobType,
    known: Mapping[str, Sequence[JobType]],
    path: str,
    problems: Problems,
) -> dict[str, Any]:
    # Whoever says null says nothing.
    misfits = [k for k, types in known.items() if value.get(k) is not None and kind not in types]
    for key in misfits:
        types = [each.value for each in known[key]]
        problems.add(
            member(path, key),
            f"is for {' and '.join(types)} jobs: leave it out, or say type: {' or '.join(types)}",
        )
    return {key: child for key, child in value.items() if key not in misfits}


def check_kind(kind: JobType, tasks: Sequence[GivenTask], problems: Problems) -> None:
    """Add what is wrong with the tasks of a job together because it is of this type."""
    if kind.is_per_instance and len(tasks) > 1:
        problems.add(
            "tasks",
            f"has {len(tasks)} entries: a {kind.value} job has one task, so submit several jobs",
        )
    if kind is JobType.ELASTIC:
        _check_components(tasks, problems)


def _check_components(tasks: Sequence[GivenTask], problems: Problems) -> None:
    for task in tasks:
        array = None if task.request is None else task.request.array
        if isinstance(array, ArrayRequest) and array.max_running is not None:
            problems.add(
                f"{task.path}.array.max_running",
                "is not for elastic jobs, of which all runs that fits: leave it out",
            )
    members = sum(task.array_size or 1 for task in tasks)
    if members > MEMBERS_MOST:
        problems.add(
            "tasks",
            f"are {members} containers in all: an elastic job has at most {MEMBERS_MOST}, which"
            " know each other's hosts; submit several",
        )
    _check_variables(tasks, problems)
    roles = [None if task.request is None else task.request.role for task in tasks]
    if roles and all(role is Role.ELASTIC for role in roles):
        problems.add(
            "tasks", "are all elastic: a job needs an essential one, say role: essential in one"
        )


def _check_variables(tasks: Sequence[GivenTask], problems: Problems) -> None:
    """Add which components would be told of in the same variable as others."""
    first: dict[str, GivenTask] = {}
    for task in tasks:
        other = first.setdefault(hosts_variable(task.name or ""), task)
        # Equal names are told of as such, and so are those that are none.
        if task.name and other.name and task.name != other.name:
            problems.add(
                f"{task.path}.name",
                f"{quoted(task.name)} would be {hosts_variable(task.name)}, as that of"
                f" {other.path} is: change one",
            )


def type_named(value: object) -> JobType | None:
    """Return the type that a job's body names, batch where none, None where that is no type."""
    named = value.get("type", JobType.BATCH.value) if isinstance(value, dict) else None
    return next((kind for kind in JobType if kind.value == named), None)
