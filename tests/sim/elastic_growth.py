"""The check that elastic jobs begin, and grow, where there is room; an account of its own.

It is careful: where anybody else may come first it says nothing.
"""

from __future__ import annotations

from longshore.dispatcher.domain.containers import (
    Attempt,
    AttemptOutcome,
    Container,
    ContainerSpec,
    Placement,
    QueuePolicy,
)
from longshore.dispatcher.domain.feasibility import eligible_types, need
from longshore.dispatcher.domain.jobs import ElasticMode, Job
from longshore.drivers.interface import Resources
from longshore.pool import shutdown_decision
from longshore.pool.charging import SHARED_CPU_MILLIS
from longshore.pool.model import IdleBehavior, Worker, WorkerState
from tests.sim.elastic_account import is_essential
from tests.sim.process import DispatcherProcess
from tests.sim.timeline import Timeline
from tests.sim.truth import expect

PATIENCE_S = 75.0
"""For how long room must be there: longer than any delay after a start in vain."""

TRIES_MOST = 8
"""An elastic member that was tried more often may be kept waiting for longer than that."""


class Growth:
    """Looks at one process: which jobs could have had room since when."""

    def __init__(self, process: DispatcherProcess, timeline: Timeline) -> None:
        self._process = process
        self._engine = process.engine
        self._table = process.engine.table
        self._timeline = timeline
        self._since: dict[str, float] = {}
        self._types: dict[str, tuple[ContainerSpec, tuple[object, ...]]] = {}

    def look(self, jobs: list[Job], members: dict[str, list[Container]]) -> None:
        """Look at all jobs after an event."""
        before, self._since = self._since, {}
        registry = self._table.jobs
        lives = [job for job in jobs if not registry.is_concluded(job.id)]
        lives.sort(key=lambda job: job.sequence)
        if not self._engine.pool.listed_once or not lives:
            return
        waiting = [job for job in lives if not _runs(job, members[job.id])]
        elastic = self._engine.settings.elastic
        in_turn = waiting[:1] if elastic.policy is QueuePolicy.FIFO else []
        for job in waiting if elastic.backfill else in_turn:
            wanted = self._wanted_to_begin(job, members[job.id])
            late = self._is_late(job, wanted, before)
            expect(not late, "what has room begins", job)
        for job in lives if elastic.backfill or not waiting else ():
            if job not in waiting:
                growth = [c for c in members[job.id] if not is_essential(job, c) and _may(c)]
                late = self._is_late(job, growth[:1], before)
                expect(not late, "what has room grows", job)

    def _wanted_to_begin(self, job: Job, members: list[Container]) -> list[Container]:
        """Return what a job needs to begin, nothing if it is not to begin now."""
        terms = job.terms.elastic
        rigid = terms is not None and terms.mode is ElasticMode.RIGID
        needed = [c for c in members if rigid or is_essential(job, c)]
        fine = all(c.priority > 0 and not c.has_open_attempt for c in members)
        return needed if fine else []

    def _is_late(self, job: Job, wanted: list[Container], before: dict[str, float]) -> bool:
        """Return whether there was room for some members of a job for long, and is still."""
        free = all(self._table.gates.reason(each) is None for each in wanted)
        if job.held or not wanted or not free or not self._has_room(wanted):
            return False
        # Who begins meanwhile is looked at anew: another number of members is wanted then.
        key = f"{job.id} {len(wanted)} {wanted[0].id} {len(wanted[0].attempts)}"
        since = self._since[key] = before.get(key, self._timeline.now)
        return self._timeline.now > since + PATIENCE_S

    def expect_crowded(self, begins: list[Container], attempt: Attempt) -> None:
        """Expect that nobody makes way for some that find room together on another instance."""
        others = self._engine.pool.workers.values()
        spare = [w.id for w in others if begins and self._fits(w, begins)]
        expect(not spare, "nobody makes way where there is room", attempt, spare)

    # ---- room ----

    def _has_room(self, wanted: list[Container]) -> bool:
        """Return whether all find room on one instance that takes work."""
        most = self._process.limit()
        spoken_for = self._table.placed + self._engine.workloads.reserved_count()
        if most is not None and spoken_for + len(wanted) > most:
            return False
        return any(self._fits(worker, wanted) for worker in self._engine.pool.workers.values())

    def _fits(self, worker: Worker, wanted: list[Container]) -> bool:
        settings = self._engine.settings
        one = settings.placement is Placement.EXCLUSIVE
        most = 1 if one else settings.max_containers_per_instance
        if not self._is_open(worker) or worker.load.busy_with + len(wanted) > most:
            return False
        kept = self._engine.workloads.reservations().get(worker.id, Resources())
        if kept != Resources():
            return False
        asked = Resources(cpu_millis=SHARED_CPU_MILLIS)
        for each in wanted:
            if worker.type not in self._types_of(each):
                return False
            asked = asked.plus(need(worker.type, each.spec.resources, each.spec.unnamed))
        return asked.fits_in(worker.load.free)

    def _types_of(self, container: Container) -> tuple[object, ...]:
        """Return the types that would do, reckoned once for what a container asks for."""
        spec = container.spec
        known = self._types.get(container.id)
        if known is None or known[0] is not spec:
            known = self._types[container.id] = (spec, self._reckon_types(spec))
        return known[1]

    def _reckon_types(self, spec: ContainerSpec) -> tuple[object, ...]:
        return eligible_types(
            list(self._engine.types.values()),
            spec.resources,
            spec.constraints,
            spec.unnamed,
            max_price_factor=self._engine.settings.max_price_factor,
        )

    def _is_open(self, worker: Worker) -> bool:
        claims = self._engine.scheduling.fleet_sync.fleet.claims.values()
        claimed = any(worker.id in slots or worker.token in slots for slots in claims)
        return (
            worker.link.session_up
            and not worker.cloud.remembered
            and worker.state in (WorkerState.IDLE, WorkerState.RUNNING)
            and worker.behavior is IdleBehavior.RUN
            and not shutdown_decision.is_draining(worker)
            and not worker.health.broken
            and self._process.now() >= worker.health.overloaded_until
            and not worker.health.on_trial
            and not claimed
        )


def _runs(job: Job, members: list[Container]) -> bool:
    """Return whether all that a job needs runs, or has done its work."""
    return all(_has_run(c) for c in members if is_essential(job, c))


def _has_run(container: Container) -> bool:
    last = container.attempts[-1] if container.attempts else None
    if last is None:
        return False
    return last.outcome is AttemptOutcome.SUCCEEDED or (
        last.outcome is None and last.started_at is not None
    )


def _may(container: Container) -> bool:
    """Return whether an elastic member lacks nothing but room."""
    last = container.attempts[-1] if container.attempts else None
    waits = last is None or last.outcome not in (None, AttemptOutcome.SUCCEEDED)
    return waits and container.priority > 0 and len(container.attempts) <= TRIES_MOST
