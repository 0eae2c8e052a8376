"""Sessions in virtual time: what one dispatcher's links do, as `pool.remote.performer` would."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from longshore.pool.messages import (
    AttemptExited,
    AttemptStarted,
    BrokenReported,
    CloseSession,
    InterruptionNoticed,
    LogComplete,
    PoolEvent,
    Probe,
    ReleaseAttempt,
    SessionLost,
    SetLease,
    SignalAttempt,
    StartAttempt,
    StartRefused,
    StartUnknown,
    UpdateLimits,
)
from longshore.pool.model import REBOOTED, AttemptReport
from tests.sim.faults import HostFaults
from tests.sim.hosts import Host
from tests.sim.timeline import Dice, Timeline

HEARTBEAT_TIMEOUT_S = 20.0
REQUEST_TIMEOUT_S = 30.0
LATENCY_S = 0.001
LOG_S = 0.02
LONGEST_ORDER_S = 8.0

RemoteCommand = (
    StartAttempt | SignalAttempt | ReleaseAttempt | SetLease | UpdateLimits | CloseSession
)
PlanOf = Callable[[str], tuple[float, int]]


@dataclass(slots=True, kw_only=True)
class Link:
    """What is known of one worker's connection; `closed` once the pool has dropped it.

    `suspended` is the last word on its lease, which probes and commands carry. `cut_probe` ends a
    probe that goes over the session's connection; it is None while there is none.
    """

    worker_id: str
    session: VirtualSession | None = None
    allowed: set[str] = field(default_factory=set)
    probing: bool = False
    closed: bool = False
    suspended: bool = False
    held_back: SessionLost | None = None
    cut_probe: Callable[[], None] | None = None


@dataclass(slots=True, kw_only=True)
class Surroundings:
    """What all links of a dispatcher share; `plan_of` tells how long a container runs, and its
    exit code, `is_amiss` of an attempt whether every instance refuses to start it; `pace` is how
    long everything takes, 1 for as long as in life."""

    timeline: Timeline
    dice: Dice
    faults: HostFaults
    hosts: Mapping[str, Host]
    plan_of: PlanOf
    is_amiss: Callable[[str], bool]
    post: Callable[[PoolEvent], None]
    epoch_now: Callable[[], float]
    verifies_keys: bool = False
    pace: float = 1.0


class VirtualSession:
    """One attached session: orders go in their order, and die with it."""

    def __init__(self, link: Link, host: Host, around: Surroundings) -> None:
        self.link = link
        self.host = host
        self.alive = True
        self._around = around
        self._silent_since: float | None = None
        self._arrives = 0.0
        self._returns = 0.0
        self._unanswered: dict[int, StartAttempt] = {}

    # ---- from here to the host ----

    def send(self, action: Callable[[], None], *, delay_s: float = LATENCY_S) -> None:
        """Let `action` happen on the host, in order, if the session lives there by then."""
        timeline = self._around.timeline
        self._arrives = max(self._arrives, self.host.reachable_at() + delay_s)
        timeline.at(self._arrives, lambda: self._arrive(action))

    def _arrive(self, action: Callable[[], None]) -> None:
        if self.host.frozen_until > self._around.timeline.now:
            self._around.timeline.at(self.host.frozen_until, lambda: self._arrive(action))
        elif self.host.up and self.host.listener is self:
            self.host.contact()
            action()

    def start(self, command: StartAttempt) -> None:
        """Send a start; it has exactly one outcome."""
        self._unanswered[command.op_id] = command
        late = self._around.dice.falls(self._around.faults.late_orders)
        longest_s = LONGEST_ORDER_S * self._around.pace if late else LATENCY_S
        delay_s = self._around.dice.between(LATENCY_S, longest_s)
        self.send(lambda: self._start_there(command), delay_s=delay_s)
        timeout_s = REQUEST_TIMEOUT_S * self._around.pace
        self._around.timeline.after(timeout_s, lambda: self._unknown(command, "no answer in time"))

    def _start_there(self, command: StartAttempt) -> None:
        around, order = self._around, command.order
        known = order.attempt_id in self.host.processes
        if command.boot_id != self.host.boot_id:
            self._answer(command, lambda: self._refused(command, REBOOTED))
            return
        if not known and around.is_amiss(order.attempt_id):
            self._answer(command, lambda: self._refused(command, "invalid"))
            return
        if not known and (self.host.refuses or around.dice.falls(around.faults.refused)):
            ours = not self.host.refuses and around.dice.falls(0.5)
            code = "invalid" if ours else "system"
            self._answer(command, lambda: self._refused(command, code))
            return
        if not known and around.dice.falls(around.faults.overloaded):
            self._answer(command, lambda: self._refused(command, "overloaded"))
            return
        run_s, exit_code = around.plan_of(order.container_id)
        self.host.start(order, run_s, exit_code)
        if around.dice.falls(around.faults.drops_at_starts):
            self.host.drop("connection reset")
        self._answer(command, lambda: self._started(command))

    def _answer(self, command: StartAttempt, post: Callable[[], None]) -> None:
        def answer() -> None:
            if self._unanswered.pop(command.op_id, None) is not None:
                post()

        slow = self._around.dice.falls(self._around.faults.slow_answers)
        late_s = (REQUEST_TIMEOUT_S + 5) * self._around.pace
        self._push(answer, delay_s=late_s if slow else LATENCY_S)

    def _started(self, command: StartAttempt) -> None:
        self._around.post(
            AttemptStarted(
                op_id=command.op_id,
                worker_id=command.worker_id,
                attempt_id=command.order.attempt_id,
            )
        )

    def _refused(self, command: StartAttempt, code: str) -> None:
        self._around.post(
            StartRefused(
                op_id=command.op_id,
                worker_id=command.worker_id,
                attempt_id=command.order.attempt_id,
                code=code,
                message=f"refused: {code}",
            )
        )

    def _unknown(self, command: StartAttempt, message: str) -> None:
        if self._unanswered.pop(command.op_id, None) is None:
            return
        self._around.post(
            StartUnknown(
                op_id=command.op_id,
                worker_id=command.worker_id,
                attempt_id=command.order.attempt_id,
                message=message,
            )
        )

    # ---- from the host to here ----

    def _push(self, action: Callable[[], None], *, delay_s: float = LATENCY_S) -> None:
        around = self._around
        self._returns = max(self._returns, self.host.reachable_at() + delay_s)

        def arrive() -> None:
            if self.alive and self.host.frozen_until > around.timeline.now:
                around.timeline.at(self.host.frozen_until, arrive)
            elif self.alive:
                action()

        around.timeline.at(self._returns, arrive)

    def exited(self, report: AttemptReport) -> None:
        """Push an exit (perhaps twice), then the end of its log."""
        exit_ = report.exit
        if exit_ is None:
            return
        event = AttemptExited(
            worker_id=self.link.worker_id, attempt_id=report.attempt_id, exit=exit_
        )
        self._push(lambda: self._around.post(event))
        if self._around.dice.falls(self._around.faults.repeats):
            self._push(lambda: self._around.post(event), delay_s=self._around.dice.between(0, 3))
        self.log_ends(report.attempt_id)

    def log_ends(self, attempt_id: str) -> None:
        """Push what is left of an ended attempt's log."""
        event = LogComplete(worker_id=self.link.worker_id, attempt_id=attempt_id)

        def complete() -> None:
            if attempt_id in self.link.allowed:
                self._around.post(event)

        if not self._around.dice.falls(self._around.faults.lost_logs):
            self._push(complete, delay_s=LOG_S)

    def broken(self, message: str) -> None:
        """Push that the runner finds its instance broken, or mended ("")."""
        event = BrokenReported(worker_id=self.link.worker_id, message=message)
        self._push(lambda: self._around.post(event))

    def interrupted(self) -> None:
        """Push when the cloud takes the instance back, as the watch on it says."""
        event = InterruptionNoticed(worker_id=self.link.worker_id, at=self.host.interruption)
        self._push(lambda: self._around.post(event))

    def cut(self, reason: str) -> None:
        """Hear that the far end is gone, a moment later."""
        self._around.timeline.after(LATENCY_S, lambda: self.lost(reason))

    def silent(self) -> None:
        """Hear nothing more: heartbeats are missed after a while."""
        if self._silent_since is None:
            self._silent_since = self._around.epoch_now()
        self._around.timeline.after(HEARTBEAT_TIMEOUT_S * self._around.pace, self._missed)

    def _missed(self) -> None:
        if self.host.frozen_until > self._around.timeline.now or not self.host.up:
            self.lost("no heartbeat")
        else:
            self._silent_since = None

    def lost(self, reason: str) -> None:
        """End here with a word to the pool: starts without an answer first."""
        if not self.alive:
            return
        self.end()
        now, silent_since = self._around.epoch_now(), self._silent_since
        event = SessionLost(
            worker_id=self.link.worker_id,
            last_contact=now if silent_since is None else silent_since,
            reason=reason,
        )
        if self.link.probing:
            self.link.held_back = event
            if self.link.cut_probe is not None:
                self.link.cut_probe()
        else:
            self._around.post(event)

    def end(self) -> None:
        """End here; starts without an answer are told as such."""
        self.alive = False
        if self.link.session is self:
            self.link.session = None
        for op_id in sorted(self._unanswered):
            self._unknown(self._unanswered[op_id], "the session ended")
        self._around.timeline.at(self.host.reachable_at() + LATENCY_S, self._leave)

    def _leave(self) -> None:
        if self.host.listener is self:
            self.host.listener = None
            self.host.lease.contact_at = self._around.timeline.now


