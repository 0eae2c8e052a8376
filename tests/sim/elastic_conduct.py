"""The checks of what one process does with elastic jobs: who starts when, and who makes way."""

from __future__ import annotations

from longshore.dispatcher.domain.containers import Attempt, AttemptOutcome, Container, StopCause
from longshore.dispatcher.domain.jobs import ElasticMode, Job, JobType
from longshore.drivers.interface import Resources
from longshore.pool.messages import PoolCommand, StartAttempt, UpdateLimits
from tests.sim.elastic_account import is_essential, task_of, was_lost
from tests.sim.elastic_growth import Growth
from tests.sim.elastic_shares import Shares
from tests.sim.elastic_turns import Turns
from tests.sim.elastic_ways import Ways
from tests.sim.hosts import Host
from tests.sim.process import DispatcherProcess
from tests.sim.timeline import Timeline
from tests.sim.truth import Truth, expect

SLACK = 1e-6
SHORTEST_DELAY_S = 1.0
LONGEST_DELAY_S = 60.0
DEATHS = (AttemptOutcome.FAILED, AttemptOutcome.LOST)


class ElasticConduct:
    """Looks at one process."""

    def __init__(
        self, process: DispatcherProcess, timeline: Timeline, truth: Truth, hosts: dict[str, Host]
    ) -> None:
        self._process = process
        self._engine = process.engine
        self._table = process.engine.table
        self._truth = truth
        self._account = truth.jobs.elastic
        self._growth = Growth(process, timeline)
        self._shares = Shares(process, timeline, hosts)
        self._turns = Turns(process)
        self._ways = Ways(process)
        self._passes = 0
        self._started: set[str] = set()
        self._open: dict[str, set[str]] = {}
        # None before the first look: what an earlier process has begun is as it is.
        self._housed: set[str] | None = None
        self._endings = {(a.id, a.intended_outcome) for _, _, a in self._ending()}

    # ---- what is decided ----

    def decided(self, command: PoolCommand) -> None:
        """Look at a command as it was decided."""
        if isinstance(command, StartAttempt):
            container = self._table.containers[command.order.container_id]
            if self._table.jobs.type_of(container.job_id) is JobType.ELASTIC:
                self._on_start(container)
        elif isinstance(command, UpdateLimits):
            self._shares.decided(command)

    def begun(self, command: PoolCommand) -> None:
        """Look at a command that begins to be carried out."""
        if isinstance(command, UpdateLimits):
            self._shares.begun(command)

    def _on_start(self, container: Container) -> None:
        job = self._table.jobs.job(container.job_id)
        over = self._table.jobs.is_concluded(container.job_id)
        expect(not over, "nothing of a job that is over starts", container.id)
        assert job is not None
        members = self._members(job)
        needed = [each for each in members if is_essential(job, each)]
        homeless = [each.id for each in needed if not self._has_place(each)]
        what = f"{container.id} of {job.id}"
        expect(not homeless, "what a job needs has its place before it starts", what, homeless)
        self._expect_turn(job, container, needed)
        if _is_rigid(job) and job.id not in (self._housed or ()):
            self._expect_all(job, members)
        self._expect_rested(job, container, needed)
        self._started.add(container.attempts[-1].id)

    def _members(self, job: Job) -> list[Container]:
        known = self._table.containers
        return [known[id_] for id_ in self._table.jobs.containers_of(job.id) if id_ in known]

    def _has_place(self, member: Container) -> bool:
        return member.has_open_attempt or _is_done(member) or self._ways.is_kept(member)

    def _expect_turn(self, job: Job, container: Container, needed: list[Container]) -> None:
        """Expect that those run which are to run before somebody."""
        if is_essential(job, container):
            own = task_of(job, container).startup_order
            first = [each for each in needed if task_of(job, each).startup_order < own]
            early = [each.id for each in first if not _has_run(each)]
            expect(not early, "what a job needs starts in its order", container.id, early)
        else:
            early = [each.id for each in needed if not _has_run(each)]
            expect(not early, "what a job needs starts first", container.id, early)

    def _expect_all(self, job: Job, members: list[Container]) -> None:
        """Expect that a rigid job begins with all that it has, but for what users hold back.

        It begins when somebody has a place: who is released afterwards waits for his own.
        """
        wanted = [each for each in members if each.priority > 0]
        lacking = [each.id for each in wanted if not self._has_place(each)]
        expect(not lacking, "rigid jobs begin with all they have", job.id, lacking)

    def _expect_rested(self, job: Job, container: Container, needed: list[Container]) -> None:
        """Expect that who died again and again waits, and so does a job that has lost somebody."""
        now = self._process.now()
        for each in needed:
            before = [a for a in each.attempts if a.id in self._started and was_lost(a)]
            due = (before[-1].finished_at or 0.0) + SHORTEST_DELAY_S if before else now
            what = f"{container.id} of {job.id}, due at {due}"
            expect(now >= due - SLACK, "restarts wait for their time", what)
        tried = container.attempts[:-1]
        deaths = sum(_is_death(attempt) for attempt in tried)
        if is_essential(job, container) or deaths < 2 or not _is_death(tried[-1]):
            return
        if tried[-1].id in self._started:
            delay_s = min(LONGEST_DELAY_S, SHORTEST_DELAY_S * 2.0 ** (deaths - 2))
            due = (tried[-1].finished_at or 0.0) + delay_s
            expect(now >= due - SLACK, "restarts wait for their time", tried, due)

    # ---- what is known after an event ----

    def look(self) -> None:
        """Look at what holds after every event, and at a pass when there was one."""
        registry = self._table.jobs
        ids = [id_ for id_ in registry.job_ids() if registry.type_of(id_) is JobType.ELASTIC]
        if not ids and not self._open:
            return
        ending = self._ending()
        told = [(j, c, a) for j, c, a in ending if (a.id, a.intended_outcome) not in self._endings]
        self._endings |= {(attempt.id, attempt.intended_outcome) for _, _, attempt in told}
        for job, container, attempt in told:
            alike = frozenset(a.id for _, _, a in told if a.stop_reason == attempt.stop_reason)
            self._on_ending(job, container, attempt, alike)
        jobs = [job for job in map(registry.job, ids) if job is not None]
        by_job = {job.id: self._members(job) for job in jobs}
        self._open = {
            id_: {c.id for c in members if c.has_open_attempt} for id_, members in by_job.items()
        }
        housed = {job.id for job in jobs if _is_rigid(job) and self._is_housed(by_job[job.id])}
        for job in jobs:
            if self._housed is not None and job.id in housed - self._housed:
                self._expect_all(job, by_job[job.id])
            self._expect_over(job, by_job[job.id])
        self._housed = housed
        if self._engine.scheduling.passes != self._passes:
            self._passes = self._engine.scheduling.passes
            self._ways.note_pass()
            self._expect_kept_room()
            for job in jobs:
                self._expect_concluded(job)
            self._turns.look(jobs, by_job)
        self._growth.look(jobs, by_job)
        self._shares.look()

    def _is_housed(self, members: list[Container]) -> bool:
        return any(each.has_open_attempt or self._ways.has_place(each) for each in members)

    def _ending(self) -> list[tuple[Job, Container, Attempt]]:
        """Return the open attempts of such jobs that were told to end."""
        found = []
        for container_id in self._table.open_attempts.values():
            container = self._table.containers[container_id]
            last = container.attempts[-1]
            if last.intended_outcome is None:
                continue
            job = self._table.jobs.job(container.job_id) if container.job_id else None
            if job is not None and job.type is JobType.ELASTIC:
                found.append((job, container, last))
        return found

    def _on_ending(
        self, job: Job, container: Container, attempt: Attempt, alike: frozenset[str]
    ) -> None:
        """Expect a reason for what was just told to end; so were all that are `alike`, for it."""
        over = container.cancel_requested or self._table.jobs.is_concluded(job.id)
        if over or attempt.intended_outcome is AttemptOutcome.FAILED:
            return
        cause, of = attempt.stop_reason.cause, attempt.stop_reason.of
        other = self._table.jobs.job(of) if cause is StopCause.FOR_JOB else None
        if other is None:
            unsaid = cause is StopCause.NOTHING
            held = container.priority == 0 and unsaid
            lost = [
                each.id
                for each in self._members(job)
                if is_essential(job, each) and each.attempts and was_lost(each.attempts[-1])
            ]
            right = held or (bool(lost) and not unsaid)
            expect(right, "members are ended for a reason", attempt, lost)
        elif other.type is JobType.ELASTIC:
            self._expect_spare(job, container, attempt)
            self._ways.expect_needed(job, attempt, other, alike)
            self._ways.expect_missed(attempt)
            if self._ways.leaves_places(going=0):
                self._growth.expect_crowded(self._ways.beginning(other), attempt)

    def _expect_spare(self, job: Job, container: Container, attempt: Attempt) -> None:
        """Expect that a job gives back only what it can do without."""
        terms = job.terms.elastic
        flexible = terms is not None and terms.mode is ElasticMode.FLEXIBLE
        expect(flexible, "only flexible jobs give back", attempt, terms)
        spare = not is_essential(job, container)
        expect(spare, "what a job needs is never given back", attempt)

    def _expect_over(self, job: Job, members: list[Container]) -> None:
        """Expect that a job that is over has nothing that waits or is to run on."""
        if not self._table.jobs.is_concluded(job.id):
            return
        left = [
            each.id
            for each in members
            if not each.has_open_attempt
            or (each.attempts[-1].intended_outcome is None and not each.cancel_requested)
        ]
        expect(not left, "a job that is over ends all it has", job.id, left)

    def _expect_concluded(self, job: Job) -> None:
        """Expect that a job is over once what it needs is, by what is stored."""
        done = self._truth.store.caught_up and self._account.is_done(job)
        ended = job.id in self._account.failed or done
        over = self._table.jobs.is_concluded(job.id)
        expect(over or not ended, "a job is over when what it needs is", job.id, done)

    def _expect_kept_room(self) -> None:
        """Expect that all that is promised on an instance is there."""
        workers = self._engine.pool.workers
        for worker_id, kept in self._engine.workloads.reservations().items():
            worker = workers.get(worker_id)
            if worker is not None and worker.link.session_up:
                fits = kept.fits_in(worker.load.free.plus(Resources()))
                expect(fits, "room is promised once", worker_id, kept, worker.load.free)


def _is_rigid(job: Job) -> bool:
    return job.terms.elastic is not None and job.terms.elastic.mode is ElasticMode.RIGID


def _is_done(member: Container) -> bool:
    last = member.attempts[-1] if member.attempts else None
    return last is not None and last.outcome is AttemptOutcome.SUCCEEDED


def _has_run(member: Container) -> bool:
    """Return whether a member runs, or has done its work."""
    runs = member.has_open_attempt and member.attempts[-1].started_at is not None
    return runs or _is_done(member)


def _is_death(attempt: Attempt) -> bool:
    return attempt.outcome in DEATHS or was_lost(attempt)
