"""The whole simulated world: one seed in, everything that follows from it, checked on the way."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from longshore.dispatcher.domain.messages import Confirm
from longshore.dispatcher.engine.engine import Engine
from longshore.drivers.billing import EndedBy
from longshore.drivers.interface import InstanceType
from longshore.drivers.simulated.model import CloudModel, Fate, Happening, Machine, as_thrown
from longshore.drivers.simulated.parameters import SimulatedFaults
from longshore.pool.messages import PoolCommand, PoolEvent
from longshore.pool.model import IdleBehavior
from tests.samples import made_container
from tests.sim import ledger_conduct
from tests.sim.calls import CloudSurroundings, VirtualCalls
from tests.sim.conduct import Conduct
from tests.sim.faults import DispatcherFaults, HostFaults
from tests.sim.foreign_instances import ForeignInstances
from tests.sim.hosts import Host, Lease
from tests.sim.jobs import JobAccount
from tests.sim.links import Surroundings, VirtualLinks, VirtualSession
from tests.sim.machines import any_size
from tests.sim.options import TYPES, SimOptions
from tests.sim.process import DispatcherProcess, Making
from tests.sim.shortages import LONGEST_TOLD_S
from tests.sim.store import VirtualStore
from tests.sim.timeline import Dice, Timeline
from tests.sim.timers import WatchedTimers
from tests.sim.trouble import Trouble
from tests.sim.truth import Truth, expect
from tests.sim.users import MakeContainer, Users, any_container

Destiny = Callable[[int, InstanceType, float, Fate], Fate]

GRACE_S = 300.0
LIVENESS_S = 2 * 3600.0
CLOCK_JUMP_S = 1_000_000.0
EPOCH_S = 1_000_000.0
LOOKS_S = 5.0
"""How often it is looked what of the cloud is in doubt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run came to: container-seconds run, virtual seconds passed, what happened how often.

    `digest` is "" unless it was asked for.
    """

    busy_s: float
    virtual_s: float
    counts: Counter[str]
    digest: str
    ended: bool


class World:
    """One run of one seed."""

    check_every = 3  # what does not add up in the engine goes on not adding up

    def __init__(
        self,
        options: SimOptions,
        *,
        types: tuple[InstanceType, ...] = TYPES,
        destiny: Destiny = as_thrown,
        make: MakeContainer = any_container,
        digest: bool = False,
    ) -> None:
        self.options = options
        self.timeline = Timeline()
        self.truth = Truth()
        self.types = {type_.name: type_ for type_ in types}
        self.hosts: dict[str, Host] = {}
        self.counts: Counter[str] = Counter()
        self.process: DispatcherProcess | None = None
        self.abandoned = False
        self._digest = hashlib.blake2b() if digest else None
        self._host_faults = options.hosts
        self._dispatcher_faults = options.dispatcher
        self._numbers = 0
        self._cloud_armed_at = math.inf
        self._last_final_at = 0.0
        self._dice = Dice(options.seed, "world")
        self._links_dice = Dice(options.seed, "links")
        self._calls_dice = Dice(options.seed, "calls")
        self._find_dice = Dice(options.seed, "finds")
        self._bills_dice = Dice(options.seed, "bills")
        self._engine_dice = Dice(options.seed, "engine")
        self.store = VirtualStore(self.timeline, Dice(options.seed, "store"), self.truth.committed)
        self.store.faults = options.dispatcher
        self.truth.store = self.store
        self.truth.jobs = JobAccount(self.store, options.scheduler.max_lost_attempts)
        self.truth.most_lost = options.scheduler.max_lost_attempts
        self.truth.hosts = self.hosts
        self.cloud = CloudModel(
            options.cloud,
            name="v",
            dice=Dice(options.seed, "cloud"),
            dice_of=lambda number: Dice(options.seed, f"instance {number}"),
            destiny=destiny,
        )
        self.foreign_instances = ForeignInstances(self.timeline, self.cloud, options)
        self.conduct = Conduct(
            self.timeline, self.truth, self.hosts, self.foreign_instances.foreign
        )
        self.trouble = Trouble(self)
        self.users = Users(
            timeline=self.timeline,
            seed=options.seed,
            demand=options.demand,
            store=self.store,
            truth=self.truth,
            conduct=self.conduct,
            process=lambda: self.process,
            epoch_now=lambda: self.timeline.now + EPOCH_S,
            make=make,
            dies_now=self._dies_at_request,
            outside=lambda: (self._numbers, self._engine_dice.state()),
        )

    # ---- the dispatcher ----

    def start(self) -> None:
        """Start a dispatcher from what is committed."""
        if self.process is not None or self.abandoned:
            return
        options = self.options
        steps_s = self._dispatcher_faults.clock_steps_s
        making = Making(
            timeline=self.timeline,
            store=self.store,
            inspector=self,
            step=self.trouble.step,
            crashed=self.crash,
            clock_offset_s=EPOCH_S + self._dice.between(-steps_s, steps_s),
            check_every=self.check_every,
        )
        groups = {t.name: self.cloud.group_of(t) for t in self.types.values()}
        engine = Engine(
            cluster="sim",
            types=self.types,
            pool_settings=options.pool,
            settings=options.scheduler,
            recovered=self.store.recover(),
            new_token=lambda: f"token-{self._number()}",
            new_secret=lambda: f"secret-{self._number()}",
            new_container=lambda: made_container(self._number()),
            dice=self._engine_dice.random,
            quota_groups=groups if any(groups.values()) else {},
            store="ours",
            billing=options.cloud.billing.rule() if options.cloud.tells_billing else None,
        )
        engine.pool.timers = WatchedTimers()
        process = DispatcherProcess(engine, making)
        process.calls = VirtualCalls(self._cloud_surroundings(process))
        process.links = VirtualLinks(self._surroundings(process))
        self.process = process
        self.counts["starts of the dispatcher"] += 1
        self.truth.dispatchers += 1
        process.begin()

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _surroundings(self, process: DispatcherProcess) -> Surroundings:
        return Surroundings(
            timeline=self.timeline,
            dice=self._links_dice,
            faults=self._host_faults,
            hosts=self.hosts,
            plan_of=self.users.plan_of,
            is_amiss=self.users.is_amiss,
            post=process.post,
            epoch_now=process.now,
            verifies_keys=self.options.driver_verifies_keys,
            pace=self.options.pace,
        )

    def _cloud_surroundings(self, process: DispatcherProcess) -> CloudSurroundings:
        return CloudSurroundings(
            timeline=self.timeline,
            dice=self._calls_dice,
            model=self.cloud,
            post=process.post,
            epoch_now=process.now,
            alive=lambda: process.alive,
            appeared=self._appeared,
            changed=self._cloud_changed,
            timeout_s=self.options.pool.cloud_call_timeout_s,
            hanging=0.0 if self._calm else self.options.hanging_calls,
            late_addresses=self.options.hosts.late_addresses,
            filters_tags=not self.options.unfiltered_listings,
            find_dice=self._find_dice,
            bills_dice=self._bills_dice,
            cloud_epoch_s=EPOCH_S,
            hides=self.trouble.hides,
            power_of=self.trouble.power_of,
            flickers=0.0 if self._calm else self.options.flickers,
            pace=self.options.pace,
        )

    @property
    def _calm(self) -> bool:
        return self._host_faults is not self.options.hosts

    def crash(self, why: str) -> None:
        """Let the dispatcher die with all its memory, and start again later."""
        process, self.process = self.process, None
        self.trouble.crash_in_steps = 0
        if process is None:
            return
        self.counts[f"crashes: {why}"] += 1
        process.die()
        self.store.crash()
        ledger_conduct.check_facts(self.store, clock_is_steady=self._clock_is_steady)
        down_s = self._dice.between(0, self._dispatcher_faults.longest_down_s)
        self.timeline.after(down_s, self.start)

    def _look_at_doubts(self) -> None:
        """Look every few seconds whether the ledger counts with what no create call has told."""
        self.timeline.after(LOOKS_S, self._look_at_doubts)
        process = self.process
        if process is None or not self.store.caught_up or not self._clock_is_steady:
            return
        pool = process.engine.pool
        doubted = pool.doubted_launches - set(pool.unlisted_tokens().values())
        ledger_conduct.check_doubts(
            self.store,
            self.hosts.values(),
            doubted,
            self.options.cloud.billing.rule(),
            now=process.now(),
            cloud_now=self.timeline.now,
        )

    @property
    def _clock_is_steady(self) -> bool:
        return not self.options.dispatcher.clock_steps_s

    def abandon(self) -> None:
        """Let the dispatcher die for good."""
        self.crash("for good")
        self.abandoned = True

    def _dies_at_request(self) -> bool:
        dies = self._dice.falls(self._dispatcher_faults.crashes_at_requests)
        if dies:
            self.crash("before it hears of a request")
        return dies

    # ---- inspecting ----

    def handled(self, process: DispatcherProcess) -> None:
        """Look at the engine after an event."""
        self.conduct.handled(process)

    def decided(self, process: DispatcherProcess, command: PoolCommand) -> None:
        """Look at a command as it was decided."""
        self._note(command)
        self.conduct.decided(process, command)

    def begun(self, process: DispatcherProcess, command: PoolCommand | Confirm) -> None:
        """Look at a command that begins, or at an answer to an admin."""
        self.counts[type(command).__name__] += 1
        self.conduct.begun(process, command)

    def heard(self, process: DispatcherProcess, event: PoolEvent) -> None:
        """Look at an event before the engine gets it."""
        self._note(event)
        self.counts[type(event).__name__] += 1
        self.conduct.heard(process, event)

    def _note(self, what: object) -> None:
        if self._digest is not None:
            self._digest.update(f"{self.timeline.now!r} {what!r}\n".encode())

    # ---- the cloud ----

    def _appeared(self, machine: Machine, secret: str) -> None:
        dice = Dice(self.options.seed, f"host {machine.id}")
        lease_s = self.options.pool.orphan_timeout_s if self.options.powers_off else 0.0
        host = Host(
            machine=machine,
            secret=secret,
            timeline=self.timeline,
            dice=dice,
            faults=self._host_faults,
            watcher=self.truth,
            lease=Lease(timeout_s=lease_s, power_off=self._power_off),
            sick=dice.falls(self._host_faults.sick_boots),
            refuses=dice.falls(self._host_faults.refusing),
            broken="born so" if dice.falls(self._host_faults.broken_boots) else "",
        )
        if self._host_faults.swallowing:
            host.swallows = dice.falls(self._host_faults.swallowing)
        pulls = Dice(self.options.seed, f"pulls of {machine.id}")
        host.pulls_nothing = pulls.falls(self._host_faults.unpulling)
        if self.options.hosts.smaller:
            sizes = Dice(self.options.seed, f"size of {machine.id}")
            host.size = any_size(machine.type, self._host_faults.smaller, sizes)
        if dice.falls(self._host_faults.wrong_clocks):
            host.clock_jump_s = dice.between(-CLOCK_JUMP_S, CLOCK_JUMP_S)
        self.hosts[machine.id] = host

    def _power_off(self, machine: Machine) -> None:
        self.counts["leases that ended an instance"] += 1
        self.cloud.end(machine, self.timeline.now, EndedBy.ITSELF)
        self._cloud_changed()

    def _cloud_changed(self) -> None:
        due = self.cloud.next_due()
        if due is not None and due < self._cloud_armed_at:
            self._cloud_armed_at = due
            self.timeline.at(due, self._cloud_due)

    def _cloud_due(self) -> None:
        self._cloud_armed_at = math.inf
        for happening, machine in self.cloud.run_due(self.timeline.now):
            self._happened(happening, self.hosts[machine.id])
        self._cloud_changed()

    def _happened(self, happening: Happening, host: Host) -> None:
        self.counts[f"instances {happening.value}"] += 1
        self.truth.came_forward(self.timeline.now)
        match happening:
            case Happening.BOOTED:
                host.begin_lease()
                self.trouble.booted(host)
            case Happening.BROKE:
                self.trouble.broke(host)
            case Happening.RECLAIM_NOTICE:
                self.trouble.announced(host)
            case Happening.ENDED:
                host.power_cut()
                if isinstance(host.listener, VirtualSession):
                    self._silence(host, host.listener)
            case _:
                pass

    def _silence(self, host: Host, session: VirtualSession) -> None:
        """Let a dead instance's session end: at once, or only when heartbeats are missed."""
        if self._dice.falls(0.5):
            host.drop("connection reset")
        else:
            session.silent()

    # ---- the run ----

    def run(self) -> Outcome:
        """Let faults happen, then none; everything must end, and end well."""
        safety_s = self.options.safety_s
        self.begin(safety_s)
        self.timeline.run(safety_s, lambda: False)
        self._calm_down()
        self.timeline.run(safety_s + LIVENESS_S, self._over)
        expect(self._over(), "everything ends", self.described())
        self._expect_no_longer_than_needed(safety_s)
        self.truth.final()
        cloud = self.options.cloud
        rule = cloud.billing.rule() if cloud.tells_billing else None
        ledger_conduct.check_bills(
            self.store,
            self.hosts,
            rule,
            shown_at=self.truth.surely_shown_at,
            clock_is_steady=self._clock_is_steady,
        )
        return Outcome(
            busy_s=self.truth.busy_s,
            virtual_s=self.timeline.now,
            counts=self.counts,
            digest=self._digest.hexdigest() if self._digest is not None else "",
            ended=True,
        )

    def begin(self, safety_s: float) -> None:
        """Begin with strangers in the account, and with everything that is to happen."""
        self.foreign_instances.appear(self._appeared)
        self._cloud_changed()
        self._look_at_doubts()
        self.users.begin(safety_s)
        self.trouble.begin(safety_s)
        self.start()

    def _expect_no_longer_than_needed(self, safety_s: float) -> None:
        pool = self.options.pool
        told_s = min(LONGEST_TOLD_S, self.options.cloud.faults.retry_after_s)
        # Who no listing ever showed counts, and its launch is kept, for a boot timeout each.
        needed_s = (
            2 * pool.boot_timeout_s
            + pool.gone_after_s
            + pool.probe_timeout_s
            + pool.idle_timeout_s
            + GRACE_S
        )
        needed_s += told_s if self.options.restarts_in_calm else 2 * told_s
        outlived_s = self.timeline.now - max(safety_s, self._last_final_at)
        expect(outlived_s <= needed_s, "no instance outlives its use", f"by {outlived_s:.0f} s")

    def _calm_down(self) -> None:
        self._host_faults = HostFaults()
        self._dispatcher_faults = DispatcherFaults()
        self.store.faults = DispatcherFaults()
        self.cloud.faults = SimulatedFaults()
        limits = self.cloud.limits
        limits.quota += len(self.foreign_instances.foreign) if limits.quota else 0
        limits.capacity, limits.shortages = {}, {}
        self.trouble.show_all()
        self.trouble.allow_all()
        for host in self.hosts.values():
            host.faults = HostFaults()
            silent_for_good = host.dead or host.stopped
            if not silent_for_good and host.frozen_until > self.timeline.now:
                host.frozen_until = self.timeline.now
                # What is on its way would come as late as the freeze was to last.
                host.drop("connection reset")
        if self.process is None or self.options.restarts_in_calm:
            self.crash("to begin anew in calm")
        else:
            self.trouble.crash_in_steps = 0
            self.process.calls.calm_down()
            self.process.links.calm_down()
        self.start()
        self._care()

    def _care(self) -> None:
        """What admins and users do in the end: release what is held."""
        process = self.process
        if process is not None:
            for worker_id in sorted(process.engine.pool.workers):
                worker = process.engine.pool.workers[worker_id]
                if worker.behavior is IdleBehavior.HOLD:
                    self.users.set_behavior(worker_id, IdleBehavior.RUN)
            self.users.release()
        self.timeline.after(60, self._care)

    def _over(self) -> bool:
        store = self.store
        if store.unfinished:
            self._last_final_at = self.timeline.now
            return False
        return (
            self.process is not None
            and all(job.state.final for job in store.jobs.values())
            and not store.launches
            and self.cloud.machines.keys() <= self.foreign_instances.foreign
            and all(instance.gone_at is not None for instance in store.instances.values())
        )

    def described(self) -> str:
        """Return what is left, for people who look for the reason."""
        waiting = [
            f"{c.id} {c.state.value}" for c in self.store.containers.values() if not c.state.final
        ]
        machines = [f"{m.id} {m.type.name}" for m in self.cloud.machines.values()]
        workers = []
        if self.process is not None:
            workers = [str(w) for w in self.process.engine.pool.workers.values()]
        return f"at {self.timeline.now:.0f} s: {waiting}, {machines}, {workers}"