class VirtualLinks:
    """The links of one dispatcher."""

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self.links: dict[str, Link] = {}

    def calm_down(self) -> None:
        """Let what goes wrong with sessions end."""
        self.around.faults = HostFaults()

    def link(self, worker_id: str) -> Link:
        """Return the link to a worker, a new one when there is none."""
        return self.links.setdefault(worker_id, Link(worker_id=worker_id))

    def session(self, worker_id: str) -> VirtualSession | None:
        """Return the session of a worker that is thought to live, None when there is none."""
        link = self.links.get(worker_id)
        return link.session if link is not None else None

    def perform(self, command: RemoteCommand) -> None:  # noqa: C901 - a table
        """Begin a command on a session."""
        link = self.links.get(command.worker_id)
        session = link.session if link is not None else None
        match command:
            case StartAttempt():
                self._start(command, link)
            case SignalAttempt():
                if session is not None:
                    session.send(lambda: session.host.signal(command.attempt_id, command.signal))
            case ReleaseAttempt():
                if link is not None:
                    link.allowed.discard(command.attempt_id)
                if session is not None:
                    session.send(lambda: session.host.release(command.attempt_id))
            case UpdateLimits():
                self._tell_limit(session, command)
            case SetLease():
                _tell_lease(link, suspended=command.suspended)
            case CloseSession():
                if link is not None:
                    del self.links[command.worker_id]
                    link.closed = True
                    if session is not None:
                        session.end()
            case _:
                assert_never(command)

    def _tell_limit(self, session: VirtualSession | None, command: UpdateLimits) -> None:
        if session is None:
            return
        if self.around.dice.falls(self.around.faults.lost_limits):
            session.host.drop("connection reset")
        else:
            session.send(lambda: session.host.limit(command.attempt_id, command.cpu_millis))

    def _start(self, command: StartAttempt, link: Link | None) -> None:
        if link is not None and link.session is not None:
            link.allowed.add(command.order.attempt_id)
            link.session.start(command)
            return
        event = StartUnknown(
            op_id=command.op_id,
            worker_id=command.worker_id,
            attempt_id=command.order.attempt_id,
            message="there is no session",
        )
        self.around.timeline.after(0, lambda: self.around.post(event))

    def die(self) -> None:
        """End with the dispatcher's process: what was sent may still arrive."""
        for worker_id in sorted(self.links):
            self.links[worker_id].closed = True
            session = self.links[worker_id].session
            if session is not None:
                session.alive = False
                leave_at = max(session.host.reachable_at() + 2 * LATENCY_S, session._arrives)
                self.around.timeline.at(leave_at, session._leave)


def _tell_lease(link: Link | None, *, suspended: bool) -> None:
    if link is None:
        return
    link.suspended = suspended
    session = link.session
    if session is not None:
        session.send(lambda: _set_lease(session.host, suspended=suspended))


def _set_lease(host: Host, *, suspended: bool) -> None:
    host.lease.suspended = suspended


def probe_expects(link: Link, command: Probe) -> None:
    """Take in what a probe says of the attempts that may be there, and of the lease."""
    link.allowed.update(command.expected)
    link.suspended = command.suspend_lease
