"""The checks of what the dispatcher does with attempts: where they start, and how they end."""

from __future__ import annotations

from dataclasses import replace

from longshore.dispatcher.domain.containers import (
    AttemptOutcome,
    Container,
    ContainerState,
    Placement,
    Preemptible,
    resources_of,
)
from longshore.dispatcher.domain.feasibility import need, rejections
from longshore.dispatcher.scheduler.placement.fleet import Slot, SlotKind
from longshore.dispatcher.state.queue import RequestClass
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.charging import charge
from longshore.pool.holds import CreateBlockKind
from longshore.pool.messages import (
    AttemptStarted,
    BrokenReported,
    CloseSession,
    CreateInstance,
    DestroyInstance,
    PoolCommand,
    PoolEvent,
    ProbeSucceeded,
    StartAttempt,
    StartRefused,
)
from longshore.pool.model import REBOOTED, IdleBehavior, Starting, Worker, WorkerState
from longshore.pool.timers import TimerKind
from longshore.pool.transitions import Trigger
from tests.sim.elsewhere import expect_elsewhere
from tests.sim.hosts import Host
from tests.sim.losses import NEVER_RAN, is_lost_too_often, lost_on_each
from tests.sim.precedence import has_own_scheduler, is_spared, place_in_line
from tests.sim.prices import instead_of, is_within_price, may_be_bought
from tests.sim.process import DispatcherProcess
from tests.sim.scheduling import GOES_S
from tests.sim.shortages import Shortages
from tests.sim.timeline import Timeline
from tests.sim.truth import Truth, expect

SLACK = 1e-6
MOST_REFUSALS = 3
LOGS_COME_S = 60.0
LEASE_KNOWN_S = 10.0
"""How long a session is up until what was said of the lease has arrived for sure."""

GENTLE = (Trigger.IDLE_TIMEOUT.value, Trigger.UNWANTED.value, Trigger.DRAINED.value)
FAULTS_OF_THE_REQUEST = ("invalid", "too_large")


