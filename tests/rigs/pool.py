"""The pool's core alone: one configured type, instances that answer as they are, literal times."""

from __future__ import annotations

from typing import TypeVar

from longshore.drivers.interface import CLUSTER_TAG, TYPE_TAG, Existence, InstanceType, Resources
from longshore.pool import attempts, core, reactor, shutdown
from longshore.pool.core import PoolCore
from longshore.pool.messages import (
    AttemptExited,
    AttemptStarted,
    FindInstance,
    InstanceFound,
    Listed,
    ListInstances,
    LogComplete,
    PoolCommand,
    PoolEvent,
    Probe,
    ProbeSucceeded,
    SessionLost,
    SetTags,
    SignalAttempt,
    StartAttempt,
    TagsSet,
)
from longshore.pool.model import (
    AttemptExit,
    AttemptOrder,
    AttemptReport,
    ExitKind,
    IdleBehavior,
    InstanceSeen,
    PoolAttempt,
    PoolSettings,
    ProbeReport,
    Worker,
)
from longshore.pool.pool_events import AttemptLogComplete, Notice
from longshore.pool.timers import TimerKind
from tests.samples import make_type

CLUSTER = "test"
ONE_CPU = Resources(cpu_millis=1000)
ENDED_BY_TERM = AttemptExit(kind=ExitKind.EXITED, code=143)
Kind = TypeVar("Kind", bound=PoolCommand | Notice)


