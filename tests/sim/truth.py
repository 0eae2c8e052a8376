"""What is true in the simulated world, and the checks of what runs where.

A check that fails raises `Violation`, which names the promise that was broken.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from longshore.dispatcher.domain.containers import (
    AttemptOutcome,
    Container,
    ContainerState,
    resources_of,
)
from longshore.dispatcher.domain.messages import Change, DeleteLaunch, SaveAttempt, SaveInstance
from longshore.drivers.interface import Resources
from longshore.pool.model import AttemptExit, AttemptOrder, ExitKind
from longshore.pool.trials import ENDS_BEFORE_TRIAL
from tests.sim.hosts import SIGNAL_CODES, Host, Process
from tests.sim.losses import is_lost_too_often, may_run_again
from tests.sim.machines import room_on
from tests.sim.store import VirtualStore

if TYPE_CHECKING:
    from tests.sim.jobs import JobAccount

SHARED_CPU_MILLIS = 1000
"""What those that ask for no cpus share on an instance."""

TAG = "longshore-idle-behavior"
LONGEST_S = 86_400.0
"""Longer than any run takes, a clock that is set in between included."""


class Violation(AssertionError):  # noqa: N818 - it is the finding, not an error of the simulation
    """A promise was broken; `promise` is its short name."""

    def __init__(self, promise: str, message: str) -> None:
        super().__init__(f"{promise}: {message}")
        self.promise = promise


def expect(condition: bool, promise: str, *about: object) -> None:
    """Raise `Violation` unless `condition` holds; only then is `about` put into words."""
    if not condition:
        raise Violation(promise, " ".join(str(each) for each in about))


class Truth:
    """What really runs and really ended; hears of everything that hosts do."""

    def __init__(self) -> None:
        self.store: VirtualStore
        self.jobs: JobAccount
        self.acknowledged: set[str] = set()
        self.hosts: dict[str, Host] = {}
        self.live: dict[str, Host] = {}
        self.exits: dict[str, AttemptExit | None] = {}
        self.ran_on: dict[str, Host] = {}
        self.unknown: set[str] = set()
        self.most_lost = 1
        self.powered_off: set[str] = set()
        self.longest_still_s = 0.0
        self._forward_at = 0.0
        self.busy_s = 0.0
        self._since: dict[str, float] = {}
        self.dispatchers = 0
        self._swallowed: dict[str, Counter[str]] = {}
        self._most_at_once: dict[str, int] = {}
        #: When the latest listing began that the dispatcher took in and that shows an instance, and
        #: the latest of which all is written that follows; on the dispatcher's clock.
        self.shown_at: dict[str, float] = {}
        self.surely_shown_at: dict[str, float] = {}

    def came_forward(self, now: float) -> None:
        """Note that something was brought about."""
        self.longest_still_s = max(self.longest_still_s, now - self._forward_at)
        self._forward_at = now

    # ---- what hosts do ----

    def started(self, host: Host, order: AttemptOrder) -> None:
        """Look at a process that begins."""
        stored = self.store.attempts.get(order.attempt_id)
        expect(stored is not None, "journal before start", f"{order.attempt_id} is not journalled")
        assert stored is not None
        expect(
            stored.instance_id == host.machine.id,
            "journal before start",
            f"{stored.id} belongs to {stored.instance_id} and starts on {host.machine.id}",
        )
        expect(
            stored.outcome is None,
            "no attempt runs after its end was told",
            f"{stored.id} starts after it was recorded as {stored.outcome}",
        )
        others = [a for a in self.live if a.rpartition("-")[0] == order.container_id]
        expect(
            not others,
            "no container runs twice at once",
            f"{order.attempt_id} starts while {others} run",
        )
        container = self.store.containers[order.container_id]
        expect(
            not container.state.final,
            "what has ended never runs again",
            f"{container.id} is {container.state.value} and starts again",
        )
        expect(
            host.probed_boot == host.boot_id,
            "nothing starts before the boot probe has passed",
            f"{order.attempt_id} starts in {host.boot_id}, the boot probe passed in",
            host.probed_boot or "none",
        )
        self.jobs.started(order, host.timeline.now)
        if container.pinned_to:
            self._expect_alone(order.attempt_id, container)
        self.live[order.attempt_id] = host
        self.ran_on[order.attempt_id] = host
        self._since[order.attempt_id] = host.timeline.now
        if host.swallows:
            self._expect_few_swallowed(order.attempt_id, host)
        self.came_forward(host.timeline.now)
        self._expect_room(host)

    def _expect_few_swallowed(self, attempt_id: str, host: Host) -> None:
        """Expect that an instance that runs nothing is soon given nothing.

        Three must end so, what was under way beside them may, and a dispatcher that is new knows
        nothing of those before. Residents end there as often as they may.
        """
        if self.is_resident(attempt_id):
            return
        there = sum(where is host for where in self.live.values())
        most = max(self._most_at_once.get(host.machine.id, 0), there)
        self._most_at_once[host.machine.id] = most
        container_id = attempt_id.rpartition("-")[0]
        swallowed = self._swallowed.setdefault(host.machine.id, Counter())
        swallowed[container_id] += 1
        bound = (ENDS_BEFORE_TRIAL + most) * self.dispatchers
        expect(
            len(swallowed) <= bound,
            "an instance that runs nothing takes few",
            f"{host.machine.id} got {len(swallowed)}, of which {most} at once",
        )
        expect(
            swallowed[container_id] <= ENDS_BEFORE_TRIAL * self.dispatchers,
            "an instance that runs nothing takes few",
            f"{host.machine.id} got {container_id} {swallowed[container_id]} times",
        )

    def _expect_alone(self, attempt_id: str, container: Container) -> None:
        """Expect that a per-instance job runs nothing else on an instance where it starts."""
        slot = (container.job_id, container.pinned_to)
        running = (self.store.containers[a.rpartition("-")[0]] for a in self.live)
        others = sorted(c.id for c in running if (c.job_id, c.pinned_to) == slot)
        expect(not others, "one attempt on each instance", f"{attempt_id} starts beside {others}")

    def residents_on(self, host: Host) -> list[str]:
        """Return the attempts of per-instance jobs that run on an instance."""
        there = (a for a, where in self.live.items() if where is host)
        return sorted(a for a in there if self.is_resident(a))

    def is_resident(self, attempt_id: str) -> bool:
        """Return whether an attempt is one of a per-instance job."""
        container = self.store.containers.get(attempt_id.rpartition("-")[0])
        return container is not None and bool(container.pinned_to)

    def _expect_room(self, host: Host) -> None:
        used, on_shared_cpu = Resources(), 0
        for process in host.processes.values():
            if not process.gone and not process.stray:
                container = self.store.containers[process.order.container_id]
                attempt = self.store.attempts[process.order.attempt_id]
                given = resources_of(container, attempt)
                used = used.plus(given)
                on_shared_cpu += given.cpu_millis == 0
        if on_shared_cpu:
            used = used.plus(Resources(cpu_millis=SHARED_CPU_MILLIS))
        room = room_on(host.machine.type, host.size)
        expect(
            used.fits_in(room),
            "no instance is given more than it has",
            host.machine.id,
            "has",
            room,
            "and runs",
            used,
        )

    def ended(self, host: Host, process: Process, exit_: AttemptExit | None) -> None:
        """Look at a process that ended, or whose instance did (its exit is None then)."""
        attempt_id = process.order.attempt_id
        self.came_forward(host.timeline.now)
        if not process.stray and self.live.pop(attempt_id, None) is not None:
            self.exits[attempt_id] = exit_
            self.busy_s += host.timeline.now - self._since.pop(attempt_id)

    def signalled(self, host: Host, process: Process) -> None:
        """Look at a process that is told to end."""
        allowed = not process.store or process.killed_by_admin
        name = f"{process.order.attempt_id} on {host.machine.id}"
        expect(allowed, "only an admin ends what another store has started", name)

    def released(self, host: Host, attempt_id: str) -> None:
        """Look at an exit that the runner is told to forget."""
        stored = self.store.attempts.get(attempt_id)
        if stored is not None and stored.instance_id == host.machine.id:
            expect(
                stored.outcome is not None,
                "an exit is kept until it is committed",
                f"{attempt_id} is released while its outcome is not stored",
            )
            kept = stored.log_complete or stored.outcome is AttemptOutcome.LOST
            expect(kept, "a log is kept until it is complete", stored)

    def forgotten(self, host: Host, attempt_id: str) -> None:
        """Note that a reboot lost what an instance knew of an attempt."""
        if self.ran_on.get(attempt_id) is host:
            self.unknown.add(attempt_id)

    def powers_off(self, host: Host) -> None:
        """Look at an instance that ends itself."""
        running = [
            attempt_id
            for attempt_id, where in self.live.items()
            if where is host and not host.processes[attempt_id].order.resident
        ]
        expect(not running, "the lease spares what runs", f"{running} on {host.machine.id}")
        held = host.machine.tags.get(TAG) == "hold" and host.lease.suspended
        expect(not held, "held instances are untouched", f"{host.machine.id} powers off")
        self.powered_off.add(host.machine.id)

    # ---- what is committed ----

    def _on_launch_forgotten(self, token: str) -> None:
        """Look at a launch that is forgotten: without its secret no key can be proven.

        Nobody need prove that of one that was destroyed, and only takes its time to end.
        """
        for host in self.hosts.values():
            if host.machine.token != token or host.machine.ended or host.machine.ending:
                continue
            stored = self.store.instances.get(host.machine.id)
            proven = stored is not None and stored.host_key
            what = f"{token} is forgotten, and the key of {host.machine.id} is not proven"
            expect(bool(proven), "a launch is kept until its key is proven", what)

    def committed(self, change: Change) -> None:
        """Look at a change as it is committed."""
        self.jobs.committing(change)
        if isinstance(change, DeleteLaunch):
            self._on_launch_forgotten(change.token)
        if isinstance(change, SaveInstance):
            record = self.store.instances.get(change.instance.id)
            pinned = record is not None and record.gone_at is None and record.host_key
            kept = bool(change.instance.host_key) or not pinned
            expect(kept, "a proven key is kept", record, "then", change.instance)
        if not isinstance(change, SaveAttempt) or change.attempt.outcome is None:
            return
        attempt = change.attempt
        before = self.store.attempts[attempt.id].outcome
        same = before in (None, attempt.outcome)
        expect(same, "an attempt ends once", f"{attempt.id}: {before}, then {attempt.outcome}")
        expect(
            attempt.id not in self.live,
            "no attempt is given up while it runs",
            f"{attempt.id} is recorded as {attempt.outcome} and runs",
        )
        exit_ = self.exits.get(attempt.id)
        if attempt.outcome is AttemptOutcome.LOST and exit_ is not None:
            there = not self.ran_on[attempt.id].machine.ended and attempt.id not in self.unknown
            known = exit_.kind not in (ExitKind.LOST, ExitKind.ENGINE_FAILURE) and there
            expect(not known, "no exit is lost", attempt.id, "is lost, and ended with", exit_)
        refused = attempt.reason is not None and attempt.reason.code == "start_refused"
        meant = (
            attempt.intended_outcome is None
            or attempt.outcome is attempt.intended_outcome
            or refused
        )
        # The jobs' checker looks at those who ended within their time limit and are heard of later.
        meant = meant or attempt.intended_outcome is AttemptOutcome.FAILED
        expect(
            meant,
            "outcomes are true",
            f"{attempt.id} is {attempt.outcome}: {attempt.intended_outcome}",
        )
        if attempt.outcome is AttemptOutcome.FAILED and exit_ is not None:
            over = attempt.reason is not None and attempt.reason.code == "time_limit"
            ours = exit_.code in SIGNAL_CODES.values() and not over
            expect(not ours, "outcomes are true", f"{attempt.id} failed, but we ended it")
        if attempt.outcome is AttemptOutcome.SUCCEEDED:
            ok = exit_ is not None and exit_.kind is ExitKind.EXITED and exit_.code == 0
            expect(ok, "outcomes are true", attempt.id, "succeeded, but its exit is", exit_)

    # ---- at the end ----

    def final(self) -> None:
        """Look at everything once the run is over."""
        lost = self.acknowledged - self.store.containers.keys()
        expect(not lost, "no acknowledged container is lost", f"{sorted(lost)}")
        for container in self.store.containers.values():
            expect(container.state.final, "everything ends", f"{container.id}: {container.state}")
            self._expect_true(container.id, container.state)
            self._expect_sane(container)
        self.jobs.final()

    def _expect_sane(self, container: Container) -> None:
        """Look at times and costs, which a clock that was set must not turn round."""
        expect(container.cost_usd >= 0, "costs and times are sane", container)
        told = (container.created_at, container.started_at, container.finished_at)
        times = [at for at in told if at is not None]
        expect(times == sorted(times), "costs and times are sane", container)
        for attempt_id in self.store.attempts_of[container.id]:
            attempt = self.store.attempts[attempt_id]
            if attempt.finished_at is not None:
                began_at = attempt.started_at or attempt.created_at
                right = 0 <= attempt.finished_at - began_at <= LONGEST_S
                expect(right, "costs and times are sane", attempt)

    def _expect_true(self, container_id: str, state: ContainerState) -> None:
        attempts = [self.store.attempts[a] for a in self.store.attempts_of[container_id]]
        outcomes = [attempt.outcome for attempt in attempts]
        expect(None not in outcomes, "every attempt ends", f"{container_id}: {outcomes}")
        again = AttemptOutcome.SUCCEEDED in outcomes[:-1]
        for_ever = self.jobs.per_instance.runs_for_ever(container_id)
        for_ever = for_ever or self.jobs.elastic.runs_again(container_id)
        expect(
            for_ever or not again,
            "what succeeded never runs again",
            f"{container_id}: {outcomes}",
        )
        if state is ContainerState.SUCCEEDED:
            last = outcomes[-1] if outcomes else None
            right = last is AttemptOutcome.SUCCEEDED
            expect(right, "outcomes are true", f"{container_id} succeeded: {outcomes}")
        if state is ContainerState.FAILED:
            self._expect_failed(container_id)

    def _expect_failed(self, container_id: str) -> None:
        attempts = [self.store.attempts[a] for a in self.store.attempts_of[container_id]]
        last = attempts[-1]
        exit_ = self.exits.get(last.id)
        if last.reason is not None and last.reason.code == "exit_code":
            same = exit_ is not None and exit_.code == last.exit_code
            expect(same, "outcomes are true", f"{last.id}: {last.exit_code}, in truth {exit_}")
            as_now = [a for a in attempts if a.revision == last.revision]
            failed = [a for a in as_now if a.outcome is AttemptOutcome.FAILED]
            retries = self.store.containers[container_id].spec.retries
            again = (
                len(failed) <= retries.most
                and not {"failed", "exit_code"}.isdisjoint(retries.on)
                and (not retries.exit_codes or last.exit_code in retries.exit_codes)
            )
            expect(not again, "what may be restarted is", f"{container_id}: {retries}")
        container = self.store.containers[container_id]
        placed = not container.pinned_to and self.jobs.elastic.job_of(container) is None
        if placed and last.outcome is AttemptOutcome.LOST and may_run_again(container, last):
            often = is_lost_too_often(attempts, self.most_lost)
            expect(often, "one instance fails nobody", container_id, attempts)
