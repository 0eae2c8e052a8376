"""What a job says beside its tasks, checked, and as it is stored."""

from __future__ import annotations

from collections.abc import Sequence

from longshore.dispatcher.api.job_wire import JobRequest, ParameterizedRequest, PeriodicRequest
from longshore.dispatcher.domain import schedules
from longshore.dispatcher.domain.jobs import (
    ElasticTerms,
    JobType,
    JobTypeSpec,
    Parameters,
    PerInstanceTerms,
    Schedule,
    UpdateStrategy,
    check_names,
    check_values,
)
from longshore.dispatcher.input.problems import Problems, element, member

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
    return JobTypeSpec(
        per_instance=_per_instance(head) if head.type.is_per_instance else None,
        elastic=_elastic(head) if head.type is JobType.ELASTIC else None,
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
        overlap=request.overlap,
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
        mode=head.mode, size=head.size, runtime_s=head.runtime_s, scale_up=head.scale_up
    )


def _parameters(request: ParameterizedRequest) -> Parameters:
    return Parameters(
        required=tuple(sorted(request.required)), optional=tuple(sorted(request.optional.items()))
    )
