"""Which instances a per-instance job is for, and which of them take anything new; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from longshore.dispatcher.model import Constraints, WaitReason
from longshore.dispatcher.planner.fit import rejections
from longshore.dispatcher.planner.per_instance_model import Closed, Host, JobReport, PerInstanceJob
from longshore.drivers.interface import InstanceType
from longshore.pool.model import IdleBehavior


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
