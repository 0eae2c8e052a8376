"""The check that every instance has what it should, at the latest revision, in its turn.

An account of its own beside the planner's. It is careful: where room is short it says nothing, and
it knows nothing of what an earlier process began.
"""

from __future__ import annotations

import itertools
from dataclasses import fields, replace

from longshore.dispatcher.domain.containers import (
    Attempt,
    AttemptOutcome,
    Container,
    ContainerSpec,
    Preemptible,
    resources_of,
)
from longshore.dispatcher.domain.feasibility import need
from longshore.dispatcher.domain.jobs import Job, JobType, PerInstanceTerms
from longshore.drivers.interface import Resources
from longshore.pool import shutdown_decision
from longshore.pool.charging import SHARED_CPU_MILLIS
from longshore.pool.model import IdleBehavior, Worker, WorkerState
from tests.sim.per_instance_account import Update
from tests.sim.process import DispatcherProcess
from tests.sim.timeline import Timeline
from tests.sim.truth import Truth, expect

SLACK = 1e-6
PATIENCE_S = 2.0
SHORTEST_DELAY_S = 1.0
NEEDS_NO_RESTART = ("name", "constraints", "labels", "retries", "grace_period_s")
BY_ITSELF = (AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED, AttemptOutcome.LOST)

Slot = tuple[str, str]


def terms_of(job: Job) -> PerInstanceTerms:
    """Return how a per-instance job runs."""
    terms = job.terms.per_instance
    assert terms is not None
    return terms


def matches(job: Job, worker: Worker) -> bool:
    """Return whether a job is for an instance; it asks for types and markets only."""
    asked = job.tasks[0].spec.constraints
    named = not asked.instance_types or worker.type.name in asked.instance_types
    return named and not (asked.preemptible is Preemptible.FORBIDDEN and worker.type.preemptible)


