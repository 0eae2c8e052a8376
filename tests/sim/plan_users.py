"""Users who ask what a job would come to: nothing of that may remain, whatever else goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from longshore.dispatcher.domain.jobs import (
    ElasticMode,
    ElasticTerms,
    Job,
    JobTask,
    JobType,
    JobTypeSpec,
    PerInstanceTerms,
    TaskRole,
)
from longshore.dispatcher.engine.engine import Engine
from longshore.dispatcher.engine.fork import AFTER_ALL, EngineFork, trial_of
from longshore.dispatcher.scheduler.placement.wait_reasons import PASS_FAILED
from longshore.dispatcher.service.dry_run import JOB_ID, Planning, planning
from longshore.dispatcher.service.dry_run_model import JobPlan
from tests.job_samples import ended_nodes, make_job, make_task
from tests.sim.faults import Demand
from tests.sim.process import DispatcherProcess
from tests.sim.store import VirtualStore
from tests.sim.timeline import Dice, Timeline
from tests.sim.truth import expect
from tests.state_digest import digest_of, shared_by

WITH_PLANS = 0.12
"""The share of runs in which users ask for plans."""

LONGEST_REST_S = 3.0
"""How long others have the loop at most between two parts of a plan."""


def with_plans(demand: Demand, seed: int) -> Demand:
    """Return what users ask, in some runs with plans, by dice of their own."""
    dice = Dice(seed, "plan options")
    if not dice.falls(WITH_PLANS):
        return demand
    return replace(demand, plans_every_s=dice.between(15, 90))


class PlanUsers:
    """Asks for plans of jobs of all types, which are made in parts as the server makes them.

    `outside` returns what the engine takes from outside: names that are used up, dice thrown.
    """

    def __init__(
        self,
        *,
        timeline: Timeline,
        dice: Dice,
        demand: Demand,
        store: VirtualStore,
        process: Callable[[], DispatcherProcess | None],
        outside: Callable[[], object],
    ) -> None:
        self._timeline = timeline
        self._dice = dice
        self._demand = demand
        self._store = store
        self._process = process
        self._outside = outside

    def begin(self, until: float) -> None:
        """Ask for all plans before `until`."""
        when, mean_s = 0.0, self._demand.plans_every_s
        while mean_s > 0 and (when := when + self._dice.soon(mean_s)) < until:
            self._timeline.at(when, self._ask)

    def _ask(self) -> None:
        process = self._process()
        if process is None:
            return
        engine, now = process.engine, process.now()
        job = self._any_job(engine, now)
        ended = ended_nodes(self._store.jobs, self._store.containers.values())
        trial = trial_of(engine)
        trial.check()
        shared = shared_by(engine, trial)
        expect(not shared, "a trial is by itself", shared)
        revises = job.id != JOB_ID
        parts = planning(lambda: EngineFork.of(engine), job, now, ended=ended, revises=revises)
        self._go_on(process, parts)

    def _go_on(self, process: DispatcherProcess, parts: Planning) -> None:
        """Make some parts of a plan at once, and the others after the engine has gone on."""
        engine = process.engine
        before = (digest_of(engine), self._outside())
        plan: JobPlan | None = None
        for _ in range(self._dice.whole(1, 8)):
            try:
                next(parts)
            except StopIteration as done:
                plan = done.value
                break
        after = (digest_of(engine), self._outside())
        expect(before == after, "a plan changes nothing", before, "and then", after)
        if plan is None:
            rest_s = self._dice.between(0, LONGEST_REST_S)
            self._timeline.after(rest_s, lambda: self._go_on(process, parts))
            return
        failed = any(reason.code == PASS_FAILED.code for reason in plan.waiting)
        expect(not failed, "the pass of a plan is made", plan)

    # ---- what they ask about ----

    def _any_job(self, engine: Engine, now: float) -> Job:
        """Return some job that there is not, or the next revision of one that there is."""
        dice, types = self._dice, list(JobType)
        type_ = types[dice.whole(0, len(types) - 1)]
        live = (engine.table.jobs.job(job_id) for job_id in engine.table.jobs.job_ids())
        known = [job for job in live if job is not None and job.type.is_per_instance]
        if type_.is_per_instance and known and dice.falls(0.4):
            return self._next_revision(known[dice.whole(0, len(known) - 1)], now)
        tasks = [self._any_task(type_, number) for number in range(dice.whole(1, 2))]
        if type_.is_per_instance:
            tasks = [replace(tasks[0], size=0, is_array=False)]
        job, _ = make_job(1, *tasks, priority=dice.whole(0, 10) * 100)
        terms = JobTypeSpec()
        if type_.is_per_instance:
            terms = JobTypeSpec(per_instance=PerInstanceTerms(revised_at=now))
        elif type_ is JobType.ELASTIC:
            modes = list(ElasticMode)
            mode = modes[dice.whole(0, len(modes) - 1)]
            terms = JobTypeSpec(elastic=ElasticTerms(mode=mode, scale_up=dice.falls(0.3)))
        return replace(job, id=JOB_ID, sequence=AFTER_ALL, type=type_, terms=terms, created_at=now)

    def _any_task(self, type_: JobType, number: int) -> JobTask:
        dice = self._dice
        earlier = sorted(self._store.containers)
        after = (earlier[dice.whole(0, len(earlier) - 1)],) if earlier and dice.falls(0.2) else ()
        task = make_task(
            f"t{number}",
            size=dice.whole(1, 5),
            max_running=dice.whole(1, 3) if dice.falls(0.3) else None,
            after=after if type_ is JobType.BATCH else (),
            cpus=dice.whole(1, 6) * 0.5,
        )
        role = TaskRole.ELASTIC if type_ is JobType.ELASTIC and number else TaskRole.ESSENTIAL
        return replace(task, role=role)

    def _next_revision(self, job: Job, now: float) -> Job:
        terms = job.terms.per_instance
        assert terms is not None
        task = replace(job.tasks[0], spec=replace(job.tasks[0].spec, env=(("PLANNED", "1"),)))
        revised = replace(terms, revision=terms.revision + 1, revised_at=now)
        return replace(job, tasks=(task,), terms=replace(job.terms, per_instance=revised))
