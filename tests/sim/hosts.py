"""Instances in virtual time: what runs on them, and the runner that speaks for them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from longshore.drivers.simulated.model import Machine
from longshore.pool.model import (
    AttemptExit,
    AttemptOrder,
    AttemptReport,
    ExitKind,
    MachineSize,
    ProbeReport,
)
from tests.sim.faults import HostFaults
from tests.sim.timeline import Dice, Timeline

SIGNAL_CODES = {"TERM": 143, "KILL": 137}
START_S = 0.003
SWALLOWED_S = 0.01
LONGEST_DEATH_S = 8.0
LEASE_TICK_S = 1.0


@dataclass(slots=True, kw_only=True)
class Process:
    """One attempt on an instance: `exit` is what is recorded, None until it is, though it be
    `gone`.

    Signals do not end an `immortal` one, nor does anything else once it is `stuck` in one; a
    `stray` is none that anybody asked for, and `store` the one whose dispatcher has started it, ""
    for ours; `killed_by_admin` says that an admin wants it ended. `cpu_millis` is the limit that it
    has by now.
    """

    order: AttemptOrder
    cpu_millis: int = 0
    deaf: bool = False
    immortal: bool = False
    stuck: bool = False
    stray: bool = False
    store: str = ""
    killed_by_admin: bool = False
    gone: bool = False
    exit: AttemptExit | None = None

    def report(self) -> AttemptReport:
        """Return what the runner says of it."""
        return AttemptReport(
            attempt_id=self.order.attempt_id,
            container_id=self.order.container_id,
            exit=self.exit,
            store=self.store,
        )


class Listener(Protocol):
    """The far end of a host's session, which hears what the runner pushes."""

    def exited(self, report: AttemptReport) -> None:
        """Hear of an exit."""
        ...

    def cut(self, reason: str) -> None:
        """Hear that the runner is gone, or that a newer session took over."""
        ...


class Watcher(Protocol):
    """Who looks on whether what happens on instances may happen."""

    def started(self, host: Host, order: AttemptOrder) -> None:
        """Look at a process that begins."""
        ...

    def ended(self, host: Host, process: Process, exit_: AttemptExit | None) -> None:
        """Look at a process that ended (or whose instance did)."""
        ...

    def signalled(self, host: Host, process: Process) -> None:
        """Look at a process that is told to end."""
        ...

    def released(self, host: Host, attempt_id: str) -> None:
        """Look at an exit that is forgotten."""
        ...

    def forgotten(self, host: Host, attempt_id: str) -> None:
        """Look at an attempt of which the instance knows nothing any more."""
        ...

    def powers_off(self, host: Host) -> None:
        """Look at an instance that ends itself."""
        ...


@dataclass(slots=True, kw_only=True)
class Lease:
    """When an instance ends itself: nobody in contact, and nothing running but residents, for
    `timeout_s`.
    """

    timeout_s: float
    power_off: Callable[[Machine], None]
    suspended: bool = False
    contact_at: float = 0.0
    armed: bool = False


