"""Users of system and sysbatch jobs in virtual time, and what their containers do on instances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from longshore.dispatcher.domain.containers import Constraints, ContainerSpec, Preemptible, Retries
from longshore.dispatcher.domain.jobs import (
    Job,
    JobTask,
    JobType,
    JobTypeSpec,
    PerInstanceTerms,
    Tally,
    UpdateStrategy,
)
from longshore.dispatcher.domain.messages import (
    Change,
    Event,
    InsertJob,
    JobCancelRequested,
    JobHoldRequested,
    JobPriorityRequested,
    JobRevised,
    JobSubmitted,
    RequestJobCancel,
    RequestJobHold,
    RequestJobPriority,
    RequestJobRevision,
)
from longshore.drivers.interface import Resources
from tests.sim.faults import Demand
from tests.sim.job_users import Post
from tests.sim.process import DispatcherProcess
from tests.sim.store import VirtualStore
from tests.sim.timeline import Dice, Timeline

FOR_EVER_S = 10_000_000.0
SOON_S = 60.0
MEMORY_BYTES = 2**20
TYPE_NAMES = ("t1", "t2", "t2s", "t4")


class PerInstanceUsers:
    """Submits jobs that run on every instance, revises and steers them."""

    def __init__(
        self,
        *,
        timeline: Timeline,
        seed: int,
        demand: Demand,
        store: VirtualStore,
        process: Callable[[], DispatcherProcess | None],
        post: Post,
    ) -> None:
        self._timeline = timeline
        self._seed = seed
        self._dice = Dice(seed, "per-instance jobs")
        self._demand = demand
        self._store = store
        self._process = process
        self._post = post
        self._submitted = 0
        self._cares = 0

    def begin(self, until: float) -> None:
        """Plan all jobs, and what is asked of them, before `until`."""
        for _ in range(self._demand.per_instance):
            self._timeline.at(self._dice.between(0, until * 0.6), self._submit)
        when, mean_s = 0.0, self._demand.per_instance_requests_every_s
        while mean_s > 0 and (when := when + self._dice.soon(mean_s)) < until:
            self._timeline.at(when, self._control)

    def is_amiss(self, attempt_id: str) -> bool:
        """Return whether a job, as it is at its revision, is at fault itself; a next may not be."""
        attempt = self._store.attempts[attempt_id]
        job_id = self._store.containers[attempt.container_id].job_id
        dice = Dice(self._seed, f"{job_id} at {attempt.revision}")
        return dice.falls(self._demand.refused_jobs)

    def plan_of(self, container_id: str) -> tuple[float, int]:
        """Return how long an attempt runs, and its exit code."""
        dice, demand = self._dice, self._demand
        job = self._store.jobs[self._store.containers[container_id].job_id]
        code = dice.whole(1, 3) if dice.falls(demand.failing) else 0
        if job.type is JobType.SYSBATCH:
            return dice.between(0.05, min(SOON_S, demand.longest_run_s)), code
        if not dice.falls(demand.restless):
            return FOR_EVER_S, code
        return dice.between(0.05, demand.restless_run_s), code

    # ---- what they submit ----

    def _submit(self) -> None:
        process = self._process()
        if process is None:
            return
        dice = self._dice
        self._submitted += 1
        number = self._submitted
        terms = PerInstanceTerms(
            revised_at=process.now(),
            update=UpdateStrategy(max_parallel=dice.whole(1, 2), stagger_s=dice.between(5, 40)),
            late_joiners=dice.falls(0.7),
            on_paused=dice.falls(0.2),
            ignore_system=dice.falls(0.2),
        )
        job = Job(
            id=f"j-each-{number}",
            sequence=1000 + number,
            name=f"each {number}",
            user="u",
            project="p",
            priority=self._any_priority(),
            created_at=process.now(),
            type=JobType.SYSBATCH if dice.falls(self._demand.once) else JobType.SYSTEM,
            tasks=(JobTask(name="", spec=self._any_spec(number), size=0),),
            tallies=(Tally(),),
            terms=JobTypeSpec(per_instance=terms),
        )
        self._ask(
            process,
            InsertJob(job=job, containers=(), user="u"),
            JobSubmitted(job=job, containers=()),
        )

    def _any_priority(self) -> int:
        return self._dice.whole(5, 10) * 100 if self._dice.falls(0.5) else self._dice.whole(1, 500)

    def _any_spec(self, number: int) -> ContainerSpec:
        dice = self._dice
        return ContainerSpec(
            name=f"each{number}",
            image="",
            command=("run",),
            env=(),
            resources=self._any_resources(),
            constraints=self._any_constraints(),
            retry_lost=number % 2 == 1,
            retries=self._any_retries(),
            grace_period_s=dice.between(0, 20) if dice.falls(self._demand.lenient) else None,
        )

    def _any_resources(self) -> Resources:
        cpu_millis = 0 if self._dice.falls(self._demand.sharing) else self._dice.whole(1, 8) * 50
        return Resources(cpu_millis=cpu_millis, memory_bytes=MEMORY_BYTES)

    def _any_constraints(self) -> Constraints:
        dice = self._dice
        if not dice.falls(self._demand.picky):
            return Constraints()
        if dice.falls(0.3):
            return Constraints(preemptible=Preemptible.FORBIDDEN)
        names = tuple(name for name in TYPE_NAMES if dice.falls(0.6))
        return Constraints(instance_types=names)

    def _any_retries(self) -> Retries:
        dice = self._dice
        most = dice.whole(0, 2)
        return Retries(most=most, delay_s=dice.between(1, 20))

    # ---- how they steer it ----

    def _unfinished(self) -> list[Job]:
        jobs = self._store.jobs.values()
        return [job for job in jobs if job.type.is_per_instance and not job.state.final]

    def _control(self) -> None:
        jobs = self._unfinished()
        if not jobs:
            return
        job = jobs[self._dice.whole(0, len(jobs) - 1)]
        what = self._dice.random()
        if what < 0.6:
            self._revise(job)
        elif what < 0.8:
            self._hold(job.id, held=not job.held)
            later_s = self._dice.between(0, 40)
            self._timeline.after(later_s, lambda: self._hold(job.id, held=False))
        elif what < 0.95:
            self._prioritise(job.id, 0 if self._dice.falls(0.2) else self._any_priority())
        else:
            self._cancel(job.id)

    def _revise(self, job: Job) -> None:
        """Submit a job's next revision: something changed that needs a restart, or not."""
        process, terms = self._process(), job.terms.per_instance
        if process is None or terms is None:
            return
        dice, spec = self._dice, job.tasks[0].spec
        number = terms.revision + 1
        what = dice.random()
        if what < 0.5:
            spec = replace(spec, env=(("EACH", str(number)),))
        elif what < 0.7:
            spec = replace(spec, labels=(("each", str(number)),))
        elif what < 0.8:
            spec = replace(spec, resources=self._any_resources())
        elif what < 0.9:
            spec = replace(spec, constraints=self._any_constraints(), retries=self._any_retries())
        else:
            terms = replace(terms, on_paused=dice.falls(0.3), ignore_system=dice.falls(0.3))
        terms = replace(terms, revision=number, revised_at=process.now())
        task = replace(job.tasks[0], spec=spec)
        revised = replace(job, tasks=(task,), terms=JobTypeSpec(per_instance=terms))
        self._ask(process, RequestJobRevision(job=revised), JobRevised(job=revised))

    def _hold(self, job_id: str, *, held: bool) -> None:
        request = RequestJobHold(job_id=job_id, held=held)
        self._ask(self._process(), request, JobHoldRequested(job_id=job_id, held=held))

    def _prioritise(self, job_id: str, priority: int) -> None:
        request = RequestJobPriority(job_id=job_id, priority=priority)
        event = JobPriorityRequested(job_id=job_id, priority=priority)
        self._ask(self._process(), request, event)

    def _cancel(self, job_id: str) -> None:
        request = RequestJobCancel(job_id=job_id)
        self._ask(self._process(), request, JobCancelRequested(job_id=job_id))

    def release(self) -> None:
        """Let go on what waits for a word; the second time, end what never ends by itself."""
        self._cares += 1
        for job in self._unfinished():
            terms = job.terms.per_instance
            assert terms is not None
            if job.priority == 0:
                self._prioritise(job.id, 100)
            for_ever = job.type is JobType.SYSTEM or terms.late_joiners
            if for_ever and self._cares > 1 and not job.cancel_requested:
                self._cancel(job.id)

    def _ask(self, process: DispatcherProcess | None, request: Change, event: Event) -> None:
        if process is None:
            return

        def done(accepted: bool) -> None:
            if accepted:
                self._post(process, event)

        self._store.write([request], done)