class Places:
    """Looks at one process: which slots (a job and an instance) lack what since when."""

    def __init__(self, process: DispatcherProcess, timeline: Timeline, truth: Truth) -> None:
        self._process = process
        self._engine = process.engine
        self._pool = process.engine.pool
        self._table = process.engine.table
        self._timeline = timeline
        self._account = truth.jobs.per_instance
        self._store = truth.store
        self._updates: dict[str, list[float]] = {}
        self._empty_since: dict[tuple[str, str, str], float] = {}
        self._due_since: dict[tuple[str, ...], float] = {}
        self._offset_s = process.now() - timeline.now
        self._began_at = timeline.now
        self._has_passed = False
        self._begun: set[str] = set()
        self._due_updates: dict[str, list[Worker]] = {}
        self._started: set[str] = set()

    # ---- rounds of updates ----

    def on_update(self, container: Container, attempt: Attempt) -> None:
        """Look at an update that begins: no more of them in a while than the job allows."""
        job = self._table.jobs.job(container.job_id)
        if job is None:
            return
        now, terms = self._timeline.now, terms_of(job)
        self._updates.setdefault(job.id, []).append(now)
        few = self._left(job) >= 0
        expect(few, "updates come in rounds", attempt.id, terms, self._updates[job.id])
        since = now - terms.update.stagger_s + SLACK
        earlier = self._account.updates_since(job.id, since, self._offset_s)
        earlier = [each for each in earlier if each.attempt_id not in self._begun]
        few = len(earlier) <= self._left(job)
        expect(few, "updates come in rounds after a restart, too", attempt.id, terms, earlier)
        self._begun.add(attempt.id)
        update = Update(attempt_id=attempt.id, began_at=now, offset_s=self._offset_s)
        self._account.began_update(job.id, update)

    def _left(self, job: Job) -> int:
        """Return how many updates of a job may begin now, by what this process began."""
        update = terms_of(job).update
        since = self._timeline.now - update.stagger_s + SLACK
        recent = [at for at in self._updates.get(job.id, []) if at > since]
        return update.max_parallel - len(recent)

    # ---- restarts ----

    def expect_rested(self, container: Container) -> None:
        """Expect that who exits again and again waits for its delay before each further start."""
        *tried, last = container.attempts
        self._started.add(last.id)
        if not tried or not _goes_on(tried[-1], last):
            return
        restarts = [b for a, b in itertools.pairwise(tried) if _goes_on(a, b)]
        restarts = [b for b in restarts if b.revision == last.revision]
        if not restarts or restarts[-1].id not in self._started:
            return
        delay_s = max(SHORTEST_DELAY_S, container.spec.retries.delay_s)
        early = self._process.now() < restarts[-1].created_at + delay_s - SLACK
        expect(not early, "restarts wait for their time", container.attempts)

    # ---- what each instance should have ----

    def look(self) -> None:
        """Look at all slots after an event."""
        if not self._has_passed:
            # Rounds of before a restart count from the first pass on, by whatever clock they began.
            self._has_passed = self._engine.scheduling.passes > 0
            self._began_at = self._timeline.now
        registry = self._table.jobs
        jobs = [registry.job(job_id) for job_id in registry.job_ids()]
        found = [job for job in jobs if job is not None and job.type.is_per_instance]
        there = {(c.job_id, c.pinned_to): c for c in self._table.containers.values() if c.pinned_to}
        before, self._due_since = self._due_since, {}
        self._due_updates.clear()
        for worker in self._pool.workers.values():
            if self._is_open(worker):
                self._look_at(worker, found, there, before)
        self._expect_updates(found, there, before)

    def _is_open(self, worker: Worker) -> bool:
        return (
            worker.link.session_up
            and not worker.cloud.remembered
            and worker.state in (WorkerState.IDLE, WorkerState.RUNNING)
            and worker.behavior is IdleBehavior.RUN
            and not shutdown_decision.is_draining(worker)
            and self._process.now() >= worker.health.overloaded_until
            and not worker.health.on_trial
            # A process that is being ended may be of an earlier attempt.
            and not any(a.stray for a in self._pool.attempts_on(worker.id))
        )

    def _look_at(
        self,
        worker: Worker,
        jobs: list[Job],
        there: dict[Slot, Container],
        before: dict[tuple[str, ...], float],
    ) -> None:
        """Look at all jobs on one instance; who lacks room there may lack others' promises."""
        lacking = []
        asked = Resources()
        for job in jobs:
            container = there.get((job.id, worker.id))
            if not matches(job, worker) or _is_up_to_date(job, container):
                continue
            if job.held or job.priority == 0 or self._table.jobs.is_concluded(job.id):
                continue
            if container is not None and container.priority == 0:
                continue
            asked = asked.plus(_charged(job, worker))
            lacking.append((job, container))
        for job, container in lacking:
            if container is None or not container.has_open_attempt:
                if self._is_place_due(job, worker, container, asked):
                    self._expect_soon(job, worker, before)
            elif self._is_update_due(job, worker, container, asked):
                self._due_updates.setdefault(job.id, []).append(worker)

    def _expect_updates(
        self, jobs: list[Job], there: dict[Slot, Container], before: dict[tuple[str, ...], float]
    ) -> None:
        """Expect that as many are updated as may be; those that wait for room have their turns."""
        for job in jobs:
            if self._timeline.now < self._began_at + terms_of(job).update.stagger_s + PATIENCE_S:
                # Rounds of before a restart may keep those that follow waiting.
                continue
            due = self._due_updates.get(job.id, [])
            outdated = [
                c
                for (job_id, _), c in there.items()
                if job_id == job.id and c.has_open_attempt and not _is_up_to_date(job, c)
            ]
            waiting = sum(c.attempts[-1].intended_outcome is None for c in outdated) - len(due)
            if self._left(job) > waiting:
                for worker in due:
                    self._expect_soon(job, worker, before)

    def _expect_soon(self, job: Job, worker: Worker, before: dict[tuple[str, ...], float]) -> None:
        """Expect that what is due is done at once."""
        key = (job.id, worker.id, str(terms_of(job).revision))
        since = before.get(key, self._timeline.now)
        self._due_since[key] = since
        late = self._timeline.now > since + PATIENCE_S
        what = f"{job} on {worker} since {since}"
        expect(not late, "every instance has what it should", what)

    def _is_place_due(
        self, job: Job, worker: Worker, container: Container | None, asked: Resources
    ) -> bool:
        slot, terms = (job.id, worker.id), terms_of(job)
        if job.type is JobType.SYSBATCH and not self._may_run_once(slot, terms.revision):
            return False
        if not terms.late_joiners and self._engine.records[worker.id].created_at > terms.revised_at:
            return False
        last = self._latest(job, slot, container)
        if last is not None:
            delay_s = max(SHORTEST_DELAY_S, job.tasks[0].spec.retries.delay_s)
            if self._timeline.now < self._emptied(slot, last) + delay_s:
                return False
        if container is not None:
            behind = self._table.gates.reason(container) is not None
            if container.priority == 0 or container.cancel_requested or behind:
                return False
        return asked.fits_in(worker.load.free)

    def _may_run_once(self, slot: Slot, revision: int) -> bool:
        """Return whether a sysbatch job has not run there; what is not stored yet may say so."""
        return self._store.caught_up and not self._account.is_settled(*slot, revision)

    def _latest(self, job: Job, slot: Slot, container: Container | None) -> Attempt | None:
        """Return the latest attempt in a slot, for which the next may have to wait.

        It may be one of a container that has ended meanwhile, since somebody cancelled it, say.
        """
        if container is not None and container.attempts:
            return container.attempts[-1]
        last = self._account.latest(*slot)
        if last is None or last.outcome not in BY_ITSELF:
            return None
        return last if last.revision == terms_of(job).revision else None

    def _emptied(self, slot: Slot, last: Attempt) -> float:
        """Return since when this process knows that a slot is empty after its latest attempt."""
        key = (*slot, last.id)
        return self._empty_since.setdefault(key, self._timeline.now)

    def _is_update_due(
        self, job: Job, worker: Worker, container: Container, asked: Resources
    ) -> bool:
        attempt = container.attempts[-1]
        if attempt.intended_outcome is not None or container.cancel_requested:
            return False
        own = resources_of(container, attempt)
        in_place = not _needs_restart(job, worker, container)
        return in_place or asked.fits_in(worker.load.free.plus(own))


