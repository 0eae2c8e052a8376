"""From the body of a job's submission to a validated job; all problems of all tasks at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from longshore.dispatcher.api.container_checks import (
    ContainerChecks,
    check_project,
    check_text,
    decode_what_can_be,
    program_instead,
)
from longshore.dispatcher.api.job_kinds import (
    check_kind,
    task_without_misfits,
    type_named,
    without_misfits,
)
from longshore.dispatcher.api.job_tasks import GivenTask, check_tasks
from longshore.dispatcher.api.job_terms import check_terms, terms
from longshore.dispatcher.api.job_wire import ArrayRequest, JobRequest, TaskRequest
from longshore.dispatcher.api.limits import ApiLimits, Defaults
from longshore.dispatcher.api.requests import fingerprint
from longshore.dispatcher.api.specification import specification
from longshore.dispatcher.domain.jobs import VALUES_MOST_BYTES, JobTask, JobType
from longshore.dispatcher.input.problems import Problems, ProblemsFull, described, element, member
from longshore.dispatcher.input.validation import parse_json
from longshore.dispatcher.scheduler.elastic.apply import HOSTS_MOST_BYTES
from longshore.dispatcher.service.contracts import NewJob
from longshore.drivers.errors import InvalidRequest

_OF_THE_JOB = (
    *("priority", "project", "type", "update", "periodic", "parameterized", "mode", "scale_up"),
    *("late_joiners", "on_paused", "ignore_system", "runtime_s"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmission:
    """A validated body; `fingerprint` tells what it meant."""

    job: NewJob
    fingerprint: str


class JobDecoder:
    """Decodes jobs under given limits, defaults and instance type names; has no state.

    `now` gives seconds since the epoch, or None where nobody knows them.
    """

    def __init__(
        self,
        *,
        limits: ApiLimits,
        defaults: Defaults,
        instance_type_names: Collection[str],
        now: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._limits = limits
        self._defaults = defaults
        self._checks = ContainerChecks(
            limits=limits, instance_type_names=instance_type_names, now=now
        )
        # Who is dispatched has parameters in the environment too, and a component all hosts.
        self._run_checks, self._component_checks = (
            ContainerChecks(
                limits=replace(
                    limits,
                    environment_bytes=limits.environment_bytes - ours_bytes,
                    order_bytes=limits.order_bytes - ours_bytes,
                ),
                instance_type_names=instance_type_names,
                now=now,
            )
            for ours_bytes in (VALUES_MOST_BYTES, HOSTS_MOST_BYTES)
        )

    def decode(self, body: bytes, *, project: str = "") -> JobSubmission:
        """Return what a body asks for; raises `InvalidRequest`. May be called in any thread.

        `project` is that of a job which names none, "" for the default one.
        """
        value = parse_json(body)
        return JobSubmission(job=self.job(value, project=project), fingerprint=fingerprint(value))

    def job(self, value: Any, *, project: str = "") -> NewJob:
        """Return the job that `value`, as a parser of JSON gave it, asks for.

        Raises `InvalidRequest` with the problems of the whole. May be called in any thread.
        """
        problems = Problems()
        try:
            kind = type_named(value)
            head = self._head(value, kind, problems)
            items = value.get("tasks") if isinstance(value, dict) else None
            given = self._tasks(items, kind, self._checks_for(head, kind), problems)
            check_tasks(given, self._limits, problems)
            if kind is not None:
                check_kind(kind, given, problems)
        except ProblemsFull:
            raise InvalidRequest(problems.listed()) from None
        if problems or head is None:
            raise InvalidRequest(problems.listed())
        requests = [each.request for each in given if each.request is not None]
        return self._new_job(head, requests, project or self._defaults.project)

    def _head(self, value: Any, kind: JobType | None, problems: Problems) -> JobRequest | None:
        """Return all but the tasks, which are looked at one by one."""
        if isinstance(value, dict):
            value = dict(value) if kind is None else without_misfits(value, kind, problems)
            if isinstance(value.get("tasks"), list):
                value["tasks"] = []
        head = decode_what_can_be(JobRequest, value, "", problems, tasks=[])
        if head is not None:
            check_text(head.name, "name", problems)
            check_project(head.project, "project", problems)
            self._checks.check_labels(head.labels, "labels", problems)
            check_terms(head, problems)
        return head

    def _checks_for(self, head: JobRequest | None, kind: JobType | None) -> ContainerChecks:
        if kind is JobType.ELASTIC:
            return self._component_checks
        return self._run_checks if head is not None and _is_template(head) else self._checks

    def _tasks(
        self, items: Any, kind: JobType | None, checks: ContainerChecks, problems: Problems
    ) -> list[GivenTask]:
        if not isinstance(items, list):
            return []
        most = self._limits.job_tasks
        if not 1 <= len(items) <= most:
            what = f"has {len(items)} entries: a job has 1 to {most} tasks"
            problems.add("tasks", f"{what}; many that are alike are one, with an array")
            return []
        return [
            _task(element("tasks", index), item, kind, checks, problems)
            for index, item in enumerate(items)
        ]

    def _new_job(self, head: JobRequest, tasks: Sequence[TaskRequest], project: str) -> NewJob:
        defaults = self._defaults
        return NewJob(
            name=head.name,
            type=head.type,
            priority=defaults.priority if head.priority is None else head.priority,
            project=project if head.project is None else head.project,
            labels=tuple(sorted(head.labels.items())),
            tasks=tuple(_job_task(task, head, defaults) for task in tasks),
            terms=terms(head),
        )


def _is_template(head: JobRequest) -> bool:
    return head.periodic is not None or head.parameterized is not None


def _task(
    path: str, item: Any, kind: JobType | None, checks: ContainerChecks, problems: Problems
) -> GivenTask:
    if not isinstance(item, dict):
        problems.add(path, f"must be an object, not {described(item)}")
        return GivenTask(path=path, name=None, request=None, array_known=False)
    mistaken = [key for key in _OF_THE_JOB if key in item]
    for key in mistaken:
        problems.add(member(path, key), "is the whole job's: say it beside tasks, once")
    rest = {key: child for key, child in item.items() if key not in mistaken}
    if kind is not None:
        rest = task_without_misfits(rest, kind, path, problems)
    request = decode_what_can_be(TaskRequest, rest, path, problems, **program_instead(item))
    name, array = rest.get("name", ""), rest.get("array")
    if request is not None:
        checks.check(request, path, problems)
    return GivenTask(
        path=path,
        name=name if isinstance(name, str) else None,
        request=request,
        array_known=request is not None and (request.array is None) == (array is None),
    )


def _job_task(request: TaskRequest, head: JobRequest, defaults: Defaults) -> JobTask:
    spec = specification(request, defaults)
    match request.array:
        case None:
            size, most = 1, None
        case ArrayRequest():
            size, most = request.array.size, request.array.max_running
        case _:
            size, most = request.array, None
    return JobTask(
        name=request.name,
        # The containers of a task without a name are called as their job.
        spec=spec if spec.name else replace(spec, name=head.name),
        size=0 if head.type.is_per_instance else size,
        is_array=request.array is not None,
        max_running=most,
        role=request.role,
        startup_order=request.startup_order,
    )
