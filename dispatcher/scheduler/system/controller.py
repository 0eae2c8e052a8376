"""System and sysbatch jobs: one container for each job on each instance that it is for.

A container lives as long as its job wants something on its instance: an attempt that ends by itself
is followed by another in the same container, and whoever is stopped for good, or loses its
instance, ends. What is to be done is the planner's to say (`system.plan`); it looks at the
instances of which something changed, and at all of them when a job did or a delay is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from longshore.dispatcher.domain.containers import (
    AttemptOutcome,
    Container,
    ContainerState,
    InstanceRecord,
    Reason,
    SchedulerSettings,
    WaitReason,
)
from longshore.dispatcher.domain.jobs import Job, JobState, JobType
from longshore.dispatcher.scheduler.placement.container_port import ContainerPort
from longshore.dispatcher.scheduler.placement.evict import running_attempts_on
from longshore.dispatcher.scheduler.placement.preemption import (
    PreemptionSettings,
    PreemptorKind,
    RunningAttempt,
)
from longshore.dispatcher.scheduler.placement.start import AttemptStarter
from longshore.dispatcher.scheduler.placement.workload import ATTEMPTS_MOST
from longshore.dispatcher.scheduler.system import apply, plan
from longshore.dispatcher.scheduler.system.apply import SystemApplier
from longshore.dispatcher.scheduler.system.capacity import taken_of_new_instance
from longshore.dispatcher.scheduler.system.crash_loop import (
    CrashLoopDetector,
    refused_everywhere,
    trouble,
)
from longshore.dispatcher.scheduler.system.evict import preempting
from longshore.dispatcher.scheduler.system.match import Matching
from longshore.dispatcher.scheduler.system.model import (
    Closed,
    PastAttempt,
    PerInstanceJob,
    Preempt,
    SystemPlan,
    SystemSnapshot,
)
from longshore.dispatcher.scheduler.system.past import PastAttempts
from longshore.dispatcher.scheduler.system.rollout import (
    RestartAttempts,
    RestartVerdict,
    Rollout,
    TryResult,
)
from longshore.dispatcher.scheduler.system.snapshot import (
    held_back,
    host_of,
    is_held,
    live_attempts,
    not_after,
    past_attempt,
    planned_job,
    remembered_attempt,
    revision_of,
    rounds_of,
)
from longshore.dispatcher.state.attempt_end import (
    ClosedAttempt,
    ConcludeJob,
    Decision,
    Finish,
    Requeue,
)
from longshore.dispatcher.state.job_registry import JobResult
from longshore.dispatcher.state.restarts import final_reason
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.model import WorkerState
from longshore.pool.port import PoolPort

_WORN_OUT = Reason(
    code="attempts_most",
    message=f"it was started {ATTEMPTS_MOST} times; another container goes on in its place",
)
_NOWHERE = Reason(code="no_instance", message="there was no instance that it is for")


class SystemScheduler:
    """Implements `WorkloadScheduler` for system and sysbatch jobs."""

    def __init__(
        self,
        *,
        pool: PoolPort,
        table: ContainerPort,
        records: Mapping[str, InstanceRecord],
        settings: SchedulerSettings,
        new_container: Callable[[], tuple[str, int]],
    ) -> None:
        """Place nothing yet; `new_container` gives a fresh id and sequence for each container."""
        self._pool = pool
        self._changes = pool.follow()
        self._table = table
        self._records = records
        self._settings = settings
        self._applier = SystemApplier(pool, table, AttemptStarter(pool, table), new_container)
        self._jobs: dict[str, Job] = {}
        self._past = PastAttempts()
        self._rollouts: Mapping[str, Rollout] = {}
        self._tries: dict[str, dict[str, RestartAttempts]] = {}
        self._kept: dict[str, Resources] = {}
        self._newcomers: list[PerInstanceJob] = []
        self._taken: dict[str, tuple[Resources, Resources]] = {}
        self._restless = CrashLoopDetector()
        self._is_restored = False
        self._wanted: set[str] = set()
        self._whole = False
        self._next_at: float | None = None
        self.tell: Callable[[SystemPlan], object] = lambda _decided: None
        """Is called with what each pass decides; to nobody, unless somebody wants to know."""

    # ---- what others ask ---------------------------------------------------------------------

    @property
    def reservations(self) -> Mapping[str, Resources]:
        """Return the room that is promised, by instance; not a copy."""
        return self._kept

    @property
    def claimed_workers(self) -> frozenset[str]:
        """Return nobody: per-instance jobs keep no instance alive."""
        return frozenset()

    @property
    def reserved_count(self) -> int:
        """Return 0: what runs on every instance counts for no limit of how many may run."""
        return 0

    def daemon_overhead(self, type_: InstanceType) -> Resources:
        """Return what its jobs take of every new instance of a type."""
        room = type_.allocatable  # of one name there may be less than was thought
        known = self._taken.get(type_.name)
        if known is None or known[0] != room:
            if not self._newcomers:
                self._newcomers = [planned_job(job) for job in self._live_jobs()]
            known = room, taken_of_new_instance(self._newcomers, type_)
            self._taken[type_.name] = known
        return known[1]

    def _live_jobs(self) -> list[Job]:
        """Return the jobs that want something, as they are now."""
        registry = self._table.jobs
        found = [self._job(job_id) for job_id in sorted(self._jobs) if job_id in registry]
        return [job for job in found if not is_held(job) and not registry.is_concluded(job.id)]

    def next_due(self) -> float | None:
        """Return when something is due that no event tells of, None for never."""
        return self._next_at

    def reason(self, container: Container) -> WaitReason | None:
        """Return why a container waits for its place."""
        return self._applier.reasons.get(container.id)

    def place_of(self, _container: Container, /) -> str:
        """Return nothing: what room its jobs keep is for the job, until a container is started."""
        return ""

    def why_nowhere(self, job: Job, now: float) -> WaitReason | None:
        """Return why no instance takes anything of a job, None where one does or some of it lives.

        A job that has ended, or whose runs are jobs of their own, is for no instance.
        """
        lives = job.tally.total > job.tally.ended
        if lives or job.id not in self._jobs or self._table.jobs.is_concluded(job.id):
            return None
        workers = [worker for _, worker in sorted(self._pool.workers.items())]
        hosts = [host_of(w, self._pool, self._table, self._records, now) for w in workers]
        return Matching().report(planned_job(job), hosts).reason

    def trouble(self, job: Job, now: float) -> Reason | None:
        """Return what is wrong with a job that goes on, None where it is well or there is none."""
        if job.id not in self._jobs or self._table.jobs.is_concluded(job.id):
            return None
        ids, known = self._table.jobs.containers_of(job.id), self._table.containers
        looping = self._restless.of(job.id, known, now)
        latest = self._job(job.id)
        spec = latest.tasks[0].spec
        # What fails of a system job is started again; that a sysbatch job waits is nothing unusual.
        runs_once = job.type is JobType.SYSBATCH
        failed = self._past.failed(job.id, revision_of(latest)) if runs_once else []
        reasons = {} if runs_once else self._applier.reasons
        waits = {each: reasons[each] for each in ids if each in reasons}
        types = self._pool.types.values()
        return trouble(
            spec,
            looping=looping,
            failed=failed,
            containers=lambda: (known[i] for i in ids if i in known),
            types=types,
            waits=waits,
        )

    # ---- what is heard -----------------------------------------------------------------------

    def admit(self, job: Job) -> None:
        """Take in a job, or its next revision."""
        if job.is_template:
            return
        self._jobs[job.id] = job
        self._tries.pop(job.id, None)
        self.changed(job.id)

    def changed(self, _job_id: str, /) -> None:
        """Note that a job is to be looked at again, everywhere."""
        self._whole = True
        self._newcomers.clear()
        self._taken.clear()

    def take_in(self, container: Container) -> None:
        """Take in a container that was restored, or one that ended before and is remembered."""
        past = remembered_attempt(container)
        if past is not None:
            self._past.put(past)
            self._is_restored = True
        if not container.state.final:
            self._applier.know(container)
            self._restless.note(container)
            self._take_in_rounds(container)
        self._whole = True

    def _take_in_rounds(self, container: Container) -> None:
        """Let the rounds of before a restart keep those that follow waiting."""
        known = self._rollouts.get(container.job_id, Rollout())
        rounds = rounds_of(container)
        if rounds:
            rollout = Rollout(rounds=known.rounds + rounds)
            self._rollouts = {**self._rollouts, container.job_id: rollout}
            self._is_restored = True

    def began(self, container: Container, _now: float, /) -> None:
        """Note that an attempt runs: its job gets somewhere."""
        self._tries.pop(container.job_id, None)
        self._wanted.add(container.pinned_to)

    def decide(self, closed: ClosedAttempt, now: float, /) -> Sequence[Decision]:
        """Return what becomes of a container whose attempt is over.

        Its job may be over with it, where too many starts in a row came to nothing.
        """
        container = closed.container
        self._restless.note(container)
        self._wanted.add(container.pinned_to)
        past = past_attempt(container)
        if past is not None:
            self._past.put(not_after(past, now))
        decided = self._after(closed, past)
        if isinstance(decided, Finish):
            self._applier.forget(container)
            may_be_over = closed.refused or self._may_be_done(container.job_id)
            self._whole = self._whole or may_be_over
        elif closed.refused or closed.never_ran:
            return [*self._after_refusal(container, closed.attempt.reason), decided]
        return [decided]

    def _may_be_done(self, job_id: str) -> bool:
        """Return whether a job is one that ends once it has run wherever it should."""
        job = self._jobs.get(job_id)
        terms = job.terms.per_instance if job is not None else None
        once = job is not None and job.type is JobType.SYSBATCH
        return once and terms is not None and not terms.late_joiners

    def _is_any_nearly_done(self) -> bool:
        """Return whether a job that is to end waits for instances only that may take it yet."""
        lives = [job for job in self._live_jobs() if self._may_be_done(job.id)]
        return any(job.tally.ended == job.tally.total for job in lives)

    def _after(self, closed: ClosedAttempt, past: PastAttempt | None) -> Requeue | Finish:
        container, attempt = closed.container, closed.attempt
        outcome, reason = attempt.outcome, attempt.reason

        def finish(state: ContainerState, why: Reason | None = None) -> Finish:
            return Finish(
                container_id=container.id, state=state, reason=why, exit_code=attempt.exit_code
            )

        is_over = self._table.jobs.is_concluded(container.job_id)
        if is_over or outcome is AttemptOutcome.CANCELLED:
            return finish(ContainerState.CANCELLED, apply.with_its_job(attempt))
        runs_once = self._table.jobs.type_of(container.job_id) is JobType.SYSBATCH
        if runs_once and outcome is AttemptOutcome.SUCCEEDED:
            return finish(ContainerState.SUCCEEDED)
        worker = self._pool.workers.get(container.pinned_to)
        is_gone = closed.instance_gone or worker is None or worker.state is WorkerState.SHUTDOWN
        went_along = is_gone and outcome is AttemptOutcome.LOST
        if runs_once and past is not None and past.settled and not went_along:
            return finish(ContainerState.FAILED, final_reason(container, reason))
        if is_gone:
            return finish(ContainerState.CANCELLED, apply.gone(container.pinned_to))
        if len(container.attempts) >= ATTEMPTS_MOST:
            return finish(ContainerState.FAILED, _WORN_OUT)
        return Requeue(container_id=container.id)

    def _after_refusal(self, container: Container, why: Reason | None) -> list[Decision]:
        """Count a plan of which nothing came; after too many in a row for a container its job
        fails.

        Each container counts for itself, since one plan starts an attempt on many instances.
        """
        job = self._jobs.get(container.job_id)
        if job is None:
            return []
        of_job = self._tries.setdefault(job.id, {})
        tries = of_job.get(container.id, RestartAttempts(kind=planned_job(job).kind))
        tries = tries.after(TryResult.REJECTED, why.message if why is not None else "")
        of_job[container.id] = tries
        if tries.verdict is not RestartVerdict.FAILED:
            return []
        self.changed(job.id)
        failed = JobResult(state=JobState.FAILED, reason=tries.reason)
        return [ConcludeJob(job_id=job.id, result=failed)]

    def _conclude(self, job_id: str, state: JobState, reason: Reason | None) -> None:
        self._table.jobs.conclude(job_id, JobResult(state=state, reason=reason))
        self.changed(job_id)

    # ---- its part of a pass --------------------------------------------------------------------

    def place(self, now: float) -> None:
        """Look at the instances of which something changed, and do what the plan says."""
        changed = self._wanted | self._changes.drain()
        for job_id in [each for each in sorted(self._jobs) if each not in self._table.jobs]:
            del self._jobs[job_id]
            self._restless.forget(job_id)
            self._past.forget_job(job_id)
            self._tries.pop(job_id, None)
            self.changed(job_id)
        if not self._jobs and not self._kept:
            self._wanted.clear()
            self._next_at = None
            return
        if self._is_restored:
            self._is_restored = False
            self._past.limit_times(now)
            self._rollouts = {id_: each.not_after(now) for id_, each in self._rollouts.items()}
        due = self._next_at is not None and self._next_at <= now
        whole = self._whole or due or (bool(changed) and self._is_any_nearly_done())
        if self._pool.listed_once:
            self._forget_gone(self._applier.instances() if whole else changed, now)
        names = self._pool.workers.keys() if whole else changed & self._pool.workers.keys()
        self._plan(sorted(names), whole=whole, now=now)
        # What it did itself is no news to it.
        self._changes.drain()

    def _plan(self, names: list[str], *, whole: bool, now: float) -> None:
        snapshot = self.snapshot(names, now)
        decided = plan.plan(snapshot, self.preempt())
        self.tell(decided)
        self._wanted.clear()
        # What an earlier process's containers are on is not all known before that.
        self._whole = not self._pool.listed_once
        self._keep(names, decided, whole=whole)
        jobs = {job_id: self._job(job_id) for job_id in sorted(self._jobs)}
        # What is not carried out is no round.
        held = {job_id for job_id, job in jobs.items() if is_held(job)}
        known = {job_id: each for job_id, each in self._rollouts.items() if job_id in held}
        begun = {job_id: r for job_id, r in decided.rollouts.items() if job_id not in held}
        self._rollouts = known | begun
        self._applier.carry_out(decided, jobs, now)
        self._applier.end_without_place(snapshot, decided, now)
        if whole:
            self._restless.forget_calm(self._table.containers, now)
        if whole and self._pool.listed_once:
            self._conclude_what_is_done(decided)

    def _forget_gone(self, names: Iterable[str], now: float) -> None:
        """Let go of all that is for instances that are gone."""
        gone = set(names) - self._pool.workers.keys()
        if gone:
            self._applier.end_on_gone(gone, now)
            self._past.forget_instances(gone)
            for name in gone:
                self._kept.pop(name, None)

    def _keep(self, names: Iterable[str], decided: SystemPlan, *, whole: bool) -> None:
        """Take in what the plan promises, and when it wants another."""
        if whole:
            self._kept.clear()
            self._next_at = decided.next_at
        elif decided.next_at is not None:
            known = decided.next_at if self._next_at is None else self._next_at
            self._next_at = min(known, decided.next_at)
        for name in names:
            self._kept.pop(name, None)
        self._kept.update(decided.reserved)

    def _conclude_what_is_done(self, decided: SystemPlan) -> None:
        """Let sysbatch jobs end that take no late joiners and have run wherever they should.

        So does one, late joiners or not, that no instance starts: it would be refused by all.
        """
        busy = {step.job_id for step in decided.steps} | self._applier.job_ids()
        for report in decided.reports:
            job = self._job(report.job_id)
            terms = job.terms.per_instance
            unready = any(cause is Closed.NOT_READY for cause, _ in report.closed)
            if job.type is not JobType.SYSBATCH or terms is None or job.id in busy or job.held:
                continue
            refused = self._past.all_refused(job.id, terms.revision)
            if refused and not job.tally.succeeded:
                self._conclude(job.id, JobState.FAILED, refused_everywhere(refused))
            elif not terms.late_joiners and not unready:
                failed = job.tally.failed
                reason = Reason(
                    code="containers_failed",
                    message=f"{failed} of its {job.tally.total} containers failed",
                )
                state = JobState.FAILED if failed else JobState.SUCCEEDED
                why = None if job.tally.total else _NOWHERE
                self._conclude(job.id, state, reason if failed else why)

    # ---- what it sees --------------------------------------------------------------------------

    def snapshot(
        self, names: Iterable[str], now: float, instead: Job | None = None
    ) -> SystemSnapshot:
        """Return what a plan for these instances is made from; a copy.

        `instead` is a job that there is not, or the next revision of one, None for neither.
        """
        workers = [self._pool.workers[name] for name in names]
        shown = {worker.id for worker in workers}
        containers = self._applier.containers_on(shown)
        jobs = {job_id: self._planned(job_id) for job_id in self._jobs}
        if instead is not None:
            jobs[instead.id] = planned_job(instead)
        return SystemSnapshot(
            now=now,
            jobs=[job for _, job in sorted(jobs.items())],
            hosts=[host_of(w, self._pool, self._table, self._records, now) for w in workers],
            live=live_attempts(containers),
            past=self._past.on(shown),
            rollouts=self._rollouts,
            held_back=held_back(containers),
        )

    def _job(self, job_id: str) -> Job:
        """Return one of its jobs as it is now; one that may not begin is as if it were held."""
        job = self._table.jobs.job(job_id) or self._jobs[job_id]
        return job if self._table.why_job_not_begin(job) is None else replace(job, held=True)

    def _planned(self, job_id: str) -> PerInstanceJob:
        stopped = self._table.jobs.is_concluded(job_id)
        return planned_job(self._job(job_id), stopped=stopped)

    def preempt(self) -> Preempt:
        """Return who makes way for its jobs, as the settings allow."""
        settings = PreemptionSettings(
            system=self._settings.preempt_system, sysbatch=self._settings.preempt_sysbatch
        )

        def running_on(worker_id: str) -> tuple[RunningAttempt, ...]:
            return running_attempts_on(
                self._pool.workers[worker_id], self._table, PreemptorKind.SYSTEM
            )

        return preempting(settings, running_on)
