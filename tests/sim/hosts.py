"""Instances in virtual time: what runs on them, and the runner that speaks for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from drivers.simulated.model import Machine
from pool.model import AttemptExit, AttemptOrder, AttemptReport, ExitKind, ProbeReport
from tests.sim.options import HostFaults
from tests.sim.timeline import Dice, Timeline

SIGNAL_CODES = {"TERM": 143, "KILL": 137}
START_S = 0.003
LEASE_TICK_S = 1.0


@dataclass(slots=True, kw_only=True)
class Process:
    """One attempt on an instance: `exit` is what is recorded, None until it is, though it be
    `gone`."""

    order: AttemptOrder
    deaf: bool
    immortal: bool
    gone: bool = False
    exit: AttemptExit | None = None

    def report(self) -> AttemptReport:
        """Return what the runner says of it."""
        return AttemptReport(
            attempt_id=self.order.attempt_id, container_id=self.order.container_id, exit=self.exit
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

    def released(self, host: Host, attempt_id: str) -> None:
        """Look at an exit that is forgotten."""
        ...

    def powers_off(self, host: Host) -> None:
        """Look at an instance that ends itself."""
        ...


@dataclass(slots=True, kw_only=True)
class Lease:
    """When an instance ends itself: nobody in contact, and nothing running, for `timeout_s`."""

    timeout_s: float
    power_off: Callable[[Machine], None]
    suspended: bool = False
    contact_at: float = 0.0
    armed: bool = False


@dataclass(slots=True)
class Host:
    """One instance: its processes survive sessions and dispatchers, not its machine."""

    machine: Machine
    secret: str
    timeline: Timeline
    dice: Dice
    faults: HostFaults
    watcher: Watcher
    lease: Lease
    sick: bool = False
    frozen_until: float = 0.0
    broken: str = ""
    processes: dict[str, Process] = field(default_factory=dict)
    listener: Listener | None = None
    rekeyed: int = 0

    @property
    def key(self) -> str:
        """Return its host key."""
        return f"ssh-ed25519 {self.machine.id}-{self.rekeyed}"

    @property
    def up(self) -> bool:
        """Return whether it runs and has booted."""
        return self.machine.booted and not self.machine.ended

    def reachable_at(self) -> float:
        """Return when what is sent now arrives at the earliest, were the way itself instant."""
        return max(self.timeline.now, self.frozen_until)

    def report(self) -> ProbeReport:
        """Return what the runner lists."""
        reports = [self.processes[key].report() for key in sorted(self.processes)]
        return ProbeReport(
            attempts=tuple(reports), boot_id=self.machine.id, engine="process", broken=self.broken
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
        if self.machine.ended:
            return
        running = any(process.exit is None for process in self.processes.values())
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
            deaf=self.dice.falls(self.faults.deaf),
            immortal=self.dice.falls(self.faults.immortal),
        )
        self.processes[order.attempt_id] = process
        self.watcher.started(self, order)
        exit_ = AttemptExit(kind=ExitKind.EXITED, code=code)
        if self.dice.falls(self.faults.lost_supervisors):
            run_s, exit_ = run_s * self.dice.random(), AttemptExit(kind=ExitKind.LOST, code=None)
        began = self.timeline.now
        self.timeline.after(
            run_s,
            lambda: self._finish(
                process, replace(exit_, started_at=began, finished_at=self.timeline.now)
            ),
        )

    def signal(self, attempt_id: str, name: str) -> None:
        """Let a process end by a signal, if it heeds that one."""
        process = self.processes.get(attempt_id)
        if process is None or process.immortal or (process.deaf and name == "TERM"):
            return
        exit_ = AttemptExit(kind=ExitKind.EXITED, code=SIGNAL_CODES[name])
        self.timeline.after(START_S, lambda: self._finish(process, exit_))

    def release(self, attempt_id: str) -> None:
        """Forget an attempt that has ended."""
        process = self.processes.get(attempt_id)
        if process is not None and process.exit is not None:
            self.watcher.released(self, attempt_id)
            del self.processes[attempt_id]

    def _finish(self, process: Process, exit_: AttemptExit) -> None:
        if process.gone or self.machine.ended:
            return
        process.gone = True
        self.watcher.ended(self, process, exit_)
        late = self.dice.falls(self.faults.late_exits)
        late_s = self.dice.between(0, 2 * run_s_of(exit_)) if late else 0.0
        self.timeline.after(late_s, lambda: self._record(process, exit_))

    def _record(self, process: Process, exit_: AttemptExit) -> None:
        if process.exit is not None or self.machine.ended:
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

    def drop(self, reason: str) -> None:
        """Let the session end."""
        listener, self.listener = self.listener, None
        self.lease.contact_at = self.timeline.now
        if listener is not None:
            listener.cut(reason)

    def power_cut(self) -> None:
        """Note that the machine ended: nothing runs any more, and nobody is told."""
        for attempt_id in sorted(self.processes):
            process = self.processes[attempt_id]
            if not process.gone:
                self.watcher.ended(self, process, None)


def run_s_of(exit_: AttemptExit) -> float:
    """Return how long an attempt ran by its exit, in seconds."""
    return exit_.finished_at - exit_.started_at
