"""Probes in virtual time, as `remote.link` makes them: connect, prove the key, list, attach."""

from __future__ import annotations

from collections.abc import Callable

from longshore.pool.messages import PoolEvent, Probe, ProbeFailed, ProbeSucceeded
from tests.sim.hosts import Host
from tests.sim.links import LATENCY_S, Link, VirtualLinks, VirtualSession, probe_expects

CONNECT_TIMEOUT_S = 15.0
COMMAND_TIMEOUT_S = 30.0
STEP_S = 0.05
LONGEST_LIST_S = 10.0


class VirtualProbe:
    """One probe on its way; it goes from stage to stage until it has an outcome.

    One that goes over the connection of a session fails with that, unless its list is there.
    """

    def __init__(self, links: VirtualLinks, command: Probe) -> None:
        self._around = links.around
        self._command = command
        self._began_at = self._around.epoch_now()
        self._link: Link = links.link(command.worker_id)
        self._host: Host | None = self._around.hosts.get(command.worker_id)
        self._boot_error = ""
        self._over = False

    def begin(self) -> None:
        """Begin; the outcome is posted later, exactly one."""
        probe_expects(self._link, self._command)
        self._link.probing = True
        session = self._link.session
        self._link.cut_probe = None if session is None else self._cut
        if session is not None and session.host.frozen_until > self._around.timeline.now:
            self._later(COMMAND_TIMEOUT_S, lambda: self._fail("list", "no answer"))
        else:
            self._later(STEP_S, self._connect if session is None else self._look)

    def _later(self, delay_s: float, action: Callable[[], None]) -> None:
        def act() -> None:
            if not self._over:
                action()

        delay_s *= self._around.pace * self._around.dice.between(0.5, 1.0)
        self._around.timeline.after(delay_s, act)

    def _cut(self) -> None:
        self._fail("list", "the connection was lost")

    def _connect(self) -> None:
        host = self._host
        if host is None or host.machine.ended or host.frozen_until > self._around.timeline.now:
            self._later(CONNECT_TIMEOUT_S, lambda: self._fail("connect", "no route"))
        elif not host.machine.booted:
            self._fail("connect", "connection refused")
        elif not self._proven(host):
            self._fail("host_key", "no proof")
        else:
            self._later(STEP_S, self._look)

    def _proven(self, host: Host) -> bool:
        command = self._command
        if self._around.verifies_keys or command.host_key == host.key:
            return True
        knows = command.secret and command.secret == host.secret
        return bool(knows) and not command.host_key

    def _look(self) -> None:
        host = self._host
        if host is None or not host.up or host.frozen_until > self._around.timeline.now:
            self._later(COMMAND_TIMEOUT_S, lambda: self._fail("boot", "no answer"))
            return
        host.contact()
        if self._command.boot and host.sick:
            self._boot_error = "the boot probe failed"
            if not self._command.look_anyway:
                self._fail("boot", self._boot_error)
                return
        elif self._command.boot:
            host.probed_boot = host.boot_id
        if not host.machine.fate.has_runner:
            self._fail("deploy", "no python3")
        else:
            self._later(STEP_S, self._attach)

    def _attach(self) -> None:
        host, link = self._host, self._link
        if host is None or not host.up or host.frozen_until > self._around.timeline.now:
            self._later(COMMAND_TIMEOUT_S, lambda: self._fail("attach", "no answer"))
            return
        if link.closed:
            self._fail("attach", "the link was closed")
            return
        host.lease.suspended = link.suspended
        host.contact()
        if link.session is None:
            session = VirtualSession(link, host, self._around)
            taken_over, host.listener = host.listener, session
            link.session = session
            if taken_over is not None:
                taken_over.cut("a newer session took over")
            for attempt_id in sorted(host.processes):
                if host.processes[attempt_id].exit is not None:
                    session.exited(host.processes[attempt_id].report())
            if host.interruption:
                session.interrupted()
        event = ProbeSucceeded(
            op_id=self._command.op_id,
            worker_id=self._command.worker_id,
            revision=self._command.revision,
            began_at=self._began_at,
            host_key=host.key,
            report=host.report(),
            boot_error=self._boot_error,
            trial_error=self._trial_error(host),
        )
        # From here on it has all that it needs, and only what it tells may be late.
        link.cut_probe = None
        late = self._around.dice.falls(self._around.faults.late_lists)
        longest_s = LONGEST_LIST_S * self._around.pace if late else 4 * LATENCY_S
        self._around.timeline.after(
            self._around.dice.between(0, longest_s), lambda: self._end(event)
        )

    def _trial_error(self, host: Host) -> str | None:
        if not self._command.trial:
            return None
        return "the storage is broken" if host.swallows else ""

    def _fail(self, stage: str, message: str) -> None:
        self._end(
            ProbeFailed(
                op_id=self._command.op_id,
                worker_id=self._command.worker_id,
                revision=self._command.revision,
                stage=stage,
                message=message,
            )
        )

    def _end(self, event: PoolEvent) -> None:
        if self._over:
            return
        self._over = True
        link = self._link
        link.probing = False
        link.cut_probe = None
        self._around.post(event)
        held_back, link.held_back = link.held_back, None
        if held_back is not None:
            self._around.post(held_back)
