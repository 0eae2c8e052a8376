"""Elastic jobs as the planner wants them, from what container table and store know; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from longshore.dispatcher.domain.containers import (
    INTERRUPTED,
    SUPERVISOR_LOST,
    Attempt,
    AttemptOutcome,
    Container,
    Reason,
    WaitReason,
)
from longshore.dispatcher.domain.jobs import ElasticMode, ElasticTerms, Job, JobState, TaskRole
from longshore.dispatcher.scheduler.elastic.lifecycle import deaths_after, delay_s
from longshore.dispatcher.scheduler.elastic.model import Component, ElasticJob, Member, MemberState
from longshore.dispatcher.state.job_registry import JobResult

Key = tuple[str, int]
"""A member of a job: the name of its component, and its number there."""

_DEATHS = frozenset({AttemptOutcome.FAILED, AttemptOutcome.LOST})


@dataclass(slots=True, kw_only=True)
class ElasticState:
    """An elastic job that has not ended."""

    job: ElasticJob
    #: Its containers, by member.
    ids: Mapping[Key, str]
    #: The members that are not to be started now, with what holds them back.
    barred: Mapping[Key, WaitReason] = field(default_factory=dict)
    #: Up to when its progress is counted.
    progressed_at: float = 0.0
    _index: dict[Key, Member] = field(default_factory=dict)
    _placed: tuple[Member, ...] = ()
    _indexed: ElasticJob | None = None

    def members(self) -> Mapping[Key, Member]:
        """Return the members of which there is something to say; not a copy."""
        if self._indexed is not self.job:
            self._index = {(m.component, m.index): m for m in self.job.members}
            self._placed = tuple(m for m in self.job.members if m.state is MemberState.PLACED)
            self._indexed = self.job
        return self._index

    def placed(self) -> tuple[Member, ...]:
        """Return the members that have a place, and have not been seen to run."""
        self.members()
        return self._placed

    def member(self, key: Key) -> Member:
        """Return a member."""
        return self.members().get(key) or Member(component=key[0], index=key[1])

    def put(self, members: Iterable[Member]) -> None:
        """Take in new values of some members."""
        new = {(m.component, m.index): m for m in members}
        others = tuple(m for key, m in self.members().items() if key not in new)
        self.job = replace(self.job, members=(*others, *new.values()))

    def roles(self) -> dict[str, Component]:
        """Return its components by name."""
        return {component.name: component for component in self.job.components}

    def is_essential(self, key: Key) -> bool:
        """Return whether its job needs a member."""
        return self.roles()[key[0]].role is TaskRole.ESSENTIAL

    def lacks_essential(self) -> bool:
        """Return whether a job has begun, and yet an essential member has no place any more."""
        return self.job.is_running and any(
            component.role is TaskRole.ESSENTIAL and member.state is MemberState.WAITING
            for component, member in self.job.all_members()
        )

    def lacks_of_rigid(self, unstarted: Collection[Member]) -> bool:
        """Return whether a rigid job has begun, no member of it started, and some lost their
        places.

        `unstarted` are the members with a place that are not started. Members that are held back
        need none.
        """
        if not self.job.is_running or self.job.mode is not ElasticMode.RIGID:
            return False
        others = [
            member
            for _, member in self.job.all_members()
            if member not in unstarted and member.state is not MemberState.GONE
        ]
        return all(member.state is MemberState.WAITING for member in others) and any(
            (member.component, member.index) not in self.barred for member in others
        )


def key_of(container: Container) -> Key:
    """Return which member of its job a container is."""
    return container.task, container.array_index or 0


def without_place(member: Member) -> Member:
    """Return a member that waits for a place."""
    return replace(member, state=MemberState.WAITING, instance_id="")


def gone(member: Member) -> Member:
    """Return a member whose container has ended for good, though its job may begin anew."""
    return replace(member, state=MemberState.GONE, instance_id="")


def as_planned(live: ElasticState, leaving: Collection[str]) -> ElasticJob | None:
    """Return a job as a pass is to see it, None for one that is not to begin now.

    Members that are held back count as gone: they want no place. Members of a running job whose
    containers are `leaving` count as stopping: their room counts as free already, and must not be
    given back twice.
    """
    held = [live.member(key) for key in sorted(live.barred)]
    held = [member for member in held if member.state is MemberState.WAITING]
    essential = any(live.is_essential((m.component, m.index)) for m in held)
    if essential and not live.job.is_running:
        return None
    going = [
        member
        for key, member in live.members().items()
        if live.job.is_running and member.state.has_place and live.ids.get(key) in leaving
    ]
    if not held and not going:
        return live.job
    seen = ElasticState(job=live.job, ids=live.ids)
    seen.put([gone(member) for member in held])
    seen.put([replace(member, state=MemberState.STOPPING) for member in going])
    return seen.job


# ---- from the store ------------------------------------------------------------------------------


def elastic_job(job: Job, containers: Mapping[Key, Container], now: float) -> ElasticJob:
    """Return a job as its unfinished containers make it, new or after a restart.

    It waits if anything essential lacks a place. Members without a container have ended for good.
    """
    terms = job.terms.elastic or ElasticTerms()
    components = tuple(
        Component(
            name=task.name,
            role=task.role,
            resources=task.spec.resources,
            count=task.size,
            startup_order=task.startup_order,
            constraints=task.spec.constraints,
            unnamed=task.spec.unnamed,
        )
        for task in job.tasks
    )
    blank = ElasticJob(
        id=job.id,
        sequence=job.sequence,
        submitted_at=job.created_at,
        components=components,
        mode=terms.mode,
        size=terms.size,
        runtime_s=terms.runtime_s,
        scale_up=terms.scale_up,
    )
    essential = {c.name for c in components if c.role is TaskRole.ESSENTIAL}
    needed = {key: each for key, each in containers.items() if key[0] in essential}
    renewals = _renewals(needed.values())
    members = []
    for component, member in blank.all_members():
        container = containers.get((component.name, member.index))
        if container is None:
            members.append(gone(member))
        elif container.attempts:
            elastic = component.role is TaskRole.ELASTIC
            members.append(_restored(member, container, renewals, now, may_die=elastic))
    return replace(
        blank,
        members=tuple(members),
        renewals=renewals,
        losses=_losses(needed.values()),
        began_at=_began_at(job, replace(blank, members=tuple(members)), containers),
    )


def _began_at(job: Job, elastic: ElasticJob, containers: Mapping[Key, Container]) -> float | None:
    states = [m.state for c, m in elastic.all_members() if c.role is TaskRole.ESSENTIAL]
    has_all = all(state.has_place or state.is_over for state in states)
    if not has_all or not any(state.has_place for state in states):
        return None
    if job.started_at is not None:
        return job.started_at
    return min(a.created_at for c in containers.values() for a in c.attempts)


def _restored(
    member: Member, container: Container, renewals: int, now: float, *, may_die: bool
) -> Member:
    last = container.attempts[-1]
    deaths = _deaths(container.attempts) if may_die else 0
    member = replace(member, deaths=deaths)
    if last.outcome is None:
        state = MemberState.PLACED if last.started_at is None else MemberState.RUNNING
        if last.intended_outcome is not None or container.cancel_requested:
            state = MemberState.STOPPING
        return replace(member, state=state, instance_id=last.instance_id)
    if last.outcome is AttemptOutcome.SUCCEEDED and last.revision == renewals:
        return replace(member, state=MemberState.FINISHED, instance_id="")
    if not _is_death(last) or deaths <= 1:
        return member
    return replace(member, not_before=min(_ended_at(last), now) + delay_s(deaths))


def _deaths(attempts: Iterable[Attempt]) -> int:
    """Return how often in a row a member has died, by its attempts."""
    deaths = 0
    for attempt in attempts:
        if _is_death(attempt):
            deaths = deaths_after(deaths, ran_s(attempt, _ended_at(attempt)))
    return deaths


def ran_s(attempt: Attempt, now: float) -> float:
    """Return how long an attempt that has ended was seen to run, 0 for one that never was."""
    ended_at = now if attempt.finished_at is None else attempt.finished_at
    return 0.0 if attempt.started_at is None else ended_at - attempt.started_at


def _renewals(needed: Iterable[Container]) -> int:
    """Return how often a job was queued again, by the attempts of its essential members.

    Each tells how often that was before it. Their times tell nothing: clocks are set.
    """
    attempts = [attempt for container in needed for attempt in container.attempts]
    known = max((attempt.revision for attempt in attempts), default=0)
    lost = any(_is_passing(attempt) for attempt in attempts if attempt.revision == known)
    return known + lost


def _losses(needed: Iterable[Container]) -> int:
    """Return how often a job was queued again because an essential member was lost.

    What is lost together, before it is queued again, counts once.
    """
    lost = {
        attempt.revision
        for container in needed
        for attempt in container.attempts
        if attempt.outcome is AttemptOutcome.LOST
        and attempt.reason is not None
        and attempt.reason.code in ("lost", SUPERVISOR_LOST)
    }
    return len(lost)


def _is_passing(attempt: Attempt) -> bool:
    return attempt.outcome is AttemptOutcome.LOST or _was_interrupted(attempt)


def _is_death(attempt: Attempt) -> bool:
    return attempt.outcome in _DEATHS or _was_interrupted(attempt)


def _was_interrupted(attempt: Attempt) -> bool:
    return attempt.reason is not None and attempt.reason.code == INTERRUPTED


def _ended_at(attempt: Attempt) -> float:
    return attempt.created_at if attempt.finished_at is None else attempt.finished_at


def conclusion(job: Job, elastic: ElasticJob) -> JobResult | None:
    """Return what a job has come to of which the store knows the end, None while it goes on.

    An earlier process may have ended some of its containers, and not all.
    """
    pairs = list(zip(job.tasks, job.tallies, strict=True))
    tallies = [(task.name, tally) for task, tally in pairs if task.role is TaskRole.ESSENTIAL]
    for name, tally in tallies:
        if tally.failed or (tally.cancelled and not job.cancel_requested):
            why = job.reason or (cancelled(name) if not tally.failed else failed(name))
            return JobResult(state=JobState.FAILED, reason=why)
    if job.reason is not None:
        return JobResult(state=JobState.FAILED, reason=job.reason)
    members = [m for c, m in elastic.all_members() if c.role is TaskRole.ESSENTIAL]
    if all(member.state.is_over for member in members):
        return JobResult(state=JobState.SUCCEEDED)
    return None


def cancelled(component: str) -> Reason:
    """Return why a job failed one of whose essential containers somebody cancelled."""
    return Reason(code="essential_cancelled", message=f"essential {component} was cancelled")


def failed(component: str) -> Reason:
    """Return why a job failed of which no more is known than who."""
    return Reason(code="essential_failed", message=f"essential {component} failed")
