"""Which instances a per-instance job is for, and which of them take anything new; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from longshore.dispatcher.domain.containers import Constraints, WaitReason
from longshore.dispatcher.domain.feasibility import rejections
from longshore.dispatcher.domain.timefmt import moment
from longshore.dispatcher.scheduler.system.model import (
    Block,
    Closed,
    Host,
    JobReport,
    PerInstanceJob,
    Wait,
    WaitCause,
)
from longshore.drivers.interface import InstanceType
from longshore.pool.model import IdleBehavior

# ---- what keeps a per-instance job from an instance, as steps with their sentences ---------------


def next_round(job: PerInstanceJob, host: Host, attempt_id: str, until: float | None) -> Wait:
    """Return that an attempt is updated in a later round, at `until` at the soonest."""
    update = job.update
    message = f"it is updated in its turn, {update.max_parallel} at a time"
    message += f" and {update.stagger_s:g} s apart"
    message += f"; the next at {moment(until)}" if until is not None else ""
    return _wait(job, host, WaitCause.ROUND, message, until=until, attempt_id=attempt_id)


def restart_delayed(job: PerInstanceJob, host: Host, until: float) -> Wait:
    """Return that a job whose attempt ended is started again at `until`."""
    message = f"it is started again at {moment(until)}: its last attempt on {host.id} ended"
    return _wait(job, host, WaitCause.RESTART, message, until=until)


def room_coming(job: PerInstanceJob, host: Host, attempt_id: str) -> Wait:
    """Return that there is room once all has ended that is being ended."""
    message = f"it waits for room on {host.id}, where others are being ended"
    return _wait(job, host, WaitCause.ROOM, message, attempt_id=attempt_id)


def no_room(job: PerInstanceJob, host: Host, attempt_id: str, lacking: tuple[str, ...]) -> Block:
    """Return that there is no room for a job, and that nobody makes way."""
    message = f"{host.id} is short of {_and(lacking)}, and nothing there makes way"
    reason = WaitReason(code="no_room", message=message)
    return _block(job, host, attempt_id, lacking, reason)


def too_small(job: PerInstanceJob, host: Host, attempt_id: str, lacking: tuple[str, ...]) -> Block:
    """Return that there is never room for a job, however empty the instance is."""
    message = f"{host.id}, a {host.type.name}, is too small in {_and(lacking)} even when empty"
    reason = WaitReason(code="too_small", message=message, is_final=True)
    return _block(job, host, attempt_id, lacking, reason)


def _wait(
    job: PerInstanceJob,
    host: Host,
    cause: WaitCause,
    message: str,
    *,
    until: float | None = None,
    attempt_id: str = "",
) -> Wait:
    return Wait(
        job_id=job.id,
        instance_id=host.id,
        cause=cause,
        reason=WaitReason(code=cause.value, message=message, until=until),
        until=until,
        attempt_id=attempt_id,
    )


def _block(
    job: PerInstanceJob,
    host: Host,
    attempt_id: str,
    lacking: tuple[str, ...],
    reason: WaitReason,
) -> Block:
    return Block(
        job_id=job.id,
        instance_id=host.id,
        short_of=lacking,
        reason=reason,
        attempt_id=attempt_id,
    )


def _and(names: tuple[str, ...]) -> str:
    return " and ".join(names)


# ---- which instances a per-instance job is for, and which of them take anything new --------------


class Matching:
    """Says which instances match which jobs; asks once for each job and type."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    def mismatch(self, job: PerInstanceJob, host: Host) -> str:
        """Return the first demand of a job that an instance does not meet, "" if it matches."""
        key = (job.id, host.type.name)
        found = self._known.get(key)
        if found is None:
            found = mismatch(host.type, job.spec.constraints)
            self._known[key] = found
        return found

    def report(self, job: PerInstanceJob, hosts: Sequence[Host]) -> JobReport:
        """Return how a job stands to all instances."""
        filtered: Counter[str] = Counter()
        closed_by: Counter[Closed] = Counter()
        for host in hosts:
            why_not = self.mismatch(job, host)
            cause = closed(job, host)
            if why_not:
                filtered[why_not] += 1
            elif cause is not None:
                closed_by[cause] += 1
        opened = len(hosts) - filtered.total() - closed_by.total()
        return JobReport(
            job_id=job.id,
            open=opened,
            filtered=tuple(sorted(filtered.items())),
            closed=tuple(sorted(closed_by.items(), key=lambda pair: pair[0].value)),
            reason=None if opened else _reason(len(hosts), filtered, closed_by),
        )


def mismatch(type_: InstanceType, constraints: Constraints) -> str:
    """Return the first demand that a type of instance does not meet, "" if it meets all.

    Room is another matter: a type that is too small matches, and the job is blocked there.
    """
    # Asked for just what there is, it is never too small.
    found = rejections(type_, type_.allocatable, constraints)
    return found[0] if found else ""


def closed(job: PerInstanceJob, host: Host) -> Closed | None:
    """Return why nothing new of a job is placed on a matching instance, None if it may be.

    What drains and has no batch work is closed even to a job that goes onto paused instances: its
    attempts are stopped there at last.
    """
    if host.going_away:
        return Closed.GOING_AWAY
    if host.behavior is IdleBehavior.HOLD and not job.on_paused:
        return Closed.HELD
    if host.behavior is IdleBehavior.DRAIN:
        lasts = host.has_batch_work or job.ignore_system
        if not (job.on_paused and lasts):
            return Closed.DRAINING
    if not host.ready:
        return Closed.NOT_READY
    if not job.late_joiners and host.joined_at > job.revised_at:
        return Closed.JOINED_LATER
    return None


def _reason(total: int, filtered: Counter[str], closed_by: Counter[Closed]) -> WaitReason:
    """Return why a job has no instance that would take it."""
    if not total:
        message = "there are no instances, and jobs that run on each of them create none"
        return WaitReason(code="no_instances", message=message)
    counts = _counts(filtered.items())
    if not closed_by:
        message = f"the job's demands filter every one of {total} instances: {counts}"
        return WaitReason(code="all_filtered", message=message)
    paused = _counts((cause.value, number) for cause, number in closed_by.items())
    message = f"nothing new is placed on any instance that matches: {paused}"
    message += f"; others do not match: {counts}" if counts else ""
    return WaitReason(code="all_closed", message=message)


def _counts(pairs: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{what} ({number})" for what, number in sorted(pairs))
