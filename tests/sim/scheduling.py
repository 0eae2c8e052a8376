"""The checks of what limits the scheduler: restarts, how many run at once, overload, claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from math import inf

from longshore.dispatcher.domain.containers import Attempt, AttemptOutcome, Container
from longshore.dispatcher.domain.feasibility import rejections
from longshore.dispatcher.domain.messages import Overloaded
from longshore.dispatcher.scheduler.placement.concurrency import FORGOTTEN_AFTER_S, QUIET_S, STEP_S
from longshore.dispatcher.scheduler.placement.fleet import SlotKind
from longshore.dispatcher.state.queue import ClassKey, RequestClass
from longshore.drivers.interface import Resources
from longshore.pool import probing
from longshore.pool.charging import charge
from longshore.pool.messages import (
    CreateInstance,
    InterruptionNoticed,
    PoolCommand,
    StartAttempt,
    StartRefused,
)
from longshore.pool.model import Worker, WorkerState
from longshore.pool.transitions import Trigger
from tests.sim.job_conduct import JobConduct
from tests.sim.precedence import has_own_scheduler
from tests.sim.process import DispatcherProcess
from tests.sim.timeline import Timeline
from tests.sim.truth import expect

SLACK = 1e-6
REST_S = 60.0
"""How long an instance gets no work after it refused some since it is overloaded."""

LONGEST_WAIT_S = 900.0
"""How long those wait at most whose instances are taken back one after the other."""

GOES_S = 120.0
"""How long an instance that is being shut down is counted on to go."""

LONGEST_AT_LIMIT_S = 2 * QUIET_S + 5.0
"""After how long at a limit, with no further overload, it has risen for sure."""


class Scheduling:
    """Looks at one process; `offsets` says how each attempt's process had its clock set."""

    def __init__(
        self,
        process: DispatcherProcess,
        timeline: Timeline,
        offsets: dict[str, float],
        jobs: JobConduct,
    ) -> None:
        self._process = process
        self._engine = process.engine
        self._table = process.engine.table
        self._timeline = timeline
        self._offsets = offsets
        self._jobs = jobs
        self._offset_s = process.now() - timeline.now
        self._began_at = process.now()
        self._passes = 0
        self._overdue_since: dict[str, float] = {}
        self._resting: dict[str, float] = {}
        self._reports = 0
        self._limit: int | None = None
        self._quiet_since = self._stepped_at = -inf
        self._at_limit_since: float | None = None
        self._at_limit = 0
        self._created: list[str] = []
        self._started: set[str] = set()
        self._taken_back: set[str] = set()
        self._ended: set[str] = set()
        self._spared_until: dict[str, float] = {}
        self._coming: dict[str, set[ClassKey]] = {}

    # ---- what is decided ----

    def decided(self, command: PoolCommand) -> None:
        """Look at a command as it was decided."""
        match command:
            case StartAttempt():
                self._offsets[command.order.attempt_id] = self._offset_s
                self._started.add(command.order.attempt_id)
                self._on_start(command)
            case CreateInstance():
                self._created.append(command.launch.token)
            case _:
                pass

    def _on_start(self, command: StartAttempt) -> None:
        now = self._timeline.now
        until = self._resting.get(command.worker_id, -inf)
        rested = now >= until - SLACK
        expect(rested, "overloaded instances rest", f"{command.worker_id} until {until}")
        beside = [a.id for a in self._engine.pool.attempts_on(command.worker_id) if a.store]
        expect(not beside, "nothing starts beside what another store runs", beside)
        container = self._table.containers[command.order.container_id]
        if container.pinned_to:
            # Those of per-instance jobs have rules of their own, and count for no limit.
            return
        if not has_own_scheduler(self._table, container):
            self._expect_may_restart(container)
        count = self._count()
        limit = self._most()
        few = limit is None or count <= limit
        expect(few, "no more run at once than may", f"{count} of {limit}")
        if container.spec.supervisor and limit is not None:
            share = self._share(limit)
            placed = self._supervisors()
            expect(placed <= share, "supervisors have their share", f"{placed} of {share}")
        if container.spec.supervisor:
            self._expect_room_beside(container)

    def _expect_room_beside(self, container: Container) -> None:
        """Expect that at a quota of the cloud's supervisors leave room for others."""
        engine, spec = self._engine, container.spec
        pool, covers = engine.pool, engine.pool.holds.covers
        wanted = (spec.resources, spec.constraints, spec.unnamed)
        eligible = [t for t in engine.types.values() if not rejections(t, *wanted)]
        beside = charge(spec.resources, on_shared_cpu=0)
        for quota in pool.holds.quotas.known(self._process.now()):
            there = [w for w in pool.workers.values() if covers(quota.scope, w.type)]
            all_covered = all(covers(quota.scope, type_) for type_ in eligible)
            if quota.alone or not all_covered or not 1 < quota.most <= len(there):
                continue
            ids = {worker.id for worker in there}
            placed = [c for c in self._table.containers.values() if c.has_open_attempt]
            here = [c for c in placed if c.attempts[-1].instance_id in ids and not c.pinned_to]
            rest = [c.id for c in here if not c.is_supervisor]
            taken = {c.attempts[-1].instance_id for c in here}
            # What is too small for a supervisor may be what those need that it submits.
            standing = [w for w in there if w.state is not WorkerState.SHUTDOWN]
            rest += [w.id for w in standing if w.id not in taken]
            few = len(here) < 2 or bool(rest or spec.unnamed) or self._packs_more(there, beside)
            expect(few, "supervisors leave room at a quota", [c.id for c in here], quota)

    def _packs_more(self, there: Sequence[Worker], wanted: Resources) -> bool:
        rules = self._engine.scheduling.rules
        return any(
            wanted.fits_in(w.load.free) and not rules.is_full(w.load.busy_with) for w in there
        )

    def _count(self) -> int:
        """Return how many attempts count for limits: those that belong to no instance."""
        containers = self._table.containers
        return sum(not containers[c].pinned_to for c in self._table.open_attempts.values())

    def _supervisors(self) -> int:
        containers = self._table.containers.values()
        return sum(c.spec.supervisor and c.has_open_attempt for c in containers)

    def _share(self, limit: int) -> int:
        fraction = self._engine.settings.supervisor_fraction
        return max(1, math.floor(fraction * limit + SLACK))

    # ---- restarts ----

    def _expect_may_restart(self, container: Container) -> None:
        """Expect that a start after a failure is one that is due, by its request."""
        before = container.attempts[:-1]
        self._expect_has_waited(before)
        if not before or before[-1].outcome is not AttemptOutcome.FAILED:
            return
        due = self._due(container, before)
        what = f"{container.id} {container.spec.retries}: {before}"
        expect(due is not None, "what may not be restarted is not", what)
        assert due is not None
        early = self._process.now() < due - SLACK
        expect(not early, "restarts wait for their time", f"{what}, due at {due}")

    def _expect_has_waited(self, tried: tuple[Attempt, ...]) -> None:
        """Expect that whose instances are taken back one after the other waits longer each time."""
        codes = [a.reason.code if a.reason is not None else "" for a in reversed(tried)]
        number = len(list(itertools.takewhile("interrupted".__eq__, codes)))
        # Of what ended under an earlier process, nobody knows when by this one's clock.
        if number < 2 or tried[-1].id not in self._started:
            return
        due = (tried[-1].finished_at or 0.0) + min(LONGEST_WAIT_S, 2.0 ** (number - 2))
        early = self._process.now() < due - SLACK
        expect(not early, "restarts wait for their time", f"{tried}, due at {due}")

    def _due(self, container: Container, tried: tuple[Attempt, ...]) -> float | None:
        """Return when the next attempt is due at the earliest, None when there is to be none."""
        retries, last = container.spec.retries, tried[-1]
        as_now = [a for a in tried if a.revision == last.revision]
        failed = [a for a in as_now if a.outcome is AttemptOutcome.FAILED]
        code = last.reason.code if last.reason is not None else ""
        allowed = (
            len(failed) <= retries.most
            and ("failed" in retries.on or code in retries.on)
            and (
                code != "exit_code"
                or not retries.exit_codes
                or last.exit_code in retries.exit_codes
            )
        )
        if not allowed:
            return None
        restarts = [b for a, b in itertools.pairwise(tried) if a in failed]
        if not restarts:
            return -inf
        same_clock = self._offsets.get(restarts[-1].id) == self._offset_s
        return restarts[-1].created_at + retries.delay_s if same_clock else -inf

    def _expect_restarted_in_time(self, container: Container) -> None:
        """Expect that who is to be restarted waits for a place once the time has come."""
        last = container.attempts[-1]
        waits = container.priority > 0 and not container.cancel_requested
        if last.outcome is not AttemptOutcome.FAILED or not waits:
            return
        due = self._due(container, container.attempts)
        expect(due is not None, "what may not be restarted is not", container)
        assert due is not None
        if self._offsets.get(last.id) != self._offset_s or due == -inf:
            due = self._began_at if len(container.attempts) == 1 else inf
        lives = self._engine.pool.attempts.values()
        behind = any(a.stray and a.remote_id.rpartition("-")[0] == container.id for a in lives)
        held = behind or self._jobs.is_held(container.job_id)
        early = self._process.now() <= max(due, last.finished_at or 0.0) + SLACK
        if early or held or container.id in self._table.queue:
            self._overdue_since.pop(last.id, None)
            return
        since = self._overdue_since.setdefault(last.id, self._timeline.now)
        late = self._timeline.now > since + SLACK
        expect(not late, "restarts come in time", container, due)

    # ---- how many at once ----

    def _most(self) -> int | None:
        """Return how many may run at once at most, by an account of our own."""
        # The process's clock may be a rounding ahead.
        now = self._timeline.now + SLACK
        while self._limit is not None and now >= self._quiet_since + QUIET_S:
            self._quiet_since += QUIET_S
            self._limit = int(self._limit * 1.1) + 1
        if now >= self._stepped_at + FORGOTTEN_AFTER_S:
            self._limit = None
        limits = (self._limit, self._engine.settings.max_containers)
        return min((n for n in limits if n is not None), default=None)

    def _note_overload(self) -> None:
        """Let the limit sink: what runs was too much."""
        now, count = self._timeline.now, self._count()
        self._most()
        self._quiet_since = now
        self._at_limit_since = None
        lower = max(1, count - 1)
        if count and now >= self._stepped_at + STEP_S and (self._limit or inf) > lower:
            self._limit, self._stepped_at = lower, now

    def _expect_rises(self) -> None:
        """Expect that a limit that is reached for long does not stay as it is."""
        now, settings = self._timeline.now, self._engine.settings
        limit = self._process.limit()
        count = self._count()
        configured = settings.max_containers is not None and limit == settings.max_containers
        if limit is None or configured or count < limit or limit != self._at_limit:
            self._at_limit, self._at_limit_since = limit or 0, None
        if limit is not None and count >= limit and not configured:
            since = self._at_limit_since = self._at_limit_since or now
            stuck = now > since + LONGEST_AT_LIMIT_S
            expect(not stuck, "a limit for overload rises again", f"{limit} since {since}")

    # ---- what is heard ----

    def heard(self, event: object) -> None:
        """Look at an event before the engine gets it, of the pool's or another."""
        if isinstance(event, Overloaded):
            self._reports += 1
        elif isinstance(event, StartRefused) and event.code == "overloaded":
            pool = self._engine.pool
            attempt = pool.attempts.get(event.attempt_id)
            worker = pool.workers.get(event.worker_id)
            answered = attempt is not None and attempt.start_op == event.op_id
            rests = self._timeline.now < self._resting.get(event.worker_id, -inf) - SLACK
            if answered and worker is not None and not rests:
                self._resting[event.worker_id] = self._timeline.now + REST_S
                others = (
                    worker.load.busy_with - (not attempt.resident) if attempt is not None else 0
                )
                self._reports += others > 0
        elif isinstance(event, InterruptionNoticed):
            self._note_taken_back(event.worker_id)

    def _note_taken_back(self, worker_id: str) -> None:
        """Note what is on an instance that the cloud takes back, as is believed of some types."""
        worker = self._engine.pool.workers.get(worker_id)
        if worker is None or not worker.type.preemptible or worker.state is WorkerState.SHUTDOWN:
            return
        for attempt_id, container_id in self._table.open_attempts.items():
            if self._table.containers[container_id].attempts[-1].instance_id == worker_id:
                self._taken_back.add(attempt_id)

    # ---- what is known after an event ----

    def look(self) -> None:
        """Look at what holds after every event, and at a pass when there was one."""
        for _ in range(self._reports):
            self._note_overload()
        self._reports = 0
        self._expect_rises()
        for container in self._table.containers.values():
            if container.attempts and not container.has_open_attempt:
                if not has_own_scheduler(self._table, container):
                    self._expect_restarted_in_time(container)
                last = container.attempts[-1]
                lost = last.outcome is AttemptOutcome.LOST and last.id in self._taken_back
                expect(not lost, "what is taken back is no loss", last)
        if self._engine.scheduling.passes != self._passes:
            self._passes = self._engine.scheduling.passes
            self._look_at_pass()
        self._created.clear()

    def _look_at_pass(self) -> None:
        """Expect that claims are of those that wait, and that what is created is claimed."""
        fleet, queue = self._engine.scheduling.fleet_sync.fleet, self._table.queue
        waiting = {c.key: len(c) for c in queue.classes()}
        claimed: set[str] = set()
        for key, by_slot in fleet.claims.items():
            count = sum(by_slot.values())
            few = count <= waiting.get(key, 0)
            expect(few, "nobody claims for more than wait", key, by_slot)
            claimed.update(by_slot)
        claimed.update(self._engine.workloads.reservations())
        unclaimed = [token for token in self._created if token not in claimed]
        if unclaimed:
            free = self._created_for_elastic()
            unclaimed = [token for token in unclaimed if token not in free]
        expect(not unclaimed, "what is created is claimed", unclaimed)
        self._expect_supervisors_wait_for_reason()
        self._expect_few_make_way()
        self._expect_new_are_used()
        self._expect_claims_stay()

    def _expect_few_make_way(self) -> None:
        """Expect that no more idle instances make way for others than wait for instances.

        What is being shut down already makes way too, if it is not known to take long.
        """
        engine, now = self._engine, self._process.now()
        ending = {
            worker.id: worker
            for worker in engine.pool.workers.values()
            if worker.state is WorkerState.SHUTDOWN
        }
        new = [ending[worker_id] for worker_id in sorted(ending.keys() - self._ended)]
        # Of a type that is not configured nobody knows which quota it leaves room in.
        going = [
            w
            for i, w in ending.items()
            if i in self._ended and now < w.state_since + GOES_S and w.type.name in engine.types
        ]
        self._ended = set(ending)
        made_way = [w.id for w in new if w.shutdown.reason.startswith(Trigger.UNWANTED.value)]
        unused = [w for w in new if w.id in made_way and not w.load.last_busy]
        spared_until, self._spared_until = self._spared_until, self._spared()
        if not made_way or self._has_elastic():
            return
        for worker in unused:
            spared = now < spared_until.get(worker.id, -inf) - SLACK
            expect(not spared, "what has come for a lower one is spared", worker.id)
        fleet = engine.scheduling.fleet_sync.fleet
        waiting = sum(
            len(each) - sum(fleet.claims.get(each.key, {}).values())
            for each in self._table.queue.classes()
        )
        # Creates in doubt may have made instances, and count as such.
        expected = engine.pool.expected_launches()
        there = (
            len(engine.pool.workers) + len(expected) + len(engine.pool.unlisted_beside(expected))
        )
        over = max(0, there - engine.settings.max_instances)
        few = len(made_way) <= max(0, waiting + over - len(going))
        expect(few, "no more make way than are needed", f"{made_way} for {waiting}, {len(going)}")

    def _spared(self) -> dict[str, float]:
        """Return until when each instance that has run nothing is not to make way."""
        pool, now = self._engine.pool, self._process.now()
        return {
            worker.id: 2 * worker.state_since - worker.link.boots_since
            for worker in pool.workers.values()
            if worker.state is WorkerState.IDLE and not worker.load.last_busy
            if not probing.is_offline(pool, worker, now)
        }

    def _expect_new_are_used(self) -> None:
        """Expect that nobody waits behind others who fits on what has come and is not withheld."""
        pool, now = self._engine.pool, self._process.now()
        new = [
            worker
            for worker in pool.workers.values()
            if worker.id in self._spared_until
            and worker.is_ready
            and not worker.load.attempts
            and not worker.load.unreleased
            and not worker.cloud.remembered
            and worker.id not in pool.claimed_workers
            and worker.id not in self._engine.scheduling.evictions.reserved
            and probing.takes_work(pool, worker, now)
        ]
        for request_class in self._behind() if new else ():
            for worker in new:
                need = request_class.needs.get(worker.type.name)
                kept = self._engine.workloads.reservations().get(worker.id, Resources())
                room = worker.load.free.minus(kept)
                fits = need is not None and charge(need, on_shared_cpu=0).fits_in(room)
                expect(not fits, "what has come is used", worker.id, request_class.at(0))

    def _behind(self) -> list[RequestClass]:
        """Return the classes some of which wait behind others for a limit of instances."""
        scheduling, queue = self._engine.scheduling, self._table.queue
        reasons = {key: reason.code for key, reason in scheduling.waiting.items()}
        if "max_containers" in reasons.values() or "supervisors" in reasons.values():
            return []
        claims, limit = scheduling.fleet_sync.fleet.claims, self._most()
        claimed = sum(number for by_slot in claims.values() for number in by_slot.values())
        if limit is not None and self._count() + claimed >= limit:
            # Whom the limit of containers leaves a place lost it to one before, whatever is told.
            return []
        return [
            each
            for each in queue.classes()
            if reasons.get(each.key) == "behind"
            and len(each) > sum(claims.get(each.key, {}).values())
        ]

    def _expect_claims_stay(self) -> None:
        """Expect that what comes is claimed, while any wait of whom it was claimed before."""
        fleet = self._engine.scheduling.fleet_sync.fleet
        before, self._coming = self._coming, {}
        for key, by_slot in fleet.claims.items():
            for slot_id in by_slot:
                self._coming.setdefault(slot_id, set()).add(key)
        # A supervisor's claim may be lost to the share of supervisors, which is had again later.
        behind = (each for each in self._behind() if not each.key.supervisor)
        for request_class in behind:
            for slot_id in sorted(before.keys() - self._coming.keys()):
                slot = fleet.slots.get(slot_id)
                had = slot is not None and request_class.key in before[slot_id]
                if slot is None or not had or slot.kind is SlotKind.READY:
                    continue
                need = request_class.needs.get(slot.type.name)
                fits = need is not None and charge(need, on_shared_cpu=slot.on_shared_cpu).fits_in(
                    slot.free
                )
                expect(not fits, "what comes for a lower one stays its own", slot_id)

    def _has_elastic(self) -> bool:
        """Return whether there are jobs that let go what was bought for them, whoever waits."""
        registry = self._table.jobs
        jobs = [job for job in map(registry.job, registry.job_ids()) if job is not None]
        return any(job.terms.elastic is not None for job in jobs)

    def _created_for_elastic(self) -> list[str]:
        """Return what elastic jobs may have bought and claim nothing on: there are two cases.

        It is for members that scale up, or an instance that has no token yet stands for it.
        """
        registry = self._table.jobs
        terms = [
            job.terms.elastic for job in map(registry.job, registry.job_ids()) if job is not None
        ]
        expected = {pending.launch.token for pending in self._engine.pool.expected_launches()}
        scaled = any(each is not None and each.scale_up for each in terms)
        untold = [token for token in self._created if scaled or token not in expected]
        return untold if any(each is not None for each in terms) else []

    def _expect_supervisors_wait_for_reason(self) -> None:
        """Expect that a supervisor waits for its share only while others fill it.

        After a pass that is looked at late, who filled it may have ended meanwhile: while the store
        is away several events are handled before anybody looks.
        """
        scheduling = self._engine.scheduling
        if scheduling._last_pass_at < self._process.now():
            return
        for request_class in self._table.queue.classes():
            reason = scheduling.waiting.get(request_class.key)
            if reason is not None and reason.code == "supervisors":
                claims = scheduling.fleet_sync.fleet.claims
                claimed = sum(sum(s.values()) for k, s in claims.items() if k.supervisor)
                filled = self._supervisors() + claimed > 0
                expect(filled, "supervisors have their share", "none has a place")
