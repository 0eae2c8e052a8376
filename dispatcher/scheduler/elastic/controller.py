"""Elastic jobs: their essential containers together, and of the others as many as fit.

What is to be started and given back is the planner's to say (`elastic.schedule`), what becomes of a
job when one of its containers ends `elastic.lifecycle`. Here is known which container is which
member, and what was decided is carried out. A member that has a place, and waits there for its turn
or for somebody's end, has that room kept from everybody else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from longshore.dispatcher.domain.containers import (
    AttemptOutcome,
    Container,
    ContainerState,
    Reason,
    SchedulerSettings,
    WaitReason,
)
from longshore.dispatcher.domain.jobs import Job, JobState
from longshore.dispatcher.scheduler.elastic import end_reasons, lifecycle, runtime_state
from longshore.dispatcher.scheduler.elastic.apply import ElasticApplier
from longshore.dispatcher.scheduler.elastic.capacity import CapacityView
from longshore.dispatcher.scheduler.elastic.cpu_shares import SpareCpus
from longshore.dispatcher.scheduler.elastic.end_reasons import (
    Barred,
    finish,
    is_worn_out,
    member_end,
    told,
    with_its_job,
)
from longshore.dispatcher.scheduler.elastic.lifecycle import MemberDecision
from longshore.dispatcher.scheduler.elastic.model import MemberState
from longshore.dispatcher.scheduler.elastic.purchase import ElasticMarket
from longshore.dispatcher.scheduler.elastic.run import ElasticPass
from longshore.dispatcher.scheduler.elastic.runtime_state import (
    ElasticState,
    Key,
    cancelled,
    conclusion,
    elastic_job,
    key_of,
    without_place,
)
from longshore.dispatcher.scheduler.placement.container_port import ContainerPort
from longshore.dispatcher.scheduler.placement.fleet import PackingPolicy
from longshore.dispatcher.scheduler.placement.workload import NewInstances
from longshore.dispatcher.state.attempt_end import (
    ClosedAttempt,
    ConcludeJob,
    Decision,
    Requeue,
)
from longshore.dispatcher.state.job_registry import JobResult
from longshore.drivers.errors import BugError
from longshore.drivers.interface import Resources
from longshore.pool.port import PoolPort


class ElasticScheduler:
    """Implements `WorkloadScheduler` for elastic jobs."""

    def __init__(
        self,
        *,
        pool: PoolPort,
        table: ContainerPort,
        settings: SchedulerSettings,
        new: NewInstances,
        rules: PackingPolicy,
        capacity: CapacityView,
        applier: ElasticApplier,
        market: ElasticMarket,
        cpus: SpareCpus,
    ) -> None:
        """Know of no job; `new` tells what is left of new instances."""
        self._table = table
        self._settings = settings
        self._applier = applier
        self._cpus = cpus
        self._pass = ElasticPass(
            pool=pool,
            settings=settings,
            new=new,
            rules=rules,
            capacity=capacity,
            applier=applier,
            market=market,
            lives=self._in_order,
        )
        self._ids: dict[str, dict[tuple[str, int], str]] = {}
        self._live: dict[str, ElasticState] = {}
        self._over: dict[str, Reason] = {}
        self._stirred: set[str] = set()
        self._wanted = False

    # ---- what others ask ---------------------------------------------------------------------

    @property
    def reservations(self) -> Mapping[str, Resources]:
        """Return the room that is kept for members that are not started, by slot; not a copy."""
        return self._pass.reservations

    @property
    def claimed_workers(self) -> frozenset[str]:
        """Return the instances on which there is such room: they are not idle."""
        return self._pass.claimed_workers

    @property
    def reserved_count(self) -> int:
        """Return how many members have such room, or are to have it."""
        return sum(self._pass.reserved_on.values())

    @property
    def reserved_on(self) -> Mapping[str, int]:
        """Return how many those are, by slot; not a copy."""
        return self._pass.reserved_on

    def next_due(self) -> float | None:
        """Return when something is to be done that no event tells of, None for never."""
        return 0.0 if self._wanted else self._pass.next_at

    def reason(self, container: Container) -> WaitReason | None:
        """Return why a container waits, None where no pass has looked at it."""
        live = self._live.get(container.job_id)
        if live is None:
            return None
        member = live.member(key_of(container))
        known = self._table.gates.reason(container)
        known = known or end_reasons.of_member(member, barred=self._barred_of(live))
        return end_reasons.with_cause(known or self._pass.waiting.get(container.job_id), container)

    def place_of(self, container: Container, /) -> str:
        """Return where a member has room, started or not; "" for nowhere."""
        live = self._live.get(container.job_id)
        if live is None:
            return ""
        key = key_of(container)
        member = live.member(key)
        claimed = (c.instance_id for c in live.job.claims if (c.component, c.index) == key)
        return member.instance_id or next(claimed, "")

    def _barred_of(self, live: ElasticState) -> Barred | None:
        """Return a container that keeps its job from beginning and why, None for none."""
        if live.job.is_running:
            return None
        found = (key for key in sorted(live.barred) if live.is_essential(key))
        return next((Barred(live.ids[key], live.barred[key]) for key in found), None)

    # ---- what is heard -----------------------------------------------------------------------

    def admit(self, job: Job) -> None:
        """Take in a job, new or restored; its containers come after it."""
        if not job.is_template:
            self._ids.setdefault(job.id, {})
            self.changed(job.id)

    def take_in(self, container: Container) -> None:
        """Take in a container, new or restored."""
        self._ids[container.job_id][key_of(container)] = container.id

    def changed(self, job_id: str, /) -> None:
        """Note that a job is to be looked at again: what somebody asked of it, or of part of it."""
        self._stirred.add(job_id)
        self._wanted = True

    def began(self, container: Container, now: float, /) -> None:
        """Note that a member runs: the pass that follows starts those whose turn it is then."""
        live, decided = self._known(container.job_id, now)
        self._applier.carry_out(decided, now)
        key = key_of(container)
        self._cpus.note(container.attempts[-1].instance_id)
        live.job = lifecycle.started(live.job, *key)

    def decide(self, closed: ClosedAttempt, now: float, /) -> Sequence[Decision]:
        """Return what becomes of a container whose attempt is over, and of its job."""
        container, attempt = closed.container, closed.attempt
        live, decided = self._known(container.job_id, now, closed)
        key = key_of(container)
        self._wanted = True
        job_id = container.job_id
        if job_id in self._over or self._table.jobs.is_concluded(job_id):
            live.put([without_place(live.member(key))])
            why = self._over.get(job_id, end_reasons.JOB_CANCELLED)
            return [*decided, with_its_job(closed, why)]
        if container.cancel_requested:
            live.put([runtime_state.gone(live.member(key))])
            if live.is_essential(key):
                decided = self._fail(live, cancelled(container.task), but=container.id)
            return [*decided, finish(closed, ContainerState.CANCELLED, attempt.reason)]
        most = self._settings.max_lost_attempts - 1
        fate = lifecycle.ended(live.job, member_end(key, closed, now), now, most_losses=most)
        live.job = fate.job
        match fate.verdict:
            case MemberDecision.GOES_ON:
                self._applier.rejoin(live)
                return [self._again(live, key, closed)]
            case MemberDecision.QUEUED_AGAIN:
                begins_anew = end_reasons.next_start(closed)
                outcome = AttemptOutcome.PREEMPTED
                decided = self._applier.stops(live, fate.stops, outcome, begins_anew)
                return [*decided, Requeue(container_id=container.id)]
            case MemberDecision.SUCCEEDED:
                succeeded = JobResult(state=JobState.SUCCEEDED)
                decided = self._conclude(live, succeeded, but=container.id)
                return [*decided, finish(closed, ContainerState.SUCCEEDED)]
            case MemberDecision.FAILED:
                why_failed = told(fate, closed) or Reason(code="essential_failed", message="failed")
                decided = self._fail(live, why_failed, attempt.exit_code, but=container.id)
                return [*decided, finish(closed, ContainerState.FAILED, attempt.reason)]
            case unknown:
                assert_never(unknown)

    def _again(self, live: ElasticState, key: Key, closed: ClosedAttempt) -> Decision:
        """Let a member wait on, or end for good if it is elastic and has died too often."""
        waits = live.member(key).state is MemberState.WAITING
        if live.is_essential(key) or not waits or not is_worn_out(closed):
            return Requeue(container_id=closed.container.id)
        live.put([runtime_state.gone(live.member(key))])
        return finish(closed, ContainerState.FAILED, end_reasons.WORN_OUT)

    def _known(
        self, job_id: str, now: float, closed: ClosedAttempt | None = None
    ) -> tuple[ElasticState, list[Decision]]:
        """Return a job, made from what the container table has of it when it is first asked for.

        Then it may turn out that it came to its end in an earlier process: what follows of that is
        returned with it. What is `closed` now counts as it was: its end is still to be taken in.
        """
        live = self._live.get(job_id)
        if live is not None:
            return live, []
        job = self._table.jobs.job(job_id)
        ids = self._ids[job_id]
        containers = self._table.containers
        known = {key: containers[id_] for key, id_ in ids.items() if id_ in containers}
        if closed is not None:
            known[key_of(closed.before)] = closed.before
        if job is None:
            raise BugError(f"elastic job {job_id} is not known")
        live = self._live[job_id] = ElasticState(job=elastic_job(job, known, now), ids=ids)
        live.progressed_at = now
        found = conclusion(job, live.job)
        if found is None or self._table.jobs.is_concluded(job_id):
            return live, []
        return live, self._conclude(live, found, but="" if closed is None else closed.container.id)

    # ---- the end of a job ----------------------------------------------------------------------

    def _fail(
        self, live: ElasticState, why: Reason, exit_code: int | None = None, *, but: str = ""
    ) -> list[Decision]:
        failed = JobResult(state=JobState.FAILED, reason=why, exit_code=exit_code)
        return self._conclude(live, failed, but=but)

    def _conclude(
        self, live: ElasticState, comes_to: JobResult, *, but: str = ""
    ) -> list[Decision]:
        """Let a job end: what runs of it is told to, what waits does at once, `but` for one."""
        why = end_reasons.job_ended(comes_to)
        self._over[live.job.id] = why
        here = [m for _, m in live.job.all_members() if m.instance_id]
        stopping = [replace(member, state=MemberState.STOPPING) for member in here]
        live.put(stopping)
        ending = end_reasons.job_end(comes_to)
        stops = self._applier.stops(live, stopping, AttemptOutcome.CANCELLED, ending)
        finishes = self._applier.finishes(live, why, but)
        live.job = replace(live.job, claims=())
        return [ConcludeJob(job_id=live.job.id, result=comes_to), *stops, *finishes]

    # ---- a pass ------------------------------------------------------------------------------

    def place(self, now: float) -> None:
        """Decide anew if anything has changed, and start what can be started by now."""
        self._look_again(now)
        if self._live:
            self._pass.run(now, wanted=self._wanted)
            self._cpus.note_changes()
        else:
            self._pass.rest()
            self._cpus.rest()
        self._wanted = False

    def note_pass(self) -> None:
        """Note where the batch work of a pass, which comes after `place`, has begun or ended."""
        if self._live:
            self._cpus.note_changes()

    def share_cpus(self) -> None:
        """Give the members on instances that the latest pass, or a start, changed what is spare."""
        if self._live:
            self._cpus.share()

    def _in_order(self) -> list[ElasticState]:
        """Return the jobs that are not over, as they came."""
        lives = (live for id_, live in self._live.items() if id_ not in self._over)
        return sorted(lives, key=lambda live: (live.job.sequence, live.job.id))

    # ---- what somebody asked of a job -----------------------------------------------------------

    def _look_again(self, now: float) -> None:
        """Take in what users asked for, and let go of jobs that have ended."""
        jobs = self._table.jobs
        for job_id in sorted(self._stirred & self._ids.keys()):
            if job_id in jobs:
                live, decided = self._known(job_id, now)
                self._applier.carry_out(decided, now)
                self._applier.carry_out(self._look_at(live), now)
        ended = [id_ for id_ in self._stirred | self._over.keys() if id_ not in jobs]
        for job_id in sorted(ended):
            self._over.pop(job_id, None)
            self._live.pop(job_id, None)
            self._ids.pop(job_id, None)
        self._stirred.clear()

    def _look_at(self, live: ElasticState) -> list[Decision]:
        job_id = live.job.id
        if self._table.jobs.is_concluded(job_id):
            self._over.setdefault(job_id, end_reasons.JOB_CANCELLED)
            live.job = replace(live.job, claims=())
            return []
        barred: dict[Key, WaitReason] = {}
        for key, container_id in live.ids.items():
            container = self._table.containers.get(container_id)
            if container is None:
                live.put([runtime_state.gone(live.member(key))])
                if live.is_essential(key):
                    return self._fail(live, cancelled(key[0]))
            elif (why := self._table.why_not_begin(container)) is not None:
                barred[key] = why
        live.barred = barred
        live.put(
            [
                without_place(member)
                for _, member in self._applier.unstarted(live)
                if (member.component, member.index) in live.barred
            ]
        )
        self._applier.rejoin(live)
        return []

    def check(self) -> None:
        """Raise `BugError` when a member whose container has ended for good may have a place again.

        So it does when what was bought is not what was wanted. Tests call it after events.
        """
        self._pass.check()
        for live in self._in_order():
            if live.job.id in self._stirred or live.job.id not in self._table.jobs:
                continue
            for key in live.ids:
                is_gone = live.member(key).state is MemberState.GONE
                if not is_gone and self._applier.container(live, key) is None:
                    raise BugError(f"{live.job.id}: the container of {key} has ended for good")
