"""What becomes of an elastic job when something happens to one of its members; pure.

The rules are the same for a job that has all of its members and for one that lacks some.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import assert_never

from longshore.dispatcher.domain.containers import Reason
from longshore.dispatcher.domain.jobs import TaskRole
from longshore.dispatcher.scheduler.elastic.model import ElasticJob, Member, MemberState, Part
from longshore.pool.backoff import doubled_s

AGAIN_FIRST_S = 1.0
AGAIN_MOST_S = 60.0
"""Delays before a job is tried again double from the first to the most."""

DEATHS_MOST_S = 3600.0
"""Delays before an elastic member is placed again double from that of a job up to this."""

RAN_WELL_S = 600.0
"""A member that ran for so long dies as if it were the first time."""


class MemberExitKind(Enum):
    """How a member ended: by itself, lost where it ran, as it was told to, or before it ran."""

    EXITED = "exited"
    LOST = "lost"
    STOPPED = "stopped"
    START_FAILED = "start_failed"
    START_REFUSED = "start_refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberExit:
    """The end of one member."""

    component: str
    index: int
    kind: MemberExitKind
    #: That of a program that exited.
    exit_code: int = 0
    #: What was wrong, in words: of what was lost, of a start that failed for a cause that may pass,
    #: or that was refused for ever.
    why: str = ""
    #: How long it was seen to run.
    ran_s: float = 0.0


class MemberDecision(Enum):
    """What a job does after an event."""

    GOES_ON = "goes_on"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    QUEUED_AGAIN = "queued_again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A job after an event; `stops` are the members to be ended now, `reason` why it failed."""

    job: ElasticJob
    verdict: MemberDecision = MemberDecision.GOES_ON
    stops: tuple[Member, ...] = ()
    reason: Reason | None = None


def started(job: ElasticJob, component: str, index: int) -> ElasticJob:
    """Return a job one of whose members was seen to run; one that is stopping goes on doing so.

    Once all that is essential runs, earlier starts that failed count no more.
    """
    member = _member(job, component, index)
    if member.state is MemberState.PLACED:
        job = _with(job, replace(member, state=MemberState.RUNNING))
    if not job.failed_starts or not all(map(_has_run, _essentials(job))):
        return job
    return replace(job, failed_starts=0)


def ended(job: ElasticJob, end: MemberExit, now: float, *, most_losses: int) -> Transition:
    """Return what a job does after the end of one of its members.

    The end of a member that was told to stop, or that has no place any more (late news), is not
    counted against it. But an essential member that is refused for ever fails its job even if it
    was told to stop. An essential member that is lost has the job queued again, up to `most_losses`
    times; the next loss fails it.
    """
    component, member = next(
        part for part in job.all_members() if _is_it(part[1], end.component, end.index)
    )
    is_stopping = member.state is MemberState.STOPPING
    is_final = component.role is TaskRole.ESSENTIAL and end.kind is MemberExitKind.START_REFUSED
    if end.kind is MemberExitKind.STOPPED or (is_stopping and not is_final):
        return Transition(job=_with(job, _without_place(member)))
    if not (member.state.has_place or is_stopping):
        return Transition(job=job)
    if component.role is TaskRole.ELASTIC:
        return Transition(job=_with(job, _after_elastic(member, end, now)))
    return _after_essential(job, member, end, now, most_losses)


def may_start(job: ElasticJob) -> tuple[Member, ...]:
    """Return the members that have a place and whose turn to start it is, in the order listed.

    Essential ones start by `startup_order`: once all of lower order run. Elastic ones start once
    all essential ones do, those of lower order first.
    """
    todo = [part for part in job.all_members() if not _has_run(part)]
    essential = [part for part in todo if part[0].role is TaskRole.ESSENTIAL]
    candidates = essential or [part for part in todo if part[1].state is MemberState.PLACED]
    first = min((component.startup_order for component, _ in candidates), default=0)
    return tuple(
        member
        for component, member in candidates
        if component.startup_order == first and member.state is MemberState.PLACED
    )


# ---- essential members ---------------------------------------------------------------------------


def _after_essential(
    job: ElasticJob, member: Member, end: MemberExit, now: float, most_losses: int
) -> Transition:
    if end.kind is MemberExitKind.EXITED and end.exit_code == 0:
        return _finished(job, member)
    job = _with(job, _without_place(member))
    reason = _fatal(job, end, most_losses)
    if reason is not None:
        stopped, stops = _all_stopped(job)
        return Transition(job=stopped, verdict=MemberDecision.FAILED, stops=stops, reason=reason)
    if end.kind is MemberExitKind.LOST:
        job = replace(job, losses=job.losses + 1)
    return _queued_again(job, now)