@dataclass(slots=True)
class Host:
    """One instance: its processes survive sessions and dispatchers, not its machine.

    `size` is what its machine has, as its runner tells it, None for one that does not.
    """

    machine: Machine
    secret: str
    timeline: Timeline
    dice: Dice
    faults: HostFaults
    watcher: Watcher
    lease: Lease
    sick: bool = False
    refuses: bool = False
    swallows: bool = False
    pulls_nothing: bool = False
    size: MachineSize | None = None
    clock_jump_s: float = 0.0
    dead: bool = False
    stopped: bool = False
    boots: int = 1
    probed_boot: str = ""
    frozen_until: float = 0.0
    broken: str = ""
    interruption: str = ""
    processes: dict[str, Process] = field(default_factory=dict)
    listener: Listener | None = None
    rekeyed: int = 0

    @property
    def key(self) -> str:
        """Return its host key."""
        return f"ssh-ed25519 {self.machine.id}-{self.rekeyed}"

    @property
    def boot_id(self) -> str:
        """Return the name of its present boot."""
        return f"{self.machine.id}-{self.boots}"

    @property
    def up(self) -> bool:
        """Return whether it runs and has booted."""
        return self.machine.booted and not self.machine.ended and not self.stopped

    def reachable_at(self) -> float:
        """Return when what is sent now arrives at the earliest, were the way itself instant."""
        return max(self.timeline.now, self.frozen_until)

    def report(self) -> ProbeReport:
        """Return what the runner lists."""
        reports = [self.processes[key].report() for key in sorted(self.processes)]
        return ProbeReport(
            attempts=tuple(reports),
            boot_id=self.boot_id,
            engine="process",
            broken=self.broken,
            machine=self.size,
        )

    # ---- the lease ----

    def contact(self) -> None:
        """Note that a dispatcher was heard."""
        self.lease.contact_at = self.timeline.now
        self._arm_lease()

    def _arm_lease(self) -> None:
        if not self.lease.armed and self.lease.timeout_s > 0:
            self.lease.armed = True
            due = self.lease.contact_at + self.lease.timeout_s
            self.timeline.at(max(due, self.timeline.now + LEASE_TICK_S), self._lease_due)

    def begin_lease(self) -> None:
        """Count from now on, though no dispatcher was ever heard."""
        self.lease.contact_at = self.timeline.now
        self._arm_lease()

    def _lease_due(self) -> None:
        lease = self.lease
        lease.armed = False
        if self.machine.ended or self.dead or self.stopped:
            return
        running = any(
            process.exit is None and not process.order.resident
            for process in self.processes.values()
        )
        if self.listener is not None or running or lease.suspended:
            lease.contact_at = self.timeline.now
            self._arm_lease()
        elif self.timeline.now - lease.contact_at >= lease.timeout_s:
            self.watcher.powers_off(self)
            lease.power_off(self.machine)
        else:
            self._arm_lease()

    # ---- what the runner does ----

    def start(self, order: AttemptOrder, run_s: float, code: int) -> None:
        """Run an attempt, unless it is known already (starting is idempotent)."""
        if order.attempt_id in self.processes:
            return
        process = Process(
            order=order,
            cpu_millis=order.cpu_millis,
            deaf=self.dice.falls(self.faults.deaf),
            immortal=self.dice.falls(self.faults.immortal),
        )
        self.processes[order.attempt_id] = process
        self.watcher.started(self, order)
        exit_ = AttemptExit(kind=ExitKind.EXITED, code=code)
        if self.swallows:
            lost = self.dice.falls(0.5)
            kind, run_s = ExitKind.LOST if lost else ExitKind.ENGINE_FAILURE, SWALLOWED_S
            exit_ = AttemptExit(kind=kind, code=None if lost else 125)
        elif self.pulls_nothing and order.image:
            run_s, exit_ = SWALLOWED_S, AttemptExit(kind=ExitKind.ENGINE_FAILURE, code=125)
        elif self.dice.falls(self.faults.lost_supervisors):
            run_s, exit_ = run_s * self.dice.random(), AttemptExit(kind=ExitKind.LOST, code=None)
        began = self.timeline.now
        self.timeline.after(run_s, lambda: self._finish(process, exit_, began))

    def signal(self, attempt_id: str, name: str) -> None:
        """Let a process end by a signal, if it heeds that one."""
        process = self.processes.get(attempt_id)
        if process is not None:
            self.watcher.signalled(self, process)
        if process is None or (process.deaf and name == "TERM"):
            return
        process.stuck = process.immortal
        exit_ = AttemptExit(kind=ExitKind.EXITED, code=SIGNAL_CODES[name])
        slow = self.dice.falls(self.faults.slow_deaths)
        dies_s = self.dice.between(0, LONGEST_DEATH_S) if slow else START_S
        self.timeline.after(dies_s, lambda: self._finish(process, exit_, 0.0))

    def limit(self, attempt_id: str, cpu_millis: int) -> None:
        """Let an attempt that runs use so much of cpus from now on."""
        process = self.processes.get(attempt_id)
        if process is not None and not process.gone:
            process.cpu_millis = cpu_millis

    def release(self, attempt_id: str) -> None:
        """Forget an attempt that has ended."""
        process = self.processes.get(attempt_id)
        if process is not None and process.exit is not None:
            self.watcher.released(self, attempt_id)
            del self.processes[attempt_id]

    def _finish(self, process: Process, exit_: AttemptExit, began: float) -> None:
        """Let a process end; `began` is what its exit will say, 0.0 for nothing."""
        if process.gone or process.stuck or self.machine.ended:
            return
        process.gone = True
        self.watcher.ended(self, process, exit_)
        now = self.timeline.now
        late_s = 0.0
        if began > 0:
            exit_ = replace(exit_, started_at=began, finished_at=now + self.clock_jump_s)
            late = self.dice.falls(self.faults.late_exits)
            late_s = self.dice.between(0, 2 * (now - began)) if late else 0.0
        self.timeline.after(late_s, lambda: self._record(process, exit_))

    def _record(self, process: Process, exit_: AttemptExit) -> None:
        known = self.processes.get(process.order.attempt_id) is process
        if process.exit is not None or self.machine.ended or self.dead or not known:
            return
        process.exit = exit_
        if self.listener is not None:
            self.listener.exited(process.report())

    # ---- faults ----

    def crash_runner(self) -> None:
        """Let the runner die, and half of the time the supervisor of what runs."""
        for attempt_id in sorted(self.processes):
            process = self.processes[attempt_id]
            if not process.gone and self.dice.falls(0.5):
                process.gone = True
                process.exit = AttemptExit(kind=ExitKind.LOST, code=None)
                self.watcher.ended(self, process, process.exit)
        self.drop("the runner died")

    def stray(self, attempt_id: str, exit_: AttemptExit | None) -> None:
        """Run what nobody asked for until it is killed; with an exit, it has ended already."""
        if attempt_id in self.processes:
            return
        order = AttemptOrder(attempt_id=attempt_id, container_id="", image="", command=())
        process = Process(order=order, stray=True, gone=exit_ is not None)
        self.processes[attempt_id] = process
        if exit_ is not None:
            self._record(process, exit_)

    def stray_of_another(self, attempt_id: str) -> None:
        """Run what another store's dispatcher has started."""
        order = AttemptOrder(attempt_id=attempt_id, container_id="", image="", command=())
        self.processes[attempt_id] = Process(order=order, stray=True, store="another")

    def end_stray(self, attempt_id: str) -> None:
        """Let a stray end by itself."""
        process = self.processes.get(attempt_id)
        if process is not None:
            self._finish(process, AttemptExit(kind=ExitKind.EXITED, code=0), 0.0)

    def reboot(self, down_s: float) -> None:
        """Begin anew: nothing runs, and no exit is known any more."""
        self._lose_all()
        self.boots += 1
        self.lease.suspended = False
        self.frozen_until = self.timeline.now + down_s
        self.drop("it reboots")

    def stop(self) -> None:
        """Be switched off by somebody: nothing runs, and it is silent until it is switched on."""
        self._lose_all()
        self.stopped = True
        self.frozen_until = math.inf

    def go_on(self, boots_s: float) -> None:
        """Be switched on again, which is a boot like others."""
        self.stopped = False
        self.reboot(boots_s)
        self.begin_lease()

    def die(self) -> None:
        """Be silent for good, though the cloud sees nothing of it."""
        self._end_all()
        self.dead = True
        self.frozen_until = math.inf

    def drop(self, reason: str) -> None:
        """Let the session end."""
        listener, self.listener = self.listener, None
        self.lease.contact_at = self.timeline.now
        if listener is not None:
            listener.cut(reason)

    def power_cut(self) -> None:
        """Note that the machine ended: nothing runs any more, and nobody is told."""
        self._end_all()

    def _lose_all(self) -> None:
        """Let all end, and forget it: what a runner keeps lies in memory."""
        self._end_all()
        for attempt_id in sorted(self.processes):
            self.watcher.forgotten(self, attempt_id)
        self.processes.clear()

    def _end_all(self) -> None:
        for attempt_id in sorted(self.processes):
            process = self.processes[attempt_id]
            if not process.gone:
                process.gone = True
                self.watcher.ended(self, process, None)
