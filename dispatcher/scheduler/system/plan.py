"""The plan for jobs with one attempt on every matching instance: system and sysbatch; pure.

`plan(snapshot, preempt)` compares what runs with what should, and says what is to be done:

1. The rules of `system.reconcile` say what becomes of each live attempt, the first that matches.
2. Then the jobs have their turn, the highest priority first, and on every instance that is open to
   it a job without a live attempt gets one. Restarts keep their delay, updates their rounds
   (`system.rollout`), and an attempt is stopped for an update only if its successor fits.
3. What does not fit waits for what is being ended anyway, else others may be evicted for it, else
   it is blocked there, and there only.

Room that is promised (`SystemPlan.reserved`) is not to be given to anybody else, batch work
included. A plan looks at every attempt and instance that it is shown, once for each job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

from longshore.dispatcher.domain.containers import AttemptOutcome, Retries
from longshore.dispatcher.domain.feasibility import need
from longshore.dispatcher.domain.jobs import PerInstanceKind
from longshore.dispatcher.scheduler.system import match as steps
from longshore.dispatcher.scheduler.system.capacity import SystemCapacity, job_order, never_fits
from longshore.dispatcher.scheduler.system.match import Matching, closed
from longshore.dispatcher.scheduler.system.model import (
    Evict,
    Host,
    IgnoreCause,
    JobReport,
    LiveAttempt,
    PastAttempt,
    PerInstanceJob,
    PlaceOn,
    Preempt,
    RemovalCause,
    RoomRequest,
    Step,
    Stop,
    SystemPlan,
    SystemSnapshot,
    Update,
    Victim,
    Wait,
    nobody,
)
from longshore.dispatcher.scheduler.system.reconcile import (
    MustRestart,
    Verdict,
    ignored,
    judge,
    unwanted,
)
from longshore.dispatcher.scheduler.system.rollout import Rollout
from longshore.dispatcher.state.restarts import due_after
from longshore.drivers.errors import BugError
from longshore.drivers.interface import Resources

Key = tuple[str, str]


def plan(snapshot: SystemSnapshot, preempt: Preempt = nobody) -> SystemPlan:
    """Return what is to be done for all per-instance jobs; the order of what is given is no matter.

    `preempt` says who makes way where there is no room; it is asked for each place at most once.
    Raises `BugError` when those that it names would not make room.
    """
    work = _Work.on(snapshot, preempt)
    work.judge_all()
    for job in work.jobs:
        _Turn.of(job, work).run()
    return work.plan()


def again_at(past: PastAttempt, retries: Retries) -> float:
    """Return when an ended attempt may be followed by another, in seconds since the epoch.

    It is what `dispatcher.state.restarts` says of containers, for whatever end; but who was told to
    end has nothing to wait for.
    """
    match past.outcome:
        case AttemptOutcome.PREEMPTED | AttemptOutcome.CANCELLED:
            return past.ended_at
        case AttemptOutcome.SUCCEEDED | AttemptOutcome.FAILED | AttemptOutcome.LOST:
            return due_after(past.ended_at, past.restarted_at, retries)
        case _:
            assert_never(past.outcome)


@dataclass(slots=True, kw_only=True)
class _Work:
    """A plan in the making."""

    snapshot: SystemSnapshot
    preempt: Preempt
    jobs: list[PerInstanceJob]
    hosts: list[Host]
    rooms: dict[str, SystemCapacity]
    past: dict[Key, PastAttempt]
    matching: Matching = field(default_factory=Matching)
    #: What the rules say of the one attempt of a job on an instance, until the job has its turn.
    verdicts: dict[Key, tuple[LiveAttempt, Verdict]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    reports: list[JobReport] = field(default_factory=list)
    rollouts: dict[str, Rollout] = field(default_factory=dict)

    @classmethod
    def on(cls, snapshot: SystemSnapshot, preempt: Preempt) -> _Work:
        """Return it before anything is decided."""
        hosts = sorted(snapshot.hosts, key=lambda host: host.id)
        # The latest of each comes last, and stays.
        past = sorted(snapshot.past, key=lambda each: (each.ended_at, each.id))
        return cls(
            snapshot=snapshot,
            preempt=preempt,
            jobs=sorted(snapshot.jobs, key=job_order),
            hosts=hosts,
            rooms={host.id: SystemCapacity.of(host) for host in hosts},
            past={(each.job_id, each.instance_id): each for each in past},
        )

    def judge_all(self) -> None:
        """Look at every live attempt, and count on the room of those that are stopped."""
        jobs = {job.id: job for job in self.jobs}
        hosts = {host.id: host for host in self.hosts}
        for attempt in sorted(self.snapshot.live, key=_preference):
            job, host = jobs.get(attempt.job_id), hosts.get(attempt.instance_id)
            key = (attempt.job_id, attempt.instance_id)
            if job is None or host is None:
                step = unwanted(attempt, host, RemovalCause.JOB_GONE)
            elif key in self.verdicts:
                step = unwanted(attempt, host, RemovalCause.SUPERFLUOUS)
            else:
                verdict = judge(attempt, job, host, self.matching.mismatch(job, host))
                self.verdicts[key] = attempt, verdict
                self._count_on(attempt, verdict)
                continue
            self.steps.append(step)
            self._count_on(attempt, step)

    def _count_on(self, attempt: LiveAttempt, verdict: Verdict) -> None:
        if isinstance(verdict, Stop):
            room = self.rooms[attempt.instance_id]
            room.release([attempt.resources])
            room.spared.add(attempt.id)

    def plan(self) -> SystemPlan:
        """Return what has been decided."""
        waits = (step.until for step in self.steps if isinstance(step, Wait))
        reserved = {host.id: self.rooms[host.id].reserved for host in self.hosts}
        return SystemPlan(
            steps=tuple(self.steps),
            reports=tuple(self.reports),
            rollouts=self.rollouts,
            next_at=min((until for until in waits if until is not None), default=None),
            reserved={key: room for key, room in reserved.items() if room != Resources()},
        )


@dataclass(slots=True, kw_only=True)
class _Turn:
    """One job's turn in a plan: `left` updates may still begin, `begun` have.

    Where the job is held back, it is played through in a copy of the room: nothing comes of it.
    """

    job: PerInstanceJob
    work: _Work
    rooms: dict[str, SystemCapacity]
    rollout: Rollout
    left: int
    begun: int = 0

    @classmethod
    def of(cls, job: PerInstanceJob, work: _Work) -> _Turn:
        """Return it before it begins.

        Those that come later matter less than the job's attempts, whatever priority these have.
        """
        for host in work.hosts:
            if pair := work.verdicts.get((job.id, host.id)):
                work.rooms[host.id].spared.add(pair[0].id)
        held_back = work.snapshot.held_back.get(job.id, ())
        if job.held:
            held_back = work.rooms.keys()
        rooms = work.rooms | {name: work.rooms[name].copy() for name in held_back}
        known = work.snapshot.rollouts.get(job.id, Rollout())
        rollout = known.at(work.snapshot.now, job.update)
        left = rollout.left(job.update)
        return cls(job=job, work=work, rooms=rooms, rollout=rollout, left=left)

    def run(self) -> None:
        """Decide what is done for the job on every instance."""
        found = [self.work.verdicts.get((self.job.id, host.id)) for host in self.work.hosts]
        for host, pair in zip(self.work.hosts, found, strict=True):
            if pair is None:
                self._fill(host)
            else:
                self._follow(host, *pair)
        rollout = self._rollout_now()
        if rollout.rounds:
            self.work.rollouts[self.job.id] = rollout
        if not self.job.stopped:
            self.work.reports.append(self.work.matching.report(self.job, self.work.hosts))

    def _rollout_now(self) -> Rollout:
        return self.rollout.having_begun(self.begun, self.work.snapshot.now)

    # ---- where an attempt lives ----------------------------------------------------------------

    def _follow(self, host: Host, attempt: LiveAttempt, verdict: Verdict) -> None:
        """Do what the rules say of an attempt, unless it has been evicted meanwhile."""
        if attempt.id in self.rooms[host.id].evicted:
            self._add(ignored(attempt, IgnoreCause.EVICTED))
        elif isinstance(verdict, MustRestart):
            self._update(host, verdict)
        else:
            if attempt.is_ending and self._is_open(host):
                self._promise(host, self._need(host), [attempt.resources])
            self._add(verdict)

    def _update(self, host: Host, wanted: MustRestart) -> None:
        """Stop an attempt for the job's revision, if its turn has come and the new one will fit."""
        attempt, need_, room = wanted.attempt, self._need(host), self.rooms[host.id]
        if self.left <= 0 and not never_fits(host.type, need_):
            until = self._rollout_now().next_at(self.job.update)
            self._add(steps.next_round(self.job, host, attempt.id, until))
        elif room.fits_now(need_, [attempt.resources]):
            room.hold(need_, [attempt.resources])
            room.promise(need_, [attempt.resources])
            self.left -= 1
            self.begun += 1
            self._add(
                Update(
                    job_id=self.job.id,
                    instance_id=host.id,
                    attempt_id=attempt.id,
                    fields=wanted.fields,
                )
            )
        elif self._make_room(host, need_, attempt):
            # Its turn has come, and with it that of the room that is made.
            self.left -= 1

    # ---- where there is none -------------------------------------------------------------------

    def _is_open(self, host: Host) -> bool:
        job = self.job
        return not (
            job.stopped or self.work.matching.mismatch(job, host) or closed(job, host) is not None
        )

    def _fill(self, host: Host) -> None:
        """Place the job on an instance where it has no live attempt, if it is to be there."""
        if not self._is_open(host):
            return
        past = self.work.past.get((self.job.id, host.id))
        of_revision = past is not None and past.revision == self.job.revision
        if past is not None and of_revision:
            if past.settled and self.job.kind is PerInstanceKind.SYSBATCH:
                return
            due = again_at(past, self.job.spec.retries)
            if due > self.work.snapshot.now:
                self._promise(host, self._need(host))
                self._add(steps.restart_delayed(self.job, host, due))
                return
        need_, room = self._need(host), self.rooms[host.id]
        if not room.fits_now(need_):
            self._make_room(host, need_, None)
            return
        room.take(need_)
        previous_id = past.id if past is not None else ""
        self._add(
            PlaceOn(
                job_id=self.job.id,
                instance_id=host.id,
                previous_id=previous_id,
                resources=need_,
            )
        )

    # ---- room ----------------------------------------------------------------------------------

    def _need(self, host: Host) -> Resources:
        return need(host.type, self.job.spec.resources, self.job.spec.unnamed)

    def _promise(self, host: Host, need_: Resources, ending: Sequence[Resources] = ()) -> None:
        """Reserve room for what cannot start yet, if there will be enough.

        It starts as soon as its predecessor (`ending`) has ended, whose room counts as given back.
        """
        room = self.rooms[host.id]
        if room.fits_later(need_):
            room.hold(need_, ending)
            room.promise(need_)

    def _make_room(self, host: Host, need_: Resources, attempt: LiveAttempt | None) -> bool:
        """Wait for room, or evict others for it; return whether there will be any.

        `attempt` is the one that is to be updated, and gives its own room back.
        """
        room = self.rooms[host.id]
        giving = [attempt.resources] if attempt is not None else []
        attempt_id = attempt.id if attempt is not None else ""
        if lacking := never_fits(host.type, need_):
            self._add(steps.too_small(self.job, host, attempt_id, lacking))
            return False
        if room.fits_later(need_, giving):
            room.promise(need_, giving)
            self._add(steps.room_coming(self.job, host, attempt_id))
            return True
        victims = self._victims(host, need_, giving)
        if not victims:
            lacking = room.short_of(need_, giving)
            self._add(steps.no_room(self.job, host, attempt_id, lacking))
            return False
        room.evict({victim.attempt_id for victim in victims})
        room.promise(need_, [*giving, *(victim.resources for victim in victims)])
        self._add(
            Evict(
                job_id=self.job.id,
                instance_id=host.id,
                attempt_id=attempt_id,
                victims=tuple(victim.attempt_id for victim in victims),
            )
        )
        return True

    def _victims(
        self, host: Host, need_: Resources, giving: Sequence[Resources]
    ) -> Sequence[Victim]:
        """Return whom to evict, () for nobody; raises `BugError` where that would not do."""
        room = self.rooms[host.id]
        slot = room.without(giving)
        victims = self.work.preempt(
            RoomRequest(
                instance_id=host.id,
                type=host.type,
                by=self.job.kind,
                priority=self.job.priority,
                asked=need_,
                room=slot.free,
                on_shared_cpu=slot.on_shared_cpu,
                spared=frozenset(room.spared),
            )
        )
        if not victims:
            return ()
        ids = {victim.attempt_id for victim in victims}
        if ids & room.spared or len(ids) < len(victims):
            raise BugError(f"{sorted(ids)} are to be evicted, some of which are to be spared")
        if not room.fits_later(need_, [*giving, *(victim.resources for victim in victims)]):
            raise BugError(
                f"without {sorted(ids)} there would be no room on {host.id} all the same"
            )
        return victims

    def _add(self, step: Step) -> None:
        self.work.steps.append(step)


def _preference(attempt: LiveAttempt) -> tuple[str, str, bool, int, str]:
    """Return the sort key of live attempts; of several in one place the first is the one to keep.

    That is one that is not being ended, of the latest revision.
    """
    place = (attempt.job_id, attempt.instance_id)
    return (*place, attempt.is_ending, -attempt.revision, attempt.id)