def _fatal(job: ElasticJob, end: MemberExit, most_losses: int) -> Reason | None:
    """Return why a job fails after the end of an essential member, None for what may pass."""
    name = end.component
    match end.kind:
        case MemberExitKind.EXITED:
            why = f"essential {name} exited with {end.exit_code}"
            return Reason(code="essential_failed", message=why)
        case MemberExitKind.START_REFUSED:
            why = f"essential {name} cannot be started: {end.why}"
            return Reason(code="essential_not_started", message=why)
        case MemberExitKind.LOST if job.losses >= most_losses:
            how = f" ({end.why})" if end.why else ""
            why = f"essential {name} was lost{how}; lost {job.losses} times before"
            return Reason(code="essential_lost", message=why)
        case MemberExitKind.LOST | MemberExitKind.START_FAILED | MemberExitKind.STOPPED:
            return None
        case unknown:
            assert_never(unknown)


def _finished(job: ElasticJob, member: Member) -> Transition:
    job = _with(job, replace(member, state=MemberState.FINISHED, instance_id=""))
    if not all(each.state.is_over for _, each in _essentials(job)):
        return Transition(job=job)
    stopped, stops = _all_stopped(job)
    return Transition(job=stopped, verdict=MemberDecision.SUCCEEDED, stops=stops)


def _queued_again(job: ElasticJob, now: float) -> Transition:
    """Stop what runs of a job, and let it wait and begin anew, later each time."""
    stopped, stops = _all_stopped(job)
    job = replace(
        stopped,
        members=tuple(
            _without_place(member) if member.state is MemberState.FINISHED else member
            for member in stopped.members
        ),
        began_at=None,
        progress=0.0,
        not_before=now + doubled_s(AGAIN_FIRST_S, job.failed_starts, AGAIN_MOST_S),
        failed_starts=job.failed_starts + 1,
        renewals=job.renewals + 1,
    )
    return Transition(job=job, verdict=MemberDecision.QUEUED_AGAIN, stops=stops)


def _all_stopped(job: ElasticJob) -> tuple[ElasticJob, tuple[Member, ...]]:
    """Return a job all of whose members are stopping that had a place, and these, as listed."""
    stops = tuple(member for _, member in job.all_members() if member.state.has_place)
    for member in stops:
        job = _with(job, replace(member, state=MemberState.STOPPING))
    return job, stops


# ---- elastic members -----------------------------------------------------------------------------


def _after_elastic(member: Member, end: MemberExit, now: float) -> Member:
    """Return an elastic member after its end: it is placed again, the first time at once."""
    if end.kind is MemberExitKind.EXITED and end.exit_code == 0:
        return replace(member, state=MemberState.FINISHED, instance_id="")
    deaths = deaths_after(member.deaths, end.ran_s)
    return replace(_without_place(member), deaths=deaths, not_before=now + delay_s(deaths))


def deaths_after(deaths: int, ran_s: float) -> int:
    """Return how often a member has died in a row, with a death after some time that it ran."""
    return 1 if ran_s >= RAN_WELL_S else deaths + 1


def delay_s(deaths: int) -> float:
    """Return how long a member waits after so many deaths in a row."""
    return doubled_s(AGAIN_FIRST_S, deaths - 2, DEATHS_MOST_S) if deaths > 1 else 0.0


# ---- members -------------------------------------------------------------------------------------


def _essentials(job: ElasticJob) -> list[Part]:
    return [part for part in job.all_members() if part[0].role is TaskRole.ESSENTIAL]


def _has_run(part: Part) -> bool:
    return part[1].state is MemberState.RUNNING or part[1].state.is_over


def _is_it(member: Member, component: str, index: int) -> bool:
    return (member.component, member.index) == (component, index)


def _member(job: ElasticJob, component: str, index: int) -> Member:
    return next(m for _, m in job.all_members() if _is_it(m, component, index))


def _with(job: ElasticJob, member: Member) -> ElasticJob:
    others = tuple(m for m in job.members if not _is_it(m, member.component, member.index))
    return replace(job, members=(*others, member))


def _without_place(member: Member) -> Member:
    return replace(member, state=MemberState.WAITING, instance_id="")
