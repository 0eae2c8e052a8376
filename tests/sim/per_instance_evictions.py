"""The checks of evictions for system and sysbatch jobs: who goes, and who gets the room.

An account of its own beside the planner's. It is careful: where others wait for room on the same
instance, and it may be theirs, it says nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from longshore.dispatcher.domain.containers import Attempt, Container
from longshore.dispatcher.domain.feasibility import need
from longshore.dispatcher.domain.jobs import Job
from longshore.drivers.interface import Resources
from longshore.pool import shutdown_decision
from longshore.pool.charging import SHARED_CPU_MILLIS
from longshore.pool.model import IdleBehavior, Worker
from tests.sim.machines import room_on
from tests.sim.per_instance_places import matches
from tests.sim.process import DispatcherProcess
from tests.sim.truth import expect


class Evictions:
    """Looks at one process: who makes way on which instance, and who starts there."""

    def __init__(self, process: DispatcherProcess) -> None:
        self._pool = process.engine.pool
        self._table = process.engine.table

    # ---- who goes ----

    def begun(self, by: Job, victims: Sequence[tuple[Container, Attempt]], told: set[str]) -> None:
        """Look at those who were just told to make way for a job; `told` were before them."""
        for worker_id in sorted({attempt.instance_id for _, attempt in victims}):
            worker = self._pool.workers.get(worker_id)
            if worker is None:
                continue
            here = {a.id: c.priority for c, a in victims if a.instance_id == worker_id}
            if self._is_all_its(by, worker, here):
                self._expect_least(by, worker, here, told)

    def _expect_least(
        self, by: Job, worker: Worker, victims: dict[str, int], told: set[str]
    ) -> None:
        """Expect that everybody is needed, and nobody of lower priority would do instead."""
        stays = worker.load.attempts.keys() - victims.keys() - told
        known = {a: self._table.open_attempts.get(a) for a in stays}
        batch = {a: self._table.containers[c] for a, c in known.items() if c is not None}
        for victim, priority in victims.items():
            lower = {a for a, c in batch.items() if not c.pinned_to and c.priority < priority}
            without = self._fits(by, worker, (stays - lower) | {victim})
            what = f"{victim} on {worker.id} for {by.id}"
            expect(not without, "who matters least makes way first", what, sorted(lower))

    def _is_all_its(self, by: Job, worker: Worker, victims: Collection[str]) -> bool:
        """Return whether no other per-instance job may wait for room on an instance."""
        return not any(
            c.pinned_to == worker.id
            and c.job_id != by.id
            and (not c.has_open_attempt or _is_ending(c))
            and not (c.has_open_attempt and c.attempts[-1].id in victims)
            for c in self._table.containers.values()
        )

    # ---- who gets the room ----

    def started(self, container: Container, worker: Worker) -> None:
        """Look at who starts: nobody takes the room that one waits for on its instance."""
        here = [c for c in self._table.containers.values() if c.pinned_to == worker.id]
        waiting = [each for each in here if not each.has_open_attempt]
        job = self._table.jobs.job(waiting[0].job_id) if len(waiting) == 1 else None
        if job is None or not self._is_wanted(job, waiting[0], worker):
            return
        if not self._comes_after(container, job) or not self._is_all_its(job, worker, ()):
            return
        own = container.attempts[-1].id
        there = (self._table.containers[each] for each in self._table.open_attempts.values())
        stays = worker.load.attempts.keys() - {c.attempts[-1].id for c in there if _is_ending(c)}
        if self._fits(job, worker, stays - {own}):
            fits = self._fits(job, worker, stays)
            expect(fits, "room that is promised is not given away", own, worker.id, job.id)

    def _is_wanted(self, job: Job, container: Container, worker: Worker) -> bool:
        """Return whether one waits for nothing but room, or its time, on an instance."""
        over = job.held or job.priority == 0 or self._table.jobs.is_concluded(job.id)
        back = container.priority == 0 or container.cancel_requested
        back = back or self._table.gates.reason(container) is not None
        strays = any(each.stray for each in self._pool.attempts_on(worker.id))
        away = (
            worker.behavior is not IdleBehavior.RUN
            or shutdown_decision.is_draining(worker)
            or strays
        )
        return not over and not back and not away and matches(job, worker)

    def _comes_after(self, container: Container, job: Job) -> bool:
        """Return whether somebody's turn comes after a job's: batch work's always does."""
        other = self._table.jobs.job(container.job_id) if container.pinned_to else None
        if other is None:
            return not container.pinned_to
        return (-other.priority, other.sequence) > (-job.priority, job.sequence)

    def _fits(self, by: Job, worker: Worker, attempt_ids: Collection[str]) -> bool:
        """Return whether a job has room beside some attempts, and nothing else."""
        spec = by.tasks[0].spec
        given = [need(worker.type, spec.resources, spec.unnamed)]
        given += [worker.load.attempts[each] for each in sorted(attempt_ids)]
        total = Resources()
        for each in given:
            total = total.plus(each)
        if not all(each.cpu_millis for each in given):
            total = total.plus(Resources(cpu_millis=SHARED_CPU_MILLIS))
        return total.fits_in(room_on(worker.type, worker.load.machine))


def _is_ending(container: Container) -> bool:
    """Return whether an open attempt was told to end, or its container was cancelled."""
    return container.has_open_attempt and (
        container.attempts[-1].intended_outcome is not None or container.cancel_requested
    )
