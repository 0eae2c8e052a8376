"""The checks of what one process does with system and sysbatch jobs: where, when, at whose cost."""

from __future__ import annotations

from longshore.dispatcher.domain.containers import (
    Attempt,
    AttemptOutcome,
    Container,
    StopCause,
    resources_of,
)
from longshore.dispatcher.domain.feasibility import need
from longshore.dispatcher.domain.jobs import Job, JobType
from longshore.drivers.interface import Resources
from longshore.pool import shutdown_decision
from longshore.pool.charging import charge
from longshore.pool.messages import (
    DestroyInstance,
    PoolCommand,
    SessionLost,
    SignalAttempt,
    StartAttempt,
)
from longshore.pool.model import IdleBehavior, Worker, WorkerState
from longshore.pool.transitions import Trigger
from tests.sim.hosts import Host
from tests.sim.per_instance_evictions import Evictions
from tests.sim.per_instance_places import PATIENCE_S, Places, matches, terms_of
from tests.sim.process import DispatcherProcess
from tests.sim.timeline import Timeline
from tests.sim.truth import Truth, expect

SLACK = 1e-6
LEAST_GAP = 100
"""How many points of priority a victim is below who evicts it, at least."""

GENTLE = (Trigger.IDLE_TIMEOUT.value, Trigger.UNWANTED.value, Trigger.DRAINED.value)


