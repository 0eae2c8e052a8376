"""From the body of a job's submission to a validated job; all problems of all tasks at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from longshore.dispatcher.api.schemas.jobs import (
    ArrayRequest,
    JobRequest,
    ParameterizedRequest,
    PeriodicRequest,
    TaskRequest,
)
from longshore.dispatcher.api.validate.containers import (
    ContainerChecks,
    check_project,
    check_text,
    decode_what_can_be,
    program_instead,
)
from longshore.dispatcher.api.validate.job_tasks import GivenTask, check_tasks
from longshore.dispatcher.api.validate.limits import ApiLimits, Defaults
from longshore.dispatcher.api.validate.specification import Seal, specification
from longshore.dispatcher.api.validate.submissions import fingerprint_in
from longshore.dispatcher.domain import schedules
from longshore.dispatcher.domain.jobs import (
    VALUES_MOST_BYTES,
    ElasticMode,
    ElasticTerms,
    JobTask,
    JobType,
    JobTypeSpec,
    Overlap,
    Parameters,
    PerInstanceTerms,
    Schedule,
    TaskRole,
    UpdateStrategy,
    check_names,
    check_values,
)
from longshore.dispatcher.input.problems import (
    Problems,
    ProblemsFull,
    described,
    element,
    member,
    quoted,
)
from longshore.dispatcher.input.validation import parse_json
from longshore.dispatcher.scheduler.elastic.apply import (
    HOSTS_MOST_BYTES,
    MEMBERS_MOST,
    hosts_variable,
)
from longshore.dispatcher.service.contracts import NewJob
from longshore.drivers.errors import InvalidRequest

# ---- what a job says beside its tasks, checked, and as it is stored ------------------------------

EXPRESSIONS_MOST = 20
_DAILY = "30 2 * * *"
_EXAMPLE = 'write it as "30 2 * * MON-FRI", which is half past two on each of these days'


def check_terms(head: JobRequest, problems: Problems) -> None:
    """Add what is wrong with a job's schedule and its parameters."""
    if head.periodic is not None:
        _check_schedule(head.periodic, "periodic", problems)
    if head.parameterized is not None:
        _check_parameters(head.parameterized, "parameterized", problems)
    if head.periodic is not None and head.parameterized is not None:
        problems.add(
            "parameterized",
            "is not for periodic jobs, to whose runs nobody gives a value: leave out one of them",
        )


def terms(head: JobRequest) -> JobTypeSpec:
    """Return what a job says that was found to be sound."""
    parameters = None if head.parameterized is None else _parameters(head.parameterized)
    kind = JobType(head.type)
    return JobTypeSpec(
        per_instance=_per_instance(head) if kind.is_per_instance else None,
        elastic=_elastic(head) if kind is JobType.ELASTIC else None,
        schedule=None if head.periodic is None else _schedule(head.periodic),
        parameters=parameters,
    )


def _check_schedule(request: PeriodicRequest, path: str, problems: Problems) -> None:
    given, place = _expressions(request), f"{path}.cron"
    if not 1 <= len(given) <= EXPRESSIONS_MOST:
        problems.add(place, f"has {len(given)} entries: give 1 to {EXPRESSIONS_MOST}")
    for index, expression in enumerate(given[:EXPRESSIONS_MOST]):
        if wrong := schedules.check((expression,), "UTC"):
            where = place if isinstance(request.cron, str) else element(place, index)
            problems.add(where, f"{wrong}: {_EXAMPLE}")
    if wrong := schedules.check((_DAILY,), request.time_zone):
        problems.add(f"{path}.time_zone", wrong)


def _expressions(request: PeriodicRequest) -> Sequence[str]:
    return [request.cron] if isinstance(request.cron, str) else request.cron


def _schedule(request: PeriodicRequest) -> Schedule:
    return Schedule(
        cron=tuple(_expressions(request)),
        time_zone=request.time_zone,
        overlap=Overlap(request.overlap),
    )


def _check_parameters(request: ParameterizedRequest, path: str, problems: Problems) -> None:
    required, optional = f"{path}.required", f"{path}.optional"
    if not request.required and not request.optional:
        problems.add(path, "names no parameter: give required ones, optional ones, or both")
    check_names(
        [
            *((element(required, index), name) for index, name in enumerate(request.required)),
            *((member(optional, name), name) for name in request.optional),
        ],
        path,
        problems,
    )
    check_values(request.optional, optional, problems)


def _per_instance(head: JobRequest) -> PerInstanceTerms:
    return PerInstanceTerms(
        update=UpdateStrategy(
            max_parallel=head.update.max_parallel, stagger_s=head.update.stagger_s
        ),
        late_joiners=head.late_joiners,
        on_paused=head.on_paused,
        ignore_system=head.ignore_system,
    )


def _elastic(head: JobRequest) -> ElasticTerms:
    return ElasticTerms(
        mode=ElasticMode(head.mode),
        size=head.size,
        runtime_s=head.runtime_s,
        scale_up=head.scale_up,
    )


def _parameters(request: ParameterizedRequest) -> Parameters:
    return Parameters(
        required=tuple(sorted(request.required)), optional=tuple(sorted(request.optional.items()))
    )


# ---- what a job may say of which type: keys that are not for its type, each told with a remedy ---

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
    if roles and all(role == TaskRole.ELASTIC.value for role in roles):
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


# ---- from the body of a job's submission to a validated job; all problems of all tasks at once ---

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

    `now` gives seconds since the epoch, or None where nobody knows them; `seal` encrypts the secret
    values of variables.
    """

    def __init__(
        self,
        *,
        limits: ApiLimits,
        defaults: Defaults,
        instance_type_names: Collection[str],
        now: Callable[[], float | None] = lambda: None,
        seal: Seal,
    ) -> None:
        self._limits = limits
        self._seal = seal
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
        job = self.job(value, project=project)
        return JobSubmission(job=job, fingerprint=fingerprint_in(project, value, self._defaults))

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
            type=JobType(head.type),
            priority=defaults.priority if head.priority is None else head.priority,
            project=project if head.project is None else head.project,
            labels=tuple(sorted(head.labels.items())),
            tasks=tuple(_job_task(task, head, defaults, self._seal) for task in tasks),
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


def _job_task(request: TaskRequest, head: JobRequest, defaults: Defaults, seal: Seal) -> JobTask:
    spec = specification(request, defaults, seal)
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
        size=0 if JobType(head.type).is_per_instance else size,
        is_array=request.array is not None,
        max_running=most,
        role=TaskRole(request.role),
        startup_order=request.startup_order,
    )
