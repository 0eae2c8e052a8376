"""The checks of what the dispatcher asks for: holds, limits, order, held instances."""

from __future__ import annotations

from longshore.dispatcher.domain.containers import Container, ContainerSpec, SchedulerSettings
from longshore.dispatcher.domain.messages import BehaviorRequested, Confirm
from longshore.drivers.errors import AmbiguousResult, CloudError, RateLimitError
from longshore.pool import signals
from longshore.pool.messages import (
    AskBills,
    BillsFailed,
    BillsTold,
    Created,
    CreateFailed,
    CreateInstance,
    Destroyed,
    DestroyFailed,
    DestroyInstance,
    FindFailed,
    FindInstance,
    InstanceFound,
    InterruptionNoticed,
    Listed,
    ListingFailed,
    ListInstances,
    PoolCommand,
    PoolEvent,
    Probe,
    SetTags,
    SignalAttempt,
    StartAttempt,
    StartRefused,
    TagsFailed,
    TagsSet,
)
from longshore.pool.model import IdleBehavior, WorkerState
from longshore.pool.tags import is_unrecognised
from longshore.pool.transitions import Trigger
from tests.sim.conditions import Conditions
from tests.sim.doubts import Doubts
from tests.sim.elastic_conduct import ElasticConduct
from tests.sim.hold_ends import HoldEnds
from tests.sim.hosts import Host
from tests.sim.job_conduct import JobConduct
from tests.sim.kills import Kills
from tests.sim.losses import lost_on_each
from tests.sim.per_instance_conduct import PerInstanceConduct
from tests.sim.precedence import has_own_scheduler, is_spared, place_in_line
from tests.sim.presence import Presence
from tests.sim.process import DispatcherProcess
from tests.sim.scheduling import Scheduling
from tests.sim.shortages import LONGEST_TOLD_S, Shortages
from tests.sim.signals import Signals
from tests.sim.sizes import Sizes
from tests.sim.steering import Steering
from tests.sim.timeline import Timeline
from tests.sim.truth import TAG, Truth, expect
from tests.sim.upkeep import Upkeep
from tests.sim.verdicts import Verdicts
from tests.sim.work import Work

CLOUD_COMMANDS = (
    ListInstances,
    CreateInstance,
    DestroyInstance,
    SetTags,
    FindInstance,
    AskBills,
)
SLACK = 1e-6
LEAST_RATE_LIMIT_S = 1.0
LONGEST_UNTOLD_S = 60.0


class Bucket:
    """Counts what may be done at a rate with a burst of one second's worth, at least one."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._burst = max(1.0, per_s)
        self._tokens = self._burst
        self._at = 0.0

    def takes(self, now: float) -> bool:
        """Take one; return whether there was one."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_s) - 1
        self._at = now
        return self._tokens >= -SLACK


class CallAccount:
    """Keeps account of calls of one kind that failed: until when the next must wait."""

    def __init__(self) -> None:
        self.until = 0.0
        self._failures = 0

    def failed(self, error: CloudError, now: float) -> None:
        """Note a failure; those of calls that were under way together count once."""
        self._failures += now >= self.until - SLACK
        told_s = error.retry_after_s if isinstance(error, RateLimitError) else None
        if told_s is None:
            hold_s = min(LONGEST_UNTOLD_S, LEAST_RATE_LIMIT_S * 2.0 ** (self._failures - 1))
        else:
            hold_s = min(max(told_s, LEAST_RATE_LIMIT_S), LONGEST_TOLD_S)
        self.until = max(self.until, now + hold_s)

    def limited(self, error: CloudError, now: float) -> None:
        """Note a failure that only makes others wait if it is a rate limit."""
        if isinstance(error, RateLimitError):
            self.failed(error, now)

    def succeeded(self, now: float) -> None:
        """Note a success: the next wait is a short one."""
        if now >= self.until - SLACK:
            self._failures = 0