class Work:
    """Looks at one process: what it was told of instances, and what it did with containers."""

    def __init__(
        self,
        process: DispatcherProcess,
        timeline: Timeline,
        truth: Truth,
        hosts: dict[str, Host],
        shortages: Shortages,
    ) -> None:
        self._shortages = shortages
        self._process = process
        self._engine = process.engine
        self._pool = process.engine.pool
        self._table = process.engine.table
        self._timeline = timeline
        self._truth = truth
        self._hosts = hosts
        self._passes = 0
        self._complaints: dict[str, str] = {}
        self._refused: set[str] = set()
        self._refusals: dict[str, int] = {}
        self._used: set[str] = set()
        self._judged: set[str] = set()
        self._ended: set[tuple[str, float]] = set()
        self._held_since: dict[str, float] = {}
        self._awaited_since: dict[str, float] = {}
        self._logs_come = process.links.around.faults.lost_logs == 0

    # ---- what is decided ----

    def decided(self, command: PoolCommand) -> None:
        """Look at a command as it was decided."""
        match command:
            case StartAttempt():
                self._on_start(command)
            case CreateInstance():
                self._on_create(command)
            case CloseSession():
                self._on_end(command.worker_id)
            case DestroyInstance():
                self._on_end(command.instance_id)
            case _:
                pass

    def _on_start(self, command: StartAttempt) -> None:
        worker = self._pool.workers[command.worker_id]
        container = self._table.containers[command.order.container_id]
        complaint = self._complaints.get(worker.id, "")
        refusals = self._refusals.get(worker.id, 0)
        ready = worker.link.session_up and not complaint and refusals < MOST_REFUSALS
        expect(ready, "only ready instances get work", worker, complaint, refusals)
        sick = worker.id in self._hosts and self._hosts[worker.id].sick
        expect(not sick, "only ready instances get work", f"{worker.id} fails its boot probe")
        expect(not container.cancel_requested, "what is cancelled does not start", container.id)
        if container.pinned_to:
            # Those of per-instance jobs have rules of their own.
            return
        if not self._truth.jobs.elastic.may_die(container):
            refused = container.id in self._refused and not container.spec.retries.most
            expect(not refused, "what is refused for its own fault is not tried again", container)
            self._expect_may_try(container)
        self._expect_may_share(worker, container)
        if has_own_scheduler(self._table, container):
            return
        self._expect_spared(container, worker.type)
        expect_elsewhere(self._engine, container, worker, self._process.now())
        key = replace(self._table.queue.key_of(container), lasting=self._is_spared(container))
        is_cheap = is_within_price(self._engine, key, worker.type, self._scarce())
        expect(is_cheap, "none runs on what is too dear", f"{container.id} on {worker.type.name}")
        for other in self._table.containers.values():
            if self._waits_before(other, container):
                self._expect_not_overtaken(other, container, worker)

    def _expect_spared(self, container: Container, type_: InstanceType) -> None:
        """Expect that what was taken back too often is put at that risk no more, if it need not."""
        spec = container.spec
        lasting = [
            each.name
            for each in self._engine.types.values()
            if not each.preemptible
            and not rejections(each, spec.resources, spec.constraints, spec.unnamed)
        ]
        spared = not (type_.preemptible and lasting and self._is_spared(container))
        expect(spared, "what is taken back too often runs on what is not", container.id, lasting)

    def _is_spared(self, container: Container) -> bool:
        return is_spared(container, self._engine.settings)

    def _scarce(self) -> frozenset[str]:
        patience_s = self._engine.settings.preemptible_patience_s
        return self._shortages.scarce(self._timeline.now, patience_s)

    def _expect_may_try(self, container: Container) -> None:
        found = [a for a in container.attempts if a.outcome is AttemptOutcome.LOST]
        lost = [a for a in found if a.reason is None or a.reason.code != "overloaded"]
        if has_own_scheduler(self._table, container):
            # A start that never came about is tried again as often as it takes.
            lost = [a for a in lost if a.reason is None or a.reason.code not in NEVER_RAN]
            few = len(lost) < self._engine.settings.max_lost_attempts
        else:
            few = not is_lost_too_often(lost, self._engine.settings.max_lost_attempts)
        expect(few, "what is lost too often fails", f"{container.id}: {len(lost)}")
        truth = self._truth
        began = [a for a in lost if a.id in truth.ran_on and a.id not in truth.unknown]
        ran = [a.id for a in began if a.reason is None or a.reason.code not in NEVER_RAN]
        allowed = container.spec.retry_lost or not ran
        expect(allowed, "what may not be tried again is not", f"{container.id}: {ran}")

    def _expect_may_share(self, worker: Worker, container: Container) -> None:
        settings, count = self._engine.settings, worker.load.busy_with
        alone = settings.placement is not Placement.EXCLUSIVE or count == 1
        expect(alone, "exclusive instances run one container", worker.id, worker.load.attempts)
        few = count <= settings.max_containers_per_instance
        expect(few, "max_containers_per_instance", worker.id, worker.load.attempts)
        forbidden = container.spec.constraints.preemptible is Preemptible.FORBIDDEN
        allowed = not (forbidden and worker.type.preemptible)
        expect(allowed, "containers run only where they may", container.id, "on", worker.type)

    # ---- the order of priority ----

    def _waits_before(self, other: Container, container: Container) -> bool:
        """Return whether `other` comes first and has no place at all."""
        return (
            other.id in self._table.queue
            and self._engine.scheduling.claimed_slot(other.id) is None
            and place_in_line(other) < place_in_line(container)
        )

    def _expect_not_overtaken(self, other: Container, container: Container, worker: Worker) -> None:
        request_class = self._table.queue.class_of(other.id)
        assert request_class is not None
        if worker.type.name in {type_.name for type_ in request_class.types}:
            given = resources_of(container, container.attempts[-1])
            kept = self._engine.workloads.reservations().get(worker.id, Resources())
            room = worker.load.free.plus(given).minus(kept)
            wanted = charge(
                need(worker.type, other.spec.resources, other.spec.unnamed), on_shared_cpu=0
            )
            fits = wanted.fits_in(room) and not self._may_be_one_too_many(other)
            fits = fits and worker.id not in lost_on_each(other.attempts)
            expect(not fits, "no lower one takes the place of a higher", f"{other.id} waits")
        closed = self._closed_by(request_class)
        overtaken = closed is not None and (not closed or worker.type.name in closed)
        if overtaken and worker.id not in self._used:
            # What was created for lower ones is their own, if others make way for the higher.
            overtaken = not self._make_way(worker, closed or set())
        what = f"{container.id} on {worker.id}"
        expect(not overtaken, "nothing below a quota gets a place", what)

    def _make_way(self, worker: Worker, closed: set[str]) -> bool:
        """Return whether another instance that takes up a quota is idle, or on its way out."""
        now = self._process.now()
        return any(
            other.state is WorkerState.IDLE
            or (other.state is WorkerState.SHUTDOWN and now < other.state_since + GOES_S)
            for other in self._pool.workers.values()
            if other is not worker and (not closed or other.type.name in closed)
        )

    def _may_be_one_too_many(self, other: Container) -> bool:
        """Return whether a supervisor waits for its share, which `scheduling` looks at.

        One before it may have had that for a create which could not begin in the end: for a pass.
        """
        request_class = self._table.queue.class_of(other.id)
        assert request_class is not None
        reason = self._engine.scheduling.waiting.get(request_class.key)
        if reason is None or not other.spec.supervisor:
            return False
        return reason.code == "supervisors" or reason.limit == "max_concurrent_creates"

    def _closed_by(self, request_class: RequestClass) -> set[str] | None:
        """Return the types whose quota keeps a class waiting: () for all, None for no quota."""
        scheduling = self._engine.scheduling
        reason = scheduling.waiting.get(request_class.key)
        if reason is None or reason.code != "at_quota":
            return None
        key = request_class.key
        scarce = self._scarce()
        types = [t for t in request_class.types if may_be_bought(self._engine, key, t, scarce)]
        if self._never_allowed(types):
            return None
        if "max_instances" in reason.message:
            return set()
        create_block = scheduling.view(self._process.now()).limits.create_block
        found = [h for h in map(create_block, types) if h is not None]
        quotas = [h for h in found if h.kind is CreateBlockKind.QUOTA]
        if not quotas:
            return None
        everywhere = any(h.everywhere for h in quotas)
        covered = {name for h in quotas for name in h.covers}
        if not everywhere and self._bought_now() & {t.name for t in types} - covered:
            # The one that might have been its own went to another: the next pass closes the quota.
            return None
        return set() if everywhere else covered

    def _never_allowed(self, types: list[InstanceType]) -> bool:
        """Return whether a quota has refused each of some types though none was there."""
        pool = self._pool
        known = [each for each in pool.holds.quotas.known(self._process.now()) if each.alone]
        there = {
            each.scope
            for each in known
            if any(pool.holds.covers(each.scope, worker.type) for worker in pool.workers.values())
        }
        alone = [each.scope for each in known if each.scope not in there]
        return bool(types) and all(any(pool.holds.covers(s, t) for s in alone) for t in types)

    def _bought_now(self) -> set[str]:
        """Return the types of which the pass at this moment has created."""
        launches = [pending.launch for pending in self._pool.expected_launches()]
        return {each.type_name for each in launches if each.created_at == self._process.now()}

    # ---- creating ----

    def _on_create(self, command: CreateInstance) -> None:
        """Expect that each empty instance of a type that comes is one that somebody waits for."""
        name, classes = command.instance_type.name, self._table.queue.classes()
        elastic = sum(
            not c.has_open_attempt and has_own_scheduler(self._table, c) and not c.pinned_to
            for c in self._table.containers.values()
        )
        scarce = self._scarce()
        cheap = (may_be_bought(self._engine, c.key, command.instance_type, scarce) for c in classes)
        expect(elastic > 0 or any(cheap), "nothing is bought that is too dear", name)
        naming = [c for c in classes if name in {t.name for t in c.types}]
        coming = sum(1 for p in self._pool.expected_launches() if p.launch.type_name == name)
        coming += sum(
            1
            for w in self._pool.workers.values()
            if w.type.name == name
            and w.state in (WorkerState.UNKNOWN, WorkerState.BOOTING)
            and w.behavior is IdleBehavior.RUN
            and not w.load.attempts
            and not w.health.broken
            and not w.health.interruption
            and not w.cloud.unseen
            and (elastic or any(w.id not in c.key.avoided for c in naming))
        )
        wanted = elastic + sum(len(c) for c in naming)
        what = f"{coming} of {name} for {wanted}"
        expect(coming <= wanted, "no more is created than is waited for", what)

    def _on_end(self, worker_id: str) -> None:
        """Expect that a gentle end waits for the logs that the instance still has.

        Its session ends when its destroy is asked for. What is heard of it from then on puts
        nothing off, though the cloud's rates may keep the destroy waiting.
        """
        worker = self._pool.workers.get(worker_id)
        if worker is None or worker.state is not WorkerState.SHUTDOWN:
            return
        if (worker.id, worker.state_since) in self._ended:
            return
        self._ended.add((worker.id, worker.state_since))
        if not worker.shutdown.reason.startswith(GENTLE):
            return
        patient = self._process.now() >= worker.load.last_busy + self._pool.settings.probe_timeout_s
        unreleased = self._table.unreleased.values()
        there = [a for a in unreleased if a.instance_id == worker.id]
        awaited = [a.id for a in there if not self._truth.is_resident(a.id)]
        expect(patient or not awaited, "logs are waited for", f"{worker.id}: {awaited}")

    # ---- what is heard ----

    def heard(self, event: PoolEvent) -> None:
        """Look at an event before the engine gets it."""
        match event:
            case StartRefused():
                attempt = self._pool.attempts.get(event.attempt_id)
                if attempt is not None and attempt.start_op == event.op_id:
                    self._on_refused(event)
            case AttemptStarted():
                self._refusals[event.worker_id] = 0
            case BrokenReported():
                self._complaints[event.worker_id] = event.message
            case ProbeSucceeded():
                worker = self._pool.workers.get(event.worker_id)
                if worker is not None and not worker.link.session_up:
                    self._complaints[event.worker_id] = event.report.broken
            case _:
                pass

    def _on_refused(self, event: StartRefused) -> None:
        if event.code in FAULTS_OF_THE_REQUEST:
            self._refused.add(event.attempt_id.rpartition("-")[0])
            return
        if event.code == REBOOTED:
            return
        worker = self._pool.workers.get(event.worker_id)
        paused = worker is not None and self._process.now() < worker.health.overloaded_until
        # What was under way to an instance that is overloaded counts once.
        if event.code != "overloaded" or not paused:
            self._refusals[event.worker_id] = self._refusals.get(event.worker_id, 0) + 1

    # ---- what is known after an event ----

    def look(self) -> None:
        """Look at what holds after every event, and at a pass when there was one."""
        self._used = {worker.id for worker in self._pool.workers.values() if worker.load.last_busy}
        for attempt_id, container_id in self._table.open_attempts.items():
            self._expect_ending(attempt_id, self._table.containers[container_id])
        for attempt in self._pool.attempts.values():
            if attempt.is_to_end:
                worker = self._pool.workers.get(attempt.worker_id)
                up = worker is not None and worker.link.session_up and not self._pool.stalled
                due = self._pool.timers.due(TimerKind.SIGNAL, attempt.id)
                expect(not up or due is not None, "signals go on", attempt.id)
            if isinstance(attempt.phase, Starting) and not attempt.start_op:
                self._expect_looked_for(attempt.worker_id, attempt.id)
        known = self._complaints.keys() | self._refusals.keys()
        for worker_id in sorted(known - self._pool.workers.keys()):
            self._complaints.pop(worker_id, None)
            self._refusals.pop(worker_id, None)
        for worker in self._pool.workers.values():
            self._look_at(worker)
        self._look_at_logs()
        if self._engine.scheduling.passes != self._passes:
            self._passes = self._engine.scheduling.passes
            self._look_at_pass()

    def _expect_looked_for(self, worker_id: str, attempt_id: str) -> None:
        """Expect a probe where nobody knows whether an attempt started; a session brings none."""
        worker = self._pool.workers.get(worker_id)
        if worker is None or worker.state is WorkerState.SHUTDOWN or not worker.link.session_up:
            return
        due = self._pool.timers.due(TimerKind.PROBE, worker_id) is not None
        due = due or bool(worker.link.probe_op) or worker_id in self._pool.probe_gate
        expect(due, "a start without an answer is looked for", f"{attempt_id} on {worker_id}")

    def _look_at_logs(self) -> None:
        """Expect that a log comes, or is known never to come, while there is a session."""
        awaited = self._table.unreleased
        if self._pool.listed_once:
            forgotten = sorted(awaited.keys() - self._pool.attempts.keys())
            expect(not forgotten, "no log is awaited that cannot come", f"{forgotten}")
        since, now = self._awaited_since, self._timeline.now
        for attempt_id in sorted(since.keys() | awaited.keys()):
            attempt = awaited.get(attempt_id)
            worker = self._pool.workers.get(attempt.instance_id) if attempt is not None else None
            # One that a fault lost may be waited for until its instance knows nothing of it.
            due = self._logs_come or attempt_id in self._truth.unknown
            if worker is None or not worker.link.session_up or not due:
                since.pop(attempt_id, None)
                continue
            in_time = now <= since.setdefault(attempt_id, now) + LOGS_COME_S
            expect(in_time, "no log is awaited that cannot come", attempt_id)

    def _expect_ending(self, attempt_id: str, container: Container) -> None:
        last = container.attempts[-1]
        if (
            container.cancel_requested
            or container.priority == 0
            or last.intended_outcome is not None
        ):
            attempt = self._pool.attempts.get(attempt_id)
            ending = attempt is not None and attempt.is_to_end
            expect(ending, "what is to end is ended", attempt_id, "of", container)

    def _look_at(self, worker: Worker) -> None:
        now = self._timeline.now
        if worker.state is WorkerState.SHUTDOWN:
            awaited = any(a.told_to_end for a in self._pool.attempts_on(worker.id))
            left = worker.link.session_up and not awaited
            expect(not left, "no session with what is shut down", worker.id)
        elif worker.link.session_up:
            told = self._complaints.get(worker.id, "")
            expect(
                worker.health.complaint == told, "complaints are heard", f"{worker.id}: {told!r}"
            )
        held = worker.behavior is IdleBehavior.HOLD and worker.link.session_up
        if held and not self._is_silent(self._hosts.get(worker.id)):
            known = now > self._held_since.setdefault(worker.id, now) + LEASE_KNOWN_S
            suspended = self._hosts[worker.id].lease.suspended
            expect(suspended or not known, "a held instance's lease is suspended", worker.id)
        else:
            self._held_since.pop(worker.id, None)
        if worker.health.verdict and worker.id not in self._judged:
            self._judged.add(worker.id)
            self._expect_fair(worker)

    def _is_silent(self, host: Host | None) -> bool:
        if host is None or not host.up or host.frozen_until > self._timeline.now - LEASE_KNOWN_S:
            return True
        return self._truth.store.stalled_in_last(LEASE_KNOWN_S)

    def _expect_fair(self, worker: Worker) -> None:
        """Look at the verdict on a worker as it is given."""
        what = f"{worker.id}: {worker.health.verdict}"
        if "starts in a row were refused" in worker.health.verdict:
            count = self._refusals.get(worker.id, 0)
            expect(count >= MOST_REFUSALS, "no instance is judged too soon", f"{what} ({count})")
        host = self._hosts.get(worker.id)
        if "survives KILL" in worker.health.verdict and host is not None and not host.dead:
            there = worker.health.verdict.split()[1] in host.processes.keys() | self._truth.unknown
            expect(there, "no instance is judged too soon", what)

    def _may_be_refused(self, slot: Slot) -> bool:
        """Return whether an instance is being created where a quota has refused one before."""
        holds = self._pool.holds
        known = holds.quotas.known(self._process.now())
        covered = any(holds.covers(each.scope, slot.type) for each in known)
        return covered and slot.kind is SlotKind.LAUNCHING

    def _is_certain(self, slot: Slot | None, container_id: str) -> bool:
        """Return whether a claim is on no instance that a quota may refuse.

        Which of a class has which claim is nobody's concern, so that holds for all of theirs.
        """
        request_class = self._table.queue.class_of(container_id)
        if slot is None or request_class is None:
            return False
        fleet = self._engine.scheduling.fleet_sync.fleet
        theirs = fleet.claims.get(request_class.key, {})
        return not any(self._may_be_refused(fleet.slots[slot_id]) for slot_id in sorted(theirs))

    def _look_at_pass(self) -> None:
        """Expect that claims are what is journalled, and that nobody idles while others wait."""
        scheduling = self._engine.scheduling
        held = scheduling.locked
        twice = sorted(c for c in held if c not in self._table.queue)
        expect(not twice, "nobody has two places", f"{twice}")
        for container in self._table.containers.values():
            if container.has_open_attempt:
                continue
            locked = container.state is ContainerState.LOCKED
            claimed = self._is_certain(scheduling.claimed_slot(container.id), container.id)
            expect(locked or not claimed, "claims are journalled", f"{container.id}")
            known = container.id in held
            expect(known or not locked, "claims are given up", f"{container.id} is locked")
        scarce = self._scarce()
        for request_class in self._table.queue.classes() if scarce else ():
            others = instead_of(self._engine, request_class.key, scarce)
            allowed = not others or others & request_class.needs.keys()
            expect(
                bool(allowed),
                "who has no preemptible instance for long gets another",
                request_class.key,
                others,
            )
        idle = any(w.state is WorkerState.IDLE for w in self._pool.workers.values())
        for request_class in self._table.queue.classes() if idle else ():
            closed = self._closed_by(request_class)
            if closed is not None:
                self._expect_nobody_idles(closed)

    def _expect_nobody_idles(self, closed: set[str]) -> None:
        """Expect that of what takes up a quota something goes, if anything idles."""
        now = self._process.now()
        there = [w for w in self._pool.workers.values() if not closed or w.type.name in closed]
        going = any(w.state is WorkerState.SHUTDOWN and now < w.state_since + GOES_S for w in there)
        for worker in there:
            idle = (
                worker.state is WorkerState.IDLE
                and worker.behavior is IdleBehavior.RUN
                and worker.link.session_up
                and not worker.cloud.remembered
                and now >= worker.health.overloaded_until
                and not worker.health.on_trial
                and not worker.load.unreleased
                and worker.id not in self._engine.workloads.claimed_workers()
                and not _is_spared(worker, now)
            )
            expect(going or not idle, "no idle instance uses up a quota", worker.id)


def _is_spared(worker: Worker, now: float) -> bool:
    """Return whether an instance is ready for no longer than it took to boot, and ran nothing."""
    booted_s = worker.state_since - worker.link.boots_since
    return not worker.load.last_busy and now < worker.state_since + booted_s