class PerInstanceConduct:
    """Looks at one process."""

    def __init__(
        self, process: DispatcherProcess, timeline: Timeline, truth: Truth, hosts: dict[str, Host]
    ) -> None:
        self._engine = process.engine
        self._pool = process.engine.pool
        self._table = process.engine.table
        self._timeline = timeline
        self._truth = truth
        self._hosts = hosts
        self._places = Places(process, timeline, truth)
        self._evictions = Evictions(process)
        self._told_at: dict[str, float] = {}
        self._destroyed: set[str] = set()
        self._sessions: set[str] = set()
        self._left_since: dict[str, float] = {}
        self._leaving_since: dict[str, float] = {}
        self._refused_since: dict[str, float] = {}
        self._endings = {(a.id, a.stop_reason) for _, a in self._ending()}

    # ---- what is heard, and decided ----

    def heard(self, event: object) -> None:
        """Look at an event before the engine gets it."""
        if isinstance(event, SessionLost):
            self._sessions.discard(event.worker_id)

    def decided(self, command: PoolCommand) -> None:
        """Look at a command as it was decided."""
        match command:
            case StartAttempt():
                container = self._table.containers[command.order.container_id]
                worker = self._pool.workers[command.worker_id]
                if container.pinned_to:
                    self._on_start(container, worker)
                self._expect_kept_room(worker)
                self._evictions.started(container, worker)
            case SignalAttempt():
                self._told_at.setdefault(command.attempt_id, self._timeline.now)
            case DestroyInstance():
                if command.instance_id not in self._destroyed:
                    self._on_first_destroy(command.instance_id)
                self._destroyed.add(command.instance_id)
            case _:
                pass

    def _on_start(self, container: Container, worker: Worker) -> None:
        job, attempt = self._table.jobs.job(container.job_id), container.attempts[-1]
        expect(job is not None, "what its job does not ask for is not started", container.id)
        assert job is not None
        terms = terms_of(job)
        what = f"{attempt.id} on {worker.id}"
        here = container.pinned_to == worker.id and matches(job, worker)
        expect(here, "a per-instance attempt runs where it belongs", what)
        latest = attempt.revision == terms.revision and container.spec == job.tasks[0].spec
        expect(latest, "an instance gets the latest revision", what, terms)
        ready = worker.state in (WorkerState.IDLE, WorkerState.RUNNING)
        # The same pass may find that others need the place of its instance.
        ready = ready or self._pool.attempts[attempt.id].told_to_end
        expect(ready and worker.link.session_up, "only ready instances get work", what, worker)
        wanted = not job.cancel_requested and job.priority > 0
        expect(wanted, "what its job does not ask for is not started", what, job)
        expect(_takes_new(job, worker), "nothing new on what is held or drains", what, worker)
        joined_at = self._engine.records[worker.id].created_at
        in_time = terms.late_joiners or joined_at <= terms.revised_at + SLACK
        expect(in_time, "who joins late is left alone where the job says so", what, joined_at)
        strays = [a.id for a in self._pool.attempts_on(worker.id) if a.stray]
        expect(not strays, "nothing starts beside what nobody wants", what, strays)
        self._places.expect_rested(container)

    def _expect_kept_room(self, worker: Worker) -> None:
        """Expect that whoever starts leaves what is promised to others."""
        kept = self._engine.workloads.reservations().get(worker.id, Resources())
        fits = kept.fits_in(worker.load.free)
        expect(fits, "room that is promised is not given away", worker.id, kept, worker.load.free)

    def _on_first_destroy(self, worker_id: str) -> None:
        """Expect that what belongs to an instance was told of its end, and had its time."""
        worker, host = self._pool.workers.get(worker_id), self._hosts.get(worker_id)
        if worker is None or host is None or not worker.shutdown.reason.startswith(GENTLE):
            return
        if worker_id not in self._sessions:
            return
        known = [self._pool.attempts.get(a) for a in self._truth.residents_on(host)]
        there = [a for a in known if a is not None and a.id in worker.load.resident]
        untold = [a.id for a in there if a.id not in self._told_at]
        expect(not untold, "residents are told of the end", worker_id, untold)
        most_s = self._pool.settings.term_timeout_s
        patience_s = max((most_s if a.grace_s is None else a.grace_s for a in there), default=0.0)
        for attempt in there:
            due = self._told_at[attempt.id] + min(most_s, patience_s)
            had = self._timeline.now >= due - SLACK
            expect(had, "residents have their time", worker_id, attempt.id, due)

    # ---- what is known after an event ----

    def look(self) -> None:
        """Look at what holds after every event."""
        self._sessions = {w.id for w in self._pool.workers.values() if w.link.session_up}
        told = {attempt_id for attempt_id, _ in self._endings}
        evicted: dict[str, list[tuple[Container, Attempt]]] = {}
        for container, attempt in self._ending():
            if (attempt.id, attempt.stop_reason) not in self._endings:
                self._endings.add((attempt.id, attempt.stop_reason))
                self._on_ending(container, attempt)
                if attempt.stop_reason.cause is StopCause.FOR_JOB:
                    evicted.setdefault(attempt.stop_reason.of, []).append((container, attempt))
        for job_id, victims in evicted.items():
            job = self._table.jobs.job(job_id)
            if job is not None and job.type.is_per_instance:
                self._evictions.begun(job, victims, told)
        if not any(job.type.is_per_instance for job in self._truth.store.jobs.values()):
            return
        for container in self._table.containers.values():
            if container.pinned_to:
                queued = container.id in self._table.queue
                expect(not queued, "per-instance work never queues", container.id)
                self._expect_not_left(container)
        for worker in self._pool.workers.values():
            self._expect_to_go(worker)
        self._expect_refused_jobs_to_end()
        self._places.look()

    def _expect_refused_jobs_to_end(self) -> None:
        """Expect that a sysbatch job ends each of whose starts was refused, also on what is there.

        By what is stored, which the process has known for longer.
        """
        now, stuck = self._timeline.now, set()
        for job_id in self._table.jobs.job_ids():
            job = self._table.jobs.job(job_id)
            if job is None or job.type is not JobType.SYSBATCH or job.held or not job.priority:
                continue
            latest = self._truth.jobs.per_instance.refused_everywhere(job)
            here = any(instance_id in self._pool.workers for instance_id in latest)
            if here and self._pool.listed_once and not self._table.jobs.is_concluded(job_id):
                stuck.add(job_id)
        self._refused_since = {id_: self._refused_since.get(id_, now) for id_ in stuck}
        late = sorted(id_ for id_, since in self._refused_since.items() if now > since + PATIENCE_S)
        expect(not late, "a job that every instance refuses ends", late)

    def _expect_not_left(self, container: Container) -> None:
        """Expect that a container does not wait for an instance that is gone."""
        gone = self._pool.listed_once and container.pinned_to not in self._pool.workers
        if not gone or container.has_open_attempt:
            self._left_since.pop(container.id, None)
            return
        now = self._timeline.now
        since = self._left_since.setdefault(container.id, now)
        in_time = now <= since + PATIENCE_S
        expect(in_time, "nobody waits for an instance that is gone", container)

    def _ending(self) -> list[tuple[Container, Attempt]]:
        """Return the open attempts that were told to end."""
        containers = [self._table.containers[c] for c in self._table.open_attempts.values()]
        return [
            (c, c.attempts[-1]) for c in containers if c.attempts[-1].intended_outcome is not None
        ]

    def _on_ending(self, container: Container, attempt: Attempt) -> None:
        """Look at an attempt that was just told to end."""
        cause = attempt.stop_reason.cause
        if attempt.intended_outcome is AttemptOutcome.PREEMPTED and cause is StopCause.NOTHING:
            expect(container.priority == 0, "who makes way knows for whom", attempt)
        elif cause is StopCause.REVISED:
            self._expect_may_be_updated(container, attempt)
            self._places.on_update(container, attempt)
        elif cause is StopCause.NODE_DRAINING:
            worker_id = attempt.instance_id
            others = [
                c.id
                for c in (self._table.containers[i] for i in self._table.open_attempts.values())
                if not c.pinned_to and c.attempts[-1].instance_id == worker_id
            ]
            expect(not others, "batch work leaves first", attempt, others)
            job = self._table.jobs.job(container.job_id)
            spared = job is not None and terms_of(job).ignore_system
            expect(not spared, "who ignores a drain is left alone", attempt)
        of = attempt.stop_reason.of
        evictor = self._table.jobs.job(of) if cause is StopCause.FOR_JOB else None
        if evictor is not None and evictor.type.is_per_instance:
            self._on_eviction(container, attempt, evictor)

    def _expect_may_be_updated(self, container: Container, attempt: Attempt) -> None:
        """Expect that its successor can start at once where an attempt ends for a revision."""
        job, worker = (
            self._table.jobs.job(container.job_id),
            self._pool.workers.get(attempt.instance_id),
        )
        if job is None or worker is None:
            return
        held = worker.behavior is IdleBehavior.HOLD and not terms_of(job).on_paused
        expect(not held, "nothing is updated on what is held", attempt)
        up = worker.link.session_up and not worker.health.broken
        expect(up, "who is updated can start again", attempt, worker)
        spec = job.tasks[0].spec
        asked = need(worker.type, spec.resources, spec.unnamed)
        # Those of no cpus share one: the first takes it, and the last gives it back.
        on_shared_cpu = len(worker.load.sharing - {attempt.id})
        own = resources_of(container, attempt)
        room = worker.load.free.plus(charge(own, on_shared_cpu=on_shared_cpu))
        fits = charge(asked, on_shared_cpu=on_shared_cpu).fits_in(room)
        expect(fits, "who is updated can start again", attempt, room)

    def _on_eviction(self, container: Container, attempt: Attempt, by: Job) -> None:
        right = attempt.intended_outcome is AttemptOutcome.PREEMPTED
        expect(right, "who makes way knows for whom", attempt)
        below = container.priority <= by.priority - LEAST_GAP
        what = (attempt.id, container.priority, by.id, by.priority)
        expect(below, "only who matters much less makes way", *what)
        settings = self._engine.settings
        system = by.type is JobType.SYSTEM
        allowed = settings.preempt_system if system else settings.preempt_sysbatch
        expect(allowed, "only who may evicts", *what)
        place = (by.id, attempt.instance_id)
        waiting = [c for c in self._table.containers.values() if (c.job_id, c.pinned_to) == place]
        held = by.held or any(c.priority == 0 for c in waiting if not c.state.final)
        expect(not held, "nobody makes way for what is held back", *what)

    def _expect_to_go(self, worker: Worker) -> None:
        """Expect that an instance waits for what belongs to it no longer than all get."""
        stays = worker.state is not WorkerState.SHUTDOWN or not worker.link.session_up
        if stays or self._pool.stalled:
            self._leaving_since.pop(worker.id, None)
            return
        now = self._timeline.now
        since = self._leaving_since.setdefault(worker.id, now)
        in_time = now <= since + self._pool.settings.term_timeout_s + SLACK
        expect(in_time, "no instance waits for its residents for ever", worker.id, since)


def _takes_new(job: Job, worker: Worker) -> bool:
    """Return whether an instance's idle behavior lets a job start something there."""
    terms = terms_of(job)
    if shutdown_decision.is_draining(worker):
        return terms.on_paused and (bool(worker.load.busy_with) or terms.ignore_system)
    return worker.behavior is not IdleBehavior.HOLD or terms.on_paused