class PoolRig:
    """A pool, the instances that its listings show, and what runs on each.

    Listings, probes, starts and tags are answered at once, but for the kinds in `silent`. What is
    destroyed stays listed. After each event the invariants are looked at.
    """

    def __init__(
        self,
        *,
        expected: tuple[PoolAttempt, ...] = (),
        settings: PoolSettings | None = None,
        asks_bills: bool = False,
    ) -> None:
        self.type: InstanceType = make_type(8)
        self.core = PoolCore(
            settings=settings or PoolSettings(),
            types={self.type.name: self.type},
            cluster=CLUSTER,
            new_token=lambda: "token",
            new_secret=lambda: "secret",
            dice=lambda: 0.5,
            quota_groups={},
            asks_bills=asks_bills,
        )
        self.now = 1000.0
        self.silent: set[type[PoolCommand]] = set()
        self.cloud: dict[str, InstanceSeen] = {}
        self.boot_id = "b"
        self.on_instance: dict[str, set[str]] = {}
        self.sent: list[PoolCommand] = []
        self.told: list[Notice] = []
        for attempt in expected:
            attempts.expect(self.core, attempt)

    # ---- driving ----

    def boot(self, worker_id: str, *, running: tuple[str, ...] = ()) -> Worker:
        """Let a listing show an instance now, on which something may run already."""
        tags = ((CLUSTER_TAG, CLUSTER), (TYPE_TAG, self.type.name))
        self.cloud[worker_id] = InstanceSeen(id=worker_id, address=f"{worker_id}:22", tags=tags)
        self.on_instance[worker_id] = set(running)
        if self.core.listed_once:
            self.core.timers.set(TimerKind.LIST, "", self.now)
        else:
            reactor.begin(self.core, self.now)
        self.settle()
        return self.core.workers[worker_id]

    def send(self, event: PoolEvent) -> None:
        """Give the pool an event, and let it settle."""
        reactor.on_event(self.core, event, self.now)
        self.settle()

    def advance(self, seconds: float) -> None:
        """Let time pass, with a wake-up at each deadline."""
        end = self.now + seconds
        while (due := self.core.timers.next_due()) is not None and due <= end:
            self.now = max(self.now, due)
            reactor.on_wakeup(self.core, self.now)
            self.settle()
        self.now = end

    def settle(self) -> None:
        """Carry out what the pool asks for until it asks for nothing at this moment."""
        for _ in range(1000):
            due = self.core.timers.next_due()
            if due is not None and due <= self.now:
                reactor.on_wakeup(self.core, self.now)
            core.check(self.core)
            commands, self.core.commands = self.core.commands, []
            notices, self.core.notices = self.core.notices, []
            if not commands and not notices:
                return
            self.sent += commands
            self.told += notices
            for notice in notices:
                if isinstance(notice, AttemptLogComplete):
                    attempts.release(self.core, notice.attempt_id, self.now)
            for command in commands:
                if type(command) not in self.silent:
                    self._answer(command)
        raise AssertionError("the pool never settles")

    def _answer(self, command: PoolCommand) -> None:
        event: PoolEvent | None = None
        match command:
            case ListInstances():
                listed = tuple(self.cloud[id_] for id_ in sorted(self.cloud))
                event = Listed(op_id=command.op_id, began_at=self.now, instances=listed)
            case Probe():
                event = self.probe_answer(command)
            case StartAttempt():
                self.on_instance[command.worker_id].add(command.order.attempt_id)
                event = AttemptStarted(
                    op_id=command.op_id,
                    worker_id=command.worker_id,
                    attempt_id=command.order.attempt_id,
                )
            case FindInstance():
                existence = Existence.GONE
                if command.instance_id in self.cloud:
                    existence = Existence.PRESENT
                event = InstanceFound(
                    op_id=command.op_id, instance_id=command.instance_id, existence=existence
                )
            case SetTags():
                event = TagsSet(op_id=command.op_id, instance_id=command.instance_id)
            case _:
                pass
        if event is not None:
            reactor.on_event(self.core, event, self.now)

    def probe_answer(self, command: Probe, *, boot_error: str = "") -> ProbeSucceeded:
        """Return what a probe says of an instance as it is now."""
        running = sorted(self.on_instance[command.worker_id])
        reports = tuple(AttemptReport(attempt_id=id_, container_id="c") for id_ in running)
        return ProbeSucceeded(
            op_id=command.op_id,
            worker_id=command.worker_id,
            revision=command.revision,
            began_at=self.now,
            host_key="ssh-ed25519 AAAA",
            report=ProbeReport(attempts=reports, boot_id=self.boot_id),
            boot_error=boot_error,
        )

    def place(
        self,
        worker: Worker,
        attempt_id: str,
        *,
        resident: bool = False,
        grace_s: float | None = None,
    ) -> None:
        """Place an attempt of one cpu."""
        order = AttemptOrder(
            attempt_id=attempt_id,
            container_id=f"of-{attempt_id}",
            image="",
            command=("true",),
            resident=resident,
        )
        attempts.place(self.core, worker, order, ONE_CPU, self.now, grace_s=grace_s)
        self.settle()

    def exit(self, worker: Worker, attempt_id: str) -> None:
        """Let an attempt end on its instance; its log is not complete yet."""
        self.on_instance[worker.id].discard(attempt_id)
        self.send(AttemptExited(worker_id=worker.id, attempt_id=attempt_id, exit=ENDED_BY_TERM))

    def end(self, worker: Worker, attempt_id: str) -> None:
        """Let an attempt end on its instance, and its log be complete."""
        self.exit(worker, attempt_id)
        self.send(LogComplete(worker_id=worker.id, attempt_id=attempt_id))

    def lose_session(self, worker: Worker) -> None:
        """Let the session of a worker end now."""
        self.send(SessionLost(worker_id=worker.id, last_contact=self.now, reason="reset"))

    def behave(self, worker: Worker, behavior: IdleBehavior) -> None:
        """Set the idle behavior of a worker."""
        shutdown.set_behavior(self.core, worker, behavior, self.now)
        self.settle()

    # ---- looking ----

    def asked(self, kind: type[Kind]) -> list[Kind]:
        """Return the commands, or notices, of a kind so far."""
        return [each for each in [*self.sent, *self.told] if isinstance(each, kind)]

    def signals(self) -> list[tuple[str, str]]:
        """Return which signals were sent to which attempts, oldest first."""
        return [(each.attempt_id, each.signal) for each in self.asked(SignalAttempt)]