def _goes_on(before: Attempt, after: Attempt) -> bool:
    """Return whether an attempt followed one of its revision that had ended by itself."""
    return before.outcome in BY_ITSELF and before.revision == after.revision


def _is_up_to_date(job: Job, container: Container | None) -> bool:
    """Return whether an attempt lives that is what the job asks for."""
    if container is None or not container.has_open_attempt:
        return False
    attempt = container.attempts[-1]
    lives = attempt.intended_outcome is None and not container.cancel_requested
    return lives and attempt.revision == terms_of(job).revision


def _needs_restart(job: Job, worker: Worker, container: Container) -> bool:
    """Return whether an attempt must end for the job's revision to take its place."""
    old, new = container.spec, job.tasks[0].spec
    light = set(NEEDS_NO_RESTART)
    if _need(old, worker) == _need(new, worker):
        light |= {"resources", "unnamed"}
    names = [field.name for field in fields(old)]
    return any(getattr(old, n) != getattr(new, n) for n in names if n not in light)


def _need(spec: ContainerSpec, worker: Worker) -> Resources:
    return need(worker.type, spec.resources, spec.unnamed)


def _charged(job: Job, worker: Worker) -> Resources:
    """Return what a job takes of an instance at most: a whole cpu to share where it asks none."""
    asked = _need(job.tasks[0].spec, worker)
    return asked if asked.cpu_millis else replace(asked, cpu_millis=SHARED_CPU_MILLIS)
