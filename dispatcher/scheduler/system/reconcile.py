"""What becomes of one live attempt of a per-instance job: the first rule that matches; pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from longshore.dispatcher.domain.containers import ContainerSpec
from longshore.dispatcher.domain.feasibility import need
from longshore.dispatcher.scheduler.system.model import (
    Host,
    Ignore,
    IgnoreCause,
    LiveAttempt,
    MarkLost,
    PerInstanceJob,
    RemovalCause,
    Step,
    Stop,
    UpdateInPlace,
)
from longshore.drivers.interface import InstanceType
from longshore.pool.model import IdleBehavior

IN_PLACE = frozenset(
    {
        "name",
        "constraints",
        "labels",
        "retries",
        "retry_lost",
        "supervisor",
        "after",
        "not_before",
        "time_limit_s",
        "grace_period_s",
    }
)
"""The fields of a specification that only the dispatcher goes by.

An attempt is restarted for all others, so that no new field is forgotten: a restart too many is
seen, and one that lacks leaves an attempt as nobody asks for it any more.
"""


# ---- what changed --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The fields that differ between two specifications, each in the order of `ContainerSpec`."""

    restart: tuple[str, ...]
    in_place: tuple[str, ...]


def changes(old: ContainerSpec, new: ContainerSpec, on: InstanceType | None = None) -> Changes:
    """Return which fields differ, apart by whether an attempt must be restarted for them.

    On a given type, resources that come to the same there (by its defaults) need no restart.
    """
    differing = [f.name for f in fields(old) if getattr(old, f.name) != getattr(new, f.name)]
    light = set(IN_PLACE)
    if on is not None and _need(old, on) == _need(new, on):
        light |= {"resources", "unnamed"}
    return Changes(
        restart=tuple(name for name in differing if name not in light),
        in_place=tuple(name for name in differing if name in light),
    )


def _need(spec: ContainerSpec, on: InstanceType) -> object:
    return need(on, spec.resources, spec.unnamed)


# ---- the rules -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MustRestart:
    """An attempt whose job changed so that it must be stopped and placed anew, in its turn."""

    attempt: LiveAttempt
    fields: tuple[str, ...]


Verdict = Step | MustRestart


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A live attempt with its job and instance, and why that does not match, "" if it does."""

    attempt: LiveAttempt
    job: PerInstanceJob
    host: Host
    mismatch: str

    def stop(self, cause: RemovalCause, *, mismatch: str = "") -> Stop:
        return stopped(self.attempt, cause, mismatch=mismatch)

    def ignore(self, cause: IgnoreCause) -> Ignore:
        return ignored(self.attempt, cause)


def judge(attempt: LiveAttempt, job: PerInstanceJob, host: Host | None, mismatch: str) -> Verdict:
    """Return what is to be done with a live attempt: the first rule that matches decides.

    `host` is None where the instance is gone; `mismatch` is why it is none that the job asks for,
    "" if it is.
    """
    if host is None or attempt.is_ending or job.stopped:
        return unwanted(attempt, host, RemovalCause.JOB_STOPPED)
    case = _Case(attempt=attempt, job=job, host=host, mismatch=mismatch)
    for rule in _RULES:
        verdict = rule(case)
        if verdict is not None:
            return verdict
    return case.ignore(IgnoreCause.UP_TO_DATE)


def unwanted(attempt: LiveAttempt, host: Host | None, cause: RemovalCause) -> Step:
    """Return what is to be done with a live attempt that has no place in any job."""
    if host is None:
        return MarkLost(
            job_id=attempt.job_id, instance_id=attempt.instance_id, attempt_id=attempt.id
        )
    if attempt.is_ending:
        return ignored(attempt, IgnoreCause.ENDING)
    return stopped(attempt, cause)


def _held(case: _Case) -> Verdict | None:
    """Leave what is on a held instance alone, or stop it: a hold is no time for an update."""
    if case.host.behavior is not IdleBehavior.HOLD or case.job.on_paused:
        return None
    if case.attempt.revision == case.job.revision:
        return case.ignore(IgnoreCause.HELD)
    return case.stop(RemovalCause.REVISED_WHILE_HELD)


def _no_match(case: _Case) -> Verdict | None:
    if not case.mismatch:
        return None
    return case.stop(RemovalCause.NO_MATCH, mismatch=case.mismatch)


def _draining(case: _Case) -> Verdict | None:
    """Stop what is on a draining instance once the batch work has gone, and not before."""
    if case.host.behavior is not IdleBehavior.DRAIN:
        return None
    if not case.host.has_batch_work and not case.job.ignore_system:
        return case.stop(RemovalCause.NODE_DRAINING)
    return None if case.job.on_paused else case.ignore(IgnoreCause.DRAINING)


def _going_away(case: _Case) -> Verdict | None:
    return case.ignore(IgnoreCause.GOING_AWAY) if case.host.going_away else None


def _revised(case: _Case) -> Verdict | None:
    attempt, job, host = case.attempt, case.job, case.host
    if attempt.revision == job.revision:
        return None
    changed = changes(attempt.spec, job.spec, host.type)
    if not changed.restart:
        return UpdateInPlace(
            job_id=job.id,
            instance_id=host.id,
            attempt_id=attempt.id,
            fields=changed.in_place,
        )
    if not host.ready:
        return case.ignore(IgnoreCause.NOT_READY)
    return MustRestart(attempt=attempt, fields=changed.restart)


_RULES: tuple[Callable[[_Case], Verdict | None], ...] = (
    _held,
    _no_match,
    _draining,
    _going_away,
    _revised,
)


def stopped(attempt: LiveAttempt, cause: RemovalCause, *, mismatch: str = "") -> Stop:
    """Return the step that ends an attempt for good."""
    return Stop(
        job_id=attempt.job_id,
        instance_id=attempt.instance_id,
        attempt_id=attempt.id,
        cause=cause,
        mismatch=mismatch,
    )


def ignored(attempt: LiveAttempt, cause: IgnoreCause) -> Ignore:
    """Return the step that leaves an attempt as it is."""
    return Ignore(
        job_id=attempt.job_id,
        instance_id=attempt.instance_id,
        attempt_id=attempt.id,
        cause=cause,
    )