class Conduct:
    """Looks at one process after the other; `wanted` is what admins asked of instances."""

    def __init__(
        self, timeline: Timeline, truth: Truth, hosts: dict[str, Host], foreign: set[str]
    ) -> None:
        self._timeline = timeline
        self._truth = truth
        self._hosts = hosts
        self._foreign = foreign
        self.wanted: dict[str, IdleBehavior] = {}
        self.killed: set[str] = set()
        self.steering = Steering(truth)
        self.hold_ends = HoldEnds()
        self._process: DispatcherProcess | None = None
        self._listings = CallAccount()
        self._changes = CallAccount()
        self._finds = CallAccount()
        self._bills = CallAccount()
        self._offsets: dict[str, float] = {}
        self._taken_back: set[str] = set()

    def handled(self, process: DispatcherProcess) -> None:
        """Look at what an event changed; the engine's own check has run."""
        if process is self._process:
            self._shortages.look(self._timeline.now)
            self._doubts.look()
            self._presence.look()
            self._upkeep.look(self._changes.until, self._listings.until)
            self._kills.look()
            self._work.look()
            self._scheduling.look()
            self._jobs.look()
            self._per_instance.look()
            self._elastic.look()
            self._verdicts.look()
            self._conditions.look()
            self._sizes.look()
            self.hold_ends.look(process)

    def _begin(self, process: DispatcherProcess) -> None:
        settings = process.engine.pool.settings
        self._process = process
        self._ops = Bucket(settings.max_cloud_ops_per_second)
        self._probes = Bucket(settings.max_probes_per_second)
        self._shortages = Shortages(process.engine, process.now() - self._timeline.now)
        self._presence = Presence(process, self._timeline, self._truth, self._hosts)
        self._upkeep = Upkeep(process, self._timeline, self._truth, self._hosts)
        self._kills = Kills(process, self._truth, self.killed)
        self._work = Work(process, self._timeline, self._truth, self._hosts, self._shortages)
        self._signals = Signals(process, self._timeline, self._truth)
        self._doubts = Doubts(process, self._timeline)
        self._verdicts = Verdicts(process)
        self._conditions = Conditions(process)
        self._sizes = Sizes(process)
        self._jobs = JobConduct(process, self._timeline, self._truth, self._offsets)
        self._scheduling = Scheduling(process, self._timeline, self._offsets, self._jobs)
        self._per_instance = PerInstanceConduct(process, self._timeline, self._truth, self._hosts)
        self._elastic = ElasticConduct(process, self._timeline, self._truth, self._hosts)
        self._listings, self._changes = CallAccount(), CallAccount()
        self._finds = CallAccount()
        self._bills = CallAccount()
        self._taken_back.clear()

    # ---- what is decided ----

    def decided(self, process: DispatcherProcess, command: PoolCommand) -> None:
        """Look at a command as the engine decided it."""
        if process is not self._process:
            self._begin(process)
        self._upkeep.decided(command)
        self._work.decided(command)
        self._scheduling.decided(command)
        self._jobs.decided(command)
        self._signals.decided(command)
        self._per_instance.decided(command)
        self._elastic.decided(command)
        self._sizes.decided(command)
        now = self._timeline.now
        if isinstance(command, CLOUD_COMMANDS):
            expect(self._ops.takes(now), "the rate of cloud operations", command)
        if isinstance(command, DestroyInstance | SetTags):
            ours = command.instance_id not in self._foreign
            expect(ours, "foreign instances are untouched", command)
        match command:
            case ListInstances() | FindInstance() | AskBills():
                self._on_question(command)
            case CreateInstance():
                self._on_create(process, command)
            case DestroyInstance():
                self._on_destroy(process, command)
            case SetTags():
                self._expect_others_free()
            case Probe():
                expect(self._probes.takes(now), "the rate of probes", command)
            case StartAttempt():
                self._on_start(process, command)
            case _:
                pass

    def _on_question(self, command: ListInstances | FindInstance | AskBills) -> None:
        accounts = {FindInstance: self._finds, AskBills: self._bills}
        account = accounts.get(type(command), self._listings)
        held = self._timeline.now < account.until - SLACK
        expect(not held, "no listing during a hold", command, f"until {account.until}")

    def _expect_others_free(self) -> None:
        held = self._timeline.now < self._changes.until - SLACK
        expect(not held, "no destroy during a hold", f"until {self._changes.until}")

    def _on_create(self, process: DispatcherProcess, command: CreateInstance) -> None:
        pool = process.engine.pool
        now = self._timeline.now
        expect(pool.listed_once, "nothing before the first listing", command)
        self._shortages.created(command.op_id, command.instance_type, now)
        most = process.engine.settings.max_instances
        self._doubts.created(command)
        count = len(pool.workers) + self._doubts.count()
        expect(count <= most, "max_instances", f"{count} of {most}")
        self._presence.expect_few(most)
        in_flight = self._shortages.under_way
        at_once = pool.settings.max_concurrent_creates
        expect(in_flight <= at_once, "max_concurrent_creates", f"{in_flight} of {at_once}")

    def _on_destroy(self, process: DispatcherProcess, command: DestroyInstance) -> None:
        self._expect_others_free()
        host = self._hosts.get(command.instance_id)
        if host is None:
            return
        held = (
            host.machine.tags.get(TAG) == "hold"
            and self.wanted.get(command.instance_id) is IdleBehavior.HOLD
            and command.instance_id not in self.killed
            and not self.hold_ends.is_over(command.instance_id, process.now())
        )
        expect(not held, "held instances are untouched", f"{command.instance_id} is destroyed")
        worker = process.engine.pool.workers.get(command.instance_id)
        reason = worker.shutdown.reason if worker is not None else ""
        gentle = (Trigger.IDLE_TIMEOUT.value, Trigger.UNWANTED.value)
        residents = self._truth.residents_on(host)
        there = sorted(a for a, where in self._truth.live.items() if where is host)
        running = [a for a in there if a not in residents]
        if reason.startswith(gentle):
            expect(not running, "no busy instance is idled out", f"{host.machine.id}: {running}")
        if reason.startswith(Trigger.DRAINED.value) and worker is not None:
            forged = command.instance_id in self._taken_back and not worker.type.preemptible
            # It may say that it is mended once it is being shut down: what it was is told for good.
            because = reason.removeprefix(Trigger.DRAINED.value).removeprefix(": ")
            broken = because != "" and not because.startswith("the cloud takes it back")
            wanted = worker.behavior is IdleBehavior.DRAIN or broken
            other = wanted or is_unrecognised(worker.type)
            expect(not forged or other, "a forged word drains nobody", worker)
        if reason.startswith(Trigger.DRAINED.value) and worker is not None and running:
            # A KILL that an instance without a way to it never got counts as well.
            known = process.engine.pool.attempts
            given_up = all(
                host.processes[a].stuck or (a in known and signals.unkillable(known[a]))
                for a in running
            )
            expect(given_up, "drain waits for what runs", f"{host.machine.id}: {running}")

    def _on_start(self, process: DispatcherProcess, command: StartAttempt) -> None:
        engine = process.engine
        expect(engine.pool.listed_once, "nothing before the first listing", command)
        worker = engine.pool.workers[command.worker_id]
        expect(not worker.health.broken, "only ready instances get work", worker)
        if engine.table.containers[command.order.container_id].pinned_to:
            # Those of per-instance jobs have rules of their own, and no place in the line.
            return
        ready = worker.state is WorkerState.RUNNING and worker.behavior is IdleBehavior.RUN
        expect(ready, "only ready instances get work", worker)
        told = command.worker_id in self._taken_back and worker.type.preemptible
        expect(not told, "what is taken back gets no work", worker)
        container = engine.table.containers[command.order.container_id]
        expect(container.priority > 0, "what is held back does not start", f"{container.id}")
        if has_own_scheduler(engine.table, container):
            return
        own = place_in_line(container)
        for other in engine.table.containers.values():
            if other.id in engine.table.queue and _is_alike(other, container, engine.settings):
                kept_away = worker.id in lost_on_each(other.attempts)
                overtaken = place_in_line(other) < own and not kept_away
                expect(not overtaken, "no lower one starts before a higher", f"{own}: {other.id}")

    # ---- what is begun, and heard ----

    def begun(self, process: DispatcherProcess, command: PoolCommand | Confirm) -> None:
        """Look at a command that begins to be carried out, or at an answer to an admin."""
        if isinstance(command, Confirm):
            event = self.steering.confirmed(process, command.asked)
            if isinstance(event, BehaviorRequested):
                self.hold_ends.confirmed(event, command.asked)
            return
        self._elastic.begun(command)
        self._upkeep.begun(command)
        if isinstance(command, CreateInstance):
            journalled = command.launch.token in self._truth.store.launches
            expect(journalled, "journal before create", f"{command.launch.token}")
        elif isinstance(command, Probe):
            link = process.links.links.get(command.worker_id)
            busy = link is not None and link.probing
            expect(not busy, "one probe at a time", command.worker_id)
        elif isinstance(command, SignalAttempt):
            self._signals.signalled(command)
        elif isinstance(command, DestroyInstance):
            self._kills.begun(command)

    def heard(self, process: DispatcherProcess, event: PoolEvent) -> None:
        """Look at an event before the engine gets it: what it holds is known from now on."""
        if process is not self._process:
            self._begin(process)
        self._presence.heard(event)
        self._upkeep.heard(event)
        self._work.heard(event)
        self._signals.heard(event)
        self._scheduling.heard(event)
        self._jobs.heard(event)
        self._per_instance.heard(event)
        self._verdicts.heard(event)
        self._conditions.heard(event)
        self._sizes.heard(event)
        now = self._timeline.now
        match event:
            case InterruptionNoticed():
                self._taken_back.add(event.worker_id)
            case StartRefused():
                self._shortages.heard(event)
            case CreateFailed():
                self._on_create_failed(event, now)
            case Created():
                self._doubts.answered(event)
                answered = self._shortages.answered(event.op_id)
                if answered is not None:
                    self._shortages.had(*answered)
            case _:
                self._hear_calls(event, now)

    def _hear_calls(self, event: PoolEvent, now: float) -> None:
        match event:
            case ListingFailed():
                self._listings.failed(event.error, now)
            case Listed():
                self._listings.succeeded(now)
            case DestroyFailed() | TagsFailed():
                self._changes.limited(event.error, now)
            case Destroyed() | TagsSet():
                self._changes.succeeded(now)
            case FindFailed():
                self._finds.limited(event.error, now)
            case InstanceFound():
                self._finds.succeeded(now)
            case BillsFailed():
                self._bills.limited(event.error, now)
            case BillsTold():
                self._bills.succeeded(now)
            case _:
                pass

    def _on_create_failed(self, event: CreateFailed, now: float) -> None:
        self._doubts.answered(event)
        answered = self._shortages.answered(event.op_id)
        if answered is None:
            return
        type_, began_at = answered
        in_doubt = isinstance(event.error, AmbiguousResult)
        if not in_doubt or self._shortages.doubted(event.token, type_, began_at, now):
            self._shortages.failed(type_, event.error, began_at, now)


def _is_alike(one: Container, other: Container, settings: SchedulerSettings) -> bool:
    same = is_spared(one, settings) is is_spared(other, settings)
    return same and _request(one.spec) == _request(other.spec)


def _request(spec: ContainerSpec) -> tuple[object, ...]:
    return (spec.resources, spec.constraints, spec.unnamed, spec.supervisor)
